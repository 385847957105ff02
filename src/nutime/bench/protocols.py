"""The protocols of the benchmark: their data sets, how these are loaded, and their methods.

Two of the four sets of TF-C (Zhang et al. 2022) may be present without their official test split. They are then
replaced, and every result records it:

* ``EMG`` as 204 windows in an unknown order: each seed draws its own stratified 122/41/41 split;
* ``tfc/Epilepsy`` with the test split of TS-TCC (Eldele et al. 2021): other segments of the same recordings,
  without those that repeat a training series.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nutime.bench.ablations import Pretraining, ablation_methods
from nutime.bench.methods import (
    ANOMALOUS,
    ANOMALY_PERCENT,
    NORMAL,
    AnomalyDetection,
    Clustering,
    FewShot,
    Finetune,
    Method,
    Peer,
    Probe,
    Repeated,
    Trials,
    frozen_name,
)
from nutime.bench.recordings import (
    ANOMALY,
    RAW,
    SEGMENTATION,
    Localisation,
    RecordingTask,
    Segmentation,
    load_recording,
    recording_names,
)
from nutime.bench.run import load_local
from nutime.bench.values import (
    FORECAST_SETS,
    IMPUTATION_SETS,
    forecasts,
    imputations,
    load_futures,
    load_imputation,
)
from nutime.data.archives import ARCHIVE, Dataset, draw_splits, find_set, load_dataset, sublist
from nutime.data.corpus.repeats import RepeatFinder
from nutime.data.series import as_series
from nutime.encoder import NuTime, shipped_weights
from nutime.model.config import NuTimeConfig

#: The sets of TF-C in the order of the paper's tables.
TFC_SETS = ("tfc/Epilepsy", "FD-B", "EMG", "Gesture")
#: UCR sets of one length with at least 50 training series and at most 500 series, for ablations in minutes.
SMALL_SETS = tuple(
    key
    for key, entry in ARCHIVE.items()
    if "ucr112" in entry.sublists and entry.train >= 50 and entry.train + entry.test <= 500
)
#: UCR sets for anomaly detection: their classes are states of health or quality.
ANOMALY_SETS = (
    "ECG200", "ECG5000", "Earthquakes", "FordA", "FordB", "Strawberry", "ToeSegmentation1", "ToeSegmentation2",
    "Wafer", "DistalPhalanxOutlineCorrect", "MiddlePhalanxOutlineCorrect", "ProximalPhalanxOutlineCorrect",
    "PhalangesOutlinesCorrect",
)  # fmt: skip
MAX_ANOMALIES = 100


# ---- loading ---------------------------------------------------------------------------------------------


def load_trials(name: str, *, data_dir: str | None = None) -> Trials:
    """Load a set from disk, or its replacement.

    Raises:
        ValueError: there is neither.
    """
    key = find_set(name).key
    try:
        official = load_local(key, data_dir=data_dir)
    except ValueError as missing:
        replacement = {"EMG": _drawn_splits, "tfc/Epilepsy": _other_test}.get(key)
        if replacement is None:
            raise
        try:
            return replacement(key, data_dir)
        except ValueError:
            raise missing from None
    return Trials(lambda seed: official)


def _drawn_splits(key: str, data_dir: str | None) -> Trials:
    X, y = load_dataset(key, split="unsplit", data_dir=data_dir)
    entry = find_set(key)
    sizes = (entry.train, entry.val, entry.test)

    def split(seed: int) -> Dataset:
        train, _, test = draw_splits(y, sizes, seed)
        return Dataset(X[train], y[train], X[test], y[test])

    return Trials(split, {"split": f"{'/'.join(map(str, sizes))} drawn by seed, official order unknown"})


def _other_test(key: str, data_dir: str | None) -> Trials:
    train, test = (load_dataset(key, split=split, data_dir=data_dir) for split in ("train", "tstcc_test"))
    finder = RepeatFinder()
    finder.hold_out("train", as_series(train.X))
    new = np.array([found is None for found in finder.find([channels[0] for channels in as_series(test.X)])])
    dataset = Dataset(*train, test.X[new], test.y[new])
    about = f"{new.sum()} series of TS-TCC's, {(~new).sum()} repeats of training series dropped; not the official"
    return Trials(lambda seed: dataset, {"test": about})


def load_anomalies(name: str, *, data_dir: str | None = None) -> Trials:
    """Load a set as normal and anomalous series, 10 % of the test series being anomalous.

    Raises:
        ValueError: the set is missing or has too few series.
    """
    official = load_trials(name, data_dir=data_dir)
    trials = as_anomalies(find_set(name).key, official.split(0))
    return Trials(trials.split, official.about | trials.about)


def as_anomalies(key: str, data: Dataset) -> Trials:
    """Label one class as normal and the others as anomalous; each seed draws its test series.

    Up to 900 normal series and a ninth as many others are drawn. The normal class is the most frequent one of the
    training split; of FD-B it is the undamaged bearing, as in the paper.
    """
    classes, counts = np.unique(data.y_train, return_counts=True)
    normal = classes[0 if key == "FD-B" else counts.argmax()]
    labels = [np.where(y == normal, NORMAL, ANOMALOUS) for y in (data.y_train, data.y_test)]
    normals, anomalies = (np.flatnonzero(labels[1] == label) for label in (NORMAL, ANOMALOUS))
    ratio = 100 // ANOMALY_PERCENT - 1  # normal series per anomaly
    count = min(MAX_ANOMALIES, len(anomalies), len(normals) // ratio)
    if not count:
        found = f"{len(normals)} normal and {len(anomalies)} other test series"
        raise ValueError(f"{key}: {found}; expected at least {ratio} and 1")

    def split(seed: int) -> Dataset:
        rng = np.random.default_rng([seed, 2])
        parts = ((normals, ratio * count), (anomalies, count))
        drawn = np.sort(np.concatenate([rng.choice(part, size, replace=False) for part, size in parts]))
        return Dataset(data.X_train, labels[0], data.X_test[drawn], labels[1][drawn])

    test = f"{ratio * count} normal and {count} other series, drawn by seed"
    return Trials(split, {"normal": str(normal), "test": test})


# ---- methods ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """Options of a benchmark run.

    Attributes:
        weights: encoders by name or folder.
        selection: ``honest`` or ``paper``.
        peers: names of the aeon classifiers to run on the same sets.
        models: size of the ensembles; number of seeds for methods without ensembles.
        device: where encoders compute.
        corpus: folder of the corpus that ablations pretrain on.
        steps, batch: of the ablations' pretraining.
        encoders: folder for the ablations' pretrained variants.
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

    def named_encoders(self) -> list[tuple[str, NuTime]]:
        """Load the encoders, by their names as methods; ``random`` is the paper's network before training."""
        encoders = [self._encoder(name).to(self.device) for name in self.weights]
        return list(zip(map(_method_name, self.weights), encoders, strict=True))

    def _encoder(self, name: str) -> NuTime:
        if name != "random":
            return NuTime.from_pretrained(name)
        torch.manual_seed(0)
        return NuTime(NuTime.from_pretrained("nutime-paper").config)


def _method_name(weights: str) -> str:
    """Return the name of weights as a method: of a folder with its checksum, because its content may change."""
    if weights == "random" or weights in shipped_weights() or not Path(weights).is_dir():
        return weights
    config = Path(weights, "config.json").read_bytes()  # with the checksums of the other files
    return f"nutime {weights} ({hashlib.sha256(config).hexdigest()[:8]})"


@dataclass(frozen=True)
class BenchProtocol:
    """A protocol; ``lists`` are the named lists of sets it can run on, the first is the default.

    ``uses_models`` tells whether it has ensembles or several seeds, so that ``--models`` has an effect.
    """

    about: str
    lists: dict[str, tuple[str, ...]]
    methods: Callable[[Request], Sequence[Method]]
    load: Callable[..., Any] = load_local
    recordings: str = ""
    uses_models: bool = True

    def sets(self, named_list: str, data_dir: str | None) -> tuple[str, ...]:
        """Return the sets of a list; those of ``recordings``, a folder of the data, are all that are there."""
        return recording_names(self.recordings, data_dir) if self.recordings else self.lists[named_list]


def _probe(request: Request) -> Sequence[Method]:
    _refuse_selection(request, "probe")
    return [*(Probe(*named) for named in request.named_encoders()), *map(Peer, request.peers)]


def _finetune(request: Request) -> Sequence[Method]:
    own = (Finetune(*named, request.selection, request.models) for named in request.named_encoders())
    return [*own, *map(Peer, request.peers)]


def _uea(request: Request) -> Sequence[Method]:
    encoders = request.named_encoders() if request.selection == "honest" else []
    return [*(Probe(frozen_name(name), encoder) for name, encoder in encoders), *_finetune(request)]


def _tfc(request: Request) -> Sequence[Method]:
    own = [Finetune(*named, request.selection, n_estimators=1) for named in request.named_encoders()]
    methods: list[Finetune | Peer] = [*own, *map(Peer, request.peers)]
    return [Repeated(method, request.models) for method in methods]


def _fewshot(request: Request) -> Sequence[Method]:
    _refuse_selection_and_peers(request, "fewshot")
    return [FewShot(*named) for named in request.named_encoders()]


def _on_embeddings(task: type[Clustering] | type[AnomalyDetection], request: Request) -> Sequence[Method]:
    _refuse_selection_and_peers(request, task.__name__)
    return [
        Repeated(task(*named, finetuned), request.models)
        for named in request.named_encoders()
        for finetuned in (False, True)
    ]


def _on_values(methods: Callable[..., Sequence[Method]], protocol: str, request: Request) -> Sequence[Method]:
    _refuse_selection_and_peers(request, protocol)
    return methods(request.named_encoders())


def _on_recordings(task: type[RecordingTask], request: Request) -> Sequence[Method]:
    _refuse_selection_and_peers(request, task.__name__)
    return [*(task(*named) for named in request.named_encoders()), task(RAW, None)]


def _ablation(protocol: str, request: Request) -> Sequence[Method]:
    if request.peers:
        raise ValueError(f"{protocol}: compares variants of one network; it has no peers")
    if request.corpus is None:
        raise ValueError(f"{protocol}: pretrains its variants; name a corpus folder (`nutime corpus build`)")
    pretraining = Pretraining(
        Path(request.encoders), Path(request.corpus), request.steps, request.batch, request.device
    )
    return ablation_methods(protocol, NuTimeConfig(), pretraining, request.selection, request.models)


def _refuse_selection(request: Request, protocol: str) -> None:
    if request.selection != "honest":
        raise ValueError(f"{protocol}: no epoch is chosen here, on test data or otherwise; run it as honest")


def _refuse_selection_and_peers(request: Request, protocol: str) -> None:
    _refuse_selection(request, protocol)
    if request.peers:
        raise ValueError(f"{protocol}: peers are classifiers of whole sets; they cannot run it")


_UCR128 = tuple(key for key, entry in ARCHIVE.items() if entry.archive == "ucr")
_UCR = {"128": _UCR128, "125": sublist("ucr125"), "112": sublist("ucr112")}
_ABLATIONS = {
    "ablation-encoding": "ways to normalise and encode a window",
    "ablation-scales": "number of scales of the numerical embedding",
    "ablation-window": "window sizes",
    "ablation-dim": "widths of a scalar's embedding",
    "ablation-weighting": "scales averaged with and without weights",
    "ablation-corpus": "pretraining on a corpus and on each set alone",
}

PROTOCOLS: dict[str, BenchProtocol] = {
    "probe": BenchProtocol("frozen encoder, linear classifier and trees, on UCR", _UCR, _probe, uses_models=False),
    "finetune": BenchProtocol("fine-tuned models and their ensemble, on UCR", _UCR, _finetune),
    "ucr": BenchProtocol("the paper's tables on UCR", {k: _UCR[k] for k in ("125", "112", "128")}, _finetune),
    "uea": BenchProtocol(
        "the paper's tables on UEA, and frozen encoders", {"29": sublist("uea29"), "26": sublist("uea26")}, _uea
    ),
    "tfc": BenchProtocol("fine-tuned models on the sets of TF-C", {"paper": TFC_SETS}, _tfc, load_trials),
    "fewshot": BenchProtocol(
        "five series per class, 100 episodes per set, on UCR",
        {"paper": sublist("fewshot41")},
        _fewshot,
        uses_models=False,
    ),
    "clustering": BenchProtocol(
        "k-means on embeddings of test series",
        {"paper": ("tfc/Epilepsy",), "128": _UCR128},
        partial(_on_embeddings, Clustering),
        load_trials,
    ),
    "anomaly": BenchProtocol(
        "one-class SVM on embeddings of test series, 10 % of them anomalous",
        {"all": ("FD-B", *ANOMALY_SETS), "paper": ("FD-B",)},
        partial(_on_embeddings, AnomalyDetection),
        load_anomalies,
    ),
    "impute": BenchProtocol(
        "hidden blocks of standardised values, beside classical methods",
        {"all": IMPUTATION_SETS},
        partial(_on_values, imputations, "impute"),
        load_imputation,
        uses_models=False,
    ),
    "forecast": BenchProtocol(
        "zero-shot forecasts beside classical methods",
        {"all": FORECAST_SETS},
        partial(_on_values, forecasts, "forecast"),
        load_futures,
        uses_models=False,
    ),
    "segmentation": BenchProtocol(
        "change points of recordings, of TSSB",
        {"all": ()},
        partial(_on_recordings, Segmentation),
        load_recording,
        SEGMENTATION,
        uses_models=False,
    ),
    "localisation": BenchProtocol(
        "anomalies within recordings, of TSB-AD-U",
        {"all": ()},
        partial(_on_recordings, Localisation),
        load_recording,
        ANOMALY,
        uses_models=False,
    ),
    **{
        name: BenchProtocol(
            f"{about}, fine-tuned on UCR", {"small": SMALL_SETS, "128": _UCR128}, partial(_ablation, name)
        )
        for name, about in _ABLATIONS.items()
    },
}
