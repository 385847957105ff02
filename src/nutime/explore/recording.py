"""A recording on the page: scores, segments and matches; independent of the page.

Scores and segments are computed once, in a worker thread; matches of a stretch when they are requested.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import SeriesSet
from nutime.data.timeline import in_seconds
from nutime.encoder import NuTime
from nutime.recordings.scanner import Interval, NuTimeScanner
from nutime.recordings.search import Match, find
from nutime.recordings.segmenter import NuTimeSegmenter, Segment
from nutime.recordings.tables import interval_columns
from nutime.recordings.windows import Float64, read_recording

MATCHES = 10


class RecordingAnalysis:
    """A recording and its computed parts; parts that are not finished are None.

    Attributes:
        name: name of the file.
        values: ``(channels, length)``, missing values interpolated.
        channel_names: name of each channel; "channel 0" and so on if the file has no names.
        axis: the time of each point, its number if the file has no times; seconds for time spans.
        n_missing: number of interpolated values.
        segments: see :class:`~nutime.recordings.segmenter.Segment`.
        scores: anomaly score of each point.
        intervals: the stretches with a score above ``threshold``.
        window: points of the stretch that a click on the overview selects.
        error: one line if a step failed, else empty.
    """

    def __init__(
        self, name: str, recording: SeriesSet, encoder: NuTime | None, false_alarm_rate: float = 0.01
    ) -> None:
        self.name = name
        self._given = recording  # not filled: long gaps are no anomalies, segments and matches
        self.values = read_recording(recording).series[0]
        channels, length = self.values.shape
        self.channel_names: Sequence[str] = recording.channel_names or [f"channel {c}" for c in range(channels)]
        self.axis: NDArray[Any] = np.arange(length) if recording.times is None else in_seconds(recording.times[0])
        self.n_missing = int(np.isnan(recording.series[0]).sum())
        self.segments: list[Segment] | None = None
        self.scores: Float64 | None = None
        self.intervals: list[Interval] = []
        self.threshold = np.inf
        self.window = min(max(16, length // 100), length)
        self.stage = "finding segments"
        self.error = ""
        self._encoder = encoder
        self._false_alarm_rate = false_alarm_rate
        self.matches = lru_cache(maxsize=16)(self._find)
        threading.Thread(target=self._work, name="nutime-explore", daemon=True).start()

    def __len__(self) -> int:
        return int(self.values.shape[1])

    @property
    def has_dates(self) -> bool:
        """Whether the axis has dates and not numbers."""
        return bool(self.axis.dtype.kind == "M")

    @property
    def has_times(self) -> bool:
        """Whether the file has times."""
        return self._given.times is not None

    @property
    def ready(self) -> list[str]:
        """The finished parts."""
        parts = {"segments": self.segments, "scores": self.scores}
        return [name for name, part in parts.items() if part is not None]

    def point(self, place: Any) -> int:
        """Return the first point at or after a place on the axis, the last one if there is none."""
        value = np.datetime64(place) if self.has_dates else float(place)
        return min(int(np.searchsorted(self.axis, value)), len(self) - 1)

    def stretch_at(self, point: int) -> tuple[int, int]:
        """Return the anomalous interval around a point, or else a window around it."""
        for interval in self.intervals:
            if interval.start <= point < interval.end:
                return interval.start, interval.end
        start = min(max(0, point - self.window // 2), len(self) - self.window)
        return start, start + self.window

    def columns(self, table: str, matches: Sequence[Match] = ()) -> dict[str, NDArray[Any]]:
        """Return the ``anomalies``, the ``segments`` or some matches, with times where the file has them."""
        if table == "segments":
            return interval_columns(self._given, self.segments or [], {"start": int, "end": int, "state": int})
        if table == "matches":
            return interval_columns(self._given, matches, {"start": int, "end": int, "distance": float})
        fields = {"start": int, "end": int, "score": float, "channel": int}
        columns = interval_columns(self._given, self.intervals, fields)
        return columns | {"channel": np.array(self.channel_names)[columns["channel"]]}

    def _find(self, start: int, end: int, scale: str) -> list[Match]:
        return find(self._given, self.values[:, start:end], MATCHES, scale=scale)

    def _work(self) -> None:
        try:
            self.segments = NuTimeSegmenter(encoder=self._encoder).fit(self._given).segments_
            self.stage = "scoring anomalies"
            scanner = NuTimeScanner(encoder=self._encoder, false_alarm_rate=self._false_alarm_rate)
            scores = scanner.fit_predict(self._given)
            self.intervals, self.threshold, self.window = scanner.intervals_, scanner.threshold_, scanner.window_
            self.scores = scores
        except Exception as error:  # shown on the page
            self.error = " ".join(f"{self.name}: {error}".split())
        self.stage = ""
