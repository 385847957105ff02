"""The common style of all figures, readable on white and on black.

Figures are drawn without pyplot, under a private set of defaults, so that neither depends on the caller's settings
nor changes them.

The background is transparent and all colours have a contrast of at least 3:1 against white and against black; the
first five differ under red-green colour blindness, and markers or line styles repeat the meaning of colours. In
SVG, :data:`INK` (text, axes) becomes the text colour of the reader's theme.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

from nutime.atomic import replace_file

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
    "font.family": ["DejaVu Sans"],  # part of matplotlib: the same widths everywhere
    "font.size": 9.0,
    "svg.fonttype": "path",  # the same layout in every viewer
    "svg.hashsalt": "nutime",  # equal figures give equal files
}
_THEME = "<style>svg{color:#3b4048}@media (prefers-color-scheme:dark){svg{color:#cdd2da}}</style>"
_DOTS_PER_INCH = 160


class Saved(NamedTuple):
    """Where a figure was written."""

    png: Path
    svg: Path


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """Apply the style to a drawing function."""

    @wraps(draw)
    def in_style(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with _defaults():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()  # ticks get their colours when first drawn
        return figure

    return in_style


@contextmanager
def _defaults() -> Iterator[None]:
    import matplotlib as mpl

    neutral = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    with mpl.rc_context({**neutral, **_DEFAULTS}):
        yield


def panels(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``rows × columns`` panels, row by row; width and height of a panel are in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def grid(count: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels in rows of up to three, as :func:`panels`."""
    columns = min(count, 3)
    figure, axes = panels(-(-count // columns), columns, width, height)
    for unused in axes[count:]:
        unused.remove()
    return figure, axes[:count]


def save(figure: Figure, folder: str | Path, name: str) -> Saved:
    """Write ``name.png`` and ``name.svg`` into ``folder``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    saved = Saved(folder / f"{name}.png", folder / f"{name}.svg")
    with _defaults(), replace_file(saved.png) as file:
        figure.savefig(file, format="png", dpi=_DOTS_PER_INCH, transparent=True)
    with replace_file(saved.svg) as file:
        file.write(standalone(svg(figure)).encode())
    return saved


def svg(figure: Figure) -> str:
    """Return a figure as an ``<svg>`` element for a page; text and axes have the page's text colour."""
    buffer = io.StringIO()
    with _defaults():
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(INK, "currentColor")


def standalone(element: str) -> str:
    """Return an element of :func:`svg` as the content of a file that follows the reader's theme."""
    opening, bracket, rest = element.partition(">")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{opening}{bracket}{_THEME}{rest}'


def colour_and_marker(index: int) -> tuple[str, str]:
    """Return colour and marker of the ``index``-th class; no two of the first 24 are the same."""
    cycle, position = divmod(index, len(COLOURS))
    return COLOURS[position], MARKERS[(position + cycle) % len(MARKERS)]


def line_style(index: int) -> dict[str, Any]:
    """Return colour and style of the ``index``-th line; no two of the first 36 are the same."""
    cycle, position = divmod(index, len(COLOURS))
    return {"color": COLOURS[position], "linestyle": LINES[(position + cycle) % len(LINES)]}
