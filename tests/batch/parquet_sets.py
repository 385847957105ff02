"""Parquet data sets for tests, and what a run over one leaves when it is killed."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nutime.batch.apply import apply_model


def walks(n=100, length=24, seed=0):
    return np.random.default_rng(seed).standard_normal((n, length)).astype(np.float32).cumsum(axis=1)


def list_table(X, first=0):
    values = pa.FixedSizeListArray.from_arrays(X.ravel(), X.shape[1])
    return pa.table({"id": [f"s{first + index}" for index in range(len(X))], "values": values})


def write_set(folder, X, files=2, row_group_size=30):
    """Write a folder of files whose names sort as the rows do."""
    folder.mkdir()
    first = 0
    for index, part in enumerate(np.array_split(X, files)):
        pq.write_table(list_table(part, first), folder / f"{index}.parquet", row_group_size=row_group_size)
        first += len(part)
    return folder


def killed_run(tmp_path, model, data, rows):
    """Run until a number of series is done; return an output beside which is what a kill leaves at that moment."""
    out, seen = tmp_path / "killed" / "out", []
    out.parent.mkdir()

    def interrupt(extent, columns):
        seen.append(extent.series)
        if sum(seen) >= rows:
            (left,) = tmp_path.glob(".run.*")
            shutil.copytree(left, out.parent / left.name.replace("run", "out"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apply_model(model, data.chunks(), str(tmp_path / "run"), source=data, observe=interrupt)
    return out


def files_on_disk(folder, pattern):
    """Return the names that a pattern finds, each with what changes if its file is written again."""
    stats = {path.name: path.stat() for path in folder.glob(pattern)}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def vectors(table):
    names = [name for name in table.column_names if name not in ("id", "label")]
    return np.column_stack([table[name].to_numpy() for name in names])
