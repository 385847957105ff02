"""The pretraining loop.

A run is a folder: ``run.json`` (config, seed, versions), ``metrics.jsonl``, TensorBoard logs, ``checkpoints/`` and
at the end ``model/``, an encoder for ``NuTime.from_pretrained``. ``resume`` continues a run, bit for bit on a CPU.
Started by ``torchrun``, the processes share every batch.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from nutime.atomic import Journal, locked, replace_file
from nutime.data.corpus.store import Corpus
from nutime.devices import usable_device
from nutime.documents import one_line
from nutime.encoder import NuTime
from nutime.model.network import NuTimeNetwork
from nutime.pretrain.byol import BYOL
from nutime.pretrain.checkpoint import load_newest, save_checkpoint
from nutime.pretrain.config import PretrainConfig
from nutime.pretrain.distillation import Distillation
from nutime.pretrain.fitting import fit_to_corpus, needs_fitting
from nutime.pretrain.sampling import ResidentCorpus, StreamedCorpus, load_corpus
from nutime.pretrain.schedule import Schedule
from nutime.pretrain.step import PretrainStep
from nutime.version import versions

_DOCUMENT = "run.json"
#: A spread below this is reported as collapse.
COLLAPSE = 0.05
#: Batches that the components of a teacher's embedding are estimated from.
_TEACHER_BATCHES = 16
#: Steps after which distributed processes agree on whether to stop.
_AGREE_EVERY = 10


@dataclass(frozen=True)
class StepMetrics:
    """What is logged every ``log_every`` steps."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    spread: float
    series_per_s: float
    probe: float | None = None


class NonFiniteLossError(RuntimeError):
    """The loss became NaN or infinite."""


def pretrain(
    corpus_path: str | Path,
    run: str | Path,
    config: PretrainConfig | None = None,
    *,
    resume: bool = False,
    device: str | None = None,
    probe: Callable[[NuTimeNetwork], float] | None = None,
    report: Callable[[StepMetrics], None] = lambda metrics: None,
    budget: int | None = None,
) -> bool:
    """Pretrain an encoder with BYOL, or distil one from a teacher.

    Args:
        corpus_path: a corpus folder.
        run: the run's folder; must not exist, unless ``resume`` is set.
        config: the recipe; a resumed run keeps its own.
        resume: continue from the newest undamaged checkpoint, or start if there is none.
        device: where to train; CUDA if there is one.
        probe: scores the encoder every ``probe_every`` steps.
        report: called with the metrics, in rank 0 only.
        budget: bytes the corpus may take on the device; a larger one is streamed.

    Returns:
        True if the run is complete, False if SIGTERM or Ctrl-C ended it early (with a checkpoint saved).
    """
    run = Path(run)
    target = _own_device(device)
    with _processes(target) as (rank, world), _stop_signals() as stopping, ExitStack() as stack:
        corpus = Corpus.open(corpus_path)
        if rank == 0:
            run.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(run))
        config = _open_run(run, config, corpus, resume, first=rank == 0)
        steps = config.steps_for(len(corpus))
        torch.manual_seed(config.seed)
        network = NuTime(config.network)
        if needs_fitting(config.network):
            fit_to_corpus(network, corpus, config.seed)
        model = _training_model(network, config, target)
        data = load_corpus(corpus, config.sampling, target, batch=config.batch, seed=config.seed, budget=budget)
        stack.callback(data.close)
        step = PretrainStep(
            model,
            data.sampler,
            Schedule(steps, config.learning_rate, config.warmup, config.momentum),
            config,
            rank=rank,
            world=world,
            wrap=_data_parallel(target) if world > 1 else lambda model: model,
        )
        if resume and (state := load_newest(run / "checkpoints")) is not None:
            teacher = model.teacher_checksum.clone() if isinstance(model, Distillation) else None
            step.load(state)
            if isinstance(model, Distillation) and model.teacher_checksum != teacher:
                raise ValueError(f"{run}: was started with another teacher than {config.teacher} is now")
        elif isinstance(model, Distillation):
            data.prepare(0)
            model.fit(step.samples(_TEACHER_BATCHES))
        if rank == 0 and not (run / _DOCUMENT).exists():  # not before: a run that cannot start may be corrected
            _describe_run(run, config, corpus)
        done = _train(step, data, run if rank == 0 else None, stopping, probe, report)
        if rank == 0 and done == steps:
            network.save(run / "model")
        return done == steps


def _training_model(network: NuTime, config: PretrainConfig, device: torch.device) -> BYOL | Distillation:
    if config.teacher is None:
        return BYOL(network, config.objective).to(device)
    return Distillation(network, NuTime.from_pretrained(config.teacher).to(device)).to(device)


def _train(
    step: PretrainStep,
    data: ResidentCorpus | StreamedCorpus,
    run: Path | None,
    stopping: list[int],
    probe: Callable[[NuTimeNetwork], float] | None,
    report: Callable[[StepMetrics], None],
) -> int:
    """Take the remaining steps; return the total number taken. ``run`` is None except in rank 0."""
    config, steps, done = step.config, step.schedule.steps, int(step.step)
    timer = _Timer(config.batch)
    saved = done
    with _open_log(run) if run else nullcontext() as log:
        while done < steps:
            data.prepare(done)
            step()
            done += 1
            if done % config.log_every == 0 or done == steps:
                _refuse_non_finite(step, data)
                metrics = StepMetrics(
                    done, steps, float(step.loss), float(step.learning_rate), float(step.spread), timer.rate(done)
                )
                if probe and run and (done % config.probe_every < config.log_every or done == steps):
                    metrics = dataclasses.replace(metrics, probe=probe(step.model.network))
                    timer.restart(done)
                if metrics.spread < COLLAPSE:
                    warnings.warn(f"step {done}: spread {metrics.spread:.3f}, embeddings collapse", stacklevel=2)
                if log:
                    log(metrics)
                    report(metrics)
            stop = _agreed(stopping, done, step)
            if run and (done % config.checkpoint_every == 0 or stop or done == steps):
                saved = _save(run, step, done, saved, final=stop or done == steps)
            if stop:
                break
    return done


def _save(run: Path, step: PretrainStep, done: int, saved: int, *, final: bool) -> int:
    """Save a checkpoint; if that fails before the end of the run, warn and continue."""
    try:
        save_checkpoint(run / "checkpoints", done, step.state())
    except OSError as error:
        if final:
            raise
        warnings.warn(f"checkpoint of step {done} not saved ({error}); the last is of step {saved}", stacklevel=2)
        return saved
    return done


def _refuse_non_finite(step: PretrainStep, data: ResidentCorpus | StreamedCorpus) -> None:
    failed = int(step.failed_at)
    if failed >= 0:
        data.prepare(failed)
        series = data.corpus_indices(step.batch_of(failed)[:8])
        raise NonFiniteLossError(
            f"the loss of step {failed} is not finite; its batch starts with series {series} of the corpus. "
            "Lower the learning rate or inspect these series; the last checkpoint was saved before this step"
        )


def _open_run(
    run: Path, config: PretrainConfig | None, corpus: Corpus, resume: bool, *, first: bool
) -> PretrainConfig:
    """Return the recipe of the run to resume, or that of a new one, whose folder must be empty."""
    if resume and (stored := stored_run(run)):
        identity = _identity(corpus)
        if any(identity.get(name) != value for name, value in stored["corpus"].items()):
            raise ValueError(
                f"{run}: was trained on another corpus than {corpus.path}; name that corpus, or start a run in "
                "another folder"
            )
        return PretrainConfig.from_dict(stored["config"])
    if first and not resume and any(run.iterdir()):
        raise ValueError(f"{run}: already exists; resume it, or choose another folder")
    return config or PretrainConfig()


def _describe_run(run: Path, config: PretrainConfig, corpus: Corpus) -> None:
    content = {"config": dataclasses.asdict(config), "corpus": _identity(corpus), "versions": versions()}
    with replace_file(run / _DOCUMENT) as file:
        file.write(json.dumps(content, indent=2).encode() + b"\n")


def _identity(corpus: Corpus) -> dict[str, Any]:
    """Return what tells a corpus from others, also from the same series in another scale."""
    description = corpus.describe()
    return {name: description.get(name) for name in ("series", "values", "scale_histogram", "sources")}


def stored_run(run: Path) -> dict[str, Any] | None:
    """Return the ``config`` and ``corpus`` of a run that was started in a folder, or None if there is none.

    Raises:
        ValueError: one line that names the file, if it is damaged.
    """
    path = run / _DOCUMENT
    if not path.is_file():
        return None
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        PretrainConfig.from_dict(stored["config"])
        stored["corpus"].items()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path}: not written by nutime, or damaged ({one_line(error)})") from None
    return stored


@contextmanager
def _open_log(run: Path) -> Iterator[Callable[[StepMetrics], None]]:
    """Yield a function that writes metrics as JSON lines and, where TensorBoard is installed, as its events."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        open_board: Callable[[], AbstractContextManager[Any]] = nullcontext
    else:
        open_board = partial(SummaryWriter, run / "tensorboard")
    with Journal(run / "metrics.jsonl") as lines, open_board() as board:

        def write(metrics: StepMetrics) -> None:
            values = {name: value for name, value in dataclasses.asdict(metrics).items() if value is not None}
            lines.append(json.dumps(values))
            if board:
                for name in values.keys() - {"step", "steps"}:
                    board.add_scalar(name, values[name], metrics.step)

        yield write


class _Timer:
    """Series per second since the last call."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._since: tuple[int, float] | None = None

    def rate(self, done: int) -> float:
        now = time.perf_counter()
        before, self._since = self._since, (done, now)
        return (done - before[0]) * self._batch / (now - before[1]) if before else 0.0

    def restart(self, done: int) -> None:
        self._since = done, time.perf_counter()


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect SIGTERM and SIGINT instead of exiting."""
    received: list[int] = []
    names = (signal.SIGTERM, signal.SIGINT)
    try:
        before = [signal.signal(name, lambda number, frame: received.append(number)) for name in names]
    except ValueError:  # only the main thread may install handlers
        yield received
        return
    try:
        yield received
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)


def _agreed(stopping: list[int], done: int, step: PretrainStep) -> bool:
    """Whether to stop now: immediately in a single process, else when all processes have agreed."""
    if not distributed.is_initialized():
        return bool(stopping)
    if done % _AGREE_EVERY:
        return False
    requests = torch.tensor(len(stopping), device=step.device)
    distributed.all_reduce(requests)
    return bool(requests)


@contextmanager
def _processes(device: torch.device) -> Iterator[tuple[int, int]]:
    """Join the other processes, if ``torchrun`` started several; yield (rank, world)."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield 0, 1
        return
    store, rank, world = next(distributed.rendezvous("env://"))  # type: ignore[attr-defined]
    backend = "nccl" if device.type == "cuda" else "gloo"
    fresh = _store_of_this_attempt(store, rank, world)
    distributed.init_process_group(backend, store=fresh, rank=rank, world_size=world)
    try:
        yield rank, world
    finally:
        distributed.destroy_process_group()


def _store_of_this_attempt(store: Any, rank: int, world: int) -> Any:
    """Return a prefix of the store that no earlier attempt used.

    After a failure ``torchrun`` reuses the store, which still contains the addresses of the dead processes, and
    its hosts count restarts differently. So rank 0 numbers the attempt and publishes the number to other ranks.
    """
    number = store.add("processes", 1)  # unique over all attempts
    if rank > 0:
        attempt = int(store.get(f"attempt-of-{number}"))
        store.add(f"present-{attempt}", 1)
    else:
        attempt, published = number, 0
        deadline = time.monotonic() + store.timeout.total_seconds()
        while (missing := world - 1 - store.add(f"present-{attempt}", 0)) > 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{missing} of {world} processes did not start; see their output")
            known = store.add("processes", 0)
            for asking in range(published + 1, known + 1):
                store.set(f"attempt-of-{asking}", str(attempt))
            published = known
            time.sleep(0.05)
    return distributed.PrefixStore(f"attempt-{attempt}", store)  # type: ignore[attr-defined]


def _own_device(name: str | None) -> torch.device:
    """Return the device of this process; several processes on a host use one GPU each."""
    if name not in (None, "cuda") or not torch.cuda.is_available():
        return usable_device(name)
    device = usable_device(f"cuda:{os.environ.get('LOCAL_RANK') or os.environ.get('RANK') or 0}")
    torch.cuda.set_device(device)
    return device


def _data_parallel(device: torch.device) -> Callable[[nn.Module], nn.Module]:
    from torch.nn.parallel import DistributedDataParallel

    devices = [device.index] if device.type == "cuda" else None
    return lambda model: DistributedDataParallel(model, device_ids=devices)
