"""Time and memory of building a corpus: ``python benchmarks/corpus_build.py FOLDER``.

Builds into a temporary folder. The last line is JSON; ``cpu_s`` is the processor time of all threads.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

from nutime.data.corpus.build import build_corpus


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        start, cpu = perf_counter(), process_time()
        corpus = build_corpus([sys.argv[1]], Path(scratch, "corpus"))
        seconds, cpu = perf_counter() - start, process_time() - cpu
        about = corpus.describe()
    for row in about["repeats"]["details"]:
        print(f"{row['series']:6d}  {row['source']}  repeats  {row['repeats']}")
    for row in about["skipped"]:
        print(f"skipped {row['name']}: {row['reason']}")
    result = {
        "seconds": round(seconds, 1),
        "cpu_s": round(cpu, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "series": about["series"],
        "values": about["values"],
        "dropped": about["repeats"]["dropped"],
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
