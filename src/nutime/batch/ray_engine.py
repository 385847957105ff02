"""A model applied to a Parquet data set on many machines: Ray Data gives pieces to workers that hold the model.

Ray moves the plan, not the series. A worker reads its piece and writes a part of the results, and only the extent
of its series comes back. A part appears complete or not at all, so Ray may repeat the work of a dead worker. All
machines must see the addresses of the data set and of the results. The model is sent as the files that ``save``
writes, never as a pickle.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.batch.apply import Observe, apply_to_part, ignore, run_key
from nutime.batch.model_files import pack, unpack
from nutime.batch.results import open_folder, read_part
from nutime.batch.source import Extent, Piece, Source

_ERROR = "error"


def apply_model_with_ray(
    model: Any,
    source: Source,
    out: str,
    *,
    workers: int | None = None,
    gpus: float = 0,
    address: str | None = None,
    observe: Observe = ignore,
    **options: Any,
) -> None:
    """Apply a model to a Parquet data set as :func:`~nutime.batch.apply.apply_model` does, with Ray.

    Args:
        model: an encoder or a fitted estimator; every worker gets a copy.
        source: the data set.
        out: a folder, which gets one ``.parquet`` file per piece, in the order of the input.
        options: those of :func:`~nutime.batch.apply.result_columns`.
        workers: copies of the model, each on one CPU; at most, and by default, as many as the CPUs and GPUs allow.
        gpus: GPUs per copy; several copies share one if it is below 1. With 0, they compute on CPUs.
        address: of a running cluster; else ``RAY_ADDRESS``, the cluster Ray is connected to, or a new local one.
        observe: called after every piece, in the order of the input; vectors are replaced by zeros.
    """
    pieces = source.pieces
    files = pack(model)
    with open_folder(out, run_key(lambda: files, source, options)) as folder, _ray(address) as ray:
        most = _most_workers(ray.cluster_resources(), gpus)
        count = min(workers or most, most, len(pieces))
        stored = ray.put(files)
        plan = ray.data.from_items([piece._asdict() for piece in pieces], override_num_blocks=len(pieces))
        done = plan.map_batches(
            _Worker,
            fn_constructor_args=(stored, source, folder, options, "auto" if gpus else "cpu"),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_gpus=gpus,
            num_cpus=1,  # a worker that dies is started again by Ray Data, without a limit
        )
        for number, row in enumerate(done.iter_rows()):
            if row[_ERROR]:
                raise ValueError(row[_ERROR])
            observe(Extent(*(int(row[name]) for name in Extent._fields)), read_part(folder, number))


def _most_workers(resources: dict[str, float], gpus: float) -> int:
    """Return how many workers can run: Ray would wait forever for a CPU or GPU that does not exist."""
    cpus = max(1, int(resources.get("CPU", 1)))
    if not gpus:
        return cpus
    available = int(resources.get("GPU", 0))
    fitting = available * int(1 / gpus) if gpus <= 1 else int(available / gpus)
    if fitting == 0:
        raise ValueError(f"a worker needs {gpus:g} GPU(s), Ray has {available}")
    return min(cpus, fitting)


class _Worker:
    """A process with its own copy of the model."""

    def __init__(self, files: Any, source: Source, folder: str, options: dict[str, Any], device: str) -> None:
        import ray

        self.model = unpack(ray.get(files), device)
        self.source = source
        self.options = options
        self.folder = folder

    def __call__(self, plan: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        number, address, start, stop = (plan[name][0] for name in Piece._fields)
        piece = Piece(int(number), str(address), int(start), int(stop))
        extents: list[Extent] = []
        message = ""
        try:
            apply_to_part(
                self.model,
                self.source.piece_chunks(piece),
                self.folder,
                piece.number,
                observe=lambda extent, columns: extents.append(extent),
                **self.options,
            )
        except (ValueError, OSError) as error:  # Ray would wrap it in a long traceback of its own
            message = " ".join(str(error).split()) or type(error).__name__
        extent = Extent(0, 0, 0, 0) if message else reduce(or_, extents)
        row = {**extent._asdict(), _ERROR: message}
        return {name: np.array([value]) for name, value in row.items()}


@contextmanager
def _ray(address: str | None) -> Iterator[Any]:
    """Yield Ray without its messages, and shut it down if it was started here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no statistics
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise ValueError(f"no module {error.name!r}; install Ray with: pip install 'nutime[ray]'") from None
    started_here = not ray.is_initialized()
    if started_here:
        local = {} if address or os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        try:
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **local)
        except (ConnectionError, ray.exceptions.RayError) as error:
            reason = " ".join(str(error).split())
            token = "a cluster with a token needs RAY_AUTH_MODE=token and the token"
            raise ValueError(f"{address or 'RAY_ADDRESS'}: no Ray cluster ({reason}); {token}") from None
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise RuntimeError(f"Ray: {str(error).strip().splitlines()[0]}") from error
    finally:
        if started_here:
            ray.shutdown()
