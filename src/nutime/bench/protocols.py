"""What each protocol of the benchmark runs, and on which sets.

A protocol is data: the sets it is defined on, how they are loaded, and the methods it asks. How these are run,
resumed and filed is :mod:`~nutime.bench.run`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from nutime.bench.ablation_runs import SMALL_SETS, Pretraining, ablation
from nutime.bench.downstream import STATES, AnomalyDetection, Clustering, load_anomalies
from nutime.bench.fewshot import FewShot
from nutime.bench.methods import Finetune, Method, Probe
from nutime.bench.peers import Peer
from nutime.bench.run import load_local
from nutime.bench.tfc import SETS as TFC_SETS
from nutime.bench.tfc import Repeated, load_trials
from nutime.data.archives import ARCHIVE, sublist
from nutime.encoder import NuTime
from nutime.model.config import NuTimeConfig


@dataclass(frozen=True)
class Request:
    """What a user asks of a protocol.

    Attributes:
        weights: encoders by name or folder.
        selection: ``honest`` or ``paper``.
        peers: which of the peers run beside, by name.
        models: size of the ensembles; runs by different seeds where there are none.
        device: where encoders compute.
        corpus: folder of the corpus that ablations pretrain on.
        steps, batch: of the ablations' pretraining.
        encoders: folder that keeps the ablations' pretrained variants.
        network: what the ablations vary.
    """

    weights: tuple[str, ...] = ("nutime-base",)
    selection: str = "honest"
    peers: tuple[str, ...] = ()
    models: int = 5
    device: str = "cpu"
    corpus: str | None = None
    steps: int = 2000
    batch: int = 256
    encoders: str = "encoders"
    network: NuTimeConfig = field(default_factory=NuTimeConfig)

    def encoder(self, name: str) -> NuTime:
        """Load an encoder; ``random`` is the paper's network before any training."""
        if name == "random":
            torch.manual_seed(0)
            return NuTime(NuTime.from_pretrained("nutime-paper").config).to(self.device)
        return NuTime.from_pretrained(name).to(self.device)


@dataclass(frozen=True)
class BenchProtocol:
    """A protocol; ``lists`` are the named lists of sets it can be run on, the first one by default."""

    about: str
    lists: dict[str, tuple[str, ...]]
    methods: Callable[[Request], Sequence[Method]]
    load: Callable[..., Any] = load_local


def _probe(request: Request) -> Sequence[Method]:
    return [Probe(name, request.encoder(name)) for name in request.weights] + _peers(request)


def _finetune(request: Request) -> Sequence[Method]:
    own: list[Method] = [
        Finetune(name, request.encoder(name), request.selection, request.models) for name in request.weights
    ]
    return own + _peers(request)


def _peers(request: Request) -> list[Method]:
    return [Peer(name) for name in request.peers]


def _tfc(request: Request) -> Sequence[Method]:
    own: list[Method] = [
        Repeated(partial(_one_model, name, request.encoder(name), request.selection), request.models)
        for name in request.weights
    ]
    return own + [Repeated(partial(Peer, name), request.models) for name in request.peers]


def _one_model(name: str, encoder: NuTime, selection: str, seed: int) -> Finetune:
    return Finetune(name, encoder, selection, n_models=1, seed=seed)


def _fewshot(request: Request) -> Sequence[Method]:
    _refuse_choice_and_peers(request, "fewshot")
    return [FewShot(name, request.encoder(name)) for name in request.weights]


def _on_embeddings(kind: type[Clustering] | type[AnomalyDetection], request: Request) -> Sequence[Method]:
    _refuse_choice_and_peers(request, kind.__name__)
    return [
        Repeated(partial(_of_seed, kind, name, request.encoder(name), finetuned), request.models)
        for name in request.weights
        for finetuned in (False, True)
    ]


def _of_seed(
    kind: type[Clustering] | type[AnomalyDetection], name: str, encoder: NuTime, finetuned: bool, seed: int
) -> Method:
    return kind(name, encoder, finetuned, seed)


def _ablation(protocol: str, request: Request) -> Sequence[Method]:
    if request.peers:
        raise ValueError(f"{protocol}: compares variants of one network; it has no peers")
    if request.corpus is None:
        raise ValueError(f"{protocol}: pretrains its variants; name a corpus folder (`nutime corpus build`)")
    pretraining = Pretraining(
        Path(request.encoders), Path(request.corpus), request.steps, request.batch, request.device
    )
    return ablation(protocol, request.network, pretraining, request.selection, request.models)


def _refuse_choice_and_peers(request: Request, protocol: str) -> None:
    if request.selection != "honest":
        raise ValueError(f"{protocol}: no epoch is chosen here, neither on test data nor else; run it as honest")
    if request.peers:
        raise ValueError(f"{protocol}: peers are classifiers of whole sets; they cannot run it")


def _archive(name: str) -> tuple[str, ...]:
    return tuple(key for key, entry in ARCHIVE.items() if entry.archive == name)


_UCR = {"128": _archive("ucr"), "125": sublist("ucr125"), "112": sublist("ucr112")}
_SMALL_UCR = {"small": SMALL_SETS, "128": _UCR["128"]}
_ABLATIONS = {
    "ablation-encoding": "ways to normalise and encode a window",
    "ablation-scales": "number of scales of the numerical embedding",
    "ablation-window": "window sizes",
    "ablation-dim": "widths of a scalar's embedding",
    "ablation-weighting": "scales averaged with and without weights",
    "ablation-corpus": "pretraining on a corpus and on each set alone",
}

PROTOCOLS: dict[str, BenchProtocol] = {
    "probe": BenchProtocol("frozen encoder and a linear classifier, on UCR", _UCR, _probe),
    "finetune": BenchProtocol("fine-tuned models and their ensemble, on UCR", _UCR, _finetune),
    "ucr": BenchProtocol("the paper's tables on UCR", {k: _UCR[k] for k in ("125", "112", "128")}, _finetune),
    "uea": BenchProtocol("the paper's tables on UEA", {"29": sublist("uea29"), "26": sublist("uea26")}, _finetune),
    "tfc": BenchProtocol("fine-tuned models on the sets of TF-C", {"paper": TFC_SETS}, _tfc, load_trials),
    "fewshot": BenchProtocol(
        "five series a class, 100 episodes a set, on UCR", {"paper": sublist("fewshot41")}, _fewshot
    ),
    "clustering": BenchProtocol(
        "k-means on embeddings of test series",
        {"paper": ("tfc/Epilepsy",), "128": _UCR["128"]},
        partial(_on_embeddings, Clustering),
        load_trials,
    ),
    "anomaly": BenchProtocol(
        "one-class SVM on embeddings of test series, a tenth of them anomalous",
        {"all": ("FD-B", *STATES), "paper": ("FD-B",)},
        partial(_on_embeddings, AnomalyDetection),
        load_anomalies,
    ),
    **{
        name: BenchProtocol(f"{about}, fine-tuned on UCR", _SMALL_UCR, partial(_ablation, name))
        for name, about in _ABLATIONS.items()
    },
}
