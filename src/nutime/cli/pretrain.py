"""``nutime pretrain`` and ``nutime decoder``: train an encoder on a corpus, and a decoder for it."""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli.options import Device
from nutime.cli.progress import progress_bars
from nutime.cli.shared import load_encoder

if TYPE_CHECKING:
    from nutime.pretrain.config import PretrainConfig
    from nutime.pretrain.loop import StepMetrics


def pretrain(
    context: typer.Context,
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder (`nutime corpus build`).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the run.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint, with the options of the run.")
    ] = False,
    epochs: Annotated[float, typer.Option(help="Passes over the corpus.")] = 100.0,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps, instead of epochs.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Series per step, over all processes.")] = 2048,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 2e-3,
    teacher: Annotated[
        str | None, typer.Option(help="Distil this encoder (shipped weights or a folder) instead of BYOL.")
    ] = None,
    smallest_crop: Annotated[float, typer.Option(help="Smallest share of a series in a view.")] = 0.8,
    pool: Annotated[str, typer.Option(help="How views are compared: cls (as in the paper) or cls+mean.")] = "cls",
    masked: Annotated[float, typer.Option(help="Share of windows that the network does not encode.")] = 0.0,
    contrast: Annotated[float, typer.Option(help="Weight of the contrastive loss.")] = 0.0,
    rescale: Annotated[float, typer.Option(help="Strength of random changes of level and scale.")] = 0.0,
    sampling: Annotated[str, typer.Option(help="Draw sources by size, sqrt (of size) or uniform.")] = "size",
    seed: Annotated[int, typer.Option(help="Same seed, same run.")] = 0,
    network: Annotated[
        list[str] | None, typer.Option("--network", metavar="FIELD=VALUE", help="Change a field of NuTimeConfig.")
    ] = None,
    device: Device = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 1000,
    log_every: Annotated[int, typer.Option(min=1, help="Steps between log lines.")] = 20,
    probe_every: Annotated[int, typer.Option(min=1, help="Steps between probes.")] = 1000,
    probe_sets: Annotated[
        str, typer.Option("--probe", help="Archive sets to probe on, comma-separated; `none` for no probe.")
    ] = "bundled",
) -> None:
    """Pretrain an encoder with BYOL (the defaults are the paper's recipe), or distil a smaller one from a teacher.

    Example: `nutime pretrain corpus -o run --epochs 20`
    A smaller one: `nutime pretrain corpus -o run --teacher nutime-base --network depth=4`
    Many GPUs: `torchrun --nproc-per-node 8 -m nutime pretrain corpus -o run`
    """
    given = {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]
    if {"epochs", "steps"} <= given:
        raise typer.BadParameter("choose one of them", param_hint="--epochs, --steps")

    from nutime.model.config import NuTimeConfig
    from nutime.pretrain import loop
    from nutime.pretrain.config import PretrainConfig
    from nutime.pretrain.monitor import linear_probe_on, probe_data

    changes = _network_fields(network or [])
    if teacher is not None:
        changes.setdefault("resolutions", 1)  # learned from the teacher's three
    try:
        fields = {field.name for field in dataclasses.fields(PretrainConfig)}
        options = {name: value for name, value in context.params.items() if name in fields}
        config = PretrainConfig(**{**options, "network": NuTimeConfig(**changes)})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if resume:
        _refuse_other_options(out, config, given - {"network"}, changes)
    first = int(os.environ.get("RANK", "0")) == 0
    probe = linear_probe_on(probe_data(probe_sets)) if first and probe_sets != "none" else None
    with progress_bars() as new_bar:
        report = new_bar("pretraining")  # called in the first process only

        def show(metrics: StepMetrics) -> None:
            report(metrics.step, metrics.steps, _state(metrics))

        complete = loop.pretrain(corpus, out, config, resume=resume, device=device, probe=probe, report=show)
    if not first:
        return
    if complete:
        print(f"encoder: {out / 'model'}")
    else:
        print(f"stopped; resume with: nutime pretrain {corpus} -o {out} --resume", file=sys.stderr)


def decoder(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A corpus folder (`nutime corpus build`).")],
    encoder: Annotated[str, typer.Argument(metavar="ENCODER", help="Shipped weights or a folder; stays frozen.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New folder: the encoder with its decoder.")],
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 9000,
    batch: Annotated[int, typer.Option(min=2, help="Stretches of series per step.")] = 512,
    learning_rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same decoder.")] = 0,
    device: Device = None,
) -> None:
    """Train a decoder for an encoder, so that it can impute and forecast.

    Example: `nutime decoder corpus run/model -o model`
    """
    from nutime.checks import check_number
    from nutime.data.corpus.store import Corpus
    from nutime.pretrain.decoder import train_decoder

    check_number("learning_rate", learning_rate, "(0, inf)")
    if out.exists():
        raise ValueError(f"{out}: already exists; choose another folder")
    model = load_encoder(encoder, device)
    with progress_bars() as new_bar:
        bar = new_bar("decoder")
        trained = train_decoder(
            model,
            Corpus.open(corpus),
            steps,
            batch=batch,
            learning_rate=learning_rate,
            seed=seed,
            report=lambda step, loss: bar(step, steps, f"loss {loss:.4f}"),
        )
    model.set_decoder(trained)
    print(f"encoder with decoder: {model.save(out)}")


def _refuse_other_options(out: Path, config: PretrainConfig, given: set[str], network: dict[str, Any]) -> None:
    """Refuse options that differ from those of the run to resume, which keeps its own.

    Args:
        out: folder of the run; one that has not begun takes any options.
        config: the options of this command.
        given: names of those on the command line.
        network: fields of the network on the command line.
    """
    from nutime.pretrain.loop import stored_run

    run = stored_run(out)
    if run is None:
        return
    stored = run["config"]
    values = dataclasses.asdict(config)
    options = [(name, values[name], stored.get(name)) for name in values if name in given]
    options = [(f"--{name.replace('_', '-')} ", value, before) for name, value, before in options]
    options += [(f"--network {name}=", value, stored["network"].get(name)) for name, value in network.items()]
    for option, value, before in options:
        if value != before:
            raise ValueError(
                f"{option}{value}: the run in {out} was started with {before} and keeps its options; "
                "leave the option out, or start a run in another folder"
            )


def _network_fields(assignments: list[str]) -> dict[str, Any]:
    """Parse FIELD=VALUE pairs by the types of the fields."""
    from nutime.model.config import NuTimeConfig

    types: dict[str, Any] = {name: type(value) for name, value in dataclasses.asdict(NuTimeConfig()).items()}
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        if name not in types:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(types)}", param_hint="--network")
        try:
            values[name] = types[name](text)
        except ValueError:
            raise typer.BadParameter(f"{assignment!r}: expected {types[name].__name__}") from None
    return values


def _state(metrics: StepMetrics) -> str:
    state = f"loss {metrics.loss:.4f}  lr {metrics.learning_rate:.1e}  spread {metrics.spread:.2f}"
    if metrics.series_per_s:  # 0 until there is an interval without compilation to measure
        state += f"  {metrics.series_per_s:,.0f} series/s"
    return state if metrics.probe is None else f"{state}  probe {metrics.probe:.1%}"
