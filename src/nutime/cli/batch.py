"""How the everyday commands meet Parquet data sets: results are streamed, and summed up from what was written.

Everything else they read, and whatever is not written as Parquet, goes through memory.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from nutime.cli import everyday, pages
from nutime.cli.everyday import Engine, bar, progress_bars

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nutime.batch.parquet import DataSet, Extent


def is_streamed(source: str, out: str, engine: Engine, workers: int | None, device: str | None) -> bool:
    """Tell whether a command goes from Parquet to Parquet piece by piece; refuse what no engine can do."""
    from nutime.batch.parquet import SUFFIX, is_data_set

    if workers is not None and engine != Engine.RAY:
        raise typer.BadParameter("only --engine ray has them", param_hint="--workers")
    if device is not None and engine == Engine.RAY:
        raise typer.BadParameter("the workers of --engine ray compute on CPUs", param_hint="--device")
    place = out.rstrip("/")
    to_parquet = place != everyday.STANDARD and Path(place).suffix.lower() in ("", SUFFIX)
    if is_data_set(source) and to_parquet:
        return True
    if engine == Engine.RAY:
        raise typer.BadParameter("reads and writes Parquet only: .parquet files or folders", param_hint="--engine")
    if is_data_set(source) and not Path(source).is_file():
        raise ValueError(f"{out}: results of a data set are written as Parquet; name a {SUFFIX} file or a folder")
    return False


def stream(
    data: DataSet, model: Any, out: str, engine: Engine, workers: int | None, pool: str = "cls+mean"
) -> Extent:
    """Ask a model about every series of a data set with the engine a user chose."""
    from nutime.batch.local import run_local
    from nutime.batch.ray_engine import run_ray

    run = partial(run_ray, workers=workers) if engine == Engine.RAY else run_local
    with progress_bars() as progress:
        return run(data, model, out, pool=pool, report=bar(progress, "series"))


def page_of(source: str, out: str, extent: Extent) -> tuple[RenderableType, RenderableType]:
    """Describe what was read and what was written."""
    from nutime.batch.parquet import names_of

    length = f"length {extent.longest}"
    if extent.shortest < extent.longest:
        length = f"lengths {extent.shortest} to {extent.longest}"
    several = f", {extent.channels} channels" if extent.channels > 1 else ""
    columns = dict.fromkeys(names_of(out), np.empty(0))
    return f"{source}: {extent.series:,} series of {length}{several}", pages.output_line(out, columns)
