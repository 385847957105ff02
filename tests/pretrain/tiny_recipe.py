"""The network the pretraining tests train: small enough for hundreds of steps in seconds."""

from nutime import NuTimeConfig

TINY = NuTimeConfig(window=8, length=64, dim=32, depth=2, heads=2, head_dim=16, mlp_dim=64, scalar_dim=8)
