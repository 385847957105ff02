"""Segmentation (Covering) and anomaly localisation (VUS-PR) of recordings, rivals and published results beside.

    python benchmarks/recordings.py DATA/recordings [--only segmentation|anomaly|false_alarms] [--cache FOLDER]
    python benchmarks/recordings.py --points 1e7 [--embed]

DATA is a folder as described in the README of the data: ``segmentation/*.npz`` of TSSB and ``anomaly/*.npz`` of
TSB-AD-U, with the published results as CSV. The settings were chosen on the first half of either list. With
``--points``, a recording of so many points on disk is scanned and searched; time and memory are printed.
"""

from __future__ import annotations

import argparse
import csv
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Memory

from nutime.encoder import NuTime
from nutime.recordings import scanner, segmenter
from nutime.recordings.index import RecordingIndex
from nutime.recordings.metrics import covering, tsb_ad_window, vus_pr
from nutime.recordings.scanner import NuTimeScanner
from nutime.recordings.search import find
from nutime.recordings.segmenter import NuTimeSegmenter
from nutime.recordings.windows import embed_windows, runs


def published(path: Path) -> dict[str, dict[str, float]]:
    """Return the result of every method by series; TSB-AD adds facts about the series after the methods."""
    with path.open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    methods = header[1 : header.index("ts_len") if "ts_len" in header else None]
    return {row[0].removesuffix(".csv"): dict(zip(methods, map(float, row[1:]), strict=False)) for row in rows}


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    columns = list(next(iter(table.values())))
    print(f"\n{title}\n{'':40s}" + "".join(f"{name:>19s}" for name in columns))
    rows = list(table.values())
    half = len(rows) // 2
    for name, row in table.items():
        print(f"{name[:40]:40s}" + "".join(f"{value:19.3f}" for value in row.values()))
    for name, part in (("mean, first half", rows[:half]), ("mean, second half", rows[half:]), ("mean", rows)):
        print(f"{name:40s}" + "".join(f"{np.mean([row[c] for row in part]):19.3f}" for c in columns), flush=True)


def segmentation(folder: Path, encoder: NuTime) -> None:
    for known in (False, True):
        reported = published(folder / f"published_covering_{'known' if known else 'unknown'}.csv")
        table = {}
        for path in sorted(folder.glob("*.npz")):
            data = np.load(path)
            value, true = data["value"].ravel(), data["change_points"]
            row = {}
            for name, model in (("nutime", encoder), ("raw windows", None)):
                method = NuTimeSegmenter(len(true) if known else None, encoder=model)
                row[name] = covering(true, method.fit_predict(value), len(value))
            table[path.stem] = row | reported[path.stem]
        show(f"Covering, number of change points {'known' if known else 'unknown'}", table)


def anomaly(folder: Path, encoder: NuTime) -> None:
    reported = published(folder / "published_vus_pr.csv")
    methods = reported[min(reported)]
    best = sorted(methods, key=lambda name: -np.mean([row[name] for row in reported.values()]))[:4]
    table, found = {}, {}
    for path in sorted(folder.glob("*.npz")):
        data = np.load(path)
        value, label = data["value"].ravel(), data["label"].ravel().astype(bool)
        window = tsb_ad_window(value)
        row, found[path.stem] = {}, {}
        for name, model in (("nutime", encoder), ("raw windows", None)):
            scanner = NuTimeScanner(encoder=model)
            score = scanner.fit_predict(value)
            row[name] = vus_pr(label, score, window)
            above = score > scanner.threshold_
            found[path.stem] |= {
                f"{name}, found": np.mean([above[a:b].any() for a, b in runs(label)]),
                f"{name}, false": above[~label].mean(),
            }
        row["raw, period"] = vus_pr(
            label, NuTimeScanner(min(window, len(value) // 4), None).fit_predict(value), window
        )
        table[path.stem] = row | {name: reported[path.stem][name] for name in best}
    show("VUS-PR", table)
    show("Share of anomalies found and of normal points above the threshold, no reference, 1 % requested", found)


def false_alarms(folder: Path, encoder: NuTime) -> None:
    """Fit on the first half of the normal prefix that TSB-AD names, count alarms in its second half.

    And compare all of the prefix with itself.
    """
    rates = (0.05, 0.01)
    table = {}
    for path in sorted(folder.parent.glob("anomaly/*.npz")):
        normal = int(re.search(r"tr_(\d+)", path.stem)[1])
        value = np.load(path)["value"].ravel()[:normal]
        if np.load(path)["label"][:normal].any() or normal < 1000:
            continue
        known, new = value[: normal // 2], value[normal // 2 :]
        row = {}
        for rate in rates:
            scanner = NuTimeScanner(encoder=encoder, false_alarm_rate=rate).fit(known)
            row[f"{rate:.0%} requested"] = (scanner.predict(new) > scanner.threshold_).mean()
            row[f"{rate:.0%}, itself"] = (scanner.fit_predict(value) > scanner.threshold_).mean()
        table[path.stem] = row
    show("Share of normal points above the threshold", table)


def timed(name: str, n_points: int, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name:40s}{seconds:9.1f} s{n_points / seconds:12.0f} points/s   peak {memory:6.0f} MB", flush=True)
    return result


def long_recording(n_points: int, encoder: NuTime | None) -> None:
    """Scan and search a recording on disk: a wave of period 100 with drifting amplitude and noise."""
    rng = np.random.default_rng(0)
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        recording = np.lib.format.open_memmap(file.name, "w+", np.float32, (n_points,))
        for first in range(0, n_points, 2**18):
            points = np.arange(first, min(first + 2**18, n_points))
            wave = np.sin(points * 2 * np.pi / 100) * (1 + 0.3 * np.sin(points / 7000))
            recording[first : first + len(points)] = wave + 0.2 * rng.normal(size=len(points))
        recording[n_points // 3 : n_points // 3 + 200] += 2
        recording.flush()
        recording = np.load(file.name, mmap_mode="r")
        query = recording[n_points // 2 : n_points // 2 + 200]
        scanner = NuTimeScanner(encoder=encoder)
        timed("fit on a tenth", n_points // 10, lambda: scanner.fit(recording[: n_points // 10]))
        scores = timed("scan", n_points, lambda: scanner.predict(recording))
        assert n_points // 3 - 100 <= scores.argmax() < n_points // 3 + 300
        del scores
        for scale in ("keep", "ignore"):
            best = timed(f"find, scale {scale}", n_points, lambda: find(recording, query, 10, scale=scale))  # noqa: B023
            assert best[0].start == n_points // 2
        index = timed("build an index", n_points, lambda: RecordingIndex.build(recording, 200, encoder))
        found = timed("find with the index", n_points, lambda: index.search(query, 10))
        expected = {match.start for match in find(recording, query, 10)}
        print(f"{len(expected & {match.start for match in found})} of the 10 best matches found with the index")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--only", choices=("segmentation", "anomaly", "false_alarms"))
    parser.add_argument("--cache", type=Path, help="keep embeddings of windows here between runs")
    parser.add_argument("--points", type=float, help="time a recording of this many points")
    parser.add_argument("--embed", action="store_true", help="time it with the encoder")
    options = parser.parse_args()
    if options.points:
        long_recording(int(options.points), NuTime.from_pretrained() if options.embed else None)
        return
    if options.data is None:
        parser.error("give the folder of the recordings, or --points")
    if options.cache:
        cached = Memory(options.cache, verbose=0).cache(embed_windows, ignore=["encoder"])
        segmenter.embed_windows = scanner.embed_windows = cached  # type: ignore[attr-defined]
    encoder = NuTime.from_pretrained()
    for protocol in (segmentation, anomaly, false_alarms):
        if options.only in (None, protocol.__name__):
            start = time.perf_counter()
            protocol(options.data / protocol.__name__, encoder)
            print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
