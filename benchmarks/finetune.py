"""Fine-tune the same three sets, with the same epochs and batch, by NuTime and by Mantis, on a CPU.

    pip install -e '.[compare,archives]'
    python benchmarks/finetune.py

NuTime starts from its shipped weights. Mantis' weights are not in its package, so it starts from random ones:
compare the speed, not the accuracies. The last line is JSON.
"""

from __future__ import annotations

import json
import time

import numpy as np

from nutime import NuTime, NuTimeClassifier, load_dataset
from nutime.data.series import as_series, resample
from nutime.finetune import train as trainer

SETS, EPOCHS, BATCH = ("GunPoint", "ArrowHead", "OSULeaf"), 20, 32
trainer.MIN_STEPS = 1  # the same number of epochs for both


def fit_nutime(X, codes, X_test):
    classifier = NuTimeClassifier(
        "finetune", NuTime.from_pretrained(), epochs=EPOCHS, batch_size=BATCH, random_state=0
    )
    classifier.fit(X, codes)
    return lambda: classifier.predict(X_test)


def fit_mantis(X, codes, X_test):
    from mantis.architecture import Mantis8M
    from mantis.trainer import MantisTrainer

    mantis = MantisTrainer(device="cpu", network=Mantis8M(device="cpu"))
    mantis.fit(resample(as_series(X), 512), codes, num_epochs=EPOCHS, batch_size=BATCH)
    return lambda: mantis.predict(resample(as_series(X_test), 512))


def main() -> None:
    result: dict[str, dict[str, object]] = {}
    for name, fit in {"nutime": fit_nutime, "mantis": fit_mantis}.items():
        seconds, series, accuracies = 0.0, 0, {}
        for dataset in SETS:
            X, y, X_test, y_test = load_dataset(dataset)
            classes, codes = np.unique(y, return_inverse=True)
            start = time.perf_counter()
            predict = fit(X, codes, X_test)
            seconds += time.perf_counter() - start
            series += EPOCHS * len(X)
            accuracies[dataset] = round(float(np.mean(classes[predict()] == y_test)), 4)
        result[name] = {"series_per_s": round(series / seconds, 1), "accuracy": accuracies}
        print(name, result[name])
    ratio = result["nutime"]["series_per_s"] / result["mantis"]["series_per_s"]  # type: ignore[operator]
    print(json.dumps({**result, "epochs": EPOCHS, "batch": BATCH, "ratio": round(ratio, 2)}))


if __name__ == "__main__":
    main()
