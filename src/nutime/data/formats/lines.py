"""Readers of the archive formats that hold one series a line: ``.ts``, ``.arff``, ``.tsv`` and ``.txt``.

Each line is parsed by itself, so memory does not grow with the file. Whatever the header promises (number of
channels, equal lengths, the classes) is checked on every line: a line cut short is an error, never a shorter
series.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from nutime.data.formats.source import InputFile, Record, quote
from nutime.data.series import LABEL_NAMES, Array

ARFF_ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)\s*(.+)""", re.IGNORECASE)
ARFF_NOMINAL = re.compile(r"""\s*+(?:'([^']*)'|"([^"]*)"|([^,'"][^,]*)|)\s*+(?:,|$)""")
ARFF_NUMERIC = frozenset({"numeric", "real", "integer"})
MAX_CHANNELS = 2**16  # a line of ':' alone would be millions of them
COUNT = re.compile("0*[1-9][0-9]{,17}")
NO_TIMESTAMPS = "series of (time, value) pairs are not supported; write the values alone"


@dataclass(slots=True)
class Promise:
    """What a header says of every series; None where it says nothing, then the first series decides."""

    channels: int | None = None
    length: int | None = None
    equal_length: bool = False
    labelled: bool = False
    classes: frozenset[str] | None = None

    def cells(self, source: InputFile, channels: list[str]) -> list[list[str]]:
        """Split each channel into its cells, if there are as many channels as there should be."""
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
        """Return the label if it is one of the classes declared."""
        label = source.label(text)
        if self.classes is not None and label not in self.classes:
            raise source.error(f"label {quote(label)} is not one of the classes in the header")
        return label

    def check_channels(self, source: InputFile, channels: int) -> None:
        """Refuse any other number of channels than the one known so far."""
        self.channels = self.channels or channels
        if channels > MAX_CHANNELS:
            raise source.error(f"has {channels} channels, the limit is {MAX_CHANNELS}")
        if channels != self.channels:
            raise source.error(f"has {channels} channel(s), expected {self.channels}")


def read_tsv(source: InputFile) -> Iterator[Record]:
    """UCR 2018: the label, then the values, separated by tabs; short series are padded with NaN."""
    return _label_first(source, lambda line: line.split("\t"))


def read_txt(source: InputFile) -> Iterator[Record]:
    """The older UCR layout: the label, then the values, separated by commas or blanks."""
    return _label_first(source, lambda line: line.split(",") if "," in line else line.split())


def _label_first(source: InputFile, split: Callable[[str], list[str]]) -> Iterator[Record]:
    promise = Promise(channels=1, equal_length=True)
    for line in source.lines():
        if not line.strip():
            continue
        label, *cells = split(line.rstrip("\r\n"))
        if not cells:
            raise source.error("expected a label and then values")
        yield Record(promise.parse(source, [cells]), source.label(label))


def read_ts(source: InputFile) -> Iterator[Record]:
    """The UCR/UEA text format: a header, then channels separated by ``:`` and the label last."""
    lines = _meaningful(source, comments="#%")
    promise = _ts_header(source, lines)
    for line in lines:
        if "(" in line:
            raise source.error(NO_TIMESTAMPS)
        channels = line.split(":")
        label = None
        if promise.labelled:
            if len(channels) == 1:
                raise source.error("has no label after the last ':'")
            label = promise.label(source, channels.pop())
        yield Record(promise.parse(source, promise.cells(source, channels)), label)


def _meaningful(source: InputFile, comments: str) -> Iterator[str]:
    return (line for raw in source.lines() if (line := raw.strip()) and line[0] not in comments)


def _ts_header(source: InputFile, lines: Iterator[str]) -> Promise:
    promise = Promise()
    for line in lines:
        tag, *words = line.split()
        match tag.lower():
            case "@data" if not words:
                if not promise.equal_length:
                    promise.length = None
                return promise
            case "@timestamps":
                if _flag(source, words):
                    raise source.error(NO_TIMESTAMPS)
            case "@univariate":
                if _flag(source, words):
                    promise.check_channels(source, 1)
            case "@dimension" | "@dimensions":
                promise.check_channels(source, _count(source, words))
            case "@equallength":
                promise.equal_length = _flag(source, words)
            case "@serieslength":
                promise.length = _count(source, words)
            case "@targetlabel":
                promise.labelled = _flag(source, words)
            case "@classlabel":
                promise.labelled = _flag(source, words)
                if words[1:]:
                    promise.classes = frozenset(map(source.label, words[1:]))
            case other if not other.startswith("@") or other == "@data":
                raise source.error(f"expected a header line such as '@data', got {quote(line)}")
    raise source.error("has no line '@data'")


def _flag(source: InputFile, words: list[str]) -> bool:
    flags = {"true": True, "false": False}
    if not words or words[0].lower() not in flags:
        raise source.error("expected true or false")
    return flags[words[0].lower()]


def _count(source: InputFile, words: list[str]) -> int:
    if len(words) != 1 or not COUNT.fullmatch(words[0]):
        raise source.error("expected a positive whole number")
    return int(words[0])


def read_arff(source: InputFile) -> Iterator[Record]:
    r"""Weka's format: numeric attributes, or one relational attribute with its channels between ``\n``."""
    lines = _meaningful(source, comments="%")
    promise, relational = _arff_header(source, lines)
    for line in lines:
        text, label = line, None
        if promise.labelled:
            text, label = _arff_label(source, line)
            label = promise.label(source, label)
        channels = _relational_channels(source, text) if relational else [text]
        yield Record(promise.parse(source, promise.cells(source, channels)), label)


def _arff_header(source: InputFile, lines: Iterator[str]) -> tuple[Promise, bool]:
    """Return what the attributes promise, and whether the values are one relational attribute."""
    promise = Promise(equal_length=True)
    relational = within = False
    values = 0
    for line in lines:
        tag = line.split()[0].lower()
        if tag == "@data":
            if not values:
                raise source.error("has no numeric attribute")
            promise.length = values
            promise.channels = None if relational else 1
            return promise, relational
        if tag == "@relation":
            continue
        if tag == "@end" and within:
            within = False
            continue
        attribute = ARFF_ATTRIBUTE.fullmatch(line)
        if not attribute:
            raise source.error(f"expected @relation, @attribute or @data, got {quote(line)}")
        if promise.labelled:
            raise source.error("the class must be the last attribute")
        name, kind = attribute.group(1).strip("'\"").lower(), attribute.group(2).strip()
        if kind.startswith("{") and kind.endswith("}") and not within:
            promise.classes = frozenset(map(source.label, _nominal_values(source, kind[1:-1])))
            promise.labelled = True
        elif kind.lower() == "relational" and not relational and not values:
            relational = within = True
        elif kind.lower() in ARFF_NUMERIC and (within or not relational) and name not in LABEL_NAMES:
            values += 1
        elif name in LABEL_NAMES and kind.lower() in ARFF_NUMERIC | {"string"}:
            promise.labelled = True
        else:
            raise source.error(f"attribute {quote(name)} of type {quote(kind)} is not supported here")
    raise source.error("has no line '@data'")


def _nominal_values(source: InputFile, text: str) -> Iterator[str]:
    """Iterate over the values of a nominal attribute, each of which may be quoted."""
    place = 0
    while place < len(text):
        value = ARFF_NOMINAL.match(text, place)
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
