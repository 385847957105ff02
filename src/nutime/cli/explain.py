"""``nutime explain``: what every point of a series contributes to the result of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli.options import AsJson, Device, Input, Output, reads_series
from nutime.cli.progress import progress_bars
from nutime.cli.shared import check_model, check_outputs, check_target, errors_about

if TYPE_CHECKING:
    from nutime.batch.results import Results
    from nutime.batch.source import Chunk, SourceOptions
    from nutime.figures.contribution import ExplainedSeries


@reads_series
def explain(
    model: Annotated[str, typer.Argument(metavar="MODEL_DIR", help="Folder saved by fit or detect.")],
    source: Input,
    out: Output,
    read: SourceOptions,
    index: Annotated[
        list[int] | None, typer.Option(min=0, help="Series to explain, from 0; may be repeated; else all.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Draw explain.png and explain.svg there.")
    ] = None,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Write what every point contributes to the predicted class of a series, or to its anomaly.

    One row per point: series, id, predicted, channel, point (from 0), time, contribution; none for missing values
    before the first and after the last known one. A contribution is the decrease of the log-odds of the class when
    the stretch around the point becomes a straight line. Of a set with a training and a test part, only the test
    part is read.

    Example: `nutime explain model new.csv -o contributions.csv --index 0 --figure figures`
    """
    check_outputs(out, as_json, read, source, figure=figure)
    check_model(model)

    import numpy as np

    from nutime.batch.results import write_results
    from nutime.batch.source import Chunk, Extent, Source
    from nutime.cli import summaries
    from nutime.data.series import align, read_input
    from nutime.data.timeline import joined_times
    from nutime.devices import usable_device
    from nutime.estimators import storage
    from nutime.figures import style
    from nutime.figures.contribution import MAX_PANELS, draw_contributions

    given = Chunk.joined(Source(source, read, "test", keep_missing=True).opened()[1])
    data = given._replace(data=read_input(given.data))
    chosen = index or list(range(len(data.series)))
    if max(chosen) >= len(data.series):
        raise ValueError(f"{source}: has no series {max(chosen)}, its {len(data.series)} series count from 0")
    if figure and len(chosen) * len(data.series[0]) > MAX_PANELS:
        raise ValueError(f"{figure}: a figure has at most {MAX_PANELS} panels; choose fewer series with --index")
    estimator = storage.load(model, usable_device(device))
    if not hasattr(estimator, "explain"):
        raise ValueError(f"{model}: holds a {type(estimator).__name__}, which does not explain its results")
    check_target(estimator, source, data.data)
    columns_in = getattr(estimator, "feature_names_in_", None)
    if columns_in is not None and data.data.feature_names not in (None, list(columns_in)):
        raise ValueError(
            f"{source}: has other columns than the model was fitted with, or in another order; "
            "bring them into that order, since points are counted in it"
        )
    with errors_about(source):  # contributions are in the order of the model's channels
        data = data._replace(data=align(data.data, channel_names=getattr(estimator, "channel_names_in_", None)))
    panels: list[ExplainedSeries] = []
    tables: list[Results] = []
    with progress_bars() as new_bar:
        report = new_bar("series", len(chosen))
        for done, series in enumerate(chosen, 1):
            start = int(np.isfinite(given.series[series]).any(axis=0).argmax())  # points before it are trimmed
            columns, explained = _explain_one(estimator, data, series, start)
            tables.append(columns)
            if figure:
                panels += explained
            report(done, len(chosen))
    columns = {name: joined_times([table[name] for table in tables]) for name in columns}
    write_results(out, columns)  # at once, so that all times are written alike
    page = [
        summaries.input_line(source, Extent.of([data.series[series] for series in chosen])),
        summaries.output_line(out, columns),
    ]
    document = {"model": model, "out": out, "series": chosen, "figure": None}
    if figure:
        saved = style.save(draw_contributions(panels), figure, "explain")
        document["figure"] = str(saved.png)
        page.append(f"Figure: {saved.png}, {saved.svg.name}")
    summaries.show(document, page, as_json, out)


def _explain_one(estimator: Any, data: Chunk, series: int, start: int) -> tuple[Results, list[ExplainedSeries]]:
    """Return the rows of one series, whose first point is ``start``, and a panel for each of its channels."""
    import numpy as np

    from nutime.batch.apply import result_columns
    from nutime.data.series import SeriesSet
    from nutime.figures.contribution import ExplainedSeries

    names = data.data.channel_names
    given = SeriesSet([data.series[series]], channel_names=names)
    with errors_about(data.address):
        contribution = estimator.explain(given)[0]
        results = result_columns(estimator, given)
    channels, length = contribution.shape
    names = [str(name) for name in getattr(estimator, "channel_names_in_", names or range(channels))]
    facts = {"series": series} | {name: column[series] for name, column in data.columns.items() if name == "id"}
    facts |= {name: column[0] for name, column in results.items() if name == "predicted"}
    columns = {name: np.repeat(value, channels * length) for name, value in facts.items()}
    columns |= {
        "channel": np.repeat(np.array(names), length),
        "point": np.tile(np.arange(start, start + length), channels),
    }
    if data.data.times is not None:
        columns["time"] = np.tile(data.data.times[series], channels)
    columns["contribution"] = contribution.ravel()
    title = " · ".join(map(str, facts.values()))
    titles = [title] if channels == 1 else [f"{title} · {name}" for name in names]
    rows = zip(titles, data.series[series], contribution, strict=True)
    return columns, [ExplainedSeries(*row, start) for row in rows]
