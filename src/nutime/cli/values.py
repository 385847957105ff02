"""``nutime impute`` and ``nutime forecast``: values in the units of the input."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli.options import SHIPPED, AsJson, Device, Input, Output, Weights, reads_series
from nutime.cli.progress import progress_bars
from nutime.cli.shared import check_outputs, errors_about, load_encoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nutime.batch.results import Results
    from nutime.batch.source import SourceOptions
    from nutime.data.series import Array, SeriesSet

_CHUNK_SIZE = 32  # series predicted together

Levels = Annotated[
    str | None,
    typer.Option(
        "--quantiles",
        metavar="LEVEL,…",
        help="Levels from 0.025 to 0.975, comma-separated, instead of the median.",
    ),
]


@reads_series
def impute(
    source: Input,
    out: Output,
    read: SourceOptions,
    quantiles: Levels = None,
    weights: Weights = SHIPPED,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Fill missing values, in a table like the input: one row per series, or one row per point.

    Missing times become rows. With --quantiles the table is repeated for every level, which is the column
    quantile.

    Example: `nutime impute data.csv -o filled.csv`
    """
    levels = _parse_levels(quantiles)
    check_outputs(out, as_json, read, source)
    data, channels = _read(source, read)
    own = ["id", "label", "time", *(["quantile"] if levels else [])]
    name, count = Counter([*own, *(data.feature_names or channels)]).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"{source}: the results would have {count} columns named {name!r}; rename those of the input"
        )

    import numpy as np

    from nutime.batch.results import open_results
    from nutime.batch.source import Extent
    from nutime.cli import summaries

    missing = sum(int(np.isnan(values).sum()) for values in data.series)
    encoder = load_encoder(weights, device)
    filled: list[Array] = []
    with progress_bars() as new_bar, errors_about(source):
        report = new_bar("series", len(data.series))
        for start in range(0, len(data.series), _CHUNK_SIZE):
            filled += encoder.impute(data.series[start : start + _CHUNK_SIZE], quantiles=levels)
            report(len(filled), len(data.series))
    with open_results(out) as write:
        if levels is None:
            columns = _table(data, channels, filled)
            write(columns)
        for index, level in enumerate(levels or ()):
            columns = _table(data, channels, [values[..., index] for values in filled])
            rows = len(next(iter(columns.values())))
            columns = {"quantile": np.full(rows, level), **columns}
            write(columns)
    page = [
        summaries.input_line(source, Extent.of(data.series)),
        f"Filled: {missing:,} of {sum(values.size for values in data.series):,} values",
        summaries.output_line(out, columns),
    ]
    summaries.show({"out": out, "series": len(data.series), "filled": missing}, page, as_json, out)


@reads_series
def forecast(
    source: Input,
    out: Output,
    read: SourceOptions,
    horizon: Annotated[int, typer.Option(min=1, metavar="POINTS", help="Points to predict.")],
    quantiles: Levels = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw forecast.png and forecast.svg there.")
    ] = None,
    weights: Weights = SHIPPED,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Predict the points after the last observed one of every series.

    One row per channel and step: id, channel, step, time where the input has times, and predicted (the median) or,
    with --quantiles, one column per level: q0.1, q0.9.

    Example: `nutime forecast data.csv --horizon 48 -o forecast.csv --quantiles 0.1,0.5,0.9`
    """
    levels = _parse_levels(quantiles)
    check_outputs(out, as_json, read, source, figure=figure)
    data, channels = _read(source, read)

    import numpy as np

    from nutime.batch.results import write_results
    from nutime.batch.source import Extent
    from nutime.cli import summaries
    from nutime.data.timeline import joined_times, next_times
    from nutime.figures import style
    from nutime.figures.forecast import MAX_PANELS, draw_forecasts
    from nutime.values import observed_end

    n_series = len(data.series)
    if figure and n_series * len(channels) > MAX_PANELS:
        raise ValueError(f"{figure}: a figure has at most {MAX_PANELS} panels; {source} has more channels")
    ids = np.array(data.ids or [str(index) for index in range(n_series)])
    columns: dict[str, NDArray[Any]] = {
        "id": np.repeat(ids, len(channels) * horizon),
        "channel": np.tile(np.repeat(channels, horizon), n_series),
        "step": np.tile(np.arange(1, horizon + 1), n_series * len(channels)),
    }
    if data.times is not None:
        future = []
        for identity, times, values in zip(ids, data.times, data.series, strict=True):
            with errors_about(f"{source}: series {identity}"):
                future.append(np.tile(next_times(times[: observed_end(values)], horizon), len(channels)))
        columns["time"] = joined_times(future)
    encoder = load_encoder(weights, device)
    parts = []
    with progress_bars() as new_bar, errors_about(source):
        report = new_bar("series", n_series)
        for start in range(0, n_series, _CHUNK_SIZE):
            parts.append(encoder.forecast(data.series[start : start + _CHUNK_SIZE], horizon, quantiles=levels))
            report(min(start + _CHUNK_SIZE, n_series), n_series)
    predicted = np.concatenate(parts)
    bands = predicted.reshape(len(columns["id"]), -1)
    names = ["predicted"] if levels is None else [f"q{level:g}" for level in levels]
    columns |= dict(zip(names, bands.T, strict=True))
    write_results(out, columns)
    page = [summaries.input_line(source, Extent.of(data.series)), summaries.output_line(out, columns)]
    document: dict[str, Any] = {"out": out, "series": n_series, "horizon": horizon, "figure": None}
    if figure:
        titles = [
            f"{identity} · {name}" if len(channels) > 1 else identity for identity in ids for name in channels
        ]
        pasts = [channel[: observed_end(values)] for values in data.series for channel in values]
        shown = predicted.reshape(len(titles), horizon, -1)
        saved = style.save(draw_forecasts(titles, pasts, shown, levels or [0.5]), figure, "forecast")
        document["figure"] = str(saved.png)
        page.append(f"Figure: {saved.png}, {saved.svg.name}")
    summaries.show(document, page, as_json, out)


def _parse_levels(quantiles: str | None) -> list[float] | None:
    from nutime.values import check_quantiles

    if quantiles is None:
        return None
    try:
        levels = [float(level) for level in quantiles.split(",")]
        check_quantiles(levels)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--quantiles") from None
    return levels


def _read(source: str, read: SourceOptions) -> tuple[SeriesSet, list[str]]:
    """Return all series, with NaN where values are missing, and the names of their channels."""
    from nutime.batch.source import Chunk, Source

    data = Chunk.joined(Source(source, read, keep_missing=True).chunks()).data
    return data, data.channel_names or [str(index) for index in range(len(data.series[0]))]


def _table(data: SeriesSet, channels: list[str], series: list[Array]) -> Results:
    """Return the columns of a table: one row per series where the input has that, else one row per point."""
    import numpy as np

    from nutime.batch.source import input_columns
    from nutime.data.timeline import joined_times

    lengths = [values.shape[1] for values in series]
    repeated = input_columns(data)
    if data.channel_names is None and len(channels) == 1 and len(set(lengths)) == 1:
        points = data.feature_names or [str(index) for index in range(lengths[0])]
        return {**repeated, **dict(zip(points, np.concatenate(series).T, strict=True))}
    if data.ids is None and len(series) > 1:
        repeated = {"id": np.array([str(index) for index in range(len(series))]), **repeated}
    columns = {name: np.repeat(column, lengths) for name, column in repeated.items()}
    if data.times is not None:
        columns["time"] = joined_times(data.times)
    return {**columns, **dict(zip(channels, np.concatenate(series, 1), strict=True))}
