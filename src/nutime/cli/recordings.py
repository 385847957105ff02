"""``nutime segment``, ``scan``, ``annotate`` and ``find``: what happens where in recordings.

A recording is a table with one row per point and one column per channel, or one series in any other format.
Results have one row per interval, with its times where the recording has times.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli import options
from nutime.cli.options import SHIPPED, AsJson, Device, Force, Output, reads_recordings
from nutime.cli.shared import check_outputs, errors_about

if TYPE_CHECKING:
    from nutime.batch.results import Results
    from nutime.batch.source import SourceOptions
    from nutime.data.series import SeriesSet

_SHOWN = 16  # rows of a printed table
_QUERY = re.compile(r"(?:(?P<name>[^/]+):)?(?P<start>\d+):(?P<end>\d+)")

_FILES = (
    "a table with one row per point and one column per channel (.csv .parquet …), or one series in another format"
)
Recording = Annotated[str, typer.Argument(metavar="IN", help=f"Recording: {_FILES}.")]
Recordings = Annotated[
    str, typer.Argument(metavar="IN", help=f"Recordings: {_FILES}; or a folder or pattern of such files.")
]
Window = Annotated[
    int | None, typer.Option(min=2, metavar="POINTS", help="Shortest window; else it follows the recording.")
]
FalseAlarmRate = Annotated[
    float, typer.Option(metavar="SHARE", help="Share of the points of a normal recording above the threshold.")
]
Weights = Annotated[
    str,
    typer.Option(
        metavar="NAME|FOLDER|none", help="Encoder: a shipped one, or a folder; none compares points, far faster."
    ),
]


class Scale(StrEnum):
    """What makes two stretches alike."""

    KEEP = "keep"
    IGNORE = "ignore"


@reads_recordings
def segment(
    source: Recording,
    out: Output,
    read: SourceOptions,
    change_points: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="How many to find; else it is decided.")
    ] = None,
    window: Window = None,
    weights: Weights = SHIPPED,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Find where a recording changes: one row per segment, with its state.

    Segments of the same state have the same number.

    Example: `nutime segment recording.csv -o segments.csv`
    """
    check_outputs(out, as_json, read, source)
    given = read_recording(source, read, "segment")

    from nutime import NuTimeSegmenter
    from nutime.recordings.tables import interval_columns

    with errors_about(source):
        segmenter = NuTimeSegmenter(
            change_points, window or "auto", weights_or_none(weights), device=device or "auto"
        )
        found = segmenter.fit_predict(given).tolist()
    segments = segmenter.segments_
    columns = interval_columns(given, segments, {"start": int, "end": int, "state": int})
    states = max(segmenter.labels_.tolist()) + 1
    document = {"change_points": found, "segments": len(segments), "states": states}
    line = f"Segments: {len(segments)}, of {states} state(s)"
    _show(source, given, columns, [line, _table(columns)], document, out, as_json)


@reads_recordings
def scan(
    source: Recording,
    out: Output,
    read: SourceOptions,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE", help="A normal recording to compare with; else IN itself.")
    ] = None,
    scores: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the score of every point there as well.")
    ] = None,
    false_alarm_rate: FalseAlarmRate = 0.01,
    window: Window = None,
    weights: Weights = SHIPPED,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Find the stretches of a recording unlike the rest of it, or unlike a normal one: start, end and score.

    A score of 1 is ordinary. The channel is the one that contributes most.

    Example: `nutime scan recording.csv --reference normal.csv -o intervals.csv --scores scores.csv`
    """
    for place in [out, scores] if scores else [out]:
        check_outputs(place, as_json, read, source, reference)
    if scores == out:
        raise typer.BadParameter("must not be the file of the intervals", param_hint="--scores")
    given = read_recording(source, read, "scan")
    normal = read_recording(reference, read, "scan") if reference else None

    import numpy as np

    from nutime import NuTimeScanner
    from nutime.batch.results import write_results
    from nutime.cli import summaries
    from nutime.recordings.tables import interval_columns, table_rows

    scanner = NuTimeScanner(
        window or "auto", weights_or_none(weights), false_alarm_rate=false_alarm_rate, device=device or "auto"
    )
    if normal is not None:
        with errors_about(reference or source):
            scanner.fit(normal)
    with errors_about(source):
        score = scanner.fit_predict(given) if normal is None else scanner.predict(given)
    names = scanner.channel_names_in_ or [str(index) for index in range(scanner.n_channels_in_)]
    intervals = [interval._replace(channel=names[interval.channel]) for interval in scanner.intervals_]  # type: ignore[arg-type]
    columns = interval_columns(given, intervals, {"start": int, "end": int, "score": float, "channel": str})
    order = np.argsort(-columns["score"], kind="stable")
    highest = {name: column[order] for name, column in columns.items()}
    share = float((score > scanner.threshold_).mean())
    peak = int(score.argmax())
    document = {
        "scores": scores,
        "threshold": scanner.threshold_,
        "intervals": len(intervals),
        "share": share,
        "highest": {"score": float(score[peak]), "point": peak},
        "top": table_rows(highest)[:_SHOWN],
    }
    line = (
        f"Anomalies: {len(intervals):,} interval(s), {summaries.percent(share)} of the points, with a score above "
        f"{scanner.threshold_:.2f}"
    )
    page = [line, _table(highest)] if intervals else [line, f"Highest score: {score[peak]:.2f} at point {peak:,}"]
    if scores:
        times = {} if given.times is None else {"time": given.times[0]}
        write_results(scores, {**times, "score": score, "is_anomaly": score > scanner.threshold_})
        page.append(f"Scores of all points: {summaries.output_name(scores)}")
    _show(source, given, columns, page, document, out, as_json)


@reads_recordings
def annotate(
    source: Recordings,
    out: Output,
    read: SourceOptions,
    reference: Annotated[
        str | None, typer.Option(metavar="FILE|FOLDER", help="Recordings to learn from, with --intervals.")
    ] = None,
    intervals: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What happens there: a CSV with the columns recording (unless there is one), start, end (points, "
            "exclusive; or start_time, end_time) and label.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL_DIR", help="A saved model, instead of learning one.")
    ] = None,
    window: Window = None,
    save: Annotated[str | None, typer.Option(metavar="MODEL_DIR", help="Save the model, for --model.")] = None,
    force: Force = False,
    weights: options.Weights = SHIPPED,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Learn from labelled intervals of recordings what happens where in others: start, end, label, confidence.

    The label is empty where none of the known ones fits.

    Example: `nutime annotate new.csv --reference old.csv --intervals intervals.csv -o annotations.csv`
    """
    if (model is None) == (reference is None) or (reference is None) != (intervals is None):
        raise typer.BadParameter("give --reference and --intervals, or --model", param_hint="--reference")
    if model and (save or window):
        raise typer.BadParameter("a saved model has its window and is saved already", param_hint="--model")
    check_outputs(out, as_json, read, source, reference, intervals, save=save, force=force)
    if model and not Path(model, "annotator.json").is_file():
        raise ValueError(f"{model}: is not a folder saved by nutime annotate (no annotator.json)")
    given = _read(source, read, "annotate")
    known = _read(reference, read, "annotate") if reference else None
    rows = _read_intervals(intervals, known) if intervals and known else []

    from dataclasses import replace

    import numpy as np

    from nutime import NuTimeAnnotator
    from nutime.cli import summaries
    from nutime.recordings.tables import interval_columns

    if model:
        annotator = NuTimeAnnotator.load(model, device or "auto")
    else:
        with errors_about(intervals or source):
            annotator = NuTimeAnnotator(window or "auto", encoder=weights, device=device or "auto").fit(
                known, rows
            )
    found, names = [], []
    for index, values in enumerate(given.series):
        times = None if given.times is None else [given.times[index]]
        name = given.ids[index] if given.ids else str(index)
        with errors_about(source if len(given) == 1 else f"{source}: {name}"):
            part = annotator.predict(replace(given, series=[values], ids=None, times=times))
        found += [row._replace(label="" if row.label is None else str(row.label)) for row in part]
        names += [name] * len(part)
    if save:
        annotator.save(save)
    fields = {"start": int, "end": int, "label": str, "confidence": float}
    columns = {"recording": np.array(names, np.str_), **interval_columns(given, found, fields)}
    counts, points = Counter(row.label for row in found), Counter[str]()
    for row in found:
        points[row.label] += row.end - row.start
    shares = {name: points[name] / points.total() for name in sorted(counts)}
    labels = [
        (name or "(none of the labels)", f"{counts[name]:,}", summaries.percent(share))
        for name, share in shares.items()
    ]
    document = {"recordings": len(given), "intervals": len(found), "share": shares, "model": save or model}
    page: list[Any] = [summaries.table(["label", "intervals", "share of the points"], labels)]
    steps = []
    if save:
        command = f"nutime annotate NEW.csv --model {shlex.quote(save)} -o annotations.csv"
        steps = summaries.next_steps("Model", save, [command])
    _show(source, given, columns, page, document, out, as_json, steps)


@reads_recordings
def find(
    source: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help=f"Recordings: {_FILES}; a folder or pattern of such files; or a folder saved with --index.",
        ),
    ],
    query: Annotated[
        str,
        typer.Option(
            metavar="START:END|FILE",
            help="The stretch: points of IN (250:400, or NAME:250:400 of several recordings, end exclusive), two "
            "times with / between them, or a file.",
        ),
    ],
    out: Output,
    read: SourceOptions,
    matches: Annotated[int, typer.Option("--matches", "-k", min=1, help="Number of matches.")] = 10,
    scale: Annotated[
        Scale, typer.Option(help="Compare level and amplitude too, or the shape alone.")
    ] = Scale.KEEP,
    index: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Save an index of the recordings, which later searches name in place of IN."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an index that exists already.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find the stretches of recordings most like a given one, the best first; they do not overlap each other.

    A query that is part of the recordings is its own first match.

    Example: `nutime find recording.csv --query 1000:1200 -k 5 -o matches.csv`
    """
    is_index = Path(source, "index.json").is_file()
    if is_index and index:
        raise typer.BadParameter(f"{source} is an index already", param_hint="--index")
    check_outputs(out, as_json, read, source, query if _is_file(query) else None, save=index, force=force)

    import numpy as np

    from nutime import RecordingIndex
    from nutime import find as find_matches
    from nutime.cli import summaries
    from nutime.recordings.tables import interval_columns, table_rows

    if is_index and read and not _is_file(query):
        raise ValueError(
            f"{source}: is an index, which has its columns; --id, --time, --channels and --freq are for files"
        )
    prepared = RecordingIndex.load(source) if is_index else None
    given = prepared.recordings if prepared else _read(source, read, "find")
    stretch = _query(query, given, read, source)
    if index:
        size, longest = stretch.series[0].shape[1], max(values.shape[1] for values in given.series)
        sizes = np.unique(np.clip([size // 2, size, 2 * size], 16, longest)).tolist()
        with errors_about(source):
            prepared = RecordingIndex.build(given, sizes, encoder=None, scale=scale.value)
        prepared.save(index)
    with errors_about(source):
        found = find_matches(prepared or given, stretch, matches, scale=scale.value)
    fields = {"recording": str, "start": int, "end": int, "distance": float}
    columns = interval_columns(given, [match._replace(recording=str(match.recording)) for match in found], fields)
    document = {"recordings": len(given), "index": index, "matches": table_rows(columns)}
    page = [f"Matches: {len(found)}", _table(columns)]
    steps = []
    if index:
        command = f"nutime find {shlex.quote(index)} --query FILE -o matches.csv"
        steps = summaries.next_steps("Index", index, [command])
    _show(source, given, columns, page, document, out, as_json, steps)


# ---- reading -------------------------------------------------------------------------------------------------


def _read(source: str, read: SourceOptions, command: str, *, several: bool = True) -> SeriesSet:
    """Read recordings; refuse what has one row per series."""
    from nutime.data.formats.read import MIN_ROWS, is_many, read_recordings, series_suffix
    from nutime.data.formats.source import FormatError
    from nutime.data.names import MAX_CHANNELS

    given = read_recordings(source, **read)  # type: ignore[misc]
    channels, length = given.series[0].shape
    if len(given) > 1 and (given.ids is None or not several):
        expected = "recordings by id" if several else "one recording, with one row per point"
        raise FormatError(
            f"{source}: holds {len(given):,} series, and nutime {command} reads {expected}; to compare series use "
            "nutime detect, to classify them nutime predict"
        )
    is_table = (series_suffix(source) or ".csv").removesuffix(".gz") in (".csv", ".tsv", ".txt", ".parquet")
    if (
        is_table
        and not is_many(source)
        and given.times is None
        and "channel_columns" not in read
        and channels > MAX_CHANNELS
        and length < MIN_ROWS * channels
    ):
        raise FormatError(
            f"{source}: {length:,} rows of {channels:,} columns without times; for series in rows, use nutime "
            "detect or nutime predict; if they are points, name the columns with --channels"
        )
    return given


def read_recording(source: str, read: SourceOptions, command: str) -> SeriesSet:
    """Read one recording."""
    return _read(source, read, command, several=False)


def _read_intervals(path: str, known: SeriesSet) -> list[tuple[Any, ...]]:
    """Return ``(recording, start, end, label)`` of a CSV, without the recording if there is one without a name."""
    from nutime.data.formats.read import read_rows, series_suffix
    from nutime.data.names import quoted

    file, rows = read_rows(path)
    header, *rows = rows or [[]]
    names = [name.strip().lower() for name in header]
    edges = ("start", "end") if "start" in names else ("start_time", "end_time")
    required = ["recording"] * (len(known) > 1 or ("recording" in names and known.ids is not None))
    required += [*edges, "label"]
    if missing := [name for name in required if name not in names]:
        raise file.error(f"has no column {missing[0]!r}, only {quoted(names)}")
    found = []
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise file.error(f"interval {number}: has {len(row)} cell(s), the first row has {len(names)}")
        file.check_text(max(map(len, row)))
        cells = dict(zip(names, (cell.strip() for cell in row), strict=True))
        values = [cells[name] if name.endswith("_time") else _point(path, number, cells[name]) for name in edges]
        if required[0] == "recording":
            name = cells["recording"]
            name = name if name in (known.ids or ()) else name.removesuffix(series_suffix(name) or "")
            found.append((name, *values, cells["label"]))
        else:
            found.append((*values, cells["label"]))
    return found


def _point(path: str, number: int, cell: str) -> int | str:
    """Return a point, or a date as it is; other numbers may be times or mistakes."""
    try:
        value = float(cell)
    except ValueError:
        return cell
    if not value.is_integer():
        raise ValueError(
            f"{path}: interval {number}: {cell} is not a point; columns of times are start_time and end_time"
        )
    return int(value)


def _is_file(query: str) -> bool:
    from nutime.data.formats.read import is_series_file

    return is_series_file(query) or Path(query).exists()


def _query(text: str, given: SeriesSet, read: SourceOptions, source: str) -> SeriesSet:
    """Return the stretch that ``--query`` names, as one recording."""
    from dataclasses import replace

    from nutime.recordings.annotator import point_at
    from nutime.recordings.windows import times_of, warn_of_points

    if _is_file(text):
        return read_recording(text, read, "find")
    ids = given.ids or [str(index) for index in range(len(given))]
    match = _QUERY.fullmatch(text)
    if match and "/" in text and match["name"] not in ids:
        match = None  # the second of two times ends like two points
    name = match["name"] if match else None
    if name is not None and name not in ids:
        raise ValueError(f"{source}: has no recording {name!r}, only {', '.join(ids[:8])}{', …' * (len(ids) > 8)}")
    if name is None and len(given) > 1:
        raise ValueError(f"{source}: has {len(given)} recordings; write --query as NAME:START:END, or give a file")
    index = 0 if name is None else ids.index(name)
    edges: Sequence[Any] = (int(match["start"]), int(match["end"])) if match else text.split("/")
    if len(edges) != 2:
        raise ValueError(f"--query {text!r} is neither START:END, nor two times as START/END, nor a file")
    values, times = given.series[index], times_of(given, index)
    if match:
        warn_of_points(given, "--query")
    start = point_at(edges[0], times, "left", given.zoned)
    end = point_at(edges[1], times, "right", given.zoned)
    if not 0 <= start < end <= values.shape[1]:
        raise ValueError(f"--query {text!r} is not within the {values.shape[1]:,} points of {source}")
    return replace(given, series=[values[:, start:end]], ids=None, times=None)


def weights_or_none(weights: str) -> str | None:
    """Return the weights that are named, None for none."""
    return None if weights == "none" else weights


# ---- writing -------------------------------------------------------------------------------------------------


def _table(columns: Results) -> Any:
    """Return a table of the first rows, to print."""
    from nutime.cli import summaries
    from nutime.recordings.tables import table_rows

    rows = table_rows({name: column[:_SHOWN] for name, column in columns.items()})
    rounded = {name for name, column in columns.items() if column.dtype.kind == "f" and name[-5:] != "_time"}
    cells = [[f"{cell:.3f}" if name in rounded else str(cell) for name, cell in row.items()] for row in rows]
    return summaries.table(list(columns), cells)


def _show(
    source: str,
    given: SeriesSet,
    columns: Results,
    page: Sequence[Any],
    document: dict[str, Any],
    out: str,
    as_json: bool,
    steps: Sequence[str] = (),
) -> None:
    """Write the results; print the summary as JSON or as a page."""
    from nutime.batch.results import write_results
    from nutime.cli import summaries
    from nutime.data.timeline import time_texts

    write_results(out, columns)
    lengths = [values.shape[1] for values in given.series]
    channels = len(given.series[0])
    several = f"{len(given):,} recordings of {min(lengths):,} to {max(lengths):,} points"
    extent = several if len(given) > 1 else f"{lengths[0]:,} points"
    head = f"{summaries.input_name(source)}: {extent}{f', {channels} channels' * (channels > 1)}"
    if given.times is not None and len(given) == 1:
        first, last = time_texts(given.times[0][[0, -1]])
        head += f", from {first} to {last}"
    rows = len(next(iter(columns.values())))
    more = [f"… and {rows - _SHOWN:,} more"] if rows > _SHOWN and len(page) > 1 else []
    written = summaries.output_line(out, columns)
    document = {"out": out, "points": sum(lengths), "channels": channels, **document}
    summaries.show(document, [head, *page, *more, written, *steps], as_json, out)
