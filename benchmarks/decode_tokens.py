"""Mean, standard deviation and shape of a window, decoded from its last-layer token by the frozen encoder alone.

    python benchmarks/decode_tokens.py [--series 4000]

Three ways, on synthetic series at scales from 1e-6 to 1e6: (a) regression of the logarithms by an MLP, (b)
classification over the encoder's own scales and a correction within the scale, (c) either of them refined by
feeding the decoded values back through the embedding and the encoder, and descending the difference of the
representations: the iterative procedure that the paper proposes. The shape is regressed in both. Printed are the
median relative error of mean and standard deviation, by decade, and the median over windows of the root mean
square error of the shape and of the values, in units of the window's standard deviation. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from torch import Tensor, nn

from nutime import NuTime
from nutime.model.windows import WindowStatistics, split_windows, window_statistics
from nutime.pretrain.decoder import seasonal_series

DECADES = range(-6, 6)


def make_series(count: int, length: int, seed: int) -> Tensor:
    """Return ``(count, 1, length)`` float64 with scales from 1e-6 to 1e6, and levels of any size beside them."""
    generator = torch.Generator().manual_seed(seed)
    series = seasonal_series(count, generator)[:, :length].double()
    scale = 10 ** (12 * torch.rand(count, 1, generator=generator, dtype=torch.float64) - 6)
    level = torch.randn(count, 1, generator=generator, dtype=torch.float64)
    return ((series / series.std(1, keepdim=True) + 2 * level) * scale)[:, None]


def embed(model: NuTime, statistics: WindowStatistics) -> Tensor:
    """Return the last-layer tokens of windows, from their shapes, means and standard deviations."""
    tokens = model.tokens
    shape, mean, std = statistics
    parts = [tokens.shape_embedding(shape.float()), tokens.scalar_embeddings[0](mean)]
    parts.append(tokens.scalar_embeddings[-1](std))
    windows = tokens.projection(torch.cat([part.float() for part in parts], -1))
    first = tokens.cls.expand(len(windows), 1, -1)
    return model.read(torch.cat([first, windows], 1))[-1][:, 1:]


class Regression(nn.Module):
    """(a): sign and log magnitude of the mean, log of the standard deviation."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layers = mlp(dim, 3)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logit of the sign and the two logarithms."""
        out = self.layers(tokens)
        return out[..., 0], 6 * out[..., 1:]

    def loss(self, tokens: Tensor, sign: Tensor, logs: Tensor) -> Tensor:
        logit, predicted = self(tokens)
        return nn.functional.l1_loss(predicted, logs) + sign_loss(logit, sign)


class Scales(nn.Module):
    """(b): the nearest of the encoder's scales, then the logarithm relative to it."""

    def __init__(self, dim: int, scales: Tensor) -> None:
        super().__init__()
        self.logs = scales.log10().float()
        self.layers = mlp(dim, 1 + 4 * len(scales))

    def outputs(self, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out = self.layers(tokens)
        logits, corrections = out[..., 1:].unflatten(-1, (2, 2, -1)).unbind(-3)
        return out[..., 0], logits, corrections

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logit of the sign and the two logarithms."""
        logit, logits, corrections = self.outputs(tokens)
        best = logits.argmax(-1, keepdim=True)
        return logit, self.logs[best[..., 0]] + corrections.gather(-1, best)[..., 0]

    def loss(self, tokens: Tensor, sign: Tensor, logs: Tensor) -> Tensor:
        logit, logits, corrections = self.outputs(tokens)
        nearest = (logs[..., None] - self.logs).abs().argmin(-1, keepdim=True)
        within = self.logs[nearest[..., 0]] + corrections.gather(-1, nearest)[..., 0]
        chosen = nn.functional.cross_entropy(logits.flatten(0, -2), nearest.flatten())
        return nn.functional.l1_loss(within, logs) + 0.3 * chosen + sign_loss(logit, sign)


def mlp(dim: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, outputs))


def sign_loss(logit: Tensor, sign: Tensor) -> Tensor:
    return 0.3 * nn.functional.binary_cross_entropy_with_logits(logit, sign)


class Shape(nn.Module):
    """The shape, of mean 0 and standard deviation 1."""

    def __init__(self, dim: int, window: int) -> None:
        super().__init__()
        self.layers = mlp(dim, window)

    def forward(self, tokens: Tensor) -> Tensor:
        out: Tensor = self.layers(tokens)
        return out

    def loss(self, tokens: Tensor, shape: Tensor) -> Tensor:
        return nn.functional.mse_loss(self(tokens), shape)


def train(decoder: Regression | Scales | Shape, tokens: Tensor, *targets: Tensor, steps: int) -> None:
    optimizer = torch.optim.AdamW(decoder.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        batch = torch.randint(len(tokens), (512,), generator=generator)
        optimizer.zero_grad()
        decoder.loss(tokens[batch], *(target[batch] for target in targets)).backward()
        optimizer.step()
        schedule.step()


def refine(
    model: NuTime, target: Tensor, shape: Tensor, sign: Tensor, logs: Tensor, steps: int
) -> tuple[Tensor, Tensor, list[float]]:
    """(c): descend the difference of representations; return logarithms, shapes and all differences."""
    logs, shape = (part.double().clone().requires_grad_() for part in (logs, shape))
    optimizer = torch.optim.Adam([logs, shape], 0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        values = 10**logs
        found = embed(model, WindowStatistics(shape, sign * values[..., 0], values[..., 1]))
        loss = (found - target).square().sum(-1).sum()
        loss.backward()
        losses.append(float(loss.detach()) / len(target))
        optimizer.step()
        schedule.step()
    return logs.detach(), shape.detach(), losses


def by_decade(predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Return the median relative error overall and by decade of the true value."""
    error = ((predicted - true).abs() / true.abs()).flatten().numpy()
    decade = true.abs().log10().floor().flatten().numpy()
    table = {"all": float(np.median(error))}
    table |= {f"1e{d}": float(np.median(error[decade == d])) for d in DECADES if (decade == d).sum() > 20}
    return {name: round(value, 4) for name, value in table.items()}


def rms(error: Tensor) -> float:
    """Return the median over windows of the root mean square."""
    return round(float(error.square().mean(-1).sqrt().median()), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=4000)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--refinements", type=int, default=100)
    arguments = parser.parse_args()
    model = NuTime.from_pretrained("nutime-base").eval().requires_grad_(False)
    config = model.config
    parts = []
    for count, seed in ((arguments.series, 0), (arguments.test, 1)):
        statistics = window_statistics(split_windows(make_series(count, config.length, seed), config.window))
        statistics = WindowStatistics(*(part[:, 0] for part in statistics))
        tokens = torch.cat(
            [
                embed(model, WindowStatistics(*rows))
                for rows in zip(*(s.split(256) for s in statistics), strict=True)
            ]
        )
        sign = (statistics.mean > 0).float()
        logs = torch.stack([statistics.mean.abs(), statistics.std], -1).clamp(min=1e-12).log10().float()
        parts.append((statistics, tokens, sign, logs))
    (known, tokens, sign, logs), (truth, target, _, _) = parts
    center, spread = tokens.mean((0, 1)), tokens.std((0, 1))
    scaled = ((tokens - center) / spread).flatten(0, 1)
    torch.manual_seed(0)
    shapes = Shape(config.dim, config.window)
    train(shapes, scaled, known.shape.float().flatten(0, 1), steps=arguments.steps)
    decoders = {
        "regression": Regression(config.dim),
        "scales": Scales(config.dim, torch.tensor(config.scale_values)),
    }
    result = {}
    for name, decoder in decoders.items():
        train(decoder, scaled, sign.flatten(), logs.flatten(0, 1), steps=arguments.steps)
        with torch.no_grad():
            logit, decoded = decoder((target - center) / spread)
            shape = shapes((target - center) / spread)
        decoded_sign = torch.where(logit > 0, 1.0, -1.0).double()
        *refined, losses = refine(model, target, shape, decoded_sign, decoded, arguments.refinements)
        print(f"{name}: representation differs by {losses[0]:.3g}, after {len(losses)} steps by {losses[-1]:.3g}")
        for stage, (found, found_shape) in ((name, (decoded, shape)), (f"{name}, refined", refined)):
            mean, std = (10 ** found.double()).unbind(-1)
            mean = decoded_sign * mean
            values = mean[..., None] + std[..., None] * found_shape
            true_values = truth.mean[..., None] + truth.std[..., None] * truth.shape
            result[stage] = {
                "mean": by_decade(mean, truth.mean),
                "std": by_decade(std, truth.std),
                "sign": round(float((decoded_sign == truth.mean.sign()).float().mean()), 4),
                "shape": rms(found_shape - truth.shape),
                "values": rms((values - true_values) / truth.std[..., None]),
            }
            print(stage, result[stage], flush=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
