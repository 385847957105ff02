"""One look for all figures, readable on white and on black.

Unusual here: nothing global is touched. Figures are made without pyplot, under a private set of defaults, and
are laid out before they are returned, so that they look the same whatever the caller's settings are.

The background is transparent and all colours are mid-tones, at least 3:1 against white and against black; the
first five stay apart under red-green colour blindness, and a marker or a line style always says the same as a
colour. In SVG, :data:`INK` (text, axes) becomes the text colour of the reader's theme.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

P = ParamSpec("P")

INK = "#7a808a"
COLOURS = ("#2b93e0", "#e06a00", "#6152e0", "#94621f", "#d0569f", "#14a085")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 2)))

_DEFAULTS = {
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "grid.color": INK,
    "grid.alpha": 0.2,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.3,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same widths everywhere
    "font.size": 9.0,
    "svg.fonttype": "path",  # labels that do not overlap here overlap nowhere
    "svg.hashsalt": "nutime",  # the same figure is the same file
}
_THEME = "<style>svg{color:#3b4048}@media (prefers-color-scheme:dark){svg{color:#cdd2da}}</style>"
_DOTS_PER_INCH = 160


class Saved(NamedTuple):
    """Where a figure was written."""

    png: Path
    svg: Path


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Make a function draw in the style of this module."""

    @wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with _defaults():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()  # ticks take their colours when first drawn
        return figure

    return in_style


@contextmanager
def _defaults() -> Iterator[None]:
    import matplotlib as mpl

    neutral = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    with mpl.rc_context({**neutral, **_DEFAULTS}):
        yield


def panels(rows: int, columns: int, width: float = 3.2, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``rows × columns`` panels, each so many inches wide and high, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def grid_of(count: int, widest: int = 3) -> tuple[int, int]:
    """Return rows and columns for ``count`` panels."""
    columns = min(count, widest)
    return -(-count // columns), columns


def save(figure: Figure, folder: str | Path, name: str) -> Saved:
    """Write ``name.png`` and ``name.svg`` into ``folder``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    saved = Saved(folder / f"{name}.png", folder / f"{name}.svg")
    with _defaults():
        figure.savefig(saved.png, dpi=_DOTS_PER_INCH, transparent=True)
    saved.svg.write_text(standalone(svg(figure)), encoding="utf-8")
    return saved


def svg(figure: Figure) -> str:
    """Return a figure as an ``<svg>`` element for a page: its ink is the page's text colour."""
    buffer = io.StringIO()
    with _defaults():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def standalone(element: str) -> str:
    """Return what :func:`svg` returned as a file of its own, which follows the reader's theme."""
    opening, bracket, rest = element.partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{opening}{bracket}{_THEME}{rest}'


def colour_and_marker(index: int) -> tuple[str, str]:
    """Return what tells the ``index``-th class from others; no two of the first 24 are the same."""
    place, again = index % len(COLOURS), index // len(COLOURS)
    return COLOURS[place], MARKERS[(place + again) % len(MARKERS)]
