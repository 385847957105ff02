"""Labels on disk: one line of JSON per event, on disk before the label counts.

The first line identifies the series, so that labels are never applied to others. Each following line is an event:
a label for some series (null removes theirs), or the undoing of an earlier event, by its line::

    {"format": 1, "key": "…", "n_series": 200, "sha256": "…"}
    {"series": [17], "label": "fast"}
    {"series": [3, 8, 12], "label": "slow"}
    {"undo": 2}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from nutime.atomic import Journal
from nutime.data.series import Array, is_labelled

FORMAT = 1
_HEADER = b'{"format": '
_MAX_LABEL = 200  # characters; a label is a name, not a text


class _Event(NamedTuple):
    series: list[int]
    label: str | None


class LabelLog:
    """The labels of a set of series; a second process that opens the file is refused.

    Args:
        path: the file; it is created unless it exists.
        series: the series that are labelled.
        given: labels that the series have already; they are not written to the file.

    Attributes:
        labels: the labels by series, in the order in which they were given.
        key: identifies the file.
        classes: all labels, those of ``given`` sorted, then in the order of their first use.
    """

    def __init__(
        self, path: str | Path, series: Sequence[Array], given: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self._n_series, self._given = len(series), dict(given)
        self._events: dict[int, _Event] = {}
        self._journal = Journal(path)
        identity = {"n_series": len(series), "sha256": _digest(series)}
        try:
            if not self._journal.lines:
                if not self._journal.torn.startswith(_HEADER[: len(self._journal.torn)]):
                    raise ValueError(f"{path}: is not a file of labels; name another one")
                self._journal.append(json.dumps({"format": FORMAT, "key": uuid4().hex, **identity}))
            self.key = self._check_header(identity)
            for line, text in enumerate(self._journal.lines[1:], start=2):
                self._apply(line, self._parse(line, text))
        except BaseException:
            self._journal.close()
            raise
        self._replay()

    def label(self, series: Sequence[int], label: str | None) -> int:
        """Give series a label, or remove theirs; return the number of the event, for :meth:`undo`."""
        if label is not None and not is_labelled([label := " ".join(label.split())])[0]:
            raise ValueError(f"{label!r} means that there is no label; give the class another name")
        if label is not None and len(label) > _MAX_LABEL:
            raise ValueError(f"a label may have {_MAX_LABEL} characters, this one has {len(label)}")
        return self._append({"series": [int(index) for index in series], "label": label})

    def undo(self, event: int) -> list[int]:
        """Undo an event and return its series; none if it was undone already."""
        series = self._events[event].series if event in self._events else []
        if series:
            self._append({"undo": event})
        return series

    def close(self) -> None:
        """Let other processes open the file."""
        self._journal.close()

    @property
    def revision(self) -> int:
        """A number that grows with every change."""
        return len(self._journal.lines)

    @property
    def path(self) -> Path:
        """The file."""
        return self._journal.path

    def _append(self, document: dict[str, Any]) -> int:
        line = len(self._journal.lines) + 1
        text = json.dumps(document)
        parsed = self._parse(line, text)
        self._journal.append(text)
        self._apply(line, parsed)
        self._replay()
        return line

    def _check_header(self, expected: dict[str, Any]) -> str:
        """Refuse a file with the labels of other series; return its key."""
        path = self._journal.path
        try:
            found = json.loads(self._journal.lines[0])
            version, key = found["format"], str(found["key"])
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ValueError(f"{path}: is not a file of labels; name another one") from None
        if version != FORMAT:
            raise ValueError(f"{path}: has format {version}, this version reads {FORMAT}; update nutime")
        if not expected.items() <= found.items():
            raise ValueError(f"{path}: has the labels of other series; name another file for these")
        return key

    def _parse(self, line: int, text: str) -> _Event | int:
        """Return an event, or the line of the event that is undone."""
        try:
            document = json.loads(text)
            if "undo" in document:
                undone = int(document["undo"])
                if undone not in self._events:
                    raise ValueError
                return undone
            event = _Event([int(index) for index in document["series"]], document["label"])
            if not (event.label is None or (isinstance(event.label, str) and len(event.label) <= _MAX_LABEL)):
                raise ValueError
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise ValueError(f"{self._journal.path}:{line}: is not an event; was the file edited?") from None
        for index in event.series:
            if not 0 <= index < self._n_series:
                raise ValueError(f"{self._journal.path}:{line}: there is no series {index}")
        return event

    def _apply(self, line: int, event: _Event | int) -> None:
        if isinstance(event, _Event):
            self._events[line] = event
        else:
            self._events.pop(event)

    def _replay(self) -> None:
        labels = dict(self._given)
        classes = dict.fromkeys(sorted(set(self._given.values())))
        for event in self._events.values():
            for index in event.series:
                labels.pop(index, None)
                if event.label is not None:
                    labels[index] = event.label
            if event.label is not None:
                classes[event.label] = None
        self.labels, self.classes = labels, list(classes)


def _digest(series: Sequence[Array]) -> str:
    digest = hashlib.sha256()
    for values in series:
        digest.update(f"{values.shape} {values.dtype}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()
