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
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.batch.apply import Observe, chunk_results, ignore
from nutime.batch.results import Results, filesystem, open_folder, open_part, part_address
from nutime.batch.source import Extent, Piece, Source
from nutime.estimators import storage

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
        workers: copies of the model, each on one CPU; at most and by default as many as find CPUs and GPUs.
        gpus: GPUs per copy; several copies share one if it is below 1. Without, they compute on CPUs.
        address: of a running cluster; else ``RAY_ADDRESS``, or the one Ray is connected to, or Ray starts here.
        observe: called after every piece, in the order of the input; vectors are replaced by zeros.
    """
    pieces = source.pieces
    with open_folder(out) as folder, _ray(address) as ray:
        most = _most_workers(ray.cluster_resources(), gpus)
        count = min(workers or most, most, len(pieces))
        files = ray.put(pack(model))
        plan = ray.data.from_items([piece._asdict() for piece in pieces], override_num_blocks=len(pieces))
        done = plan.map_batches(
            _Worker,
            fn_constructor_args=(files, source, folder, options, "auto" if gpus else "cpu"),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=count),
            num_gpus=gpus,
            num_cpus=1,  # a worker that dies is started again by Ray Data, without a limit
        )
        for number, row in enumerate(done.iter_rows()):
            if row[_ERROR]:
                raise ValueError(row[_ERROR])
            observe(Extent(*(int(row[name]) for name in Extent._fields)), _read_part(folder, number))


def _most_workers(resources: dict[str, float], gpus: float) -> int:
    """Return how many workers find a place: Ray would wait forever for a CPU or GPU that does not exist."""
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
        extent, message = None, ""
        try:
            with open_part(self.folder, piece.number) as write:
                for chunk in self.source.piece_chunks(piece):
                    write(chunk_results(self.model, chunk, **self.options))
                    new = Extent.of(chunk.series)
                    extent = extent | new if extent else new
        except (ValueError, OSError) as error:  # Ray would wrap it into pages of its own
            message = " ".join(str(error).split()) or type(error).__name__
        row = {**(extent or Extent(0, 0, 0, 0))._asdict(), _ERROR: message}
        return {name: np.array([value]) for name, value in row.items()}


def pack(model: Any) -> dict[str, bytes]:
    """Return the files of a saved model, by their paths in its folder."""
    with TemporaryDirectory() as folder:
        model.save(folder)
        files = (path for path in Path(folder).rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def unpack(files: dict[str, bytes], device: str = "auto") -> Any:
    """Load a model from what :func:`pack` returned, onto a device."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return storage.open_model(folder, device)


def _read_part(folder: str, number: int) -> Results:
    """Read the results of a piece for a summary, with zeros for the vectors, which may be large."""
    import pyarrow.parquet as pq

    system, path = filesystem(part_address(folder, number))
    with system.open(path, "rb") as raw, pq.ParquetFile(raw) as file:
        names = file.schema_arrow.names
        dimensions = sum(name[:1] == "e" and name[1:].isdecimal() for name in names)
        table = file.read(columns=names[: len(names) - dimensions])
        rows = file.metadata.num_rows
    arrays = {name: table.column(name).to_numpy() for name in table.column_names}
    columns = {name: array.astype(np.str_) if array.dtype == object else array for name, array in arrays.items()}
    return {**columns, "e": np.broadcast_to(np.float32(0), (rows, dimensions))} if dimensions else columns


@contextmanager
def _ray(address: str | None) -> Iterator[Any]:
    """Yield Ray without its messages, and end what was started here."""
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
        except ConnectionError as error:
            raise ValueError(
                f"{address or 'RAY_ADDRESS'}: no Ray cluster ({' '.join(str(error).split())})"
            ) from None
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
