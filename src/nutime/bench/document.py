"""A report as a list of blocks, written twice: as one HTML page and as Markdown.

The page is self-contained: its style and its pictures are inside, it loads nothing and runs nothing. Markdown
refers to the pictures as files beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import TypeAlias


class Strong(str):
    """Text of a cell that stands out."""


@dataclass(frozen=True)
class Heading:
    """A title; a label, ``honest`` for example, is set off beside it."""

    level: int
    text: str
    label: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``code`` between backticks and addresses are the only markup."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list; each item is written like a :class:`Paragraph`."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; the first column is text, the others are numbers unless they are named in ``text_columns``."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """An ``<svg>`` element, the name of its file, and what it shows in words."""

    svg: str
    name: str
    caption: str


@dataclass(frozen=True)
class Folded:
    """Blocks that are shown on request."""

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | Paragraph | Bullets | Table | Picture | Folded


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """Return one self-contained page."""
    style = (resources.files("nutime.bench") / "report.css").read_text("utf-8")
    contents = "".join(
        f'<li><a href="#{_anchor(block.text)}">{escape(block.text)}</a></li>'
        for block in blocks
        if isinstance(block, Heading) and block.level == 2
    )
    body = "\n".join(map(_html, blocks))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n<nav><ul>{contents}</ul></nav>\n{body}\n</main>\n</body>\n</html>\n"
    )


def to_markdown(title: str, blocks: Sequence[Block], picture_folder: str) -> str:
    """Return the same as Markdown; pictures are ``picture_folder/name.svg``."""

    def write(block: Block) -> str:
        return _markdown(block, picture_folder, write)

    return "\n\n".join([f"# {title}", *map(write, blocks)]) + "\n"


def pictures(blocks: Sequence[Block]) -> list[Picture]:
    """Return all pictures, those of folded blocks too."""
    found: list[Picture] = []
    for block in blocks:
        if isinstance(block, Picture):
            found.append(block)
        elif isinstance(block, Folded):
            found += pictures(block.blocks)
    return found


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        label = f' <span class="label {escape(block.label)}">{escape(block.label)}</span>' if block.label else ""
        anchor = f' id="{_anchor(block.text)}"' if block.level == 2 else ""
        return f"<h{block.level}{anchor}>{escape(block.text)}{label}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{_prose(block.text)}</p>"
    if isinstance(block, Bullets):
        return "<ul>" + "".join(f"<li>{_prose(item)}</li>" for item in block.items) + "</ul>"
    if isinstance(block, Picture):
        caption = escape(block.caption)
        picture = block.svg.replace("<svg", f'<svg role="img" aria-label="{caption}"', 1)
        return f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
    if isinstance(block, Folded):
        inside = "\n".join(map(_html, block.blocks))
        return f"<details><summary>{escape(block.summary)}</summary>\n{inside}\n</details>"
    return _html_table(block)


def _html_table(table: Table) -> str:
    kinds = ["" if _is_text(table, column) else ' class="number"' for column in range(len(table.header))]

    def row(cells: Sequence[str], tag: str) -> str:
        written = (f"<{tag}{kind}>{_inline(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(written)}</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return (
        f'<div class="table"><table><caption>{escape(table.caption)}</caption>\n'
        f"<thead>{row(table.header, 'th')}</thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _prose(text: str) -> str:
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"https://[^\s<]+", r'<a href="\g<0>">\g<0></a>', text)


def _inline(cell: str) -> str:
    return f"<strong>{escape(cell)}</strong>" if isinstance(cell, Strong) else escape(cell)


def _markdown(block: Block, folder: str, write: Callable[[Block], str]) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}" + (f" `{block.label}`" if block.label else "")
    if isinstance(block, Paragraph):
        return block.text
    if isinstance(block, Bullets):
        return "\n".join(f"- {item}" for item in block.items)
    if isinstance(block, Picture):
        return f"![{block.caption}]({folder}/{block.name}.svg)"
    if isinstance(block, Folded):
        inside = "\n\n".join(map(write, block.blocks))
        return f"<details>\n<summary>{escape(block.summary)}</summary>\n\n{inside}\n\n</details>"
    rule = [":---" if _is_text(block, column) else "---:" for column in range(len(block.header))]
    rows = [[f"**{cell}**" if isinstance(cell, Strong) else cell for cell in row] for row in block.rows]
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (block.header, rule, *rows)
    ]
    return f"{block.caption}\n\n" + "\n".join(lines)


def _is_text(table: Table, column: int) -> bool:
    return column == 0 or table.header[column] in table.text_columns


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
