"""Kill -9 at random moments: a service, a batch job, a pretraining run, and processes that save models and labels.

    python benchmarks/kills.py --kills 50

Whatever was confirmed before a kill must be there after it: the service gives the same answers after a restart,
results of a batch job are complete or absent, a checkpoint that was seen is resumed from, the model whose ``save``
returned last (or a later one) is loaded, and every label that was given is in the file of labels. At the end all
jobs are run to their end and leave no temporary files. The last line is JSON; the exit code is 1 if something was
lost.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

SERIES, LENGTH, FILES = 1500, 64, 3

BATCH = """
import sys
from nutime.batch.apply import apply_model
from nutime.batch.source import Source
from nutime.encoder import NuTime
data = Source(sys.argv[2])
print("started", flush=True)
apply_model(NuTime.from_pretrained(sys.argv[1]), data.chunks(), sys.argv[3], source=data)
"""
PRETRAIN = """
import sys
from pathlib import Path
from nutime.encoder import NuTime
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.loop import pretrain
network = NuTime.from_pretrained(sys.argv[1]).config
config = PretrainConfig(network=network, steps=12, batch=16, log_every=1, checkpoint_every=2)
print("started", flush=True)
pretrain(sys.argv[2], sys.argv[3], config, resume=True, device="cpu")
"""
SAVE = """
import itertools, sys
import torch
from nutime.encoder import NuTime
model = NuTime.from_pretrained(sys.argv[1])
start = int(sys.argv[3])
print("started", flush=True)
for version in itertools.count(start):
    with torch.no_grad():
        model.norm.bias.fill_(version)
    model.save(sys.argv[2])
    print(version, flush=True)
"""
LABEL = """
import itertools, sys
import numpy as np
from nutime.labelling.log import LabelLog
X = np.load(sys.argv[2])
log = LabelLog(sys.argv[1], list(X))
print("started", flush=True)
for number in itertools.count(int(sys.argv[3])):
    log.label([number % len(X)], str(number))
    print(number, flush=True)
"""
SERVE = "import typer; from nutime.cli.serve import serve; typer.run(serve)"


def start(program: str, *arguments: Any) -> subprocess.Popen[str]:
    """Start a program, and return when it has printed that it works."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    if not process.stdout.readline():
        raise RuntimeError(process.communicate()[1])
    return process


def kill(process: subprocess.Popen[str]) -> list[str]:
    """Kill a process; return what it had printed."""
    process.kill()
    return process.communicate()[0].splitlines()


class Jobs:
    """The five jobs in a folder; each method takes one kill and returns what was lost."""

    def __init__(self, folder: Path, moments: random.Random) -> None:
        import torch

        from nutime import NuTime, NuTimeConfig
        from nutime.batch.apply import apply_model
        from nutime.batch.source import Source
        from nutime.data.corpus.build import synthesize_corpus

        self.folder, self.moments = folder, moments
        torch.manual_seed(0)
        config = NuTimeConfig(window=8, length=64, dim=16, depth=1, heads=2, head_dim=8, mlp_dim=32, scalar_dim=8)
        self.encoder = NuTime(config).save(folder / "encoder")
        self.data = folder / "data"
        self._write_data()
        np.save(folder / "labelled.npy", np.arange(300.0).reshape(100, 1, 3))
        synthesize_corpus(200, folder / "corpus", length=80, seed=0)
        apply_model(
            NuTime.from_pretrained(self.encoder), Source(str(self.data)).chunks(), str(folder / "expected")
        )
        self.expected = contents(folder / "expected")
        self.version = 0
        self.labels: dict[int, int] = {}
        self.answers: dict[str, Any] = {}
        self.runs = 0
        start(PRETRAIN, self.encoder, folder / "corpus", folder / "uninterrupted").wait()

    def _write_data(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng = np.random.default_rng(0)
        self.data.mkdir()
        for number in range(FILES):
            X = rng.standard_normal((SERIES, LENGTH)).cumsum(axis=1)
            pq.write_table(pa.table({"values": list(X)}), self.data / f"{number}.parquet")

    def wait(self, seconds: float) -> None:
        time.sleep(self.moments.uniform(0, seconds))

    def batch(self) -> str | None:
        out = self.folder / "out"
        process = start(BATCH, self.encoder, self.data, out)
        self.wait(2.0)
        kill(process)
        if out.exists():
            if contents(out) != self.expected:
                return "batch: results are neither complete nor absent"
            (self.folder / "finished").mkdir(exist_ok=True)
            out.rename(self.folder / "finished" / str(time.monotonic_ns()))
        return None

    def pretrain(self) -> str | None:
        from nutime.pretrain.checkpoint import checkpoints, load_newest

        run = self.folder / f"run{self.runs}"
        process = start(PRETRAIN, self.encoder, self.folder / "corpus", run)
        self.wait(3.0)
        seen = checkpoints(run / "checkpoints")
        kill(process)
        if not seen:
            return None
        state = load_newest(run / "checkpoints")
        confirmed = int(seen[0].stem.removeprefix("step-"))
        if state is None or int(state["step"]) < confirmed:
            return f"pretraining: the checkpoint of step {confirmed} is lost"
        if (run / "model").exists():
            self.runs += 1
            if contents(run / "model") != contents(self.folder / "uninterrupted" / "model"):
                return "pretraining: a killed and resumed run differs from an uninterrupted one"
        return None

    def save(self) -> str | None:
        from nutime import NuTime

        folder = self.folder / "saved"
        process = start(SAVE, self.encoder, folder, self.version + 1)
        self.wait(1.0)
        printed = kill(process)
        confirmed = int(printed[-1]) if printed else self.version
        if confirmed == 0:
            return None
        found = int(NuTime.from_pretrained(folder).norm.bias[0])
        self.version = found
        return None if found >= confirmed else f"save: version {confirmed} was confirmed, {found} is there"

    def label(self) -> str | None:
        from nutime.labelling.log import LabelLog

        path, labelled = self.folder / "labels.jsonl", self.folder / "labelled.npy"
        X = np.load(labelled)
        process = start(LABEL, path, labelled, max(self.labels.values(), default=-1) + 1)
        self.wait(1.0)
        self.labels |= {int(number) % len(X): int(number) for number in kill(process)}
        log = LabelLog(path, list(X))
        log.close()
        lost = [number for series, number in self.labels.items() if int(log.labels.get(series, -1)) < number]
        return f"labels: {len(lost)} that were confirmed are lost" if lost else None

    def serve(self) -> str | None:
        command = [sys.executable, "-c", SERVE, str(self.encoder), "--port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout
        address = process.stdout.readline().split()[0]
        lost = None
        end = time.monotonic() + self.moments.uniform(0, 1.5)
        number = 0
        try:
            while time.monotonic() < end:
                number += 1
                body = {"series": [np.random.default_rng(number).standard_normal(LENGTH).tolist()]}
                try:
                    answer = httpx.post(address, json=body, timeout=30).json()
                except httpx.TransportError:
                    continue  # it does not listen yet
                if self.answers.setdefault(str(number), answer) != answer:
                    lost = f"service: request {number} is answered otherwise after a restart"
        finally:
            kill(process)
        return lost

    def finish(self) -> str | None:
        """Run the jobs that leave files to their end; return what is left behind."""
        run = self.folder / f"run{self.runs}"
        for program, *arguments in (
            (BATCH, self.encoder, self.data, self.folder / "out"),
            (PRETRAIN, self.encoder, self.folder / "corpus", run),
        ):
            if start(program, *arguments).wait() != 0:
                return "a job does not end after the kills"
        process = start(SAVE, self.encoder, self.folder / "saved", self.version + 1)
        assert process.stdout
        process.stdout.readline()
        process.terminate()
        process.communicate()
        if contents(run / "model") != contents(self.folder / "uninterrupted" / "model"):
            return "pretraining: a killed and resumed run differs from an uninterrupted one"
        return None if contents(self.folder / "out") == self.expected else "batch: other results after the kills"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        jobs = Jobs(Path(name), random.Random(args.seed))
        kinds = (jobs.save, jobs.batch, jobs.pretrain, jobs.label, jobs.serve)
        lost = [kinds[number % len(kinds)]() for number in range(args.kills)] + [jobs.finish()]
        stray = [path.name for path in Path(name).glob(".*") if not path.name.startswith(".saved")]
    found = [what for what in lost if what]
    print(json.dumps({"kills": args.kills, "lost": found, "stray": stray}))
    sys.exit(bool(found or stray))


if __name__ == "__main__":
    main()
