"""Text of files on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Escape control characters except line breaks: a terminal would obey those in names and labels of files."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def one_line(text: object) -> str:
    """Return a message of the command line: one printable line that begins with ``nutime:``."""
    return printable(f"nutime: {' '.join(str(text).split())}")
