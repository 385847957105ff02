"""Synthetic series per second of one process: ``python benchmarks/synthesize.py [LENGTH]``."""

from __future__ import annotations

import json
import sys
from time import perf_counter

from nutime.data.corpus.synthetic import BATCH, draw_batch, synthesize

BATCHES = 20


def main() -> None:
    length = int(sys.argv[1]) if len(sys.argv) > 1 else 512
    draw_batch(BATCHES, length)  # plans the transforms
    start = perf_counter()
    synthesize(BATCHES * BATCH, length)
    seconds = perf_counter() - start
    print(json.dumps({"series_per_s": round(BATCHES * BATCH / seconds), "length": length, "processes": 1}))


if __name__ == "__main__":
    main()
