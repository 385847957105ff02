"""Training of the decoder: stretches of real and synthetic series, points hidden at random, quantile loss.

The encoder is frozen. A stretch keeps the sampling of its series, or is stretched by up to a factor of three.
The end of a stretch (forecasting), blocks inside it (imputation) or both are hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing

import torch
from torch import Tensor

from nutime.data.corpus.store import Corpus
from nutime.encoder import seeded
from nutime.model.context import Affine
from nutime.model.decoder import CONTEXT, Decoder, pinball
from nutime.model.network import NuTimeNetwork
from nutime.model.noise import Noise
from nutime.pretrain.loop import NonFiniteLossError
from nutime.pretrain.sampling import Sampler, load_corpus
from nutime.pretrain.schedule import Schedule

_PERIODS = (4, 7, 12, 24, 24, 48, 52, 60, 96, 144, 168)
_MIN_LENGTH = 32
_SYNTHETIC = 0.4  # share of the stretches that are synthetic, generated on the device
_REPORT_EVERY = 20


def train_decoder(
    encoder: NuTimeNetwork,
    corpus: Corpus,
    steps: int,
    *,
    batch: int = 512,
    learning_rate: float = 1e-3,
    seed: int = 0,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> Decoder:
    """Train a decoder for a frozen encoder, on the encoder's device.

    Args:
        encoder: a univariate encoder.
        corpus: the real series; sources are drawn in proportion to the square root of their size.
        steps: number of steps; the learning rate warms up, then decays to zero on a cosine.
        batch: stretches per step, of which :data:`_SYNTHETIC` are synthetic.
        learning_rate: peak learning rate of AdamW.
        seed: seeds all randomness.
        report: called every :data:`_REPORT_EVERY` steps, and at the end, with the number of steps and the loss.
    """
    config = encoder.config
    if config.channels > 1 or CONTEXT % config.window:
        raise ValueError(
            f"a decoder needs an encoder of one channel whose window divides {CONTEXT}; "
            f"this one has {config.channels} and a window of {config.window}"
        )
    device = next(encoder.parameters()).device
    with seeded(seed):
        decoder = Decoder(config).to(device)
    schedule = Schedule(steps, learning_rate, 0.05)
    on_cuda = device.type == "cuda"
    optimizer = torch.optim.AdamW(decoder.parameters(), weight_decay=0.05, fused=on_cuda)
    generator = torch.Generator(device).manual_seed(seed)

    def loss_of(values: Tensor, observed: Tensor, present: Tensor) -> Tensor:
        affine = Affine.fit(values, observed)
        compressed = affine.compress(values).clamp(-8, 8)
        with torch.autocast(device.type, torch.bfloat16, enabled=on_cuda):
            predicted = decoder(encoder, compressed, observed, present)
        hidden = present & ~observed
        return (pinball(predicted, compressed) * hidden).sum() / hidden.sum().clamp(min=1)

    compiled = torch.compile(loss_of, dynamic=False) if on_cuda else loss_of
    n_synthetic = round(_SYNTHETIC * batch)
    with closing(load_corpus(corpus, "sqrt", device, batch=batch, seed=seed)) as data:
        for step in range(steps):
            data.prepare(step)
            real, real_present = _stretches(data.sampler, batch - n_synthetic, generator)
            made, made_present = seasonal_series(n_synthetic, generator), _random_start(n_synthetic, generator)
            values, present = torch.cat([real, made]), torch.cat([real_present, made_present])
            observed = present & ~hide(present, generator)
            for group in optimizer.param_groups:
                group["lr"] = float(schedule.learning_rate_at(torch.tensor(float(step))))
            optimizer.zero_grad(set_to_none=True)
            loss = compiled(values, observed, present)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimizer.step()
            if (step + 1) % _REPORT_EVERY == 0 or step + 1 == steps:
                if not torch.isfinite(loss):
                    raise NonFiniteLossError(f"the loss of step {step} is not finite; lower the learning rate")
                report(step + 1, loss.item())
    return decoder


def _uniform(count: int, low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(count, 1, generator=generator, device=generator.device)


def _log_uniform(count: int, low: float, high: float, generator: torch.Generator) -> Tensor:
    return _uniform(count, math.log(low), math.log(high), generator).exp()


def _random_start(count: int, generator: torch.Generator) -> Tensor:
    """Return which points are present: from a random point to the end."""
    visible = _log_uniform(count, 2 * _MIN_LENGTH, 2 * CONTEXT, generator)
    return torch.arange(CONTEXT, 0, -1, device=generator.device) <= visible


def _stretches(sampler: Sampler, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return stretches of real series, right-aligned, and which of their points are present."""
    series = sampler.series
    device = generator.device
    rows = torch.randint(2**31 - 1, (count,), generator=generator, device=device, dtype=torch.int32)
    index = sampler.draw(Noise(rows[0], rows))
    length = series.lengths[index][:, None]
    # Half of the stretches keep the sampling of their series.
    zoom = torch.where(_uniform(count, 0, 1, generator) < 0.5, 1, _log_uniform(count, 1 / 3, 3, generator))
    size = (length * zoom).floor().clamp(_MIN_LENGTH, CONTEXT)
    step = torch.minimum(1 / zoom, (length - 1) / (size - 1))
    start = (length - 1 - step * (size - 1)).clamp(min=0) * _uniform(count, 0, 1, generator)
    place = torch.arange(CONTEXT, device=device) - (CONTEXT - size)
    position = (start + step * place.clamp(min=0)).minimum(length - 1)
    left = position.long()
    right = torch.minimum(left + 1, length - 1)
    first = series.starts[index][:, None]
    before, after = series.values[first + left], series.values[first + right]
    return torch.lerp(before, after, (position - left).to(before.dtype)), place >= 0


def hide(present: Tensor, generator: torch.Generator) -> Tensor:
    """Return which of the present points are hidden: the end, blocks, or both; at most two thirds of them."""
    count, length = present.shape
    device = present.device
    size = present.sum(1, keepdim=True)
    from_end = torch.arange(length, 0, -1, device=device)
    horizon = torch.minimum(_log_uniform(count, 2, 256, generator), size * _uniform(count, 0.05, 0.6, generator))
    kind = _uniform(count, 0, 1, generator)
    hidden = (from_end <= horizon.ceil()) & (kind < 0.55)
    # Blocks of one length per series: each block of a random partition is hidden with one probability.
    block = _log_uniform(count, 1, 128, generator).minimum(size / 6).clamp(min=1)
    number = ((torch.arange(length, device=device) + length * _uniform(count, 0, 1, generator)) / block).long()
    draws = torch.rand(count, 2 * length + 2, generator=generator, device=device)
    share = _uniform(count, 0.05, 0.6, generator)
    blocks = (draws.gather(1, number.clamp(max=2 * length + 1)) < share) & (kind > 0.4)
    hidden = (hidden | blocks) & present
    return hidden & (hidden.sum(1, keepdim=True) <= 0.67 * size)


def seasonal_series(count: int, generator: torch.Generator) -> Tensor:
    """Return ``(count, CONTEXT)`` series of trends, seasons within seasons, and noise."""
    device = generator.device

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    def uniform(low: float, high: float) -> Tensor:
        return _uniform(count, low, high, generator)

    t = torch.arange(CONTEXT, device=device)
    common = torch.tensor(_PERIODS, device=device, dtype=torch.float32)
    chosen = common[torch.randint(len(common), (count, 1), generator=generator, device=device)]
    period = torch.where(uniform(0, 1) < 0.6, chosen, _log_uniform(count, 3, 300, generator))
    phase = t / period + uniform(0, 1)
    order = torch.arange(1, 9, device=device)
    weight = order ** -uniform(0.3, 2.5) * (2 * order < period)
    angle = 2 * math.pi * order[:, None] * phase[:, None, :]
    waves = weight[..., None] * (normal(count, 8, 1) * angle.sin() + normal(count, 8, 1) * angle.cos())
    season = _standardised(waves.sum(1))
    # A season of seasons, as days in a week: each cycle has a factor and an offset of its own, repeated.
    cycles = torch.tensor([7.0, 7.0, 12.0, 4.0, 5.0], device=device)[
        torch.randint(5, (count, 1), generator=generator, device=device)
    ]
    number = (phase.floor() % cycles).long()
    uneven = uniform(0, 1) < 0.5
    factor = torch.where(uneven, 1 + uniform(0, 0.8) * normal(count, 12), 1).gather(1, number)
    offset = torch.where(uneven, uniform(0, 1) * normal(count, 12), 0).gather(1, number)
    drift = 1 + uniform(0, 0.5) * _standardised(normal(count, CONTEXT).cumsum(1))
    season = (season * factor + offset) * drift
    noise = _autoregressive(normal(count, CONTEXT), uniform(0, 0.95))
    trend = uniform(-2, 2) * t / CONTEXT + uniform(0, 1.5) ** 2 * _standardised(normal(count, CONTEXT).cumsum(1))
    jumps = (torch.rand(count, CONTEXT, generator=generator, device=device) < 1 / 600) * normal(count, CONTEXT)
    parts = [
        (uniform(0, 1) < 0.85) * season * _log_uniform(count, 0.2, 3, generator),
        (uniform(0, 1) < 0.8) * trend * _log_uniform(count, 0.1, 3, generator),
        noise * _log_uniform(count, 0.01, 1, generator),
        (uniform(0, 1) < 0.3) * 2 * jumps.cumsum(1),
    ]
    total = torch.stack(parts).sum(0)
    return torch.where(uniform(0, 1) < 0.3, (total * uniform(0.1, 0.6)).clamp(max=6).exp(), total)


def _standardised(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True).clamp(min=1e-6)


def _autoregressive(noise: Tensor, coefficient: Tensor) -> Tensor:
    """Filter white noise to AR(1) with standard deviation 1, by its impulse response."""
    length = noise.shape[1]
    response = coefficient ** torch.arange(length, device=noise.device)
    spectrum = torch.fft.rfft(noise, 2 * length) * torch.fft.rfft(response, 2 * length)
    return _standardised(torch.fft.irfft(spectrum, 2 * length)[:, :length])
