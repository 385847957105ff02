"""Attention: every path is the definition, dropout and gradients included."""

import os
import subprocess
import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from nutime.model.attention import attention_weights, reference_attention, self_attention
from nutime.model.hashing import kept_scale, threshold
from nutime.model.noise import Noise

HEADS = 2


def random_qkv(tokens, head_dim, batch=2, dtype=torch.float64):
    torch.manual_seed(1000 * tokens + head_dim)
    return torch.randn(batch, tokens, 3 * HEADS * head_dim, dtype=dtype)


def random_keys(batch=2):
    return Noise(torch.tensor(7, dtype=torch.int32), torch.arange(batch, dtype=torch.int32)).row_keys(1)


def with_gradient(attend, qkv):
    """Return the output and the gradient of a fixed random projection of it."""
    qkv = qkv.clone().requires_grad_()
    mixed = attend(qkv)
    torch.manual_seed(0)
    mixed.backward(torch.randn_like(mixed))
    return mixed.detach(), qkv.grad


def literal_attention(qkv, rate=0.0, keys=None):
    """Softmax of scaled products, one sequence and one head at a time."""
    batch, tokens, triple = qkv.shape
    inner = triple // 3
    head_dim = inner // HEADS
    out = torch.zeros(batch, tokens, inner, dtype=qkv.dtype)
    for sequence in range(batch):
        for head in range(HEADS):
            here = slice(head * head_dim, (head + 1) * head_dim)
            q, k, v = (qkv[sequence, :, part * inner : (part + 1) * inner][:, here] for part in range(3))
            weights = torch.exp(q @ k.T / head_dim**0.5)
            weights = weights / weights.sum(1, keepdim=True)
            if rate:
                first = int(keys[sequence]) + head * tokens * tokens
                decisions = [python_decide(first + column) for column in range(tokens * tokens)]
                kept = torch.tensor(decisions).view(tokens, tokens) >= threshold(rate)
                weights = weights * kept * kept_scale(rate)
            out[sequence, :, here] = weights @ v
    return out


def python_decide(x):
    x = x * 0x7FEB352D % 2**32
    x = (x ^ x >> 15) * 0x846CA68B % 2**32
    return x - 2**32 if x >= 2**31 else x


# ---- the definition -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("head_dim", [4, 16])
@pytest.mark.parametrize("tokens", [1, 2, 9])
def test_the_reference_is_softmax_attention_head_by_head(tokens, head_dim, rate):
    qkv, keys = random_qkv(tokens, head_dim), random_keys()
    torch.testing.assert_close(
        reference_attention(qkv, HEADS, rate, keys), literal_attention(qkv, rate, keys), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("head_dim", [8, 64])
@pytest.mark.parametrize("tokens", [1, 2, 33, 129, 321])
def test_self_attention_is_the_reference(tokens, head_dim, rate):
    qkv, keys = random_qkv(tokens, head_dim), random_keys()
    ours = with_gradient(lambda x: self_attention(x, HEADS, rate, keys), qkv)
    reference = with_gradient(lambda x: reference_attention(x, HEADS, rate, keys), qkv)
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-12)


def test_self_attention_in_float32_is_the_reference_in_float64():
    qkv = random_qkv(33, 16, dtype=torch.float32)
    torch.testing.assert_close(
        self_attention(qkv, HEADS).double(), reference_attention(qkv.double(), HEADS), rtol=0, atol=1e-6
    )


def test_without_keys_there_is_no_dropout():
    qkv = random_qkv(9, 16)
    assert torch.equal(self_attention(qkv, HEADS, rate=0.5), self_attention(qkv, HEADS))


def test_a_sequence_has_the_same_dropout_at_any_position():
    qkv, keys = random_qkv(9, 16, batch=5), random_keys(5)
    order = torch.tensor([3, 0, 4])
    together = self_attention(qkv, HEADS, 0.5, keys)
    torch.testing.assert_close(self_attention(qkv[order], HEADS, 0.5, keys[order]), together[order])


@pytest.mark.parametrize("spread", [0.1, 1.0, 100.0])
def test_attention_weights_are_shares(spread):
    weights = attention_weights(spread * random_qkv(33, 16), HEADS)
    assert weights.shape == (2, HEADS, 33, 33)
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 33, dtype=torch.float64))


# ---- the kernels, interpreted ---------------------------------------------------------------------------


@pytest.fixture
def short_attention():
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("with a GPU the kernels are compiled; set TRITON_INTERPRET=1 to interpret them")
    from nutime.model.short_attention import short_attention

    return short_attention


@pytest.mark.parametrize("rate", [0.0, 0.1])
@pytest.mark.parametrize("head_dim", [16, 64])
@pytest.mark.parametrize("tokens", [2, 5, 33, 65, 128])
def test_the_kernels_are_the_reference(short_attention, tokens, head_dim, rate):
    qkv, keys = random_qkv(tokens, head_dim), random_keys()
    ours = with_gradient(lambda x: short_attention(x, keys, HEADS, rate), qkv)
    reference = with_gradient(lambda x: reference_attention(x, HEADS, rate, keys), qkv)
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-12)


def test_the_kernels_in_float32_are_the_reference_in_float64(short_attention):
    qkv, keys = random_qkv(33, 16, dtype=torch.float32), random_keys()
    ours = with_gradient(lambda x: short_attention(x, keys, HEADS, 0.1), qkv)
    reference = with_gradient(lambda x: reference_attention(x.double(), HEADS, 0.1, keys).float(), qkv)
    torch.testing.assert_close(ours, reference, rtol=0, atol=1e-5)


def test_the_kernels_need_no_keys_without_dropout(short_attention):
    qkv = random_qkv(5, 16)
    torch.testing.assert_close(short_attention(qkv, None, HEADS, 0.0), reference_attention(qkv, HEADS))


def test_the_kernels_take_inputs_and_gradients_of_any_layout(short_attention):
    scattered = random_qkv(5, 16).transpose(0, 1).contiguous().transpose(0, 1)
    assert not scattered.is_contiguous()
    gradients = []
    for attend in (lambda x: short_attention(x, None, HEADS, 0.0), lambda x: reference_attention(x, HEADS)):
        qkv = scattered.detach().requires_grad_()
        attend(qkv).sum().backward()  # the gradient of a sum is one number expanded
        gradients.append(qkv.grad)
    torch.testing.assert_close(*gradients)


def test_the_kernels_survive_large_scores(short_attention):
    qkv = 1e3 * random_qkv(5, 16)
    torch.testing.assert_close(short_attention(qkv, None, HEADS, 0.0), reference_attention(qkv, HEADS))


def test_the_kernels_are_registered_correctly_with_the_compiler(short_attention):
    qkv = random_qkv(5, 16).requires_grad_()
    torch.library.opcheck(torch.ops.nutime.short_attention.default, (qkv, random_keys(), HEADS, 0.1))


def test_the_kernels_serve_several_models_at_once(short_attention):
    models, batch = 3, 2
    qkv = torch.stack([random_qkv(5, 16, batch) + model for model in range(models)])
    keys = torch.stack([random_keys(batch) + model for model in range(models)])

    def attend(qkv):
        return torch.func.vmap(lambda qkv, keys: short_attention(qkv, keys, HEADS, 0.1))(qkv, keys)

    def one_by_one(qkv):
        each = [reference_attention(own, HEADS, 0.1, key) for own, key in zip(qkv, keys, strict=True)]
        return torch.stack(each)

    torch.testing.assert_close(with_gradient(attend, qkv), with_gradient(one_by_one, qkv), rtol=0, atol=1e-12)


# ---- which one a GPU runs; fake tensors show it without a GPU --------------------------------------------


class Called(TorchDispatchMode):
    """Records the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("dtype", "tokens", "head_dim", "kernel"),
    [
        (torch.bfloat16, 33, 64, True),
        (torch.bfloat16, 128, 64, True),
        (torch.float16, 33, 16, True),
        (torch.bfloat16, 129, 64, False),
        (torch.bfloat16, 33, 128, False),
        (torch.bfloat16, 33, 24, False),
        # It would not fit on the chip from 65 tokens on, and tensor cores would round it.
        (torch.float32, 33, 64, False),
        (torch.float32, 65, 64, False),
        (torch.float64, 33, 64, False),
    ],
)
def test_on_cuda_the_kernel_serves_half_precision_where_it_fits(dtype, tokens, head_dim, kernel):
    pytest.importorskip("triton")
    with FakeTensorMode(), Called() as called:
        self_attention(torch.empty(2, tokens, 3 * HEADS * head_dim, dtype=dtype, device="cuda"), HEADS)
    assert ("nutime.short_attention.default" in called.names) == kernel


COMPILE = """
import sys, triton
from triton.backends.compiler import GPUTarget
from nutime.model import short_attention
from nutime.model.attention import HEAD_DIMS, MAX_TOKENS
for kernel in (short_attention._forward, short_attention._backward):
    fixed = dict(HEADS=8, WIDTH=max(HEAD_DIMS), BLOCK=MAX_TOKENS, DROPS=True)
    kinds = dict(keys="*i32", tokens="i32", scale="fp32", threshold="i32", kept_scale="fp32")
    signature = {name: "constexpr" if name in fixed else kinds.get(name, "*bf16") for name in kernel.arg_names}
    constants = {(kernel.arg_names.index(name),): value for name, value in fixed.items()}
    source = triton.compiler.ASTSource(kernel, signature, constexprs=constants)
    print(triton.compile(source, target=GPUTarget("cuda", int(sys.argv[1]), 32)).metadata.shared)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "kilobytes"), [(80, 163), (86, 99), (89, 99), (90, 227), (120, 99)])
def test_the_largest_tile_fits_on_the_chip(architecture, kilobytes):
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILE, str(architecture)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert max(map(int, run.stdout.split())) <= kilobytes * 1024
