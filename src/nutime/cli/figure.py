"""``nutime figure NAME``: the paper's figures, drawn from real series, our weights and our results."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nutime.cli.bench_report import RESULTS
from nutime.cli.options import SHIPPED, DataDir, Weights
from nutime.cli.shared import writable_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nutime.data.archives import Part
    from nutime.data.series import Array
    from nutime.encoder import NuTime
    from nutime.figures.attention import AttendedSeries

app = typer.Typer(help="Draw a figure of the paper or of a run, as PNG and SVG.", no_args_is_help=True)

SCALE_SETS = ("JapaneseVowels", "PickupGestureWiimoteZ", "BasicMotions")
VARIED_SET = "GunPoint"
MAP_SETS = ("GunPoint", "ArrowHead", "OSULeaf")
MAX_POINTS = 1000
MAX_CLASSES, SERIES_PER_CLASS = 4, 3
MAX_RIVALS = 3


class Selection(StrEnum):
    """How the model was chosen: without test data, or on the test set."""

    HONEST = "honest"
    PAPER = "paper"


Output = Annotated[Path, typer.Option("--out", "-o", help="Folder for the two files.", callback=writable_folder)]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="SET", help="Archive set; may be repeated.")]
Results = Annotated[Path, typer.Option(help="What `nutime bench run` wrote.")]
Protocol = Annotated[str, typer.Option(help="Protocol whose results are compared.")]
WhichResults = Annotated[Selection, typer.Option(help="Which results; the two are never mixed.")]
WithPublished = Annotated[
    bool, typer.Option("--published", help="Beside the methods of the paper's table, as published.")
]

FOLDER = Path("figures")


@app.command()
def scales(out: Output = FOLDER, sets: Sets = None, data_dir: DataDir = None) -> None:
    """Scales of real series, of several sets and within one series (Figure 1).

    Example: `nutime figure scales -o figures`
    """
    from nutime.figures.scales import draw_scales, most_varied_series, typical_series

    def rows(name: str) -> Array:
        X = _load(name, "train", data_dir).X
        return X.reshape(-1, X.shape[-1])

    shown = {name: typical_series(rows(name)) for name in sets or SCALE_SETS}
    candidates = {name: most_varied_series(rows(name)) for name in sets or [VARIED_SET]}
    varied = max(candidates, key=lambda name: candidates[name][1])
    _save(draw_scales(shown, (varied, candidates[varied][0])), out, "scales")


@app.command()
def response(out: Output = FOLDER, weights: Weights = SHIPPED) -> None:
    """Response of one numerical block and of NME, with random and with trained weights (Figure 3).

    Example: `nutime figure response -o figures`
    """
    import torch

    from nutime.encoder import NuTime
    from nutime.figures.response import draw_response, respond

    trained = NuTime.from_pretrained(weights)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        untrained = NuTime(trained.config)
    responses = {"random weights": respond(untrained), "trained weights": respond(trained)}
    _save(draw_response(responses), out, "response")


@app.command()
def cd(
    out: Output = FOLDER,
    results: Results = RESULTS,
    protocol: Protocol = "finetune",
    selection: WhichResults = Selection.HONEST,
    published: WithPublished = False,
) -> None:
    """Critical-difference diagram of our results (Figure 4).

    Example: `nutime figure cd --results results/benchmark/results.jsonl --published`
    """
    from nutime.bench.results import own_best
    from nutime.bench.statistics import compare
    from nutime.figures.critical_difference import draw_critical_difference

    columns = _columns(results, protocol, selection.value, published)
    comparison = compare(columns)
    title = f"{protocol}, {selection.value}, {len(comparison.sets)} sets"
    figure = draw_critical_difference(comparison.ranks, comparison.cliques, title, own_best(columns) or "")
    _save(figure, out, "cd")


@app.command()
def scatter(
    out: Output = FOLDER,
    results: Results = RESULTS,
    protocol: Protocol = "finetune",
    selection: WhichResults = Selection.HONEST,
    published: WithPublished = False,
) -> None:
    """Our best method against the strongest others, set by set (Figures 5, 6 and 9).

    Example: `nutime figure scatter --protocol uea --published`
    """
    from nutime.bench.results import is_own, own_best
    from nutime.bench.statistics import compare
    from nutime.figures.scatter import draw_scatter

    columns = _columns(results, protocol, selection.value, published)
    ours = own_best(columns)
    if ours is None:
        raise ValueError(f"{results}: no method of nutime among {', '.join(columns)}")
    rivals = [method for method in compare(columns).methods if not is_own(method)][:MAX_RIVALS]
    if not rivals:
        raise ValueError(f"{results}: {protocol} has no method but nutime's; try --published")
    _save(draw_scatter(ours, columns[ours], {method: columns[method] for method in rivals}), out, "scatter")


@app.command("map")
def embedding_map(
    out: Output = FOLDER, sets: Sets = None, weights: Weights = SHIPPED, data_dir: DataDir = None
) -> None:
    """Test series of some sets on a plane: t-SNE of their `[CLS]` embeddings (Figure 7).

    Example: `nutime figure map --set GunPoint --set BasicMotions`
    """
    import numpy as np

    from nutime.encoder import NuTime
    from nutime.figures.embedding_map import Map, draw_embedding_map, project

    encoder = NuTime.from_pretrained(weights)
    maps = {}
    for name in sets or MAP_SETS:
        X, y = _load(name, "test", data_dir)
        drawn = np.random.default_rng(0).permutation(len(X))[:MAX_POINTS]
        title = name if len(drawn) == len(X) else f"{name} (of {len(X):,})"
        maps[title] = Map(project(encoder.embed(X[drawn], pool="cls")), y[drawn])
    _save(draw_embedding_map(maps), out, "map")


@app.command()
def attention(
    out: Output = FOLDER,
    sets: Sets = None,
    classes: Annotated[
        list[str] | None, typer.Option("--class", metavar="LABEL", help="Class of the one set; may be repeated.")
    ] = None,
    weights: Weights = SHIPPED,
    data_dir: DataDir = None,
) -> None:
    """Attention of [CLS]: one series of each of several sets, or series of the classes of one (Figures 10, 11).

    Example: `nutime figure attention --set OSULeaf --class 1 --class 2`
    """
    from nutime.data.archives import bundled_sets
    from nutime.encoder import NuTime
    from nutime.figures.attention import draw_attention

    names = sets or list(bundled_sets(channels=1))
    if not names:
        raise ValueError("no sets are available: name some with --set, or install nutime[archives]")
    if classes and len(names) > 1:
        raise ValueError("--class chooses among the classes of one set; name that set with --set")
    encoder = NuTime.from_pretrained(weights)
    if len(names) == 1:
        rows = _rows_of_classes(encoder, names[0], _load(names[0], "test", data_dir), classes)
    else:
        panels = [_attended(encoder, name, _load(name, "test", data_dir).X[:1])[0] for name in names]
        rows = [panels[start : start + 3] for start in range(0, len(panels), 3)]
    _save(draw_attention(rows), out, "attention")


@app.command()
def weighting(
    out: Output = FOLDER, results: Results = RESULTS, selection: WhichResults = Selection.HONEST
) -> None:
    """The ablation of the ensemble's weighting (Figure 8).

    Example: `nutime figure weighting --results results/benchmark/results.jsonl`
    """
    from nutime.bench.ablations import STARTS, measured, weighting_lines
    from nutime.bench.results import read_results
    from nutime.figures.weighting import draw_weighting

    found = measured(read_results([results]), "ablation-weighting", selection.value)
    lines = {STARTS[start]: weighting_lines(ablation) for start, ablation in found.items()}
    lines = {start: line for start, line in lines.items() if line}
    if not lines:
        raise ValueError(f"{results}: has no {selection.value} results of ablation-weighting")
    _save(draw_weighting(lines), out, "weighting")


@app.command()
def curves(
    runs: Annotated[list[Path], typer.Argument(help="Folders of `nutime pretrain`.")], out: Output = FOLDER
) -> None:
    """Pretraining runs: loss, spread of the embedding, accuracy of the probe.

    Example: `nutime figure curves run -o figures`
    """
    from nutime.figures.curves import draw_curves, read_metrics

    _save(draw_curves({name: read_metrics(run) for name, run in _named(runs).items()}), out, "curves")


@app.command()
def history(
    models: Annotated[list[Path], typer.Argument(help="Folders of classifiers fine-tuned by `nutime fit`.")],
    out: Output = FOLDER,
) -> None:
    """Training history of fine-tuned classifiers: loss and validation accuracy per epoch.

    Example: `nutime figure history MODEL_DIR -o figures`
    """
    from nutime.figures.history import draw_history, read_history

    _save(draw_history({name: read_history(model) for name, model in _named(models).items()}), out, "history")


def _named(folders: Sequence[Path]) -> dict[str, Path]:
    """Return folders by their names, or by their paths if names repeat."""
    names = [folder.resolve().name for folder in folders]
    return dict(zip(names if len(set(names)) == len(names) else map(str, folders), folders, strict=True))


def _columns(path: Path, protocol: str, selection: str, published: bool) -> dict[str, dict[str, float]]:
    """Return the accuracies to compare, by method and set."""
    from nutime.bench import published as paper
    from nutime.bench.results import collect, comparable, filed_as, read_results, seed_means

    protocol = filed_as(protocol)
    if protocol not in paper.PER_SET:
        raise ValueError(f"protocol {protocol!r} has no methods to rank; use {', '.join(paper.PER_SET)}")
    columns = seed_means(collect(read_results([path]), protocol, selection))
    if not columns:
        raise ValueError(f"{path}: has no {selection} results of {protocol}")
    columns = {method: columns[method] for method in comparable(columns)}
    return paper.beside_published(columns, paper.PER_SET[protocol][0], selection) if published else columns


def _load(name: str, split: str, data_dir: Path | None) -> Part:
    from nutime.data.archives import load_dataset

    return load_dataset(name, split=split, data_dir=data_dir)


def _rows_of_classes(
    encoder: NuTime, name: str, part: Part, classes: Sequence[str] | None
) -> list[list[AttendedSeries]]:
    import numpy as np

    known = [str(label) for label in np.unique(part.y)]
    if unknown := [label for label in classes or [] if label not in known]:
        raise ValueError(f"{name} has no class {unknown[0]!r}; its classes are {', '.join(known)}")
    return [
        _attended(encoder, f"{name}, class {label}", part.X[part.y == label][:SERIES_PER_CLASS])
        for label in classes or known[:MAX_CLASSES]
    ]


def _attended(encoder: NuTime, title: str, X: Array) -> list[AttendedSeries]:
    from nutime.data.series import as_series
    from nutime.figures.attention import AttendedSeries, cls_attention

    shares = cls_attention(encoder, X)
    return [AttendedSeries(title, *pair) for pair in zip((one[0] for one in as_series(X)), shares, strict=True)]


def _save(figure: Figure, folder: Path, name: str) -> None:
    from nutime.figures.style import save

    print(*save(figure, folder, name), sep="\n")
