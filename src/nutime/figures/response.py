"""The embedding of a scalar as a function of the scalar (paper, Figure 3): one block, and NME over all scales.

A block, linear + LayerNorm, saturates away from its multiplier k; the weighted sum over scales does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nutime.figures.style import line_style, panels, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nutime.model.network import NuTimeNetwork
    from nutime.model.scalars import MultiScaledEmbedding

BLOCK_SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)
CHANNELS = 5
_MIN_MAGNITUDE = 1e-5


class Response(NamedTuple):
    """Responses of one module at the points ``x``.

    Attributes:
        x: inputs, ascending.
        block: one output channel of a block, ``(scales, points)``, for each k of :data:`BLOCK_SCALES`.
        nme: some output channels of the whole module, ``(channels, points)``.
    """

    x: NDArray[np.float64]
    block: NDArray[np.float64]
    nme: NDArray[np.float64]


@styled
def draw_response(responses: Mapping[str, Response]) -> Figure:
    """Draw one column per module, for example ``random weights`` and ``trained weights``."""
    figure, axes = panels(2, len(responses), width=4.2, height=2.4)
    above, below = axes[: len(responses)], axes[len(responses) :]
    k_labels = [f"k = {scale:g}" for scale in BLOCK_SCALES]
    for (name, response), top, bottom in zip(responses.items(), above, below, strict=True):
        _curves(top, response.x, response.block, k_labels)
        top.set_title(f"One block, {name}")
        channels = [f"channel {index + 1}" for index in range(len(response.nme))]
        _curves(bottom, response.x, response.nme, channels)
        bottom.set_title(f"NME, {name}")
        bottom.set_xlabel("x")
    above[0].set_ylabel("one channel of y(x)")
    below[0].set_ylabel("channels of e(x)")
    for panel in (above[-1], below[-1]):
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), handlelength=3)
    return figure


def respond(encoder: NuTimeNetwork) -> Response:
    """Compute the responses of an encoder's scalar embedding, in float64.

    Raises:
        ValueError: the encoder has no numerically multi-scaled embedding.
    """
    import torch

    module = _nme(encoder)
    magnitudes = np.logspace(np.log10(_MIN_MAGNITUDE), 5, 400)
    x = np.concatenate([-magnitudes[::-1], [0.0], magnitudes])
    with torch.inference_mode():
        inputs = torch.from_numpy(x)
        nme = module(inputs)[:, :CHANNELS].T.double().cpu().numpy()
        block = np.stack([_block(module, k)(inputs)[:, 0].double().cpu().numpy() for k in BLOCK_SCALES])
    return Response(x, block, nme)


def _nme(encoder: NuTimeNetwork) -> MultiScaledEmbedding:
    from nutime.model.scalars import MultiScaledEmbedding

    for module in encoder.modules():
        if isinstance(module, MultiScaledEmbedding):
            return module
    raise ValueError(f"this encoder embeds scalars by {encoder.config.scalar_embedding!r}; expected 'nme'")


def _block(module: MultiScaledEmbedding, k: float) -> MultiScaledEmbedding:
    """Return the block of the middle scale alone, with the multiplier ``k``."""
    from nutime.model.scalars import MultiScaledEmbedding

    block = MultiScaledEmbedding([k], module.weight.shape[1], module.weighting, module.epsilon)
    middle = len(module.weight) // 2
    block.load_state_dict({"weight": module.weight[middle : middle + 1], "bias": module.bias[middle : middle + 1]})
    return block


def _curves(panel: Axes, x: NDArray[np.float64], curves: NDArray[np.float64], labels: list[str]) -> None:
    for index, (curve, label) in enumerate(zip(curves, labels, strict=True)):
        panel.plot(x, curve, label=label, **line_style(index))
    panel.set_xscale("symlog", linthresh=_MIN_MAGNITUDE, linscale=0.5)
    panel.set_xticks([-1e4, -1, -1e-4, 1e-4, 1, 1e4])
    panel.minorticks_off()
    panel.grid(True)
