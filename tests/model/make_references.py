"""Write ``references/*.npz``: the float64 outputs two tiny networks must have. To regenerate them:

    python tests/model/make_references.py

Nothing of the package is used. The outputs come from the formulas of the paper's Section 3, in
numpy, one series, window and head at a time; weights and inputs are stored beside them. So the references
depend neither on torch's random numbers nor on the code they are there to check, and the names of the stored
weights are the names every saved model relies on.
"""

import json
import math
import statistics
from fractions import Fraction
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "references"
CONFIG = {
    "window": 4, "length": 32, "channels": 1, "dim": 16, "depth": 2, "heads": 2, "head_dim": 8, "mlp_dim": 32,
    "dropout": 0.1, "normalization": "window", "scalar_embedding": "nme", "scalar_dim": 4, "scales": 9,
    "scale_weighting": "weighted", "scalar_epsilon": 0.0,
}  # fmt: skip
SCALES = [10.0**power for power in range(-4, 5)]


def draw_weights(config, rng):
    """Draw weights by name, rounded to float32 so that both precisions start from the same numbers."""
    dim, inner = config["dim"], config["heads"] * config["head_dim"]
    weights = {"tokens.cls": rng.normal(size=dim)}

    def linear(name, inputs, outputs, bias=True):
        weights[f"{name}.weight"] = rng.normal(size=(outputs, inputs)) / math.sqrt(inputs)
        if bias:
            weights[f"{name}.bias"] = 0.1 * rng.normal(size=outputs)

    def norm(name):
        weights[f"{name}.weight"] = 1 + 0.1 * rng.normal(size=dim)
        weights[f"{name}.bias"] = 0.1 * rng.normal(size=dim)

    linear("tokens.shape_embedding.0", config["window"], dim)
    norm("tokens.shape_embedding.1")
    for part in ("weight", "bias"):
        weights[f"tokens.scalar_embeddings.0.{part}"] = rng.uniform(
            -1, 1, (config["scales"], config["scalar_dim"])
        )
    linear("tokens.projection.0", dim + 2 * config["scalar_dim"], dim)
    norm("tokens.projection.1")
    if config["channels"] > 1:
        linear("tokens.channel_projection.0", config["channels"] * dim, dim)
        norm("tokens.channel_projection.1")
    for index in range(config["depth"]):
        layer = f"transformer.layers.{index}"
        norm(f"{layer}.attention_norm")
        linear(f"{layer}.qkv", dim, 3 * inner, bias=False)
        linear(f"{layer}.attention_out", inner, dim)
        norm(f"{layer}.mlp_norm")
        linear(f"{layer}.mlp_in", dim, config["mlp_dim"])
        linear(f"{layer}.mlp_out", config["mlp_dim"], dim)
    norm("norm")
    return {name: values.astype(np.float32) for name, values in weights.items()}


def draw_series(config, rng):
    """Series of ordinary, huge and tiny values, of small waves far from zero, and of many scales at once."""
    time = np.arange(config["length"], dtype=np.float64)
    noise = rng.normal(size=(config["channels"], config["length"]))
    powers = np.repeat(np.arange(-4.0, 4.0), config["length"] // 8)
    wave = np.sin(time / 3) + 0.1 * noise
    return np.stack(
        [wave, 1e6 + 1e-3 * wave, 1e100 * wave, 1e-9 * wave, 10**powers * wave, 0 * wave, 0 * wave + 5]
    )


class Literal:
    """The network by its formulas, one series at a time."""

    def __init__(self, config, weights):
        self.config = config
        self.weights = {name: values.astype(np.float64) for name, values in weights.items()}

    def __call__(self, series):
        stream = self.tokens(series) + self.positions(1 + self.config["length"] // self.config["window"])
        for index in range(self.config["depth"]):
            layer = f"transformer.layers.{index}"
            qkv = self.linear(f"{layer}.qkv", self.norm(f"{layer}.attention_norm", stream))
            attended = self.attention(qkv)
            stream = stream + self.linear(f"{layer}.attention_out", attended)
            hidden = gelu(self.linear(f"{layer}.mlp_in", self.norm(f"{layer}.mlp_norm", stream)))
            stream = stream + self.linear(f"{layer}.mlp_out", hidden)
        return self.norm("norm", stream)

    def tokens(self, series):
        rows = [self.weights["tokens.cls"]]
        for start in range(0, self.config["length"], self.config["window"]):
            parts = [self.window(channel[start : start + self.config["window"]]) for channel in series]
            token = np.concatenate(parts)
            rows.append(self.embed("tokens.channel_projection", token) if len(parts) > 1 else token)
        return np.stack(rows)

    def window(self, values):
        exact = [Fraction(value) for value in values.tolist()]
        mean, std = statistics.mean(exact), float(statistics.stdev(exact))
        shape = np.array([float(value - mean) for value in exact]) / (std + 1e-8)
        parts = [self.embed("tokens.shape_embedding", shape), self.scalar(float(mean)), self.scalar(std)]
        return self.embed("tokens.projection", np.concatenate(parts))

    def scalar(self, x):
        total, share = np.zeros(self.config["scalar_dim"]), 0.0
        weight, bias = (self.weights[f"tokens.scalar_embeddings.0.{part}"] for part in ("weight", "bias"))
        for k, w, b in zip(SCALES, weight, bias, strict=True):
            z = x * w + k * b
            closeness = 1 / (abs(math.log(abs(x) / k + 1e-6)) + 1e-6)
            total += closeness * (z - z.mean()) / z.std()
            share += closeness
        return total / share

    def positions(self, count):
        dim = self.config["dim"]
        angles = [[place / 10000 ** (pair / dim) for pair in range(0, dim, 2)] for place in range(count)]
        return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(count, dim).astype(np.float32)

    def attention(self, qkv):
        heads, head_dim = self.config["heads"], self.config["head_dim"]
        mixed = []
        for head in range(heads):
            q, k, v = (qkv[:, (part * heads + head) * head_dim :][:, :head_dim] for part in range(3))
            weights = np.exp(q @ k.T / math.sqrt(head_dim))
            mixed.append(weights / weights.sum(1, keepdims=True) @ v)
        return np.concatenate(mixed, axis=1)

    def embed(self, name, x):
        return self.norm(f"{name}.1", self.linear(f"{name}.0", x))

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def norm(self, name, x):
        scaled = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def main():
    for channels in (1, 3):
        config = {**CONFIG, "channels": channels}
        rng = np.random.default_rng(channels)
        weights, series = draw_weights(config, rng), draw_series(config, rng)
        outputs = np.stack([Literal(config, weights)(one) for one in series])
        contents = {"config": np.array(json.dumps(config)), "series": series, "outputs": outputs, **weights}
        np.savez_compressed(FOLDER / f"channels{channels}.npz", **contents)


if __name__ == "__main__":
    main()
