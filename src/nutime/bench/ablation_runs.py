"""The paper's ablations, run: each variant is pretrained on a corpus, then fine-tuned set by set.

Unusual here: a variant's weights are kept in a folder under a name made of all that leads to them, so that an
ablation that was killed pretrains nothing twice, and tables that share a variant (``NME``, ``9 scales`` and
``window 16`` are one network) share its weights. The schedule is much shorter than the paper's 100 epochs; every
result states it. How the variants compare is :mod:`~nutime.bench.ablations`'.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nutime.bench.ablations import FROM_SCRATCH
from nutime.bench.methods import Answer, Finetune, Name
from nutime.data.archives import ARCHIVE, Dataset
from nutime.data.corpus.store import Corpus, CorpusWriter
from nutime.data.series import as_series
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig
from nutime.pretrain.fitting import fit_to_series, needs_fitting
from nutime.pretrain.loop import PretrainConfig, pretrain

#: Ablation to variant to what it changes in the network; the names are the published tables'.
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
#: The ablations that the paper also shows without pretraining.
ALSO_FROM_SCRATCH = ("ablation-encoding", "ablation-scales", "ablation-weighting")
#: UCR sets of one length with at least 50 training series and at most 500 series: minutes, not days.
SMALL_SETS = tuple(
    key
    for key, entry in ARCHIVE.items()
    if "ucr112" in entry.sublists and entry.train >= 50 and entry.train + entry.test <= 500
)


@dataclass(frozen=True)
class Pretraining:
    """How variants are pretrained, and where their weights are kept.

    Attributes:
        folder: of all encoders; created when needed.
        corpus: the corpus folder.
        steps, batch: of the schedule; the learning rate is the paper's 2e-3 for 2048 series, in proportion.
        device: where to train.
    """

    folder: Path
    corpus: Path
    steps: int
    batch: int
    device: str

    def config(self, network: NuTimeConfig) -> PretrainConfig:
        """Return the recipe of a variant."""
        rate = 2e-3 * self.batch / 2048
        return PretrainConfig(network=network, steps=self.steps, batch=self.batch, learning_rate=rate)

    def encoder(self, network: NuTimeConfig, corpus_folder: Path) -> NuTime:
        """Return a pretrained variant: from the folder, or by pretraining it now."""
        config = self.config(network)
        corpus = Corpus.open(corpus_folder)
        identity = [dataclasses.asdict(config), corpus.describe()]
        run = self.folder / f"encoder-{_digest(json.dumps(identity).encode())}"
        if not (run / "model" / "config.json").is_file():
            if not pretrain(corpus_folder, run, config, resume=True, device=self.device):
                raise KeyboardInterrupt
            shutil.rmtree(run / "checkpoints")
        return NuTime.from_pretrained(run / "model").to(self.device)

    def encoder_of(self, network: NuTimeConfig, dataset: Dataset) -> NuTime:
        """Return a variant pretrained on the training series of one set."""
        # The name also stands inside the corpus: sets of the same size must not be taken for each other.
        name = f"corpus-{_digest(dataset.X_train.tobytes())}"
        corpus = self.folder / name
        if not corpus.exists():
            with CorpusWriter(corpus) as writer:
                writer.add(name, dataset.X_train)
        return self.encoder(network, corpus)


@dataclass(frozen=True)
class Ablated:
    """One variant, fine-tuned by several seeds: pretrained on the corpus or each set alone, or from scratch."""

    variant: str
    network: NuTimeConfig
    pretraining: Pretraining
    scratch: bool = False
    selection: str = "honest"
    runs: int = 5
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The name in every table."""
        return self.variant + FROM_SCRATCH * self.scratch

    def names(self) -> Sequence[Name]:
        """One result a seed; ensembles are no part of the paper's ablations."""
        return [Name(self.method, self.selection, seed) for seed in range(self.runs)]

    def answer(self, dataset: Dataset) -> Iterator[Answer]:
        """Fine-tune on the training split, score on the test split."""
        for answer in self._finetune(dataset).answer(dataset):
            if answer.name in self.names():
                yield answer._replace(config=answer.config | self._stated())

    def _finetune(self, dataset: Dataset) -> Finetune:
        if self.scratch:
            changes = {"trained": "scratch", **self.changes}
            return Finetune(self.method, self._fresh(dataset), self.selection, self.runs, 0, changes)
        if self.variant == EACH_SET_ALONE:
            encoder = self.pretraining.encoder_of(self.network, dataset)
        else:
            encoder = self.pretraining.encoder(self.network, self.pretraining.corpus)
        return Finetune(self.method, encoder, self.selection, self.runs, 0, self.changes)

    def _fresh(self, dataset: Dataset) -> NuTime:
        """Return an untrained network, fitted to the training series where its encoding asks for it."""
        encoder = NuTime(self.network)
        if needs_fitting(self.network):
            codes = np.unique(dataset.y_train, return_inverse=True)[1]
            fit_to_series(encoder, as_series(dataset.X_train), codes)
        return encoder.to(self.pretraining.device)

    def _stated(self) -> dict[str, Any]:
        network = {"network": json.loads(self.network.to_json())}
        if self.scratch:
            return network
        config = self.pretraining.config(self.network)
        schedule = {name: getattr(config, name) for name in ("steps", "batch", "learning_rate")}
        alone = self.variant == EACH_SET_ALONE
        series = None if alone else len(Corpus.open(self.pretraining.corpus))
        return network | {"pretraining": {**schedule, "series": series or "training series of the set"}}


def ablation(
    protocol: str, network: NuTimeConfig, pretraining: Pretraining, selection: str, runs: int
) -> list[Ablated]:
    """Return the methods of an ablation: every variant, and where the paper has it, every one from scratch."""
    starts = (False, True) if protocol in ALSO_FROM_SCRATCH else (False,)
    return [
        Ablated(name, network.replace(**changes), pretraining, scratch, selection, runs)
        for scratch in starts
        for name, changes in VARIANTS[protocol].items()
    ]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]
