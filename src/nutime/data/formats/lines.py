"""Readers of the archive formats with one series per line: ``.ts``, ``.arff``, ``.tsv`` and ``.txt``.

Lines are parsed one by one, so memory does not grow with the file. Every line is checked against the header
(number of channels, equal lengths, the classes): a truncated line is an error, never a shorter series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nutime.data.formats.source import InputFile, Record, quote
from nutime.data.names import LABEL_NAMES
from nutime.data.series import Array

_ARFF_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.+)""", re.IGNORECASE)
_ARFF_NOMINAL = re.compile(r"""\s*+(?:'([^']*)'|"([^"]*)"|([^,'"][^,]*)|)\s*+(?:,|$)""")
_ARFF_NUMERIC = frozenset({"numeric", "real", "integer"})
_MAX_CHANNELS = 2**16  # a line of colons would have millions
_COUNT = re.compile("0*[1-9][0-9]{,17}")
_NO_TIMESTAMPS = "series of (time, value) pairs are not supported; write the values alone"


@dataclass(slots=True)
class _Header:
    """The properties of every series; where the header does not state one (None), the first series decides."""

    channels: int | None = None
    length: int | None = None
    equal_length: bool = False
    labelled: bool = False
    classes: frozenset[str] | None = None

    def cells(self, source: InputFile, channels: list[str]) -> list[list[str]]:
        """Split each channel into its cells, after checking their number."""
        self.check_channels(source, len(channels))
        return [channel.split(",") for channel in channels]

    def parse(self, source: InputFile, channels: list[list[str]]) -> Array:
        """Parse the cells of each channel."""
        rows = [
            source.numbers(cells, where=f"channel {index}: " if len(channels) > 1 else "")
            for index, cells in enumerate(channels)
        ]
        lengths = {row.size for row in rows}
        if len(lengths) > 1:
            raise source.error(f"channels of unequal length: {sorted(lengths)}")
        if self.equal_length:
            self.length = self.length or rows[0].size
            if rows[0].size != self.length:
                raise source.error(f"has {rows[0].size} value(s) per channel, expected {self.length}")
        return np.stack(rows)

    def label(self, source: InputFile, text: str) -> str:
        """Return the label, empty or one of the classes declared."""
        label = source.label(text)
        if label and self.classes is not None and label not in self.classes:
            raise source.error(f"label {quote(label)} is not one of the classes in the header")
        return label

    def check_channels(self, source: InputFile, channels: int) -> None:
        """Refuse a number of channels that differs from the header or the first series."""
        self.channels = self.channels or channels
        if channels > _MAX_CHANNELS:
            raise source.error(f"has {channels} channels, the limit is {_MAX_CHANNELS}")
        if channels != self.channels:
            raise source.error(f"has {channels} channel(s), expected {self.channels}")


def read_tsv(source: InputFile) -> Iterator[Record]:
    """UCR 2018: the label, then the values, separated by tabs; short series are padded with NaN."""
    return _label_first(source, lambda line: line.split("\t"))


def read_txt(source: InputFile) -> Iterator[Record]:
    """The older UCR layout: the label, then the values, separated by commas or blanks."""
    return _label_first(source, lambda line: line.split(",") if "," in line else line.split())


def _label_first(source: InputFile, split: Callable[[str], list[str]]) -> Iterator[Record]:
    header = _Header(channels=1, equal_length=True)
    for line in source.lines():
        if not line.strip():
            continue
        label, *cells = split(line.rstrip("\r\n"))
        if not cells:
            raise source.error("expected a label and then values")
        yield Record(header.parse(source, [cells]), source.label(label))


def read_ts(source: InputFile) -> Iterator[Record]:
    """The UCR/UEA text format: a header, then channels separated by ``:`` and the label last."""
    lines = _meaningful(source, comments="#%")
    header = _ts_header(source, lines)
    for line in lines:
        if "(" in line:
            raise source.error(_NO_TIMESTAMPS)
        channels = line.split(":")
        label = None
        if header.labelled:
            if len(channels) == 1:
                raise source.error("has no label after the last ':'")
            label = header.label(source, channels.pop())
        yield Record(header.parse(source, header.cells(source, channels)), label)


def _meaningful(source: InputFile, comments: str) -> Iterator[str]:
    return (line for raw in source.lines() if (line := raw.strip()) and line[0] not in comments)


def _ts_header(source: InputFile, lines: Iterator[str]) -> _Header:
    header = _Header()
    for line in lines:
        tag, *words = line.split()
        match tag.lower():
            case "@data" if not words:
                if not header.equal_length:
                    header.length = None
                return header
            case "@timestamps":
                if _flag(source, words):
                    raise source.error(_NO_TIMESTAMPS)
            case "@univariate":
                if _flag(source, words):
                    header.check_channels(source, 1)
            case "@dimension" | "@dimensions":
                header.check_channels(source, _count(source, words))
            case "@equallength":
                header.equal_length = _flag(source, words)
            case "@serieslength":
                header.length = _count(source, words)
            case "@targetlabel":
                header.labelled = _flag(source, words)
            case "@classlabel":
                header.labelled = _flag(source, words)
                if words[1:]:
                    header.classes = frozenset(filter(None, map(source.label, words[1:])))
            case other if not other.startswith("@") or other == "@data":
                raise source.error(f"expected a header line such as '@data', got {quote(line)}")
    raise source.error("has no line '@data'")


def _flag(source: InputFile, words: list[str]) -> bool:
    flags = {"true": True, "false": False}
    if not words or words[0].lower() not in flags:
        raise source.error("expected true or false")
    return flags[words[0].lower()]


def _count(source: InputFile, words: list[str]) -> int:
    if len(words) != 1 or not _COUNT.fullmatch(words[0]):
        raise source.error("expected a positive whole number")
    return int(words[0])


def read_arff(source: InputFile) -> Iterator[Record]:
    r"""Weka's format: numeric attributes, or one relational attribute with its channels between ``\n``."""
    lines = _meaningful(source, comments="%")
    header, relational = _arff_header(source, lines)
    for line in lines:
        text, label = line, None
        if header.labelled:
            text, label = _arff_label(source, line)
            label = header.label(source, label)
        channels = _relational_channels(source, text) if relational else [text]
        yield Record(header.parse(source, header.cells(source, channels)), label)


def _arff_header(source: InputFile, lines: Iterator[str]) -> tuple[_Header, bool]:
    """Return what the header declares, and whether the values are one relational attribute."""
    header = _Header(equal_length=True)
    relational = within = False
    values = 0
    for line in lines:
        tag = line.split()[0].lower()
        if tag == "@data":
            if not values:
                raise source.error("has no numeric attribute")
            header.length = values
            header.channels = None if relational else 1
            return header, relational
        if tag == "@relation":
            continue
        if tag == "@end" and within:
            within = False
            continue
        attribute = _ARFF_ATTRIBUTE.fullmatch(line)
        if not attribute:
            raise source.error(f"expected @relation, @attribute or @data, got {quote(line)}")
        if header.labelled:
            raise source.error("the class must be the last attribute")
        name, kind = attribute.group(1).strip("'\"").lower(), attribute.group(2).strip()
        if kind.startswith("{") and kind.endswith("}") and not within:
            header.classes = frozenset(filter(None, map(source.label, _nominal_values(source, kind[1:-1]))))
            header.labelled = True
        elif kind.lower() == "relational" and not relational and not values:
            relational = within = True
        elif kind.lower() in _ARFF_NUMERIC and (within or not relational) and name not in LABEL_NAMES:
            values += 1
        elif name in LABEL_NAMES and kind.lower() in _ARFF_NUMERIC | {"string"}:
            header.labelled = True
        else:
            raise source.error(f"attribute {quote(name)} of type {quote(kind)} is not supported here")
    raise source.error("has no line '@data'")


def _nominal_values(source: InputFile, text: str) -> Iterator[str]:
    """Iterate over the values of a nominal attribute, each of which may be quoted."""
    place = 0
    while place < len(text):
        value = _ARFF_NOMINAL.match(text, place)
        if not value:
            raise source.error(f"the classes are not separated by commas at {quote(text[place:])}")
        place = value.end()
        if found := "".join(filter(None, value.groups())).strip():
            yield found


def _arff_label(source: InputFile, line: str) -> tuple[str, str]:
    """Split a line before its last cell, which may be quoted."""
    if line[-1] in "'\"":
        start = line.rfind(line[-1], 0, -1)
        text, label = line[: max(start, 0)].rstrip(), line[start + 1 : -1]
    else:
        start = line.rfind(",") + 1
        text, label = line[:start], line[start:]
    if not text.endswith(","):
        raise source.error("expected values, a comma and a label")
    return text[:-1].rstrip(), label


def _relational_channels(source: InputFile, text: str) -> list[str]:
    if len(text) < 2 or text[0] not in "'\"" or text[-1] != text[0]:
        raise source.error("expected the relational attribute between quotes")
    return text[1:-1].split("\\n")
