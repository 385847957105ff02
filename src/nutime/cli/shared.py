"""What several commands do around their work: checks before it, and errors that name the input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nutime import NuTime
    from nutime.batch.source import SourceOptions
    from nutime.data.series import SeriesSet


def check_outputs(
    out: str,
    as_json: bool,
    read: SourceOptions,
    *inputs: str | None,
    save: str | None = None,
    force: bool = False,
    figure: Path | None = None,
) -> None:
    """Refuse outputs that cannot be written or would replace an input, before any work is done."""
    from nutime.batch.results import STANDARD, check_folder, check_output

    if as_json and out == STANDARD:
        raise typer.BadParameter("results (-o -) and JSON cannot share standard output", param_hint="--json")
    check_output(out, *inputs, read.get("labels"))
    if save:
        check_folder(save, force)
    if figure:
        check_folder(figure)


def writable_folder(folder: Path) -> Path:
    """Return the folder of an option; refuse one that cannot be written, before any work is done."""
    from nutime.batch.results import check_folder

    check_folder(folder)
    return folder


def check_model(folder: str) -> None:
    """Refuse a folder that is not a saved estimator, before any work is done."""
    if not Path(folder, "estimator.json").is_file():
        raise ValueError(f"{folder}: is not a folder saved by nutime fit, cluster or detect (no estimator.json)")


def check_target(estimator: object, source: str, series: SeriesSet) -> None:
    """Refuse series among whose values is the column that a regressor predicts."""
    target = getattr(estimator, "target_name_", None)
    if target in [*(series.channel_names or []), *(series.feature_names or [])]:
        raise ValueError(f"{source}: column {target!r} holds what the model predicts; give --label {target}")


def load_encoder(weights: str, device: str | None) -> NuTime:
    """Load an encoder onto a device."""
    from nutime.devices import usable_device
    from nutime.encoder import NuTime

    return NuTime.from_pretrained(weights).to(usable_device(device))


@contextmanager
def errors_about(address: str) -> Iterator[None]:
    """Prefix a ValueError about series with the address they come from."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{address}: {error}") from None


@contextmanager
def needs_extra(extra: str, what: str) -> Iterator[None]:
    """Name the extra to install if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ValueError(f"no module {error.name!r}; install {what} with: pip install 'nutime[{extra}]'") from None
