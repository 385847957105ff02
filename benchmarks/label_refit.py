"""Time of a refit after one label: 1,000 series, 10 classes, by the number of labels.

    python benchmarks/label_refit.py DATA/ucr

The series are the first 1,000 of MelbournePedestrian's training split. The rival is scikit-learn's
LogisticRegression with 5-fold cross-validation on the same standardised embedding, as one would write it by hand.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nutime.encoder import SMALL_WEIGHTS
from nutime.estimators.base import EmbeddedSeries
from nutime.labelling.log import LabelLog
from nutime.labelling.session import Session

N_SERIES = 1000


def main() -> None:
    data = np.load(Path(sys.argv[1], "MelbournePedestrian.npz"))
    embedded = EmbeddedSeries.embed(data["X_train"][:N_SERIES].astype(np.float64), SMALL_WEIGHTS, "auto")
    embedding, truth = embedded.embedding, data["y_train"][:N_SERIES]
    generator = np.random.default_rng(0)
    with TemporaryDirectory() as folder:
        session = Session(embedded, LabelLog(Path(folder, "labels.jsonl"), embedded.series))
        for count in (20, 100, 300, 600, 980):
            for series in generator.permutation(N_SERIES).tolist():
                if len(session.log.labels) < count and series not in session.log.labels:
                    session.log.label([series], str(truth[series]))
            times = []
            for series in session.state.suggestions[:5]:
                start = time.perf_counter()
                session.label([series], str(truth[series]))
                times.append(time.perf_counter() - start)
            labelled = list(session.state.labels)
            start = time.perf_counter()
            rival = make_pipeline(StandardScaler(), LogisticRegression())
            cross_val_score(rival, embedding[labelled], truth[labelled], cv=KFold(5, shuffle=True, random_state=0))
            rival.fit(embedding[labelled], truth[labelled]).predict_proba(embedding)
            by_hand = time.perf_counter() - start
            median = np.median(times)
            print(
                f"{count:5d} labels: {median:.2f} s, scikit-learn {by_hand:.2f} s, ratio {by_hand / median:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
