"""A page written once as Markdown, and the same page as one self-contained HTML file.

The HTML contains its style and figures, loads nothing and runs nothing; the Markdown refers to figures as files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from nutime.atomic import replace_file
from nutime.figures import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FIGURES = "figures"
_HEADING = re.compile(r"<h2>(.*)</h2>")
_FIGURE = re.compile(rf'<p><img src="{_FIGURES}/(.*?)\.svg" alt="(.*?)" /></p>')


class Page:
    """Markdown, and the figures it refers to.

    Attributes:
        figures: ``<svg>`` elements by the name of their file.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.figures: dict[str, str] = {}
        self._blocks: list[str] = []

    def add(self, *blocks: str) -> None:
        """Add headings, paragraphs or lists, in Markdown."""
        self._blocks += blocks

    def bullets(self, items: Sequence[str]) -> None:
        """Add a list."""
        self.add("\n".join(f"- {item}" for item in items))

    def table(
        self,
        caption: str,
        header: Sequence[str],
        rows: Sequence[Sequence[str]],
        text_columns: Sequence[str] = (),
    ) -> None:
        """Add a table; the first column and ``text_columns`` are text, the others numbers."""
        left = [index == 0 or name in text_columns for index, name in enumerate(header)]
        rule = [":---" if is_text else "---:" for is_text in left]
        lines = (" | ".join(cell.replace("|", "\\|") for cell in row) for row in (header, rule, *rows))
        self.add(caption, "\n".join(f"| {line} |" for line in lines))

    def figure(self, figure: Figure, name: str, caption: str) -> None:
        """Add a figure under the name of its file."""
        self.figures[name] = style.svg(figure)
        self.add(f"![{caption}]({_FIGURES}/{name}.svg)")

    @contextmanager
    def details(self, summary: str) -> Iterator[None]:
        """Hide what is added inside the block until a reader opens it."""
        self.add(f"<details>\n<summary>{summary}</summary>")
        yield
        self.add("</details>")

    def markdown(self) -> str:
        """Return the page as Markdown."""
        return "\n\n".join([f"# {self.title}", *self._blocks]) + "\n"

    def html(self) -> str:
        """Return the page as HTML.

        Raw HTML in the Markdown is escaped, so that a method's name cannot change the page; the structure that
        Markdown lacks (captions, figures, folding, anchors) is put in afterwards.
        """
        from markdown_it import MarkdownIt

        body = MarkdownIt("commonmark", {"html": False}).enable("table").render("\n\n".join(self._blocks))
        body = body.replace("<p>&lt;details&gt;\n&lt;summary&gt;", "<details><summary>")
        body = body.replace("&lt;/summary&gt;</p>", "</summary>").replace("<p>&lt;/details&gt;</p>", "</details>")
        body = re.sub(r"<p>(.*)</p>\n<table>", r'<div class="table"><table><caption>\1</caption>', body)
        body = body.replace("</table>", "</table></div>")
        body = re.sub(r"<code>(honest|paper)</code></h3>", r'<span class="label \1">\1</span></h3>', body)
        contents = "".join(f'<li><a href="#{_anchor(text)}">{text}</a></li>' for text in _HEADING.findall(body))
        body = _HEADING.sub(lambda found: f'<h2 id="{_anchor(found[1])}">{found[1]}</h2>', body)
        body = _FIGURE.sub(lambda found: self._html_figure(found[1], found[2]), body)
        css = (resources.files("nutime.bench") / "report.css").read_text("utf-8")
        title = escape(self.title)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{title}</h1>\n<nav><ul>{contents}</ul></nav>\n{body}</main>\n</body>\n</html>\n"
        )

    def _html_figure(self, name: str, caption: str) -> str:
        svg = self.figures[name].replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
        return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"

    def write(self, folder: str | Path, name: str) -> tuple[Path, Path]:
        """Write ``name.html``, ``name.md`` and the figures into a folder; return the paths of the first two."""
        folder = Path(folder)
        (folder / _FIGURES).mkdir(parents=True, exist_ok=True)
        html, markdown = folder / f"{name}.html", folder / f"{name}.md"
        contents = {folder / _FIGURES / f"{key}.svg": style.standalone(svg) for key, svg in self.figures.items()}
        for path, text in (contents | {html: self.html(), markdown: self.markdown()}).items():
            with replace_file(path) as file:
                file.write(text.encode())
        return html, markdown


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
