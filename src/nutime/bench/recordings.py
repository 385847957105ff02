"""Segmentation (Covering) and anomaly localisation (VUS-PR) of recordings, with published results beside ours.

The data folder has ``recordings/segmentation/*.npz`` of TSSB and ``recordings/anomaly/*.npz`` of TSB-AD-U, and the
published results as CSV. Every result records the published ones of its recording, and in which half of the
recordings, by name, it is: the settings of nutime's methods were chosen on the first half.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.bench.methods import Config, Scores, SingleRun
from nutime.data.archives import local_folder
from nutime.encoder import NuTime
from nutime.recordings.metrics import covering, tsb_ad_window, vus_pr
from nutime.recordings.scanner import NuTimeScanner
from nutime.recordings.segmenter import NuTimeSegmenter

#: Archive of the recordings in the names of their data sets: ``recordings/segmentation/Adiac``.
ARCHIVE = "recordings"
SEGMENTATION, ANOMALY = "segmentation", "anomaly"
RAW = "raw windows"
#: File of published results by folder and score.
_PUBLISHED = {
    SEGMENTATION: {
        "covering": "published_covering_unknown.csv",
        "covering_known": "published_covering_known.csv",
    },
    ANOMALY: {"vus_pr": "published_vus_pr.csv"},
}
_FIRST_FACT = "ts_len"  # TSB-AD adds facts about the series after the methods


@dataclass(frozen=True)
class LabelledRecording:
    """A recording of one channel with what is known about it.

    Attributes:
        value: ``(length,)``.
        truth: the change points, or 1 for each anomalous point and 0 for others.
        half: ``first`` or ``second`` half of all recordings of its folder, by name.
        published: score to method to value.
    """

    value: NDArray[np.floating[Any]]
    truth: NDArray[np.integer[Any]]
    half: str
    published: dict[str, dict[str, float]]


def recording_names(kind: str, data_dir: str | None) -> tuple[str, ...]:
    """Return the data sets of a folder, in the order of their names.

    Raises:
        ValueError: there is no such folder, or it is empty.
    """
    root = local_folder(data_dir)
    files = sorted(Path(root or "", ARCHIVE, kind).glob("*.npz"))
    if root is None or not files:
        raise ValueError(f"no {ARCHIVE}/{kind}/*.npz in the data folder; name it by --data-dir or NUTIME_DATA")
    return tuple(f"{ARCHIVE}/{kind}/{path.stem}" for path in files)


def load_recording(name: str, *, data_dir: str | None = None) -> LabelledRecording:
    """Load a recording by the name of its data set.

    Raises:
        ValueError: it is not there, or it does not have the arrays of its kind.
    """
    archive, kind, stem = [*name.split("/"), "", ""][:3]
    if archive != ARCHIVE or kind not in _PUBLISHED:
        raise ValueError(f"{name}: expected {ARCHIVE}/{SEGMENTATION}/NAME or {ARCHIVE}/{ANOMALY}/NAME")
    names = recording_names(kind, data_dir)
    if name not in names:
        raise ValueError(f"{name}: no such recording in the data folder")
    folder = Path(local_folder(data_dir) or "", ARCHIVE, kind)
    key = "change_points" if kind == SEGMENTATION else "label"
    with np.load(folder / f"{stem}.npz") as arrays:
        if missing := {"value", key} - set(arrays):
            raise ValueError(f"{name}: has no array {min(missing)!r}")
        value, truth = arrays["value"].ravel(), arrays[key].ravel()
    half = "first" if names.index(name) < len(names) // 2 else "second"
    published = {score: _published(folder / file, stem) for score, file in _PUBLISHED[kind].items()}
    return LabelledRecording(value, truth, half, {score: row for score, row in published.items() if row})


def _published(path: Path, stem: str) -> dict[str, float]:
    """Return the published results on one recording by method."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    methods = header[1 : header.index(_FIRST_FACT) if _FIRST_FACT in header else None]
    found = {row[0].removesuffix(".csv"): row[1:] for row in rows}
    cells = dict(zip(methods, found.get(stem, []), strict=False))
    return {method: float(cell) for method, cell in cells.items() if cell}


@dataclass(frozen=True)
class RecordingTask(SingleRun):
    """A task on one recording; without an encoder the points of windows are compared."""

    encoder: NuTime | None

    def _run(self, dataset: LabelledRecording) -> tuple[Scores, Config]:
        return self._solve(dataset), {"half": dataset.half, "published": dataset.published}

    def _solve(self, recording: LabelledRecording) -> Scores:
        """Solve the task, and compare the solution with the truth."""
        raise NotImplementedError


class Segmentation(RecordingTask):
    """Covering with the number of change points unknown and known."""

    def _solve(self, recording: LabelledRecording) -> Scores:
        true, length = recording.truth, len(recording.value)
        return {
            name: covering(true, NuTimeSegmenter(count, encoder=self.encoder).fit_predict(recording.value), length)
            for name, count in (("covering", None), ("covering_known", len(true)))
        }


class Localisation(RecordingTask):
    """VUS-PR of the scores of all points."""

    def _solve(self, recording: LabelledRecording) -> Scores:
        score = NuTimeScanner(encoder=self.encoder).fit_predict(recording.value)
        return {"vus_pr": vus_pr(recording.truth, score, tsb_ad_window(recording.value))}
