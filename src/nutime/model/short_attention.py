"""Attention for sequences that fit on chip; one program processes the heads of a sequence in turn.

There is no online softmax, and nothing is saved for the backward pass: the score matrix of a head (at most
128 × 128) stays in registers, and the backward pass recomputes it, including dropout, whose mask is a hash of its
position (``noise.py``). Triton's interpreter runs the kernels on a CPU, where tests compare them with
``attention.reference_attention``.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nutime.model.drop_kernel import kept
from nutime.model.hashing import kept_scale, threshold

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _weights(q, k, token, tokens, scale):
    scores = tl.dot(q, tl.trans(k)) * (scale * _LOG2_E)
    scores = tl.where(token[None, :] < tokens, scores, float("-inf"))
    weights = tl.exp2(scores - tl.max(scores, 1)[:, None])
    return weights * (1 / tl.sum(weights, 1))[:, None]


@triton.jit
def _kept(key, head, token, tokens, threshold):
    return kept(key + (head * tokens + token[:, None]) * tokens + token[None, :], threshold)


@triton.jit
def _forward(
    qkv, keys, out, tokens, scale, threshold, kept_scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    INNER: tl.constexpr = HEADS * WIDTH
    sequence = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)[None, :]
    row = sequence * tokens + token[:, None]
    valid = token[:, None] < tokens
    key = tl.load(keys + sequence) if DROPS else 0
    for head in range(HEADS):
        source = qkv + row * (3 * INNER) + head * WIDTH + column
        q = tl.load(source, mask=valid, other=0.0)
        k = tl.load(source + INNER, mask=valid, other=0.0)
        v = tl.load(source + 2 * INNER, mask=valid, other=0.0)
        weights = _weights(q, k, token, tokens, scale)
        if DROPS:
            weights = tl.where(_kept(key, head, token, tokens, threshold), weights * kept_scale, 0.0)
        mixed = tl.dot(weights.to(v.dtype), v)
        tl.store(out + row * INNER + head * WIDTH + column, mixed.to(out.dtype.element_ty), mask=valid)


@triton.jit
def _backward(
    qkv, keys, grad_out, grad_qkv, tokens, scale, threshold, kept_scale,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    INNER: tl.constexpr = HEADS * WIDTH
    sequence = tl.program_id(0).to(tl.int64)
    token = tl.arange(0, BLOCK)
    column = tl.arange(0, WIDTH)[None, :]
    row = sequence * tokens + token[:, None]
    valid = token[:, None] < tokens
    key = tl.load(keys + sequence) if DROPS else 0
    for head in range(HEADS):
        offset = row * (3 * INNER) + head * WIDTH + column
        q = tl.load(qkv + offset, mask=valid, other=0.0)
        k = tl.load(qkv + offset + INNER, mask=valid, other=0.0)
        v = tl.load(qkv + offset + 2 * INNER, mask=valid, other=0.0)
        do = tl.load(grad_out + row * INNER + head * WIDTH + column, mask=valid, other=0.0)
        weights = _weights(q, k, token, tokens, scale)
        dweights = tl.dot(do, tl.trans(v))
        used = weights
        if DROPS:
            kept = _kept(key, head, token, tokens, threshold)
            used = tl.where(kept, weights * kept_scale, 0.0)
            dweights = tl.where(kept, dweights * kept_scale, 0.0)
        dv = tl.dot(tl.trans(used.to(v.dtype)), do)
        dscores = weights * (dweights - tl.sum(weights * dweights, 1)[:, None]) * scale
        dscores = dscores.to(q.dtype)
        target = grad_qkv + offset
        element = grad_qkv.dtype.element_ty
        tl.store(target, tl.dot(dscores, k).to(element), mask=valid)
        tl.store(target + INNER, tl.dot(tl.trans(dscores), q).to(element), mask=valid)
        tl.store(target + 2 * INNER, dv.to(element), mask=valid)


def _launch(kernel: Any, qkv: Tensor, keys: Tensor, heads: int, rate: float, *tensors: Tensor) -> None:
    batch, tokens, triple = qkv.shape
    width = triple // (3 * heads)
    block = max(16, triton.next_power_of_2(tokens))
    kernel[(batch,)](
        qkv, keys, *tensors, tokens, width**-0.5, threshold(rate), kept_scale(rate),
        HEADS=heads, WIDTH=width, BLOCK=block, DROPS=rate > 0, num_warps=4,
    )  # fmt: skip


@torch.library.custom_op("nutime::short_attention", mutates_args=())
def _short_attention(qkv: Tensor, keys: Tensor, heads: int, rate: float) -> Tensor:
    qkv = qkv.contiguous()
    out = qkv.new_empty(*qkv.shape[:2], qkv.shape[2] // 3)
    _launch(_forward, qkv, keys, heads, rate, out)
    return out


@torch.library.custom_op("nutime::short_attention_backward", mutates_args=())
def _short_attention_backward(grad: Tensor, qkv: Tensor, keys: Tensor, heads: int, rate: float) -> Tensor:
    qkv, grad = qkv.contiguous(), grad.contiguous()
    grad_qkv = torch.empty_like(qkv)
    _launch(_backward, qkv, keys, heads, rate, grad, grad_qkv)
    return grad_qkv


@_short_attention.register_fake
def _(qkv: Tensor, keys: Tensor, heads: int, rate: float) -> Tensor:
    return qkv.new_empty(*qkv.shape[:2], qkv.shape[2] // 3)


@_short_attention_backward.register_fake
def _(grad: Tensor, qkv: Tensor, keys: Tensor, heads: int, rate: float) -> Tensor:
    return torch.empty_like(qkv, memory_format=torch.contiguous_format)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    qkv, keys, ctx.heads, ctx.rate = inputs
    ctx.save_for_backward(qkv, keys)


def _attention_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
    qkv, keys = ctx.saved_tensors
    return _short_attention_backward(grad, qkv, keys, ctx.heads, ctx.rate), None, None, None


_short_attention.register_autograd(_attention_backward, setup_context=_setup_context)


@_short_attention.register_vmap
def _(
    info: Any, in_dims: tuple[Any, ...], qkv: Tensor, keys: Tensor, heads: int, rate: float
) -> tuple[Tensor, int]:
    """Map over several models: the kernel treats them as more sequences."""
    qkv = qkv.movedim(in_dims[0], 0)
    if in_dims[1] is not None:
        keys = keys.movedim(in_dims[1], 0).flatten()
    mixed: Tensor = _short_attention(qkv.flatten(0, 1), keys, heads, rate)
    return mixed.unflatten(0, qkv.shape[:2]), 0


def short_attention(qkv: Tensor, keys: Tensor | None, heads: int, rate: float) -> Tensor:
    """Compute ``attention.self_attention`` where the kernel fits."""
    if keys is None:
        keys = qkv.new_empty(0, dtype=torch.int32)
    mixed: Tensor = _short_attention(qkv, keys, heads, rate)
    return mixed
