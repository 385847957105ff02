"""Hostile files against every reader: ``python benchmarks/fuzz.py --cases 100000 --seed 0``.

A case is a valid file (of ``fuzz_seeds.py``) with a change (of ``fuzz_inputs.py``), identified by seed and number.
It must be read, or refused by a one-line ``ValueError`` that names the file, within 2 s of processor time and
500 MB of memory. Cases run in a worker process with kernel limits on memory and time; when it dies, its case is a
finding and another worker continues with the next case.

Findings are saved, one per place in the code, as ``FOLDER/reader/number/file``; fixed ones are stored in
``tests/hostile/findings`` and replayed by the tests. The last line is JSON, and the exit code is 1 if anything was
found. ``starved`` counts files that were refused because of the memory limit.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from fuzz_inputs import hostile
from fuzz_seeds import (
    INTERVALS,
    LABELS,
    RECORDING,
    Files,
    all_seeds,
    labelled_series,
    recording,
    write_folder,
)

SECONDS = 2  # of processor time, for one case
MAX_WAIT = 60  # seconds of wall time, for a reader that waits for ever
MEMORY = 500 * 2**20
FORK = multiprocessing.get_context("fork")


class Outcome(NamedTuple):
    """How a case ended: ``read``, ``refused``, ``starved`` or, for a finding, ``found`` and what it was."""

    kind: str
    what: str = ""


# ---- the readers ---------------------------------------------------------------------------------------


def read_series(folder: Path) -> None:
    from nutime.data.formats.read import read_records

    (path,) = folder.iterdir()
    for _ in read_records(path):
        pass


def read_batch(folder: Path) -> None:
    from nutime.batch.source import Source

    (path,) = folder.iterdir()
    for _ in Source(str(path)).chunks():
        pass


def read_many(folder: Path) -> None:
    from nutime.data.formats.read import read_records

    for _ in read_records(folder):
        pass


def read_archive(folder: Path) -> None:
    from nutime.data.archives import load_dataset

    load_dataset("GunPoint", data_dir=folder)


def read_encoder(folder: Path) -> None:
    from nutime.encoder import NuTime

    NuTime.from_pretrained(folder)


def read_estimator(folder: Path) -> None:
    from nutime.estimators import storage

    storage.load(folder)


def read_corpus(folder: Path) -> None:
    from nutime.data.corpus.store import Corpus

    corpus = Corpus.open(folder)
    corpus.flat()
    corpus.take([0, len(corpus) - 1])


def read_checkpoint(folder: Path) -> None:
    from nutime.pretrain.checkpoint import load_newest

    load_newest(folder)


def read_recording(folder: Path) -> None:
    from nutime.data.formats.read import read_recordings

    (path,) = folder.iterdir()
    read_recordings(path)


def read_labels(folder: Path) -> None:
    from nutime.labelling.log import LabelLog

    LabelLog(folder / LABELS, labelled_series()).close()


def read_intervals(folder: Path) -> None:
    from nutime.cli.recordings import _read_intervals
    from nutime.data.formats.read import read_recordings

    _read_intervals(str(folder / INTERVALS), read_recordings(folder / RECORDING))


def read_body(folder: Path) -> None:
    from nutime.serve.limits import Limits
    from nutime.serve.wire import ARROW, JSON, decode

    (path,) = folder.iterdir()
    try:
        decode(path.read_bytes(), JSON if path.suffix == ".json" else ARROW, Limits())
    except ValueError as error:  # the service knows no file
        raise ValueError(f"{path}: {error}") from error


def read_annotator(folder: Path) -> None:
    from nutime.recordings.annotator import NuTimeAnnotator

    annotator = NuTimeAnnotator.load(folder)
    with suppress(ValueError):  # its window or its channels may be others
        annotator.predict(recording())


def read_index(folder: Path) -> None:
    from nutime.recordings.index import RecordingIndex

    index = RecordingIndex.load(folder)
    with suppress(ValueError):
        index.search(recording()[:, :20])


READERS: dict[str, Callable[[Path], None]] = {
    **dict.fromkeys(("ts", "tsv", "txt", "arff", "csv", "gzip", "npz", "npy", "pt", "parquet"), read_series),
    **dict.fromkeys(("batch", "crafted"), read_batch),
    "many": read_many,
    "archive": read_archive,
    "encoder": read_encoder,
    "estimator": read_estimator,
    "corpus": read_corpus,
    "checkpoint": read_checkpoint,
    "recording": read_recording,
    "labels": read_labels,
    "intervals": read_intervals,
    **dict.fromkeys(("json", "arrow"), read_body),
    "annotator": read_annotator,
    "index": read_index,
}


# ---- one case ------------------------------------------------------------------------------------------


def draw(valid: dict[str, list[Files]], seed: int, number: int) -> tuple[str, str, Files]:
    """Return the reader of a case, the file that is hostile, and all files."""
    reader = list(valid)[number % len(valid)]
    rng = random.Random(f"{seed}/{number}")
    return reader, *hostile(rng, rng.choice(valid[reader]))


def attempt(reader: str, folder: Path) -> Outcome:
    """Read a folder and return the outcome."""
    try:
        READERS[reader](folder)
    except ValueError as error:
        message = str(error)
        if "\n" in message or str(folder) not in message:
            return Outcome("found", f"{place(error)}: not one line that names the file: {message[:200]!r}")
        return Outcome("starved" if re.search("alloc|memory", message, re.IGNORECASE) else "refused")
    except Exception as error:
        return Outcome("found", f"{place(error)}: {type(error).__name__}: {str(error)[:200]!r}")
    return Outcome("read")


def place(error: Exception) -> str:
    """Return the function of nutime that raised an exception."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "nutime" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else type(error).__name__


# ---- the workers -----------------------------------------------------------------------------------------


def work(
    valid: dict[str, list[Files]], seed: int, first: int, last: int, scratch: Path, outcomes: Connection
) -> None:
    """Run cases under kernel limits and report each."""
    status = Path("/proc/self/status").read_text("ascii")
    used = 1024 * int(re.search(r"VmData:\s+(\d+)", status).group(1))  # type: ignore[union-attr]
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(first, last):
        reader, _, files = draw(valid, seed, number)
        folder = scratch / str(number)
        write_folder(folder, files)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # unhandled: its signal kills the process
        outcome = attempt(reader, folder)
        signal.setitimer(signal.ITIMER_PROF, 0)
        outcomes.send(outcome)
        shutil.rmtree(folder)


def watch(valid: dict[str, list[Files]], seed: int, cases: int, report: Callable[[int, Outcome], None]) -> None:
    """Run all cases; a new worker continues after one that died."""
    number = 0
    while number < cases:
        with tempfile.TemporaryDirectory() as scratch:
            outcomes, sender = FORK.Pipe(duplex=False)
            worker = FORK.Process(target=work, args=(valid, seed, number, cases, Path(scratch), sender))
            worker.start()
            sender.close()
            with suppress(EOFError):
                while number < cases and outcomes.poll(MAX_WAIT):
                    report(number, outcomes.recv())
                    number += 1
            if number < cases:
                worker.kill()
                worker.join()
                report(number, Outcome("found", cause_of_death(worker.exitcode)))
                number += 1
            worker.join()


def cause_of_death(exitcode: int | None) -> str:
    """Return why a worker ended early."""
    number = -(exitcode or 0)
    if number == signal.SIGPROF:
        return f"took more than {SECONDS} s"
    if number == signal.SIGKILL:
        return f"waited more than {MAX_WAIT} s"
    return f"ended by {signal.Signals(number).name}" if number > 0 else f"exit code {exitcode}"


def main() -> int:
    """Fuzz, print, and return the exit code."""
    parser = argparse.ArgumentParser(description="Hostile files against every reader.")
    parser.add_argument("--cases", type=int, default=10_000, help="how many (default 10000)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the cases (default 0)")
    parser.add_argument("--findings", type=Path, default=Path("runs/fuzz"), help="where findings are saved")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # numpy, torch and zipfile warn about the damaged files
    logging.disable()  # and the readers tell what they did to each
    valid = all_seeds()
    names = list(valid)
    counts = {reader: Counter[str]() for reader in names}
    found: Counter[tuple[str, str]] = Counter()
    start = perf_counter()

    def report(number: int, outcome: Outcome) -> None:
        reader = names[number % len(names)]
        counts[reader][outcome.kind] += 1
        if outcome.kind == "found":
            found[reader, outcome.what.partition(": ")[0]] += 1
            if found[reader, outcome.what.partition(": ")[0]] == 1:
                _, name, files = draw(valid, options.seed, number)
                write_folder(options.findings / reader / f"{options.seed}-{number}", {name: files[name]})
                print(f"{reader} {options.seed}/{number} {name}: {outcome.what}", flush=True)

    watch(valid, options.seed, options.cases, report)
    kinds = ("read", "refused", "starved", "found")
    print(f"{'reader':<12}" + "".join(f"{kind:>9}" for kind in kinds))
    for reader, count in counts.items():
        print(f"{reader:<12}" + "".join(f"{count[kind]:>9}" for kind in kinds))
    total = {kind: sum(count[kind] for count in counts.values()) for kind in kinds}
    print(
        json.dumps(
            {"cases": options.cases, "seed": options.seed, **total, "seconds": round(perf_counter() - start)}
        )
    )
    return 1 if total["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
