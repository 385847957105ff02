"""The engine of many machines: Ray Data deals the pieces of a data set to workers that hold the model.

Unusual here: what Ray moves is the plan, not the series. A worker reads its piece where it lies and writes a
part of the results, and only the number of series comes back. A part appears complete or not at all, so Ray may
do the work of a dead worker again. All machines must see the addresses of the data set and of the results.
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

from nutime.batch.answers import DEFAULT_POOL, pack, unpack
from nutime.batch.local import Report
from nutime.batch.parquet import (
    DataSet,
    Extent,
    Piece,
    as_arrow,
    check_output,
    fresh_folder,
    write_part,
    writes_folder,
)

_ERROR = "error"


def run_ray(
    data: DataSet,
    model: Any,
    out: str,
    *,
    pool: str = DEFAULT_POOL,
    workers: int | None = None,
    report: Report = lambda done, total: None,
) -> Extent:
    """Ask a model about every series of a data set, as :func:`~nutime.batch.local.run_local` does, with Ray.

    Args:
        data: where the series are.
        model: an encoder or a fitted estimator; every worker gets a copy.
        out: a folder, which gets one ``.parquet`` file a piece, in the order of the input.
        pool: for an encoder, what to keep of its tokens.
        workers: copies of the model at work, each on a CPU; as many as there are CPUs, or fewer.
        report: hears of series done and to do.

    A running cluster is used where ``RAY_ADDRESS`` names one or Ray has been started; else Ray starts here.
    """
    if not writes_folder(out):
        raise ValueError(f"{out}: Ray writes a folder of Parquet files; name a folder")
    check_output(out, data.address)
    pieces = data.pieces()
    total = sum(piece.stop - piece.start for piece in pieces)
    extents: list[Extent] = []
    with fresh_folder(out) as folder, _ray() as ray:
        cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
        count = min(workers or cpus, cpus, len(pieces))  # Ray would wait for ever for a CPU that is not there
        files = ray.put(pack(model))
        plan = ray.data.from_items([piece._asdict() for piece in pieces], override_num_blocks=len(pieces))
        done = plan.map_batches(
            _Worker,
            fn_constructor_args=(files, data, pool, folder),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_cpus=1,  # a worker that dies is started again by Ray Data, without end
        )
        for row in done.iter_rows():
            if row[_ERROR]:
                raise ValueError(row[_ERROR])
            extents.append(Extent(*(int(row[name]) for name in Extent._fields)))
            report(sum(extent.series for extent in extents), total)
    return reduce(or_, extents)


class _Worker:
    """A process with its own copy of the model."""

    def __init__(self, files: Any, data: DataSet, pool: str, folder: str) -> None:
        import ray

        self.model = unpack(ray.get(files))
        self.data = data
        self.pool = pool
        self.folder = folder

    def __call__(self, plan: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        number, address, start, stop = (plan[name][0] for name in Piece._fields)
        piece = Piece(int(number), str(address), int(start), int(stop))
        extent, complaint = Extent(0, 0, 0, 0), ""
        try:
            columns, extent = self.data.answer(piece, self.model, self.pool)
            write_part(self.folder, piece, as_arrow(columns))
        except (ValueError, OSError) as error:  # raised, it would come back wrapped in a page of Ray's own
            complaint = " ".join(str(error).split()) or type(error).__name__
        told = {**extent._asdict(), _ERROR: complaint}
        return {name: np.array([value]) for name, value in told.items()}


@contextmanager
def _ray() -> Iterator[Any]:
    """Yield Ray, quiet, and end it if it was started here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anyone
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as error:
        raise ValueError(f"no module {error.name!r}; install Ray with: pip install 'nutime[ray]'") from None
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
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
