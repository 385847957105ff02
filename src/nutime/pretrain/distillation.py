"""Distillation: a small network learns to predict the embeddings of a large one, the teacher, of the same crops.

The teacher reads a crop at three resolutions; the network reads it once with each of several numbers of points, so
that it can be read with any of them later. The targets are the principal components of the teacher's
embedding, of the variation between series of the same source: that is what tells them apart in a user's data.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nutime.model.network import NuTimeNetwork
from nutime.model.noise import Noise
from nutime.model.reading import points_for, pooled_size
from nutime.pretrain.byol import spread_of

_TEACHER_POOL, _POOL = "resolutions", "upper"
#: Points that the network reads, as multiples of its own length.
_LENGTHS = (0.25, 0.5, 1, 2)
_COMPONENTS = 1024
#: The power of a component's variance that it is divided by: between none and that of equal variances, 1 / 2.
_WHITENING = 0.25
_MIN_VARIANCE = 1e-6
_HUBER_DELTA = 2.0  # errors above this count in proportion to their size


class Distillation(nn.Module):
    """The network that is trained, with a linear head, and the teacher. :meth:`fit` must come first."""

    mean: Tensor
    scale: Tensor
    components: Tensor
    teacher_checksum: Tensor

    def __init__(self, network: NuTimeNetwork, teacher: NuTimeNetwork) -> None:
        super().__init__()
        self.network = network
        self._teacher = (teacher.requires_grad_(False),)  # in a tuple, so that it is not a submodule
        self.points = points_for(teacher.config, _TEACHER_POOL)
        self._lengths = [int(factor * network.config.length) for factor in _LENGTHS]
        for length in self._lengths:
            if length % network.config.window or self.points % length:
                raise ValueError(
                    f"a network of length {network.config.length} cannot learn from this teacher, since {length} "
                    f"points are not a multiple of its window, or not a divisor of the teacher's {self.points}"
                )
        size = pooled_size(teacher.config, _TEACHER_POOL)
        count = min(_COMPONENTS, size)
        self.head = nn.Linear(pooled_size(network.config, _POOL), count)
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.register_buffer("components", torch.zeros(size, count))
        sums = torch.stack([weight.cpu().double().sum() for weight in teacher.state_dict().values()])
        self.register_buffer("teacher_checksum", sums @ torch.arange(1.0, len(sums) + 1, dtype=sums.dtype))

    @torch.no_grad()
    def fit(self, samples: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Find the components of the teacher's embedding.

        Args:
            samples: batches of ``(n, 1, points)`` crops with the index of the source of each, ``(n,)``; together
                several times as many crops as components, for a good estimate.
        """
        batches = [(self._teacher_embedding(crops), sources) for crops, sources in samples]
        embedding, sources = (torch.cat(parts) for parts in zip(*batches, strict=True))
        self.mean.copy_(embedding.mean(0))
        self.scale.copy_(embedding.std(0).clamp(min=_MIN_VARIANCE**0.5))
        rows = (embedding - self.mean) / self.scale
        counts = torch.bincount(sources).clamp(min=1)[:, None]
        means = rows.new_zeros(len(counts), rows.shape[1]).index_add_(0, sources, rows) / counts
        rows = rows - means[sources]
        variances, vectors = torch.linalg.eigh(rows.T @ rows / len(rows))  # ascending
        count = self.components.shape[1]
        variances, vectors = variances[-count:].clamp(min=_MIN_VARIANCE), vectors[:, -count:]
        weights = variances**-_WHITENING
        weights = weights / (weights * variances.sqrt()).square().mean().sqrt()
        self.components.copy_(vectors * weights)

    def forward(self, views: Tensor, noise: Noise | None = None) -> tuple[Tensor, Tensor]:
        """Return (loss, spread) of ``(2, batch, 1, points)`` views, which are independent samples.

        There is no dropout: ``noise`` is not used.
        """
        crops = views.flatten(0, 1)
        sizes = [crops.reshape(len(crops), 1, length, -1).mean(-1) for length in self._lengths]
        pooled = [self.network.pooled(series, _POOL).float() for series in sizes]
        embedding = self._teacher_embedding(crops)
        with torch.autocast(crops.device.type, enabled=False):  # targets differ by little
            targets = (embedding - self.mean) / self.scale @ self.components
            predictions = [self.head(F.layer_norm(features, features.shape[-1:])) for features in pooled]
            losses = [F.smooth_l1_loss(prediction, targets, beta=_HUBER_DELTA) for prediction in predictions]
        return torch.stack(losses).mean(), spread_of(pooled[-1])

    def update_target(self, momentum: Tensor) -> None:
        """Do nothing: the teacher does not change."""

    @torch.no_grad()
    def _teacher_embedding(self, crops: Tensor) -> Tensor:
        (teacher,) = self._teacher
        # float16 has three more bits than bfloat16, and series of a source differ by little.
        with torch.autocast(crops.device.type, torch.float16, enabled=crops.is_cuda):
            return teacher.pooled(crops, _TEACHER_POOL).float()
