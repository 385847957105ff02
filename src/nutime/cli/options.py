"""Options shared by several commands; :func:`reads_series` adds those about reading the input."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

if TYPE_CHECKING:
    from nutime.batch.source import SourceOptions

SHIPPED, SMALL = "nutime-base", "nutime-small"
INPUT_HELP = (
    "a file (.csv .parquet .ts .tsv .arff .npz …), a folder or pattern of files with one series each, "
    "- for CSV from standard input, or a set (GunPoint)"
)


class Pool(StrEnum):
    """How tokens become an embedding."""

    CLS = "cls"
    MEAN = "mean"
    BOTH = "cls+mean"
    UPPER = "upper"
    LAYERS = "layers"
    RESOLUTIONS = "resolutions"
    UPPER_CONV = "upper+conv"
    RESOLUTIONS_CONV = "resolutions+conv"
    AUTO = "auto"


class Engine(StrEnum):
    """Where a model is applied."""

    LOCAL = "local"
    RAY = "ray"


Input = Annotated[
    str, typer.Argument(metavar="IN", help=f"Series: {INPUT_HELP}; or a folder or address of Parquet files.")
]
Output = Annotated[
    str,
    typer.Option(
        "--out",
        "-o",
        metavar="OUT",
        help="Results: a .csv, .tsv, .parquet or .npz file, - for CSV on standard output, or a folder of Parquet.",
    ),
]
Weights = Annotated[str, typer.Option(metavar="NAME|FOLDER", help="Encoder: a shipped one, or a folder.")]
Length = Annotated[
    int | None,
    typer.Option(min=1, metavar="POINTS", help="Resize series to this length; else it follows the series."),
]
Save = Annotated[str | None, typer.Option(metavar="MODEL_DIR", help="Save the model, for nutime predict.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a model that exists already.")]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Apply the model on this machine, or with Ray (nutime\\[ray], Parquet).")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="For --engine ray: copies of the model, one CPU each; else all CPUs.")
]
Gpus = Annotated[
    float | None,
    typer.Option(min=0.01, help="For --engine ray: GPUs per copy of the model, 0.25 for a quarter; else none."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="RAY_ADDRESS",
        help="For --engine ray: address of a cluster; else Ray starts on this machine.",
    ),
]
Device = Annotated[str | None, typer.Option(help="cpu, cuda …; a GPU where there is one unless given.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", envvar="NUTIME_DATA", help="Folder with the archives.")
]


def read_options(
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Labels: name or position (0 first, -1 last) of a column; else label, class, target or y.",
        ),
    ] = None,
    identity: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Ids, repeated in the results: name or position of a column; else id, series or series_id.",
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Times: a column; else time, timestamp, t or date.")
    ] = None,
    channels: Annotated[
        str | None, typer.Option(metavar="COLUMN,…", help="Channels, comma-separated; else all other columns.")
    ] = None,
    freq: Annotated[
        str | None, typer.Option(metavar="STEP", help="Step of irregular times (10ms, 1h); else the median step.")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Labels of a folder of files: file names and labels, as CSV."),
    ] = None,
) -> SourceOptions:
    """Return the options that were given, as :class:`~nutime.batch.source.Source` takes them."""
    given = {
        "label_column": label,
        "id_column": identity,
        "time_column": time,
        "channel_columns": channels.split(",") if channels else None,
        "freq": freq,
        "labels": labels,
    }
    return cast("SourceOptions", {name: value for name, value in given.items() if value is not None})


def reads_series(command: Callable[..., None], options: Sequence[str] = ()) -> Callable[..., None]:
    """Add options of :func:`read_options`, all unless named, to a command that receives them as ``read``."""
    own, added = _parameters(command), _parameters(read_options)
    added = {name: added[name] for name in options or added}
    del own["read"]

    @wraps(command)
    def run(**given: Any) -> None:
        read = read_options(**{name: given.pop(name, None) for name in added})
        command(**given, read=read)

    run.__signature__ = inspect.Signature([*own.values(), *added.values()])  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in (own | added).items()}
    return run


def reads_recordings(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that concern recordings, which have no labels, as :func:`reads_series` does."""
    return reads_series(command, ("identity", "time", "channels", "freq"))


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function by name, with annotations that typer can read."""
    # The type is not imported here, because help must not wait for the packages behind it.
    names = {**function.__globals__, "SourceOptions": object}
    hints = get_type_hints(function, names, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {given.name: given.replace(kind=keyword, annotation=hints[given.name]) for given in parameters}
