"""One optimisation step: draw series, crop two views, compute the loss, update the weights and the target network.

All randomness is a hash of (seed, step, row): a run is resumed from its step number alone, and any number of
processes draw the batch that one process would. On CUDA the step is compiled and captured in a graph; on a CPU the
same code runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn

from nutime.cuda_graph import GraphedStep
from nutime.data.crops import SHRINK_SAMPLES, crop
from nutime.model.hashing import hash32
from nutime.model.noise import Noise
from nutime.pretrain.byol import BYOL
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.distillation import Distillation
from nutime.pretrain.sampling import Sampler
from nutime.pretrain.schedule import Schedule

_FACTOR_SITE, _SHIFT_SITE = 1006, 1007  # beyond the sites of dropout, crops and masks


class PretrainStep:
    """Calling it takes one step; ``loss``, ``spread`` and ``failed_at`` are tensors on the device."""

    def __init__(
        self,
        model: BYOL | Distillation,
        sampler: Sampler,
        schedule: Schedule,
        config: PretrainConfig,
        *,
        rank: int = 0,
        world: int = 1,
        wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    ) -> None:
        if config.batch % world:
            raise ValueError(f"a batch of {config.batch} cannot be shared by {world} processes; use a multiple")
        self.model, self.sampler, self.schedule, self.config = model, sampler, schedule, config
        self.device = next(model.parameters()).device
        on_cuda = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if on_cuda else torch.float32
        self.step = torch.zeros((), dtype=torch.int32, device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.spread = torch.zeros((), device=self.device)
        self.failed_at = torch.full((), -1, dtype=torch.int32, device=self.device)
        self.learning_rate = torch.zeros((), device=self.device)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(
            trained, lr=self.learning_rate, weight_decay=config.weight_decay, fused=True, capturable=on_cuda
        )
        self._create_moments()
        local = config.batch // world
        self._rows = torch.arange(rank * local, (rank + 1) * local, dtype=torch.int32, device=self.device)
        self._forward = wrap(model)
        self._world = world
        self._length = model.points if isinstance(model, Distillation) else model.network.config.length
        self._take_step = GraphedStep(self._take, self.device) if on_cuda and world == 1 else self._take
        self._loss_of_step = self._draw_and_compare
        if on_cuda:
            options = _compile_options(model.network.config.dim)
            self._loss_of_step = torch.compile(self._draw_and_compare, dynamic=False, options=options)

    def __call__(self) -> None:
        """Take a step."""
        self._take_step()

    def state(self) -> dict[str, Tensor]:
        """Return every tensor that a step changes, by name: the state to save and to resume from."""
        state = {f"byol.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for moment, tensor in self.optimizer.state.get(parameter, {}).items():
                state[f"optimizer.{name}.{moment}"] = tensor
        return state | {"step": self.step, "failed_at": self.failed_at}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy what :meth:`state` returned in place: captured graphs stay valid."""
        own = self.state()
        if own.keys() != state.keys():
            raise ValueError(f"state does not fit this run: {sorted(own.keys() ^ state.keys())[:3]} …")
        with torch.no_grad():
            for name, tensor in own.items():
                tensor.copy_(state[name])

    def batch_of(self, step: int) -> Tensor:
        """Return the indices of the series in the batch of some step."""
        return self._draw(torch.tensor(step, dtype=torch.int32, device=self.device), self._rows)

    def _create_moments(self) -> None:
        """Make the optimizer create its state now, by a step with zero gradients and learning rate."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        for moments in self.optimizer.state.values():
            moments["step"].zero_()

    def _noise(self, step: Tensor, rows: Tensor) -> Noise:
        return Noise(hash32(step ^ hash32(torch.full_like(step, self.config.seed))), rows)

    def _draw(self, step: Tensor, rows: Tensor) -> Tensor:
        return self.sampler.draw(self._noise(step, rows))

    def samples(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield ``count`` batches of views, the same in all processes, and the source of each view."""
        rows = torch.arange(self.config.batch, dtype=torch.int32, device=self.device)
        for index in range(count):
            step = torch.tensor(-1 - index, dtype=torch.int32, device=self.device)  # one that is never taken
            views, _ = self._views(step, rows)
            chosen = self._draw(step, rows).repeat(2)
            yield views.flatten(0, 1), torch.searchsorted(self.sampler.first, chosen, right=True) - 1

    def _views(self, step: Tensor, first_rows: Tensor) -> tuple[Tensor, Noise]:
        rows = torch.cat([first_rows, first_rows + self.config.batch])
        noise = self._noise(step, rows)
        chosen = self._draw(step, first_rows).repeat(2)
        stretch = noise.stretch(self.config.smallest_crop)
        views = crop(self.sampler.series, chosen, *stretch, self._length, SHRINK_SAMPLES)
        if self.config.rescale:
            views = _rescaled(views, noise, self.config.rescale)
        return views.view(2, len(first_rows), 1, -1), noise

    def _draw_and_compare(self) -> tuple[Tensor, Tensor]:
        views, noise = self._views(self.step, self._rows)
        with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
            loss, spread = self._forward(views, noise)
        return loss, spread

    def _take(self) -> None:
        self.learning_rate.copy_(self.schedule.learning_rate_at(self.step.float()))
        self.optimizer.zero_grad(set_to_none=True)
        loss, spread = self._loss_of_step()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.model.update_target(self.schedule.momentum_at(self.step.float()))
        self.loss.copy_(loss.detach())
        if self._world > 1:
            distributed.all_reduce(self.loss)
            self.loss /= self._world
        self.spread.copy_(spread)
        newly_failed = (self.failed_at < 0) & ~torch.isfinite(self.loss)
        self.failed_at.copy_(torch.where(newly_failed, self.step, self.failed_at))
        self.step += 1


def _compile_options(dim: int) -> dict[str, Any]:
    """Return options of the compiler for a network of some width.

    By default one kernel computes all gradients of a LayerNorm. Its blocks are powers of two, and for a width of
    384 it takes three times as long as one kernel for the inputs and one for the parameters.
    """
    joint = "triton.mix_order_reduction"
    return {joint: False} if dim.bit_count() > 1 and joint in torch._inductor.list_options() else {}


def _rescaled(views: Tensor, noise: Noise, strength: float) -> Tensor:
    """Change level and scale of every view at random, so that exact values do not reveal which views match."""
    uniform = (noise.uniform(site).clamp(1e-6, 1 - 1e-6) for site in (_FACTOR_SITE, _SHIFT_SITE))
    factor, shift = (strength * torch.special.ndtri(draws).float()[:, None] for draws in uniform)
    rescaled: Tensor = views * factor.exp() + shift * views.std(1, keepdim=True)
    return rescaled
