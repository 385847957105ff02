"""The configuration of a pretraining run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, get_args

from nutime.checks import check_number
from nutime.model.config import NuTimeConfig
from nutime.pretrain.byol import Objective
from nutime.pretrain.sampling import Sampling

#: Valid values of the parameters of a run that are not integers.
_INTERVALS = {
    "epochs": "(0, inf)",
    "learning_rate": "(0, inf)",
    "warmup": "[0, 1]",
    "momentum": "[0, 1]",
    "weight_decay": "[0, inf)",
    "smallest_crop": "(0, 1]",
    "rescale": "[0, inf)",
}


@dataclass(frozen=True)
class PretrainConfig:
    """A whole run. The defaults are the paper's; ``steps`` of None means ``epochs`` times the corpus.

    With a ``teacher``, an encoder by name or folder, the run is a distillation of it instead of BYOL
    (:mod:`~nutime.pretrain.distillation`).

    ``pool``, ``masked`` and ``contrast`` are those of :class:`~nutime.pretrain.byol.Objective`.

    Attributes:
        batch: series per step, over all processes.
        weight_decay: of AdamW.
        smallest_crop: smallest share of a series that a view covers.
        rescale: standard deviation of the random changes of a view's level and log scale.
        seed: seeds all randomness.
    """

    network: NuTimeConfig = field(default_factory=NuTimeConfig)
    epochs: float = 100.0
    steps: int | None = None
    teacher: str | None = None
    batch: int = 2048
    learning_rate: float = 2e-3
    warmup: float = 0.1
    momentum: float = 0.999
    weight_decay: float = 0.05
    smallest_crop: float = 0.8
    rescale: float = 0.0
    pool: str = "cls"
    masked: float = 0.0
    contrast: float = 0.0
    sampling: Sampling = "size"
    seed: int = 0
    log_every: int = 20
    probe_every: int = 1000
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        for name, interval in _INTERVALS.items():
            check_number(name, getattr(self, name), interval)
        for name in ("batch", "log_every", "probe_every", "checkpoint_every"):
            check_number(name, getattr(self, name), "[1, inf)", integer=True)
        check_number("seed", self.seed, "[0, 2147483647]", integer=True)  # hashed as int32
        if self.steps is not None:
            check_number("steps", self.steps, "[1, inf)", integer=True)
        objective = self.objective  # refuses values that it does not know
        if objective != Objective() and self.teacher is not None:
            raise ValueError("pool, masked and contrast have no effect with a teacher; leave them out")
        if self.sampling not in get_args(Sampling):
            raise ValueError(f"sampling must be one of {', '.join(get_args(Sampling))}; got {self.sampling!r}")

    @property
    def objective(self) -> Objective:
        """The task of BYOL."""
        return Objective(self.pool, self.masked, self.contrast)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PretrainConfig:
        """Read what ``dataclasses.asdict`` made; earlier versions also wrote ``lengths``, empty in all recipes."""
        known = {name: value for name, value in values.items() if name != "lengths" or value}
        return cls(**{**known, "network": NuTimeConfig.from_dict(values["network"])})

    def steps_for(self, corpus_size: int) -> int:
        """Return the number of steps of the run."""
        return self.steps or max(1, round(self.epochs * corpus_size / self.batch))
