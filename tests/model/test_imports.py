"""Arrows point one way: the model and the data know nothing of the packages built on them, nor of each other."""

import ast
from pathlib import Path

import pytest

import nutime

PACKAGE = Path(nutime.__file__).parent


def imported_names(path):
    """Return the absolute name of everything a file imports, wherever in the file."""
    package = ["nutime", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{source}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("place", "known"),
    [
        ("model", {"model", "checks"}),
        ("data", {"data", "version", "atomic"}),
        ("version.py", set()),
        ("atomic.py", set()),
    ],
)
def test_what_is_at_the_bottom_imports_nothing_built_on_it(place, known):
    path = PACKAGE / place
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    assert files
    strangers = {
        f"{path.name}: {name}"
        for path in files
        for name in imported_names(path)
        if name.split(".")[0] == "nutime" and not known.intersection(name.split(".")[1:2])
    }
    assert not strangers
