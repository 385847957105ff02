"""One optimisation step, from choosing series to moving the target, without a word to the host.

Unusual here: all randomness is a hash of (seed, step, row), so a run is resumed from its step number alone,
and any number of processes draw the batch that one would. On CUDA the step is compiled and captured in one
graph; replaying it is a single call. On a CPU the same code runs as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from nutime.data.crops import crop
from nutime.model.noise import Noise, hash32
from nutime.pretrain.byol import BYOL
from nutime.pretrain.sampling import Pool
from nutime.pretrain.schedule import Schedule

_WARMUP_RUNS = 3
_FACTOR, _SHIFT = 1006, 1007  # sites of the noise beyond any dropout's, the crops' and the objective's


@dataclass(frozen=True)
class StepConfig:
    """What a step does, apart from the network and the schedule."""

    batch: int = 2048
    smallest_crop: float = 0.8
    weight_decay: float = 0.05
    seed: int = 0
    rescale: float = 0.0


class PretrainStep:
    """Calling it takes one step; ``loss``, ``spread`` and ``failed_at`` are tensors on the device."""

    def __init__(
        self,
        byol: BYOL,
        pool: Pool,
        schedule: Schedule,
        config: StepConfig,
        *,
        rank: int = 0,
        world: int = 1,
        wrap: Callable[[BYOL], nn.Module] = lambda byol: byol,
    ) -> None:
        self.byol, self.pool, self.schedule, self.config = byol, pool, schedule, config
        self.device = next(byol.parameters()).device
        on_cuda = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if on_cuda else torch.float32
        self.step = torch.zeros((), dtype=torch.int32, device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.spread = torch.zeros((), device=self.device)
        self.failed_at = torch.full((), -1, dtype=torch.int32, device=self.device)
        self.rate = torch.zeros((), device=self.device)
        trained = [parameter for parameter in byol.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, lr=self.rate, weight_decay=config.weight_decay, fused=True, capturable=on_cuda
        )
        self._create_moments()
        if config.batch % world:
            raise ValueError(f"a batch of {config.batch} cannot be shared by {world} processes; use a multiple")
        local = config.batch // world
        self._rows = torch.arange(rank * local, (rank + 1) * local, dtype=torch.int32, device=self.device)
        self._forward = wrap(byol)
        self._world = world
        self._captures = on_cuda and world == 1
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss_of_step = (
            torch.compile(self._draw_and_compare, dynamic=False) if on_cuda else self._draw_and_compare
        )

    def __call__(self) -> None:
        """Take a step."""
        if not self._captures:
            self._take()
            return
        if self._graph is None:
            self._capture()
        assert self._graph is not None
        self._graph.replay()

    def state(self) -> dict[str, Tensor]:
        """Return every tensor that a step changes, by name: all there is to save and to resume from."""
        state = {f"byol.{name}": tensor for name, tensor in self.byol.state_dict().items()}
        for name, parameter in self.byol.named_parameters():
            for moment, tensor in self.optimizer.state.get(parameter, {}).items():
                state[f"optimizer.{name}.{moment}"] = tensor
        return state | {"step": self.step, "failed_at": self.failed_at}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state` returned, in place: captured graphs stay valid."""
        own = self.state()
        if own.keys() != state.keys():
            raise ValueError(f"state does not fit this run: {sorted(own.keys() ^ state.keys())[:3]} …")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])

    def batch_of(self, step: int) -> Tensor:
        """Return which series the batch of some step is made of."""
        noise = self._noise(torch.tensor(step, dtype=torch.int32, device=self.device), self._rows)
        return self.pool.draw(noise)

    def _create_moments(self) -> None:
        """Have the optimizer make its state now, by a step that changes nothing."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for moments in self.optimizer.state.values():
            moments["step"].zero_()

    def _noise(self, step: Tensor, rows: Tensor) -> Noise:
        return Noise(hash32(step ^ hash32(torch.full_like(step, self.config.seed))), rows)

    def _views(self) -> tuple[Tensor, Noise]:
        rows = torch.cat([self._rows, self._rows + self.config.batch])
        noise = self._noise(self.step, rows)
        chosen = self.pool.draw(self._noise(self.step, self._rows)).repeat(2)
        stretch = noise.stretch(self.config.smallest_crop)
        views = crop(self.pool.series, chosen, *stretch, self.byol.network.config.length)
        if self.config.rescale:
            views = _rescaled(views, noise, self.config.rescale)
        return views.view(2, len(self._rows), 1, -1), noise

    def _draw_and_compare(self) -> tuple[Tensor, Tensor]:
        views, noise = self._views()
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            loss, spread = self._forward(views, noise)
        return loss, spread

    def _take(self) -> None:
        self.rate.copy_(self.schedule.learning_rate_at(self.step.float()))
        self.optimizer.zero_grad(set_to_none=True)
        loss, spread = self._loss_of_step()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.byol.update_target(self.schedule.momentum_at(self.step.float()))
        self.loss.copy_(loss.detach())
        if self._world > 1:
            distributed.all_reduce(self.loss)
            self.loss /= self._world
        self.spread.copy_(spread)
        newly_failed = (self.failed_at < 0) & ~torch.isfinite(self.loss)
        self.failed_at.copy_(torch.where(newly_failed, self.step, self.failed_at))
        self.step += 1

    def _capture(self) -> None:
        """Compile, warm up and capture, leaving no trace of the warm-up in the state."""
        before = {name: tensor.clone() for name, tensor in self.state().items()}
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARMUP_RUNS):
                self._take()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._take()
        self.load(before)


def _rescaled(views: Tensor, noise: Noise, strength: float) -> Tensor:
    """Change level and scale of every view, so that exact values do not give away which views belong together."""
    factor, shift = (strength * _normal(noise, site)[:, None] for site in (_FACTOR, _SHIFT))
    return views * factor.exp() + shift * views.std(1, keepdim=True)


def _normal(noise: Noise, site: int) -> Tensor:
    drawn: Tensor = torch.special.ndtri(noise.uniform(site).clamp(1e-6, 1 - 1e-6)).float()
    return drawn
