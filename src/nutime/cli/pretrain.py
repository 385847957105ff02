"""``nutime pretrain``: train an encoder on a corpus."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from nutime.cli.everyday import Device


def pretrain(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder (`nutime corpus build`).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the newest checkpoint.")] = False,
    epochs: Annotated[float, typer.Option(help="Times the corpus is seen.")] = 100.0,
    steps: Annotated[int | None, typer.Option(help="Steps, instead of epochs.")] = None,
    batch: Annotated[int, typer.Option(help="Series a step, over all processes.")] = 2048,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 2e-3,
    smallest_crop: Annotated[float, typer.Option(help="Smallest share of a series a view shows.")] = 0.8,
    pool: Annotated[str, typer.Option(help="What views are compared by: cls (the paper's) or cls+mean.")] = "cls",
    masked: Annotated[float, typer.Option(help="Share of windows to hide and have predicted.")] = 0.0,
    contrast: Annotated[float, typer.Option(help="Weight of finding a view among all others.")] = 0.0,
    rescale: Annotated[float, typer.Option(help="How far to change level and scale of views.")] = 0.0,
    sampling: Annotated[str, typer.Option(help="Draw sources by size, sqrt (of size) or uniform.")] = "size",
    seed: Annotated[int, typer.Option(help="Same seed, same run.")] = 0,
    network: Annotated[
        list[str] | None, typer.Option("--network", metavar="FIELD=VALUE", help="Change a field of NuTimeConfig.")
    ] = None,
    device: Device = None,
    checkpoint_every: Annotated[int, typer.Option(help="Steps between checkpoints.")] = 1000,
    log_every: Annotated[int, typer.Option(help="Steps between log lines.")] = 20,
    probe_every: Annotated[int, typer.Option(help="Steps between probes.")] = 1000,
    probe_sets: Annotated[
        str, typer.Option("--probe", help="Archive sets to probe on, comma-separated; `none` for no probe.")
    ] = "bundled",
) -> None:
    """Pretrain an encoder with BYOL; the defaults are the paper's recipe.

    Example: `nutime pretrain corpus -o run --epochs 20`
    Many GPUs: `torchrun --nproc-per-node 8 -m nutime pretrain corpus -o run`
    """
    from nutime.model.config import NuTimeConfig
    from nutime.pretrain import loop
    from nutime.pretrain.monitor import linear_probe_on, probe_data

    if sampling not in ("size", "sqrt", "uniform"):
        raise typer.BadParameter("use size, sqrt or uniform", param_hint="--sampling")
    config = loop.PretrainConfig(
        network=NuTimeConfig(**_fields(network or [])),
        epochs=epochs,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        smallest_crop=smallest_crop,
        rescale=rescale,
        pool=pool,
        masked=masked,
        contrast=contrast,
        sampling=sampling,  # type: ignore[arg-type]
        seed=seed,
        log_every=log_every,
        probe_every=probe_every,
        checkpoint_every=checkpoint_every,
    )
    warnings.formatwarning = lambda message, *rest, **more: f"nutime: {message}\n"
    first = int(os.environ.get("RANK", "0")) == 0
    probe = linear_probe_on(probe_data(probe_sets)) if first and probe_sets != "none" else None
    with _Bar(shown=first) as bar:
        complete = loop.pretrain(corpus, out, config, resume=resume, device=device, probe=probe, report=bar.update)
    if not first:
        return
    if complete:
        print(f"encoder: {out / 'model'}")
    else:
        print(f"stopped; resume with: nutime pretrain {corpus} -o {out} --resume", file=sys.stderr)


def _fields(assignments: list[str]) -> dict[str, Any]:
    """Read FIELD=VALUE pairs, with values as numbers where the field is one."""
    import dataclasses

    from nutime.model.config import NuTimeConfig

    kinds: dict[str, Any] = {name: type(value) for name, value in dataclasses.asdict(NuTimeConfig()).items()}
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        if name not in kinds:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(kinds)}", param_hint="--network")
        try:
            values[name] = kinds[name](text)
        except ValueError:
            raise typer.BadParameter(f"{assignment!r}: expected {kinds[name].__name__}") from None
    return values


class _Bar:
    """A progress bar on a terminal; a line now and then elsewhere."""

    def __init__(self, shown: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True, quiet=not shown)
        self._console = console
        self._bar = Progress(
            TextColumn("pretraining"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("pretraining", total=None, state="")
        self._probe = ""

    def __enter__(self) -> _Bar:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def update(self, progress: Any) -> None:
        if progress.probe is not None:
            self._probe = f"  probe {progress.probe:.1%}"
        state = (
            f"loss {progress.loss:.4f}  lr {progress.learning_rate:.1e}  spread {progress.spread:.2f}  "
            f"{progress.series_per_s:,.0f} series/s{self._probe}"
        )
        self._bar.update(self._task, completed=progress.step, total=progress.steps, state=state)
        if not self._console.is_terminal and (progress.probe is not None or progress.step % 500 == 0):
            self._console.print(f"step {progress.step}/{progress.steps}  {state}")
