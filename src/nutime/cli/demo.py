"""``nutime demo``: accuracy, speed and a picture of real series."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nutime.cli.shared import writable_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nutime import NuTime
    from nutime.data.archives import Dataset

#: Sets that need seconds: of one channel and of several, with 100 to 427 points.
_SETS = ("GunPoint", "ArrowHead", "OSULeaf", "PickupGestureWiimoteZ", "BasicMotions")


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for the picture.", callback=writable_folder)
    ] = Path("demo-output"),
) -> None:
    """Embed sets bundled with aeon, classify them with the encoder frozen, and draw both.

    Example: `nutime demo`
    """
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from nutime import NuTime
    from nutime.data.archives import bundled_sets, load_dataset
    from nutime.model.network import count_parameters

    bundled = bundled_sets()
    names = [name for name in _SETS if name in bundled]
    if not names:
        raise ValueError("the demo uses sets bundled with aeon; install it with: pip install 'nutime[archives]'")
    encoder = NuTime.from_pretrained()
    console = Console()
    console.print(
        f"Encoder: {count_parameters(encoder) / 1e6:.1f} M parameters, weights from the package, on CPU."
    )
    table = Table("set", "train", "test", "shape", "accuracy", "series/s", title="Frozen encoder")
    datasets = {name: load_dataset(name) for name in names}
    maps = {}
    for name, dataset in track(datasets.items(), "classifying", console=console, transient=True):
        accuracy, rate, maps[name] = _classify(encoder, dataset)
        shape = "×".join(map(str, dataset.X_train.shape[1:]))
        sizes = str(len(dataset.X_train)), str(len(dataset.X_test))
        table.add_row(name, *sizes, shape, f"{accuracy:.1%}", f"{rate:,.0f}")
    console.print(table)
    path = _draw(out, {name: datasets[name] for name in names[:4]}, maps)
    console.print(f"Picture: {path}")


def _classify(encoder: NuTime, dataset: Dataset) -> tuple[float, float, NDArray[Any]]:
    """Classify the test series; return (accuracy, series per second, a map of their embeddings)."""
    from sklearn.decomposition import PCA

    from nutime import NuTimeClassifier
    from nutime.estimators.base import EmbeddedSeries

    # One resolution instead of the usual three, which take five times as long.
    classifier = NuTimeClassifier(encoder=encoder, pool="upper").fit(dataset.X_train, dataset.y_train)
    start = time.perf_counter()
    test = EmbeddedSeries.embed(dataset.X_test, encoder, "upper")
    accuracy = float(classifier.score(test, dataset.y_test))
    rate = len(dataset.X_test) / (time.perf_counter() - start)
    return accuracy, rate, PCA(2, random_state=0).fit_transform(test.embedding)


def _draw(out: Path, datasets: dict[str, Dataset], maps: dict[str, NDArray[Any]]) -> Path:
    """Draw test series of a few sets above the map of their embeddings, one colour per class."""
    import numpy as np
    from matplotlib import colormaps

    from nutime.data.series import as_series
    from nutime.figures.style import panels

    figure, axes = panels(2, len(datasets), width=4, height=3)
    rows = axes[: len(datasets)], axes[len(datasets) :]
    for (name, dataset), above, below in zip(datasets.items(), *rows, strict=True):
        classes, labels = np.unique(dataset.y_test, return_inverse=True)
        palette = colormaps["tab10" if len(classes) <= 10 else "tab20"]
        for label in range(len(classes)):
            members = np.flatnonzero(labels == label)[:3]
            for values in as_series(dataset.X_test[members]):
                above.plot(values[0], color=palette(label), alpha=0.7, linewidth=0.8)
        x, y = maps[name].T
        below.scatter(x, y, c=[palette(label) for label in labels], s=12)
        above.set_title(f"{name}: series")
        below.set_title("their embeddings")
        below.set(xticks=[], yticks=[])
    out.mkdir(parents=True, exist_ok=True)
    path = out / "demo.png"
    figure.savefig(path, dpi=110)
    return path
