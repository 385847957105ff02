"""Export of encoders and fitted estimators to ONNX, with all preprocessing of raw series in the graph.

The input contract of :mod:`nutime.data.series` is implemented here again in tensor operations, so that the file
needs only an ONNX runtime; :data:`CONTRACT`, which the file contains, describes the input. The network is traced,
with attention as ONNX's single operator, which runtimes compute faster than its parts. Everything after the
embedding is computed in float64, as in Python.
"""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn
from torch.nn import functional as F

from nutime.atomic import replace_file
from nutime.encoder import NuTime
from nutime.estimators import storage
from nutime.estimators.base import SeriesEstimator
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import EQUAL, NuTimeDetector
from nutime.estimators.regressor import NuTimeRegressor
from nutime.finetune.ensemble import POOL, VARIANCE_EPSILON, Ensemble
from nutime.finetune.forest import TEMPERATURE, Forest, Votes, forest_features
from nutime.finetune.linear import LinearProbe, probe_columns
from nutime.model.config import NuTimeConfig
from nutime.model.convolutions import convolve, random_kernels
from nutime.model.reading import NETWORK_POOLS, Reading, check_pool, points_for
from nutime.model.transformer import Layer
from nutime.version import own_version

CONTRACT = (
    "series: float32 (batch, channels, length), raw values, any length from 1 on. NaN at the ends, in all "
    "channels at once, is padding and is trimmed: pad series of unequal length with it. Any other NaN is a "
    "missing value and is interpolated. The outputs of a series with an infinite value, or with a channel of NaN "
    "alone, are NaN, and -1 for a label."
)
#: Coverages of the prediction intervals whose half-widths the file of a regressor contains.
COVERAGES = (0.5, 0.8, 0.9, 0.95, 0.99)
#: The first ONNX version with an attention operator.
OPSET = 23
_LAYER = ".transformer.layers."  # in the names of a layer's operations


def export_onnx(
    model: str | Path | NuTime | SeriesEstimator,
    path: str | Path,
    *,
    pool: str | None = None,
    length: int | None = None,
    quantize: bool = False,
) -> dict[str, Any]:
    """Write a model as an ONNX file; return its metadata, which the file contains as JSON under ``nutime``.

    Outputs: ``embedding`` for an encoder or a ``NuTimeEmbedder``; ``probabilities`` and ``label``
    (an index into the metadata's ``classes``) for a classifier; ``prediction`` for a regressor, with half-widths
    of prediction intervals in the metadata; ``distances`` and ``label`` for a clusterer; ``anomaly_score`` for a
    detector, whose threshold is in the metadata.

    Args:
        model: shipped weights by name, a folder of an encoder or of a fitted estimator, or such an object.
        path: the file to write; it ends in ``.onnx``.
        pool: of an encoder, as in :meth:`nutime.NuTime.embed`; an estimator has that of its fit.
        length: of an encoder, likewise.
        quantize: whether to store the layers of the network as 8-bit integers: a smaller and faster file for
            onnxruntime alone, whose embeddings differ by about 1 %. Not for a detector, which has to recognise
            its training series.
    """
    if Path(path).suffix.lower() != ".onnx" or Path(path).is_dir():
        raise ValueError(f"{path}: name a file that ends in .onnx")
    needed = ("onnx", "onnxscript", "onnxruntime")[: 3 if quantize else 2]
    if not all(map(find_spec, needed)):
        raise ValueError(f"export needs {' and '.join(needed)}; install them with: pip install 'nutime[onnx]'")
    plan = plan_export(model, pool, length)
    if quantize and "anomaly_score" in plan.outputs:
        raise ValueError(
            "a detector leaves the comparison of a training series with itself out, and would not recognise it by "
            "its quantised embedding; export it without quantize"
        )
    metadata = {
        "nutime": own_version(),
        "contract": CONTRACT,
        "channels": plan.channels or "any",
        "outputs": plan.outputs,
        **plan.about,
        **({"quantized": True} if quantize else {}),
    }
    program = _trace(plan)
    program.model.metadata_props["nutime"] = json.dumps(metadata)
    products = [node for node in program.model.graph if node.op_type == "MatMul"]
    # Quantised, the products that make tokens would cause most of the error.
    outside_layers = [node.name for node in products if _LAYER not in node.metadata_props.get("namespace", "")]
    for node in program.model.graph:
        node.metadata_props.clear()  # they name source files of this machine
    proto = program.model_proto
    if quantize:
        proto = _quantize(proto, outside_layers)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as file:
        file.write(proto.SerializeToString())
    return metadata


# ---- models ----------------------------------------------------------------------------------------------


class Plan(NamedTuple):
    """A model to export.

    Attributes:
        graph: a module from raw series to the outputs.
        channels: number of channels; None for any number.
        outputs: names of the outputs.
        about: further metadata.
    """

    graph: nn.Module
    channels: int | None
    outputs: list[str]
    about: dict[str, Any]


def plan_export(
    model: str | Path | NuTime | SeriesEstimator, pool: str | None = None, length: int | None = None
) -> Plan:
    """Return the module that :func:`export_onnx` traces; called directly, it returns the same outputs."""
    import_module("torch.onnx.ops")  # registers the attention operator
    opened = storage.open_model(model) if isinstance(model, str | Path) else model
    if isinstance(opened, NuTime):
        return _plan_encoder(opened, pool, length)
    if not isinstance(opened, SeriesEstimator):
        raise ValueError(
            f"a {type(opened).__name__} cannot be exported; give the encoder or nutime estimator in it"
        )
    for name, value in (("pool", pool), ("length", length)):
        if value is not None:
            raise ValueError(f"{name} is for encoders; a {type(opened).__name__} has the one it was fitted with")
    plan = _plan_estimator(opened)
    names = getattr(opened, "channel_names_in_", None)
    return plan if names is None else plan._replace(about={**plan.about, "channel_names": names.tolist()})


def _plan_encoder(encoder: NuTime, pool: str | None, length: int | None) -> Plan:
    config, pool = encoder.config, "cls+mean" if pool is None else pool
    check_pool(pool, NETWORK_POOLS)
    reading = Reading(pool, points_for(config, pool) if length is None else length).checked(config)
    channels = None if config.channels == 1 else config.channels
    embedding = _Embedding(config, encoder.state_dict(), reading)
    return Plan(_Graph(embedding), channels, ["embedding"], {"pool": pool})


def _plan_estimator(estimator: SeriesEstimator) -> Plan:
    check_is_fitted(estimator, "encoder_")
    encoder, channels = estimator.encoder_, estimator.n_channels_in_
    if isinstance(estimator, NuTimeRegressor):
        return _plan_regressor(estimator)
    if isinstance(estimator, NuTimeClassifier) and isinstance(estimator.model_, Ensemble):
        classes = _Classes(_finetuned(estimator.model_, encoder, channels), estimator.forest_)
        about = {"pool": POOL, "classes": storage.encode_labels(estimator.classes_)["values"]}
        return Plan(_Graph(classes), channels, ["probabilities", "label"], about)

    embedding = _Embedding(encoder.config, encoder.state_dict(), estimator.reading_, channels)
    model: nn.Module = embedding
    outputs, about = ["embedding"], {"pool": estimator.reading_.name}
    if isinstance(estimator, NuTimeClassifier) and isinstance(estimator.model_, LinearProbe):
        probe = _probe(embedding, estimator.model_, channels)
        model, outputs = _Classes([probe], estimator.forest_), ["probabilities", "label"]
        about["classes"] = storage.encode_labels(estimator.classes_)["values"]
    elif isinstance(estimator, NuTimeClusterer):
        model, outputs = _Clusters(embedding, estimator), ["distances", "label"]
    elif isinstance(estimator, NuTimeDetector):
        model, outputs = _Anomalies(embedding, estimator), ["anomaly_score"]
        about["threshold"] = 1 - estimator.contamination
    return Plan(_Graph(model), channels, outputs, about)


def _plan_regressor(regressor: NuTimeRegressor) -> Plan:
    encoder, channels = regressor.encoder_, regressor.n_channels_in_
    if isinstance(regressor.model_, Ensemble):
        heads, pool = _finetuned(regressor.model_, encoder, channels), POOL
    else:
        embedding = _Embedding(encoder.config, encoder.state_dict(), regressor.reading_, channels)
        heads, pool = [_probe(embedding, regressor.model_, channels)], regressor.reading_.name
    widths = {}
    for coverage in COVERAGES:
        with suppress(ValueError):  # too few series for it
            widths[str(coverage)] = regressor.interval_half_width(coverage)
    about = {"pool": pool, "target": getattr(regressor, "target_name_", None), "interval_half_widths": widths}
    return Plan(_Graph(_Regression(heads, regressor), torch.float64), channels, ["prediction"], about)


# ---- the network -----------------------------------------------------------------------------------------


class _OnnxLayer(Layer):
    """A layer with the same parameters whose attention is a single operator."""

    def forward(self, tokens: Tensor, noise: Any = None) -> Tensor:
        normed = self.attention_norm(tokens)
        weights = torch.unflatten(self.qkv.weight, 0, (3, -1))
        query, key, value = (F.linear(normed, weight) for weight in weights)
        heads = {"q_num_heads": self.heads, "kv_num_heads": self.heads}
        attended = torch.ops.onnx.Attention.opset23(query, key, value, **heads)[0]
        return self._after_attention(tokens, attended, noise)


class _Embedding(nn.Module):
    """Embedding ``(batch, d)`` of series, as by :meth:`nutime.NuTime.embed`."""

    scales: Tensor | None

    def __init__(
        self, config: NuTimeConfig, weights: Mapping[str, Tensor], reading: Reading, channels: int = 0
    ) -> None:
        super().__init__()
        self.encoder, self.reading = NuTime(config), reading
        layers = (_OnnxLayer(config, index) for index in range(config.depth))
        self.encoder.transformer.layers = nn.ModuleList(layers)
        self.encoder.load_state_dict(weights)
        kernels = random_kernels(channels, reading.groups) if reading.convolved else []
        self.kernels = nn.ParameterList(nn.Parameter(matrix, requires_grad=False) for matrix in kernels)
        self.register_buffer("scales", _float64(reading.scales) if reading.scales else None)

    def forward(self, series: _Series) -> Tensor:
        resized = series.resized(self.reading.points)
        if self.encoder.config.channels == 1:
            resized = resized.flatten(0, 1).unsqueeze(1)
        vectors = self.encoder.vectors(resized, self.reading).reshape(series.values.shape[0], -1)
        if not self.reading.convolved:
            return vectors
        resized = series.resized(self.reading.convolved)
        convolved = convolve(resized, list(self.kernels), self.scales, self.reading.segments)
        return torch.cat([vectors, convolved], dim=1)


# ---- estimators -----------------------------------------------------------------------------------------


class _Standardise(nn.Module):
    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Any, scale: Any) -> None:
        super().__init__()
        self.register_buffer("mean", _float64(mean))
        self.register_buffer("scale", _float64(scale))

    def forward(self, embedding: Tensor) -> Tensor:
        return (embedding.double() - self.mean) / self.scale


class _Heads(nn.Module):
    """Outputs ``(heads, batch, outputs)`` of linear models that share one embedding."""

    weight: Tensor
    bias: Tensor

    def __init__(self, embedding: nn.Module, mean: Any, scale: Any, weight: Any, bias: Any) -> None:
        super().__init__()
        self.points = nn.Sequential(embedding, _Standardise(mean[:, None], scale[:, None]))
        self.register_buffer("weight", _float64(weight))
        self.register_buffer("bias", _float64(bias[:, None]))

    def forward(self, series: _Series) -> Tensor:
        outputs: Tensor = self.points(series) @ self.weight.mT + self.bias
        return outputs


class _Columns(nn.Module):
    chosen: Tensor

    def __init__(self, chosen: Tensor) -> None:
        super().__init__()
        self.register_buffer("chosen", chosen)

    def forward(self, embedding: Tensor) -> Tensor:
        return embedding[:, self.chosen]


def _features(embedding: _Embedding, channels: int, count: int) -> nn.Module:
    """Return the features of a probe: all of an embedding or the selected ones."""
    size = embedding.reading.size(embedding.encoder.config, channels)
    if count == size:
        return embedding
    columns = probe_columns(embedding.reading, embedding.encoder.config, channels, count)
    return nn.Sequential(embedding, _Columns(torch.from_numpy(columns)))


def _probe(embedding: _Embedding, probe: LinearProbe, channels: int) -> _Heads:
    features = _features(embedding, channels, probe.coef.shape[1])
    return _Heads(features, probe.mean[None], probe.scale[None], probe.coef[None], probe.intercept[None])


def _finetuned(ensemble: Ensemble, encoder: NuTime, channels: int) -> list[_Heads]:
    """Return each fine-tuned network with its head and, if there are probes, the pretrained one with them."""
    config, state = encoder.config.replace(channels=channels), dict(ensemble.state)
    mean, scale = ensemble.center[:, 0], (ensemble.center[:, 1] + VARIANCE_EPSILON).sqrt()
    weight, bias = state.pop("head.weight"), state.pop("head.bias")
    probes = [state.pop(name) for name in ("probe.weight", "probe.bias") if name in state]
    size = weight.shape[-1]  # of the fine-tuned networks' embedding; the pretrained one's follows
    heads = []
    for index in range(len(weight)):
        network = {name.removeprefix("encoder."): tensor[index] for name, tensor in state.items()}
        own = (tensor[index, None] for tensor in (mean[:, :size], scale[:, :size], weight, bias))
        reading = Reading(POOL, points_for(config, POOL))
        heads.append(_Heads(_Embedding(config, network, reading), *own))
    if probes:
        frozen = _Embedding(encoder.config, encoder.state_dict(), ensemble.reading, channels)
        features = _features(frozen, channels, probes[0].shape[-1])
        heads.append(_Heads(features, mean[:, size:], scale[:, size:], *probes))
    return heads


class _Trees(nn.Module):
    """Probabilities ``(batch, classes)``, or predictions ``(batch, 1)``, of a forest."""

    center: Tensor
    scale: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        reading = forest.reading
        self.points, self.votes = reading.points, Votes(forest)
        self.register_buffer("center", _float64(reading.center))
        self.register_buffer("scale", _float64(reading.scale))

    def forward(self, series: _Series) -> Tensor:
        features = forest_features(series.resized(self.points), self.center, self.scale)
        votes: Tensor = self.votes(features)
        return votes.double()


class _Classes(nn.Module):
    """Mean probability over all heads, averaged with a forest's, and the most probable class.

    There are as many probes as other heads.
    """

    def __init__(self, heads: Sequence[_Heads], forest: Forest | None) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.trees = None if forest is None else _Trees(forest)

    def forward(self, series: _Series) -> tuple[Tensor, Tensor]:
        probabilities = torch.cat([heads(series) for heads in self.heads]).softmax(-1).mean(0)
        if self.trees is not None:
            probabilities = ((probabilities + self.trees(series)) / 2) ** (1 / TEMPERATURE)
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        return probabilities, probabilities.argmax(-1)


class _Regression(nn.Module):
    """Mean prediction over all heads, averaged with that of trees; there are as many probes as other heads."""

    mean: Tensor
    scale: Tensor
    weight: Tensor

    def __init__(self, heads: Sequence[_Heads], regressor: NuTimeRegressor) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.trees = _Trees(regressor.forest_) if regressor.forest_ and regressor.forest_weight_ else None
        # Not as floats, which the exporter writes in single precision.
        self.register_buffer("mean", _float64(regressor.target_mean_))
        self.register_buffer("scale", _float64(regressor.target_scale_))
        self.register_buffer("weight", _float64(regressor.forest_weight_))

    def forward(self, series: _Series) -> Tensor:
        predicted = torch.cat([heads(series) for heads in self.heads]).mean(0)
        if self.trees is not None:
            predicted = (1 - self.weight) * predicted + self.weight * self.trees(series)
        return self.mean + self.scale * predicted.squeeze(-1)


class _Clusters(nn.Module):
    """Distances to all cluster centres, and the nearest centre."""

    centers: Tensor

    def __init__(self, embedding: _Embedding, clusterer: NuTimeClusterer) -> None:
        super().__init__()
        features = _features(embedding, clusterer.n_channels_in_, len(clusterer.mean_))
        self.points = nn.Sequential(features, _Standardise(clusterer.mean_, clusterer.scale_))
        self.register_buffer("centers", _float64(clusterer.cluster_centers_))

    def forward(self, series: _Series) -> tuple[Tensor, Tensor]:
        distances = _squared_distances(self.points(series), self.centers).sqrt()
        return distances, distances.argmin(-1)


class _Anomalies(nn.Module):
    """The result of :meth:`nutime.NuTimeDetector.anomaly_score`."""

    vectors: Tensor
    shares: Tensor
    levels: Tensor
    ranks: Tensor

    def __init__(self, embedding: _Embedding, detector: NuTimeDetector) -> None:
        super().__init__()
        features = _features(embedding, detector.n_channels_in_, len(detector.mean_))
        self.points = nn.Sequential(features, _Standardise(detector.mean_, detector.scale_))
        self.gamma, self.itself = detector.gamma_, detector.itself_
        self.register_buffer("vectors", _float64(detector.support_vectors_))
        self.register_buffer("shares", _float64(detector.dual_coef_))
        self.register_buffer("levels", _float64(detector.score_levels_))
        self.register_buffer("ranks", _float64(detector.score_ranks_))

    def forward(self, series: _Series) -> Tensor:
        kernel = (-self.gamma * _squared_distances(self.points(series), self.vectors)).exp()
        nearest, place = kernel.max(-1)
        own = torch.where(nearest > self.itself, self.shares[place], 0)
        own = torch.where(own < 1, own, 0)
        score = ((kernel @ self.shares - own) / (1 - own)).clamp(0, 1)
        score = torch.where(score > EQUAL, 1.0, score)
        upper = (score.unsqueeze(-1) >= self.levels).sum(-1).clamp(1, self.levels.shape[0] - 1)
        low, high = self.levels[upper - 1], self.levels[upper]
        share = torch.where(high > low, (score - low) / (high - low), 1.0)
        return 1 - torch.lerp(self.ranks[upper - 1], self.ranks[upper], share)


def _squared_distances(points: Tensor, others: Tensor) -> Tensor:
    squares = points.square().sum(-1, keepdim=True) + others.square().sum(-1)
    return (squares - 2 * points @ others.T).clamp(min=0)


def _float64(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64).detach().cpu()


# ---- the input contract ----------------------------------------------------------------------------------


class _Graph(nn.Module):
    """Raw series to outputs. A graph cannot raise: outputs of invalid series are NaN, and -1 for labels."""

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype

    def forward(self, series: Tensor) -> tuple[Tensor, ...]:
        known = ~series.isnan()
        valid = known.any(-1).all(-1) & ~series.isinf().any(-1).any(-1)
        outputs = self.model(_Series.of(series, known))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(self._where_valid(valid, output) for output in outputs)

    def _where_valid(self, valid: Tensor, output: Tensor) -> Tensor:
        output, invalid = (output.to(self.dtype), torch.nan) if output.is_floating_point() else (output, -1)
        return torch.where(valid.reshape(-1, *[1] * (output.dim() - 1)), output, invalid)


def _fill_gaps(series: Tensor, known: Tensor) -> Tensor:
    """Interpolate missing values as ``as_series`` does, in float64; at the ends, repeat the nearest value."""
    length = series.shape[-1]
    point = torch.arange(length)
    rank = known.long().cumsum(-1)  # number of known points up to and including each
    # The indices of the known points side by side; the last slot takes all others.
    slot = torch.where(known, rank - 1, length)
    places = F.pad(torch.zeros_like(slot), (0, 1)).scatter(-1, slot, point.expand_as(slot))
    before = places.gather(-1, (rank - 1).clamp(min=0))
    after = places.gather(-1, torch.minimum(rank - known.long(), rank[..., -1:] - 1).clamp(min=0))
    low, high = series.gather(-1, before).double(), series.gather(-1, after).double()
    share = (point - before).double() / (after - before).clamp(min=1).double()
    return (low + (high - low) * share).float()


class _Series(NamedTuple):
    """Series without gaps, ``(batch, channels, length)``, and their first and last index, ``(batch, 1)``."""

    values: Tensor
    first: Tensor
    last: Tensor

    @classmethod
    def of(cls, series: Tensor, known: Tensor) -> _Series:
        """Fill the gaps; points at the ends that are missing in all channels are padding."""
        inside, end = known.any(1), series.shape[-1]
        point = torch.arange(end)
        first = torch.where(inside, point, end - 1).amin(-1, keepdim=True)
        last = torch.maximum(torch.where(inside, point, 0).amax(-1, keepdim=True), first)
        return cls(_fill_gaps(series, known), first, last)

    def resized(self, length: int) -> Tensor:
        """Remove the padding and resize as ``resample`` does: average longer series, interpolate shorter ones."""
        longer = (self.last - self.first + 1 > length).unsqueeze(1)
        return torch.where(longer, self._averaged(length), self._interpolated(length))

    def _averaged(self, length: int) -> Tensor:
        """Return the mean of each of ``length`` equal parts; samples at a border are shared by their overlap."""
        size = self.last - self.first + 1
        start = torch.arange(length) * size  # in units of 1 / length of a sample: exact
        sample = (start // length).unsqueeze(-1) + torch.arange(self.values.shape[-1] // length + 2)
        start, size = start.unsqueeze(-1), size.unsqueeze(-1)
        overlap = torch.minimum(start + size, (sample + 1) * length) - torch.maximum(start, sample * length)
        weight = overlap.clamp(min=0).double() / size.double()  # the sum over the samples of a part is 1
        place = torch.minimum(self.first.unsqueeze(-1) + sample, self.last.unsqueeze(-1))
        picked = _pick(self.values, place.flatten(1))
        values: Tensor = picked.unflatten(-1, place.shape[1:]).double()  # type: ignore[no-untyped-call]
        origin = values[..., :1]  # relative to it, a constant part stays exactly constant
        return (origin.squeeze(-1) + (weight.unsqueeze(1) * (values - origin)).sum(-1)).float()

    def _interpolated(self, length: int) -> Tensor:
        size = self.last - self.first + 1
        centre = torch.arange(length, dtype=torch.float64) + 0.5
        position = torch.minimum((centre * (size.double() / length) - 0.5).clamp(min=0), (size - 1).double())
        left = position.long()
        weight = (position - left.double()).float().unsqueeze(1)
        before = _pick(self.values, self.first + left)
        after = _pick(self.values, torch.minimum(self.first + left + 1, self.last))
        mixed = (1 - weight) * before + weight * after
        return mixed.clamp(torch.minimum(before, after), torch.maximum(before, after))


def _pick(series: Tensor, place: Tensor) -> Tensor:
    return series.gather(-1, place.unsqueeze(1).expand(-1, series.shape[1], -1))


# ---- tracing ---------------------------------------------------------------------------------------------


def _trace(plan: Plan) -> Any:
    from onnx_ir.passes.common import CommonSubexpressionEliminationPass
    from onnxscript import optimizer

    free = {0: "batch", 1: "channels", 2: "length"}
    if plan.channels is not None:
        del free[1]
    shapes = {"series": {axis: torch.export.Dim(name) for axis, name in free.items()}}
    example = torch.randn(3, plan.channels or 2, 50)
    with _quietly():
        # Strict tracing keeps len(tensor) symbolic, which would otherwise fix the batch size.
        traced = torch.export.export(plan.graph.eval(), (example,), dynamic_shapes=shapes, strict=True)
        program = torch.onnx.export(
            traced,
            input_names=["series"],
            output_names=plan.outputs,
            dynamic_shapes=shapes,
            opset_version=OPSET,
            # Its optimiser replaces constants below 1e-8 by zero, such as the ε of the windows' deviation.
            optimize=False,
            verbose=False,
        )
        assert program is not None
        # Before folding, because a network that is called three times would leave three copies of its weights.
        CommonSubexpressionEliminationPass()(program.model)
        optimizer.fold_constants(program.model, should_fold=lambda node: True)
        optimizer.remove_unused_nodes(program.model)
    return program


def _quantize(proto: Any, excluded: list[str]) -> Any:
    """Store matrices, except of some nodes, as 8-bit integers; products with them are computed in integers too.

    Inputs are quantised per row and block of 128 values, so that a series does not depend on its batch.
    """
    with _quietly():
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

        quantizer = MatMulNBitsQuantizer(
            proto, bits=8, block_size=128, is_symmetric=True, accuracy_level=4, nodes_to_exclude=excluded
        )
        quantizer.process()
    return quantizer.model.model


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress the messages of exporter and quantiser; importing the latter configures the root logger."""
    root, loggers = logging.getLogger(), [logging.getLogger(name) for name in ("torch.onnx", "onnxruntime")]
    handlers, root_level, levels = list(root.handlers), root.level, [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(root_level)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
