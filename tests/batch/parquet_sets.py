"""Parquet data sets for tests."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


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


def vectors(table):
    names = [name for name in table.column_names if name not in ("id", "label")]
    return np.column_stack([table[name].to_numpy() for name in names])
