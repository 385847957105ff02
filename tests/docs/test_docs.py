"""The documentation keeps its word: it builds without a warning, its commands exist, its code runs."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from rerun_pages import COMMAND, DOCS, FENCE, PAGES, Session, blocks, commands, nutime_arguments

import nutime
from nutime.cli.main import app

ROOT = DOCS.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def shown_calls() -> list[tuple[str, list[str]]]:
    found = []
    for page in [ROOT / "README.md", ROOT / "MODEL_CARD.md", *sorted(DOCS.rglob("*.md"))]:
        text = page.read_text("utf-8")
        lines = [command for block in blocks(text, "console") for command in commands(block)]
        lines += [line for block in blocks(text, "bash") for line in block.replace("\\\n", "").splitlines()]
        lines = [line for line in lines if "nutime" in line and not line.startswith(("#", "pip "))]
        found += [(str(page.relative_to(ROOT)), words) for line in lines for words in nutime_arguments(line)]
    return found


def test_pages_show_commands():
    assert len(shown_calls()) > 20


@pytest.mark.parametrize(
    "arguments", [pytest.param(words, id=f"{page}: {' '.join(words)}") for page, words in shown_calls()]
)
def test_a_command_shown_is_understood_by_the_command_line(arguments):
    arguments = [word for word in arguments if not word.startswith("$")]  # what a script fills in
    command = typer.main.get_command(app)
    context = None
    while hasattr(command, "commands"):
        name, *arguments = arguments
        context = command.make_context(name, [name], parent=context, resilient_parsing=True)
        command = command.commands[name]
    command.make_context(name, arguments, parent=context)


def test_no_command_is_shown_without_its_output():
    for name in PAGES:
        for block in blocks((DOCS / name).read_text("utf-8"), "console"):
            assert COMMAND.sub("", block).strip(), f"{name}: {commands(block)}"


def test_the_python_code_of_the_readme_runs(tmp_path):
    pytest.importorskip("aeon", reason="the README uses a set that aeon bundles")
    (code,) = blocks((ROOT / "README.md").read_text("utf-8"), "python")
    printed = Session(tmp_path).execute(code, {"__name__": "page"}).splitlines()
    shown = re.findall(r"  # (\([\d, ]+\)|[\d.]+)", code)
    assert all(value.startswith(start) for value, start in zip(printed, shown, strict=True)), printed


def test_the_python_code_of_the_quick_start_runs(tmp_path):
    pytest.importorskip("aeon", reason="the quick start uses a set that aeon bundles")
    session = Session(tmp_path)
    namespace = {"__name__": "page"}
    for code in blocks((DOCS / "index.md").read_text("utf-8"), "python"):
        session.execute(code, namespace)
    assert (tmp_path / "train.csv").read_text("utf-8").count("\n") == 51
    assert namespace["Z"].shape[0] == 150


@pytest.mark.parametrize(
    "guide",
    ["prepare", "classify", "few-labels", "explain", "numbers", "cluster", "anomalies", "values", "recordings"],
)
def test_the_examples_of_a_guide_print_what_the_page_shows(guide, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    pytest.importorskip("aeon", reason="guides use a set that aeon bundles")
    monkeypatch.setattr(logging.getLogger("nutime"), "handlers", [])
    session, namespace, printed = Session(tmp_path), {"__name__": "page"}, ""
    for block in FENCE.finditer((DOCS / "guides" / f"{guide}.md").read_text("utf-8")):
        if block[1] == "python":
            printed = session.execute(block[2], namespace)
        elif block[1] == "text":
            assert printed == block[2]


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("material", reason="the site needs nutime[docs]")
    pytest.importorskip("mkdocstrings", reason="the site needs nutime[docs]")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "index.html").read_text("utf-8")
    assert [name for name in nutime.__all__ if f'id="nutime.{name}"' not in page] == []


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(notebook: Path, tmp_path):
    nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="notebooks need a kernel")
    pytest.importorskip("aeon", reason="notebooks use sets that aeon bundles")
    document = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(document, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
