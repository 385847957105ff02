"""Fine-tune one model and five together on the same series, and print how many times as long the five take.

    python benchmarks/ensemble.py

On CUDA the steps are compiled first, outside the time that counts. The last line is JSON.
"""

from __future__ import annotations

import json
import time

import numpy as np

from nutime import NuTime
from nutime.data.corpus.synthetic import BATCH, draw_batch
from nutime.data.series import as_series
from nutime.devices import usable_device
from nutime.finetune.train import FinetuneConfig, TrainingSet, finetune

CLASSES = 4
DEVICE = usable_device().type


def main() -> None:
    encoder = NuTime.from_pretrained().to(DEVICE)
    codes = np.arange(BATCH) % CLASSES
    data = TrainingSet(as_series(draw_batch(0)), codes, np.ones(BATCH), np.ones(CLASSES))
    seconds = {}
    for n_models in (1, 5):
        for _ in range(1 + (DEVICE == "cuda")):
            start = time.perf_counter()
            finetune(encoder, data, FinetuneConfig(n_estimators=n_models, compiled=DEVICE == "cuda"), seed=0)
            seconds[n_models] = time.perf_counter() - start
        print(f"{n_models} model(s): {seconds[n_models]:.1f} s")
    result = {"one_s": round(seconds[1], 2), "five_s": round(seconds[5], 2)}
    print(json.dumps({"device": DEVICE, **result, "ratio": round(seconds[5] / seconds[1], 2)}))


if __name__ == "__main__":
    main()
