"""Run everything the documentation shows, and write down what came out: ``python tests/docs/rerun_pages.py``.

No output in ``docs/`` is typed by hand, and none is shortened: a page that wants less asks for less
(``head``, ``cut``). Pages run in the order of the site, in one empty folder, so later ones use what earlier ones
made. In a ``console`` block each ``$`` line is run and followed by all it printed, on either stream; a command
that ends in ``&`` runs until the end and is followed by its first line. ``python`` blocks share one namespace a
page, and what they print goes into the ``text`` block behind them. ``bash`` and ``yaml`` are for other machines
and are not run. A command that fails ends everything.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "index.md",
    *(
        f"guides/{name}.md"
        for name in (
            "prepare",
            "classify",
            "few-labels",
            "explain",
            "numbers",
            "cluster",
            "anomalies",
            "recordings",
        )
    ),
    *(f"guides/{name}.md" for name in ("values", "pretrain", "many-gpus", "deploy")),
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:(?<=\\)\n.*)*)", re.MULTILINE)


def blocks(text: str, language: str) -> list[str]:
    """Return the contents of the blocks of a language."""
    return [match[2] for match in FENCE.finditer(text) if match[1] == language]


def commands(text: str) -> list[str]:
    """Return the commands of a console block, each on one line."""
    return [match[1].replace("\\\n", "") for match in COMMAND.finditer(text)]


def nutime_arguments(command: str) -> Iterator[list[str]]:
    """Yield the arguments of every call of nutime in a shell command."""
    words: list[str] | None = None
    for word in [*shlex.split(command, comments=True), ";"]:
        if word in ("|", "||", "&&", ";", "&", ">", "2>", "<"):
            if words is not None:
                yield words
            words = None
        elif words is not None:
            words.append(word)
        elif word == "nutime":
            words = []


class Session:
    """One folder with a shell's environment, and what still runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        self.background: list[subprocess.Popen[str]] = []
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": tools, "COLUMNS": "90", "NO_COLOR": "1"}
        self.environment.pop("NUTIME_DATA", None)

    def rerun(self, text: str) -> str:
        """Return a page with fresh outputs."""
        namespace: dict[str, Any] = {"__name__": "page"}
        printed = ""

        def fresh(block: re.Match[str]) -> str:
            nonlocal printed
            language, content = block[1], block[2]
            if language == "console":
                content = "".join(f"$ {shown[1]}\n{self._run(shown[1])}" for shown in COMMAND.finditer(content))
            elif language == "python":
                printed = self.execute(content, namespace)
            elif language == "text":
                content = printed
            return f"```{language}\n{content}```"

        return FENCE.sub(fresh, text)

    def close(self) -> None:
        """End what runs in the background."""
        for process in self.background:
            process.terminate()
            process.wait()

    def _run(self, command: str) -> str:
        print(f"$ {command}", file=sys.stderr, flush=True)
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command[:-1]}" if command.endswith("&") else command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        if command.endswith("&"):
            self.background.append(process)
            return process.stdout.readline()
        output = process.communicate()[0]
        if process.returncode:
            raise SystemExit(f"exit code {process.returncode}: {command}\n{output}")
        lines = [line.rstrip() for line in output.splitlines()]
        return "".join(f"{line}\n" for line in lines)

    def execute(self, code: str, namespace: dict[str, Any]) -> str:
        """Run Python code in the folder; return what it printed."""
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        return printed.getvalue()


def main() -> None:
    """Rerun all pages; each is written when all of it has run."""
    with tempfile.TemporaryDirectory() as place, contextlib.closing(Session(Path(place) / "work")) as session:
        for page in (DOCS / name for name in PAGES):
            page.write_text(session.rerun(page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
