"""Embed a Parquet file of many series with the local engine: rate, ratio to the rate in memory, peak memory.

    python benchmarks/batch_embed.py 1000000

The series are random walks of length 128, written and embedded in temporary files. The rate in memory is that of
``NuTime.embed``, measured before and after the run, so that other load on the machine affects both. Peak memory is
that of the embedding process, including imports. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, CHUNK_SIZE, IN_MEMORY = 128, 10_000, 2_000


def write_walks(path: Path, series: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema({"id": pa.int64(), "values": pa.list_(pa.float32(), LENGTH)})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, series, CHUNK_SIZE):
            count = min(CHUNK_SIZE, series - start)
            X = rng.standard_normal((count, LENGTH), dtype=np.float32).cumsum(axis=1)
            values = pa.FixedSizeListArray.from_arrays(X.ravel(), LENGTH)
            writer.write_table(pa.table({"id": np.arange(start, start + count), "values": values}, schema))


def make_encoder(tiny: bool) -> Any:
    from nutime import NuTime, NuTimeConfig

    return (
        NuTime(NuTimeConfig(length=128, dim=32, depth=1, heads=2, mlp_dim=32))
        if tiny
        else NuTime.from_pretrained()
    )


def rate_in_memory(encoder: Any, series: int) -> float:
    X = np.random.default_rng(0).standard_normal((min(series, IN_MEMORY), LENGTH), dtype=np.float32).cumsum(axis=1)
    encoder.embed(X[:100])
    start = time.perf_counter()
    encoder.embed(X)
    return len(X) / (time.perf_counter() - start)


def measure(source: str, out: str, series: int, tiny: bool) -> dict[str, float]:
    from nutime.batch.apply import apply_model
    from nutime.batch.source import Source

    encoder = make_encoder(tiny)
    before = rate_in_memory(encoder, series)
    start = time.perf_counter()
    apply_model(encoder, Source(source).chunks(), out)
    rate = series / (time.perf_counter() - start)
    in_memory = (before + rate_in_memory(encoder, series)) / 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "series": series,
        "series_per_s": round(rate, 1),
        "in_memory_per_s": round(in_memory, 1),
        "ratio": round(rate / in_memory, 3),
        "peak_mb": round(peak),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("series", type=int)
    parser.add_argument("--tiny", action="store_true", help="use a tiny random encoder, to test the benchmark")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "in.parquet"), Path(folder, "out.parquet")
        write_walks(source, args.series)
        with multiprocessing.get_context("spawn").Pool(1) as process:
            print(json.dumps(process.apply(measure, (str(source), str(out), args.series, args.tiny))))


if __name__ == "__main__":
    main()
