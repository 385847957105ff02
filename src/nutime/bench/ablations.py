"""The paper's ablations: variants are pretrained on a corpus, fine-tuned on every set, and compared.

The weights of a variant are stored in a folder named after everything that determines them, so that an interrupted
ablation pretrains nothing twice, and tables with a common variant (``NME``, ``9 scales`` and ``window 16`` are one
network) share its weights. The schedule is much shorter than the paper's 100 epochs; every result records it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nutime.bench import published
from nutime.bench.methods import Evaluation, Finetune, RunKey
from nutime.bench.results import Result, collect, overall
from nutime.bench.statistics import Estimate, common_sets
from nutime.data.archives import Dataset
from nutime.data.corpus.store import Corpus, CorpusWriter
from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.fitting import fit_to_series, needs_fitting
from nutime.pretrain.loop import pretrain

#: Ablation to variant to changes of the network; the names are those of the published tables.
VARIANTS: Mapping[str, Mapping[str, dict[str, Any]]] = {
    "ablation-encoding": {
        "Z-score": {"normalization": "zscore"},
        "IN": {"normalization": "instance"},
        "IN + instance mean/std tokens": {"normalization": "instance+tokens"},
        "Identity": {"normalization": "identity"},
        "PLE-Q": {"scalar_embedding": "ple-q"},
        "PLE-T": {"scalar_embedding": "ple-t"},
        "PLE-P": {"scalar_embedding": "ple-p"},
        "NME": {},
    },
    "ablation-scales": {f"{n} scale{'s' * (n != 1)}": {"scales": n} for n in (0, 1, 3, 5, 7, 9)},
    "ablation-window": {f"window {size}": {"window": size} for size in (4, 8, 16, 32, 64, 128)},
    "ablation-dim": {f"scalar dim {dim}": {"scalar_dim": dim} for dim in (4, 8, 16, 32, 64, 128)},
    "ablation-weighting": {
        f"{n} scale{'s' * (n != 1)}, {weighting}": {"scales": n, "scale_weighting": weighting}
        for weighting in ("weighted", "plain")
        for n in (1, 3, 5, 7, 9)
    },
    "ablation-corpus": {"all sets": {}, "each set alone": {}},
}
EACH_SET_ALONE = "each set alone"
FROM_SCRATCH = ", from scratch"
#: How training started: the name in the published tables, and in the report.
STARTS = {"finetuned": "fine-tuned", "scratch": "from scratch"}
#: The ablations that the paper also shows without pretraining.
ALSO_FROM_SCRATCH = ("ablation-encoding", "ablation-scales", "ablation-weighting")


@dataclass(frozen=True)
class Pretraining:
    """How variants are pretrained, and where their weights are stored.

    Attributes:
        folder: of all encoders; created when needed.
        corpus: the corpus folder.
        steps, batch: of the schedule; the learning rate is the paper's 2e-3 per 2048 series, in proportion.
        device: where to train.
    """

    folder: Path
    corpus: Path
    steps: int
    batch: int
    device: str

    def config(self, network: NuTimeConfig) -> PretrainConfig:
        """Return the recipe of a variant."""
        learning_rate = 2e-3 * self.batch / 2048
        return PretrainConfig(network=network, steps=self.steps, batch=self.batch, learning_rate=learning_rate)

    def encoder(self, network: NuTimeConfig, corpus_folder: Path) -> NuTime:
        """Load a pretrained variant, or pretrain it if its folder does not exist."""
        config = self.config(network)
        identity = [dataclasses.asdict(config), Corpus.open(corpus_folder).describe()]
        run = self.folder / f"encoder-{_digest(json.dumps(identity).encode())}"
        if not (run / "model" / "config.json").is_file():
            if not pretrain(corpus_folder, run, config, resume=True, device=self.device):
                raise KeyboardInterrupt
            shutil.rmtree(run / "checkpoints")
        return NuTime.from_pretrained(run / "model").to(self.device)

    def encoder_of(self, network: NuTimeConfig, dataset: Dataset) -> NuTime:
        """Return a variant pretrained on the training series of one set."""
        # The name is also stored in the corpus, so that sets of the same size get different encoders.
        name = f"corpus-{_digest(dataset.X_train.tobytes())}"
        corpus = self.folder / name
        if not corpus.exists():
            with CorpusWriter(corpus) as writer:
                writer.add(name, dataset.X_train)
        return self.encoder(network, corpus)


@dataclass(frozen=True)
class Ablated:
    """One variant, fine-tuned with several seeds: pretrained on the corpus or each set alone, or from scratch."""

    variant: str
    network: NuTimeConfig
    pretraining: Pretraining
    scratch: bool = False
    selection: str = "honest"
    runs: int = 5
    params: dict[str, Any] = field(default_factory=dict)

    def run_keys(self) -> Sequence[RunKey]:
        """Return one key per seed; the paper's ablations have no ensembles."""
        method = self.variant + FROM_SCRATCH * self.scratch
        return [RunKey(method, self.selection, seed) for seed in range(self.runs)]

    def evaluate(self, dataset: Dataset) -> Iterator[Evaluation]:
        """Fine-tune on the training split, score on the test split."""
        keys = self.run_keys()
        params = {"trained": "scratch"} if self.scratch else {}
        finetune = Finetune(
            keys[0].method,
            self._encoder(dataset),
            self.selection,
            self.runs,
            forest=False,  # variants of the network are compared
            params=params | self.params,
        )
        for found in finetune.evaluate(dataset):
            if found.key in keys:
                yield found._replace(config=found.config | self._schedule())

    def _encoder(self, dataset: Dataset) -> NuTime:
        if not self.scratch:
            if self.variant == EACH_SET_ALONE:
                return self.pretraining.encoder_of(self.network, dataset)
            return self.pretraining.encoder(self.network, self.pretraining.corpus)
        encoder = NuTime(self.network)
        if needs_fitting(self.network):
            targets = np.unique(dataset.y_train, return_inverse=True)[1]
            fit_to_series(encoder, as_series(dataset.X_train), targets)
        return encoder.to(self.pretraining.device)

    def _schedule(self) -> dict[str, Any]:
        """Return what a result records about the network and its pretraining."""
        network = {"network": json.loads(self.network.to_json())}
        if self.scratch:
            return network
        config = self.pretraining.config(self.network)
        schedule = {name: getattr(config, name) for name in ("steps", "batch", "learning_rate")}
        alone = self.variant == EACH_SET_ALONE
        series = "training series of the set" if alone else len(Corpus.open(self.pretraining.corpus))
        return network | {"pretraining": {**schedule, "series": series}}


def ablation_methods(
    protocol: str, network: NuTimeConfig, pretraining: Pretraining, selection: str, runs: int
) -> list[Ablated]:
    """Return every variant of an ablation, and where the paper has it, every one from scratch."""
    starts = (False, True) if protocol in ALSO_FROM_SCRATCH else (False,)
    return [
        Ablated(name, network.replace(**changes), pretraining, scratch, selection, runs)
        for scratch in starts
        for name, changes in VARIANTS[protocol].items()
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


# ---- comparison with the paper ---------------------------------------------------------------------------


class Ablation(NamedTuple):
    """Variants with the same start of training, over their common sets.

    Attributes:
        variants: name to score to mean over the sets.
        sets: the data sets averaged over.
    """

    variants: dict[str, dict[str, Estimate]]
    sets: tuple[str, ...]


def measured(results: list[Result], protocol: str, selection: str) -> dict[str, Ablation]:
    """Return the measured ablation by start of training; empty if there are no results."""
    runs = {score: collect(results, protocol, selection, score) for score in ("accuracy", "macro_f1")}
    found = {}
    for start in STARTS:
        here = {
            score: {
                method.removesuffix(FROM_SCRATCH): by_set
                for method, by_set in by_method.items()
                if method.endswith(FROM_SCRATCH) == (start == "scratch")
            }
            for score, by_method in runs.items()
        }
        if not here["accuracy"]:
            continue
        sets = common_sets(here["accuracy"].values())
        variants: dict[str, dict[str, Estimate]] = {variant: {} for variant in here["accuracy"]}
        for score, by_variant in here.items():
            for variant, by_set in by_variant.items():
                if sets and all(name in by_set for name in sets):
                    variants[variant][score] = overall(by_set, sets)
        found[start] = Ablation(variants, sets)
    return found


def as_published(protocol: str) -> dict[str, published.ScoreTable]:
    """Return the paper's values: start of training to variant to score; empty if it prints none."""
    tables = map(published.scores, published.ABLATIONS[protocol])
    return {start: scores for table in tables for start, scores in table.items()}


def schedules(results: Iterable[Result]) -> list[str]:
    """Describe how the variants were pretrained, one sentence per schedule."""
    sentences: dict[str, None] = {}
    for result in results:
        if schedule := result.config.get("pretraining"):
            series = schedule["series"]
            amount = f"{series:,}" if isinstance(series, int) else f"the {series}"
            sentence = (
                f"Pretrained for {schedule['steps']:,} steps of {schedule['batch']:,} series, "
                f"drawn from {amount}; the paper pretrains for 100 epochs."
            )
            sentences[sentence] = None
    return list(sentences)


def judge_ordering(measured: Mapping[str, Estimate], theirs: Mapping[str, float]) -> str:
    """State in one sentence whether the variants have the same order here and in the paper."""
    ours = {variant: estimate.mean for variant, estimate in measured.items()}
    shared = [variant for variant in theirs if variant in ours]
    if len(shared) < 2:
        return "Fewer than two of the paper's variants were measured, so its ordering cannot be judged."
    pairs = [(a, b) for a, b in combinations(shared, 2) if theirs[a] != theirs[b]]
    agreeing = sum((ours[a] - ours[b]) * (theirs[a] - theirs[b]) > 0 for a, b in pairs)
    best = max(shared, key=lambda variant: theirs[variant])
    ours_best = max(shared, key=lambda variant: ours[variant])
    count = f"{agreeing} of {len(pairs)} pairs of variants have its order"
    if agreeing == len(pairs):
        return f"The paper's ordering holds: {count}, and {best} is best."
    if ours[best] == ours[ours_best]:
        return f"The paper's best variant, {best}, is best here too; its ordering holds in part: {count}."
    rank = 1 + sum(ours[variant] > ours[best] for variant in shared)
    behind = ours[ours_best] - ours[best]
    deviation = max(measured[variant].std or 0 for variant in (best, ours_best))
    noise = ", less than the deviation between seeds" if behind < deviation else ""
    return (
        f"The paper's ordering does not hold: {count}, and its best variant, {best}, has rank {rank} here, "
        f"{100 * behind:.1f} points behind {ours_best}{noise}."
    )


def weighting_lines(ablation: Ablation) -> dict[str, dict[int, float]]:
    """Return ``ablation-weighting`` as lines: kind of average over scales to number of scales to accuracy."""
    lines: dict[str, dict[int, float]] = {}
    for variant, scores in ablation.variants.items():
        if (parts := re.fullmatch(r"(\d+) scales?, (weighted|plain)", variant)) and "accuracy" in scores:
            lines.setdefault(parts[2], {})[int(parts[1])] = scores["accuracy"].mean
    return lines


def judge_weighting(lines: Mapping[str, Mapping[int, float]]) -> str:
    """State in one sentence whether weighting the scales helps, which the paper shows without numbers."""
    weighted, plain = lines.get("weighted", {}), lines.get("plain", {})
    shared = sorted(set(weighted) & set(plain))
    if not shared:
        return "No number of scales was measured both with and without the weighting."
    ahead = [count for count in shared if weighted[count] > plain[count]]
    gain = 100 * sum(weighted[count] - plain[count] for count in shared) / len(shared)
    verdict = "holds" if len(ahead) == len(shared) else "holds in part" if ahead else "does not hold"
    return (
        f"The paper's claim that the weighted average is better {verdict}: it is ahead at {len(ahead)} of "
        f"{len(shared)} numbers of scales, by {gain:+.1f} points on average."
    )
