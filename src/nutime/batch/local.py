"""The engine of one machine: piece after piece, so that memory does not grow with the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, TypeAlias

from nutime.batch.answers import DEFAULT_POOL
from nutime.batch.parquet import (
    DataSet,
    Extent,
    Piece,
    as_arrow,
    check_output,
    fresh_file,
    fresh_folder,
    write_part,
    writes_folder,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: Called with the number of rows done and to do.
Report: TypeAlias = Callable[[int, int], None]


def run_local(
    data: DataSet,
    model: Any,
    out: str,
    *,
    pool: str = DEFAULT_POOL,
    report: Report = lambda done, total: None,
) -> Extent:
    """Ask a model about every series of a data set, and write its answers as Parquet.

    Args:
        data: where the series are.
        model: an encoder or a fitted estimator.
        out: a ``.parquet`` file, or a folder for one file a piece; complete or not there at all.
        pool: for an encoder, what to keep of its tokens.
        report: hears of series done and to do.
    """
    check_output(out, data.address)
    pieces = data.pieces()
    total = sum(piece.stop - piece.start for piece in pieces)
    done = 0

    def tell(count: int) -> None:
        nonlocal done
        done += count
        report(done, total)

    extents = []
    with _results(out) as write:
        for piece in pieces:
            columns, extent = data.answer(piece, model, pool, tell)
            write(piece, as_arrow(columns))
            extents.append(extent)
    return reduce(or_, extents)


@contextmanager
def _results(out: str) -> Iterator[Callable[[Piece, pa.Table], None]]:
    """Yield what writes the results of a piece."""
    if writes_folder(out):
        with fresh_folder(out) as folder:
            yield partial(write_part, folder)
        return
    import pyarrow.parquet as pq

    with fresh_file(out) as file, ExitStack() as stack:
        writer = None

        def write(piece: Piece, table: pa.Table) -> None:
            nonlocal writer
            writer = writer or stack.enter_context(pq.ParquetWriter(file, table.schema))
            writer.write_table(table)

        yield write
