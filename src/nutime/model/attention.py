"""Self-attention; :func:`self_attention` selects the implementation.

Sequences are short (33 tokens for 512 points), and kernels tiled for long ones mostly process padding. In half
precision on CUDA, a Triton kernel keeps all heads of a sequence on chip (``short_attention.py``); otherwise
torch's attention is used. :func:`reference_attention` is the definition that both are tested against.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from nutime.model.hashing import decide, kept_factor
from nutime.model.noise import HAS_TRITON

#: Limits of the short-sequence kernel: what fits on the chip of any GPU since Ampere.
MAX_TOKENS = 128
HEAD_DIMS = (16, 32, 64)
#: The half-precision types.
HALF = (torch.bfloat16, torch.float16)


def self_attention(qkv: Tensor, heads: int, rate: float = 0.0, keys: Tensor | None = None) -> Tensor:
    """Attend within each sequence.

    Args:
        qkv: ``(batch, tokens, 3 · heads · head_dim)``: queries, keys and values side by side.
        heads: number of heads.
        rate: dropout rate of the attention weights; needs ``keys``.
        keys: ``(batch,)`` int32 dropout keys (``Noise.row_keys``).

    Returns:
        ``(batch, tokens, heads · head_dim)``.
    """
    if keys is None:
        rate = 0.0
    if qkv.is_cuda and HAS_TRITON and _fits_on_chip(qkv, heads):
        from nutime.model.short_attention import short_attention

        return short_attention(qkv, keys, heads, rate)
    if rate:
        return reference_attention(qkv, heads, rate, keys)
    query, key, value = _split_heads(qkv, heads)
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


def _fits_on_chip(qkv: Tensor, heads: int) -> bool:
    # Tensor cores would round single precision to ten bits; torch's attention does not.
    tokens, width = qkv.shape[1], qkv.shape[2] // (3 * heads)
    return qkv.dtype in HALF and tokens <= MAX_TOKENS and width in HEAD_DIMS


def reference_attention(qkv: Tensor, heads: int, rate: float = 0.0, keys: Tensor | None = None) -> Tensor:
    """:func:`self_attention` by its definition."""
    weights = attention_weights(qkv, heads)
    if rate and keys is not None:
        columns = torch.arange(weights[0].numel(), dtype=torch.int32, device=qkv.device)
        decisions = decide(keys[:, None] + columns).view(weights.shape)
        weights = weights * kept_factor(decisions, rate, weights.dtype)
    value = _split_heads(qkv, heads)[2]
    return (weights @ value).transpose(1, 2).flatten(2)


def first_token_attention(
    query: Tensor, key_value: Tensor, heads: int, rate: float = 0.0, keys: Tensor | None = None
) -> Tensor:
    """Return :func:`self_attention` of the first token alone, ``(batch, 1, heads · head_dim)``.

    Args:
        query: ``(batch, 1, heads · head_dim)``, the first token's.
        key_value: ``(batch, tokens, 2 · heads · head_dim)``, all tokens'.
        heads: number of heads.
        rate: as in :func:`self_attention`.
        keys: as in :func:`self_attention`.
    """
    batch, tokens, _ = key_value.shape
    query = query.view(batch, 1, heads, -1).transpose(1, 2)
    key, value = key_value.view(batch, tokens, 2, heads, -1).permute(2, 0, 3, 1, 4)
    weights = _softmax_scores(query, key)
    if rate and keys is not None:
        head = torch.arange(heads, dtype=torch.int32, device=query.device)
        token = torch.arange(tokens, dtype=torch.int32, device=query.device)
        columns = (head[:, None] * (tokens * tokens) + token).view(heads, 1, tokens)
        weights = weights * kept_factor(decide(keys.view(-1, 1, 1, 1) + columns), rate, weights.dtype)
    mixed: Tensor = weights.to(value.dtype) @ value
    return mixed.transpose(1, 2).flatten(2)


def attention_weights(qkv: Tensor, heads: int) -> Tensor:
    """Return the attention weights, ``(batch, heads, tokens, tokens)``; rows sum to 1."""
    query, key, _ = _split_heads(qkv, heads)
    return _softmax_scores(query, key)


def _softmax_scores(query: Tensor, key: Tensor) -> Tensor:
    scores: Tensor = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    return scores.softmax(-1)


def _split_heads(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, _ = qkv.shape
    query, key, value = qkv.view(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
    return query, key, value
