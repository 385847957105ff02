"""The paper's claim about pretraining data: is a mixed corpus better than the training series of the set itself?

    python benchmarks/pretraining_data.py --data-dir ARCHIVES --jobs 6

The paper's network starts at random, pretrained on the training series of one UCR set (100 epochs, as in the
paper, and many more steps), or as the shipped ``nutime-paper``, pretrained on a mixed corpus. Every start is
fine-tuned for the paper's 100 epochs with three seeds; accuracy on the test split after the last epoch, of the
networks alone, as in the paper, and averaged with their probes, as the classifier does. ``--out`` writes one JSON
line per set and start.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nutime import NuTime, load_dataset
from nutime.bench.methods import PAPER_EPOCHS
from nutime.data.corpus.store import CorpusWriter
from nutime.data.series import as_series
from nutime.devices import usable_device
from nutime.finetune.ensemble import Ensemble
from nutime.finetune.train import FinetuneConfig, TrainingSet, finetune
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.loop import pretrain

SETS = "ACSF1,Car,Computers,ECG200,Earthquakes,Fish,Ham,Lightning2,OSULeaf,PigAirwayPressure,Wine,WormsTwoClass"
MIXED = "nutime-paper"


def pretrained_on(series: Any, folder: Path, config: PretrainConfig) -> NuTime:
    """Pretrain the paper's network on some series."""
    with CorpusWriter(folder / "corpus") as writer:
        writer.add("alone", series)
    pretrain(folder / "corpus", folder / "run", config)
    return NuTime.from_pretrained(folder / "run" / "model").to(usable_device("auto"))


def without_probes(models: Ensemble) -> Ensemble:
    """Return the networks of an ensemble alone."""
    state = {name: value for name, value in models.state.items() if not name.startswith("probe.")}
    return dataclasses.replace(models, state=state, center=models.center[..., : state["head.weight"].shape[-1]])


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one record per start."""
    data = load_dataset(name, data_dir=args.data_dir)
    classes, targets = np.unique(data.y_train, return_inverse=True)
    series, queries = as_series(data.X_train), as_series(data.X_test)
    train = TrainingSet(series, targets, np.ones(len(series)), np.ones(len(classes)))
    mixed = NuTime.from_pretrained(MIXED).to(usable_device("auto"))
    rate = PretrainConfig.learning_rate * args.batch / PretrainConfig.batch
    config = PretrainConfig(network=mixed.config, batch=args.batch, learning_rate=rate)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        starts = {
            "random weights": lambda: mixed,
            f"the set alone, {PretrainConfig.epochs:.0f} epochs": lambda: pretrained_on(
                series, Path(folder, "short"), config
            ),
            f"the set alone, {args.steps:,} steps of {args.batch:,}": lambda: pretrained_on(
                series, Path(folder, "long"), dataclasses.replace(config, steps=args.steps)
            ),
            f"the mixed corpus ({MIXED})": lambda: mixed,
        }
        for start, make in starts.items():
            encoder = make()
            trained = "scratch" if start == "random weights" else "all"
            finetuning = FinetuneConfig(trained=trained, n_estimators=args.seeds, epochs=PAPER_EPOCHS)
            models = finetune(encoder, train, finetuning, 0).last
            record: dict[str, Any] = {"dataset": name, "start": start, "series": len(series)}
            for part, members in (("network", without_probes(models)), ("with probe", models)):
                predicted = members.log_probabilities(encoder, queries).argmax(-1)
                record[part] = (classes[predicted] == data.y_test).mean(1).tolist()
            records.append(record)
            print(f"{name}: {start}: {np.mean(record['network']):.3f}", flush=True)
    return records


def main() -> None:
    """Measure all sets, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        for records in pool.map(partial(measure, args=args), args.sets.split(",")):
            found += records
            if args.out:
                args.out.write_text("".join(json.dumps(record) + "\n" for record in found))
    names = sorted({record["dataset"] for record in found})
    print(f"\nmean accuracy over {len(names)} sets, {args.seeds} seeds: network alone, with probe")
    for start in dict.fromkeys(record["start"] for record in found):
        parts = [
            100 * np.mean([record[part] for record in found if record["start"] == start])
            for part in ("network", "with probe")
        ]
        print(f"{start:40s} {parts[0]:5.1f} {parts[1]:5.1f}")


if __name__ == "__main__":
    main()
