"""``nutime bench``: run a protocol, and write the report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.cli.bench_report import RESULTS, report
from nutime.cli.options import Device

if TYPE_CHECKING:
    from rich.table import Table

    from nutime.bench.results import Result

app = typer.Typer(help="Run benchmark protocols and report the results.", no_args_is_help=True)
app.command("report")(report)

_NAMES = (
    "probe, finetune, ucr, uea, tfc, fewshot, clustering, anomaly, impute, forecast, segmentation, localisation, "
    "ablation-encoding, ablation-scales, ablation-window, ablation-dim, ablation-weighting, ablation-corpus"
)
#: Options of ablations alone, which pretrain their encoders.
_PRETRAINING = ("corpus", "steps", "batch")


@app.command("run")
def run(
    context: typer.Context,
    protocol: Annotated[str, typer.Argument(help=f"One of {_NAMES}.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="File the results are appended to.")] = RESULTS,
    sets: Annotated[str | None, typer.Option(help="Sets, comma-separated; else all of the list.")] = None,
    named_list: Annotated[str | None, typer.Option("--list", help="A list of sets, such as 112 of ucr.")] = None,
    weights: Annotated[str, typer.Option(help="Encoders, comma-separated; `random` is one.")] = "nutime-base",
    paper: Annotated[
        bool, typer.Option("--paper", help="Train as the paper did; report the best epoch chosen on TEST data.")
    ] = False,
    peers: Annotated[
        str, typer.Option(help="aeon's classifiers to compare with: MiniRocket, MultiRocket-Hydra, 1NN-DTW.")
    ] = "",
    models: Annotated[int, typer.Option(min=1, help="Models of an ensemble, or seeds.")] = 5,
    corpus: Annotated[str | None, typer.Option(help="Corpus folder that ablations pretrain on.")] = None,
    steps: Annotated[int, typer.Option(min=1, help="Steps of an ablation's pretraining.")] = 2000,
    batch: Annotated[int, typer.Option(min=1, help="Series per step of an ablation's pretraining.")] = 256,
    data_dir: Annotated[str | None, typer.Option(help="Archive folder; NUTIME_DATA unless given.")] = None,
    device: Device = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes, each on its own set.")] = 1,
) -> None:
    """Run a protocol, set by set; results that are in the file already are not computed again.

    Example: `nutime bench run probe --weights nutime-base,nutime-paper,random`
    """
    from rich.console import Console

    from nutime.atomic import Journal
    from nutime.bench.protocols import PROTOCOLS, Request
    from nutime.bench.results import ResultFile, filed_as
    from nutime.bench.run import run as run_protocol
    from nutime.devices import usable_device

    if protocol not in PROTOCOLS:
        raise typer.BadParameter(f"{protocol!r} is not one of {', '.join(PROTOCOLS)}", param_hint="PROTOCOL")
    chosen = PROTOCOLS[protocol]
    named_list = named_list or next(iter(chosen.lists))
    if named_list not in chosen.lists:
        raise typer.BadParameter(f"{protocol} has the lists {', '.join(chosen.lists)}", param_hint="--list")
    if jobs > 1 and protocol.startswith("ablation"):
        raise typer.BadParameter("an ablation pretrains its variants and runs in one process", param_hint="--jobs")
    unused = ("weights",) if protocol.startswith("ablation") else _PRETRAINING
    for name in unused if chosen.uses_models else (*unused, "models"):
        if context.get_parameter_source(name).name == "COMMANDLINE":  # type: ignore[union-attr]
            raise typer.BadParameter(f"{protocol} does not use it", param_hint=f"--{name}")
    console = Console(stderr=True)
    device = str(usable_device(device))
    selection, encoders = "paper" if paper else "honest", str(out.parent / "encoders")
    request = Request(_names(weights), selection, _names(peers), models, device, corpus, steps, batch, encoders)
    console.print(f"{protocol}: {chosen.about}; {selection} protocol; on {device}")

    def print_result(dataset: str, method: str, results: Sequence[Result]) -> None:
        last = results[-1]
        scores = "  ".join(f"{name} {value:.3f}" for name, value in last.scores.items())
        console.print(f"{dataset:36} {method:24} {scores}  {last.seconds:.1f} s", highlight=False)

    filed = filed_as(protocol)
    methods = chosen.methods(request)
    out.parent.mkdir(parents=True, exist_ok=True)
    with Journal(out) as journal:
        file = ResultFile(out, journal)
        state = run_protocol(
            filed,
            methods,
            _names(sets) if sets else chosen.sets(named_list, data_dir),
            file,
            data_dir=data_dir,
            device=_device_name(device),
            jobs=jobs,
            load=chosen.load,
            report=print_result,
        )
    Console().print(_summary(filed, selection, file))
    console.print(f"results: {out}; {len(state.missing)} set(s) not run")
    for name, reason in state.missing.items():
        console.print(f"not run: {name}: {reason}", style="dim", highlight=False)


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _summary(protocol: str, selection: str, results: Iterable[Result]) -> Table:
    """Return the mean scores of every method over the sets it has in the file."""
    from rich.table import Table

    from nutime.bench.report import score_text
    from nutime.bench.results import collect, overall

    names = sorted({name for result in results if result.protocol == protocol for name in result.scores})
    by_score = {name: collect(results, protocol, selection, name) for name in names}
    table = Table("method", "sets", *names, title=f"{protocol}, {selection} protocol")
    for method in dict.fromkeys(method for runs in by_score.values() for method in runs):
        own = [runs.get(method, {}) for runs in by_score.values()]
        means = [overall(by_set, list(by_set)) if by_set else None for by_set in own]
        cells = map(score_text, names, means)
        table.add_row(method, str(len({name for by_set in own for name in by_set})), *cells)
    return table


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device.startswith("cuda") else device
