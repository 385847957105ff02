"""Dropout as one Triton kernel, for eager CUDA code; its masks equal those of ``noise.Noise.drop`` bit for bit.

No mask is stored: the gradient of dropout is the same dropout, so the backward pass runs the same kernel with the
same keys. Tests compare it with ``noise.py`` on a CPU by Triton's interpreter.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nutime.model.hashing import MULTIPLIER_1, MULTIPLIER_2, kept_scale, threshold

_MULTIPLIER_1 = tl.constexpr(MULTIPLIER_1)
_MULTIPLIER_2 = tl.constexpr(MULTIPLIER_2 & 0xFFFFFFFF)
_BLOCK = 1024


@triton.jit
def kept(counter, threshold):
    """Return which elements are kept; equals ``hashing.decide``."""
    x = counter.to(tl.uint32, bitcast=True) * _MULTIPLIER_1
    x = (x ^ (x >> 15)) * _MULTIPLIER_2
    return x.to(tl.int32, bitcast=True) >= threshold


@triton.jit
def _drop_kernel(x, keys, out, columns, threshold, kept_scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < columns
    values = tl.load(x + row * columns + column, mask=inside, other=0.0)
    survives = kept(tl.load(keys + row) + column, threshold)
    values = tl.where(survives, values * kept_scale, 0.0)
    tl.store(out + row * columns + column, values.to(out.dtype.element_ty), mask=inside)


@torch.library.custom_op("nutime::drop", mutates_args=())
def _drop(x: Tensor, keys: Tensor, rate: float) -> Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    columns = x[0].numel()
    grid = (len(x), triton.cdiv(columns, _BLOCK))
    _drop_kernel[grid](x, keys, out, columns, threshold(rate), kept_scale(rate), BLOCK=_BLOCK)
    return out


@_drop.register_fake
def _(x: Tensor, keys: Tensor, rate: float) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, keys, ctx.rate = inputs
    ctx.save_for_backward(keys)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return _drop(grad, ctx.saved_tensors[0], ctx.rate), None, None


_drop.register_autograd(_backward, setup_context=_setup_context)


@_drop.register_vmap
def _(info: Any, in_dims: tuple[Any, ...], x: Tensor, keys: Tensor, rate: float) -> tuple[Tensor, int]:
    """Map over several models: the kernel treats them as more rows."""
    x, keys = x.movedim(in_dims[0], 0), keys.movedim(in_dims[1], 0)
    dropped: Tensor = _drop(x.flatten(0, 1), keys.flatten(), rate)
    return dropped.unflatten(0, x.shape[:2]), 0


def drop(x: Tensor, keys: Tensor, rate: float) -> Tensor:
    """Apply dropout to ``(batch, ...)`` by the batch's int32 ``keys``."""
    dropped: Tensor = _drop(x, keys, rate)
    return dropped
