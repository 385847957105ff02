"""Every choice of architecture in one frozen value; each ablation of the paper is a value of some field.

``NuTimeConfig()`` is the paper's model with the head width of its released checkpoint. A config travels as
JSON beside the weights; unknown or missing fields are errors, never guesses.
"""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

Normalization = Literal["window", "zscore", "instance", "instance+tokens", "identity"]
ScalarEmbedding = Literal["nme", "ple-q", "ple-t", "ple-p", "none"]
ScaleWeighting = Literal["weighted", "plain"]

_POSITIVE = ("window", "length", "channels", "dim", "depth", "heads", "head_dim", "mlp_dim", "scalar_dim")
_SCALES = (0, *range(1, 22, 2))  # 21 scales reach 1e±10, beyond what float32 weights can distinguish


@dataclass(frozen=True)
class NuTimeConfig:
    """The architecture of a NuTime network.

    Attributes:
        window: points in a window; windows do not overlap.
        length: points every series is resized to; a multiple of ``window``.
        channels: channels of a series; more than one adds the paper's channel projection.
        dim: width of the transformer.
        depth: number of transformer layers.
        heads: attention heads per layer.
        head_dim: width of a head: 64 in the released checkpoint, 16 by the paper's text.
        mlp_dim: hidden width of a layer's MLP.
        dropout: dropout rate in training.
        normalization: how values are normalised before a window is embedded. ``window`` (the paper's) keeps the
            mean and standard deviation of each window as two scalars; ``zscore`` uses fixed statistics of the
            corpus; ``instance`` those of each series; ``instance+tokens`` adds these as two tokens; ``identity``
            does not normalise.
        scalar_embedding: how a scalar becomes a vector: ``nme`` (the paper's), piecewise-linear by quantiles
            (``ple-q``) or by target (``ple-t``), periodic (``ple-p``), or ``none``: scalars are dropped.
        scalar_dim: width of a scalar's embedding.
        scales: number of scales of ``nme``, an odd number centred on 1: 9 means 1e-4 … 1e4; 0 means ``none``.
        scale_weighting: how ``nme`` averages over scales.
        scalar_epsilon: added to the variance inside ``nme``'s normalisation. The paper has none; a common
            LayerNorm has 1e-5, which silences scales below about 3e-3.
        resolutions: at how many resolutions pool ``auto`` reads long series: 3, or 1 for a network that was
            distilled for it.
    """

    window: int = 16
    length: int = 512
    channels: int = 1
    dim: int = 128
    depth: int = 6
    heads: int = 8
    head_dim: int = 64
    mlp_dim: int = 512
    dropout: float = 0.1
    normalization: Normalization = "window"
    scalar_embedding: ScalarEmbedding = "nme"
    scalar_dim: int = 32
    scales: int = 9
    scale_weighting: ScaleWeighting = "weighted"
    scalar_epsilon: float = 0.0
    resolutions: int = 3

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        for name, kind in get_type_hints(type(self)).items():
            choices = get_args(kind)
            if choices and getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {getattr(self, name)!r}")
        if self.window < 2:
            raise ValueError("window must be at least 2: one point has no standard deviation")
        if self.length % self.window:
            raise ValueError(f"length {self.length} is not a multiple of window {self.window}")
        if self.dim % 2 or self.scalar_dim % 2:
            raise ValueError("dim and scalar_dim must be even: sines and cosines come in pairs")
        if isinstance(self.scales, bool) or self.scales not in _SCALES:
            raise ValueError(f"scales must be 0 or an odd number up to {_SCALES[-1]}, got {self.scales!r}")
        for name in ("dropout", "scalar_epsilon"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
        if self.resolutions not in (1, 3) or isinstance(self.resolutions, bool):
            raise ValueError(f"resolutions must be 1 or 3, got {self.resolutions!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout!r}")
        if self.scalar_epsilon < 0:
            raise ValueError(f"scalar_epsilon must not be negative, got {self.scalar_epsilon!r}")

    @property
    def embeds_scalars(self) -> bool:
        """Whether means and standard deviations reach the network at all."""
        return self.scalar_embedding != "none" and (self.scalar_embedding != "nme" or self.scales > 0)

    @property
    def scale_values(self) -> tuple[float, ...]:
        """The multipliers k of the paper's Section 3.3."""
        half = self.scales // 2
        return tuple(10.0**power for power in range(-half, half + 1)) if self.scales else ()

    def replace(self, **changes: Any) -> NuTimeConfig:
        """Return a copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_json(self) -> str:
        """Return the config as a JSON object."""
        return json.dumps(dataclasses.asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> NuTimeConfig:
        """Read what :meth:`to_json` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, values: Any) -> NuTimeConfig:
        """Build a config from a mapping that names every field, and no other; older ones lack ``resolutions``."""
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict):
            raise ValueError(f"a NuTime config is a JSON object, got {type(values).__name__}")
        if unknown := sorted(map(repr, set(values) - names)):
            raise ValueError(f"unknown config field(s): {', '.join(unknown)}")
        if missing := sorted(names - set(values) - {"resolutions"}):
            raise ValueError(f"missing config field(s): {', '.join(missing)}")
        return cls(**values)
