"""The small valid files that ``fuzz.py`` starts from: every layout that every reader accepts."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

Files: TypeAlias = dict[str, bytes]

SERIES, LENGTH = 6, 8
ROLES = ("label", "id", "time", "y")
LABELS, INTERVALS, RECORDING = "labels.jsonl", "intervals.csv", "recording.csv"


def text_seeds() -> dict[str, list[Files]]:
    """Return the text formats in every layout."""
    rng = np.random.default_rng(0)
    rows = [[f"{value:.3f}" for value in row] for row in rng.normal(size=(SERIES, LENGTH))]
    labels = ["ab"[index % 2] for index in range(SERIES)]
    attributes = [f"@attribute t{index} numeric" for index in range(LENGTH)]

    def lines(header: list[str], body: list[str]) -> bytes:
        return "".join(f"{line}\n" for line in [*header, *body]).encode()

    pairs = list(zip(rows, labels, strict=True))
    plain = [",".join([*row, label]) for row, label in pairs]
    bags = ["'" + ",".join(row) + "\\n" + ",".join(row) + f"',{label}" for row, label in pairs]
    points = [
        f"s{index},{time},{value},{label}"
        for index, (row, label) in enumerate(pairs)
        for time, value in enumerate(row)
    ]
    one = lines(
        ["@univariate true", "@equalLength true", "@classLabel true a b", "@data"],
        [",".join(row) + f":{label}" for row, label in pairs],
    )
    two = lines(
        ["@dimensions 2", "@equalLength false", "@classLabel true a b", "@data"],
        [":".join([",".join(row), ",".join(row), label]) for row, label in pairs],
    )
    wide = lines(
        [",".join(["label", *(f"v{index}" for index in range(LENGTH))])], [",".join([a, *r]) for r, a in pairs]
    )
    long = lines(["id,time,value,label"], points)
    dated = lines(["date,value"], [f"2024-01-{day + 1:02d},{value}" for day, value in enumerate(rows[0])])
    return {
        "ts": [{"set.ts": one}, {"set.ts": two}],
        "tsv": [{"set.tsv": lines([], ["\t".join([label, *row]) for row, label in pairs])}],
        "txt": [{"set.txt": lines([], [" ".join([label, *row]) for row, label in pairs])}],
        "arff": [
            {"set.arff": lines(["@relation r", *attributes, "@attribute class {a,'b'}", "@data"], plain)},
            {
                "set.arff": lines(
                    ["@attribute bag relational", *attributes, "@end bag", "@attribute class {a,b}", "@data"], bags
                )
            },
        ],
        "csv": [
            {"set.csv": wide},
            {"set.csv": long},
            {"set.csv": dated},
            {"set.csv": lines([], [",".join([a, *r]) for r, a in pairs])},
        ],
        "gzip": [{"set.ts.gz": gzip.compress(one)}, {"set.csv.gz": gzip.compress(long)}],
    }


def array_seeds() -> dict[str, list[Files]]:
    """Return the binary formats of series."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import torch

    X = np.random.default_rng(1).normal(size=(SERIES, LENGTH))
    y = np.array(["ab"[index % 2] for index in range(SERIES)])

    def saved(write: Callable[[Any], object]) -> bytes:
        stream = io.BytesIO()
        write(stream)
        return stream.getvalue()

    def parquet(columns: dict[str, Any], **options: Any) -> Files:
        return {"set.parquet": saved(lambda stream: pq.write_table(pa.table(columns), stream, **options))}

    tensors = {"samples": torch.from_numpy(X[:, None]), "labels": torch.arange(SERIES) % 2}
    long = {
        "id": np.repeat(np.arange(SERIES), LENGTH),
        "time": np.tile(np.arange(LENGTH), SERIES),
        "value": X.ravel(),
    }
    splits = {
        "X_train": np.ones((50, 150)),
        "y_train": np.ones(50),
        "X_test": np.ones((150, 150)),
        "y_test": np.ones(150),
    }
    return {
        "npz": [
            {"set.npz": saved(lambda stream: np.savez_compressed(stream, X=X, y=y))},
            {
                "set.npz": saved(
                    lambda stream: np.savez(stream, X_train=X, y_train=y, X_test=X[:, None].astype("f4"))
                )
            },
        ],
        "npy": [{"set.npy": saved(lambda stream: np.save(stream, X))}],
        "pt": [
            {"set.pt": saved(lambda stream: torch.save(tensors, stream))},
            {"set.pt": saved(lambda stream: torch.save(tensors, stream, _use_new_zipfile_serialization=False))},
        ],
        "parquet": [
            parquet({"x": list(X), "label": y}),
            parquet({f"v{index}": column for index, column in enumerate(X.T)} | {"id": np.arange(SERIES)}),
            parquet(long, compression="zstd"),
            parquet(
                {"x": list(X), "z": list(X)}, use_dictionary=False, compression="none", data_page_version="2.0"
            ),
        ],
        "batch": [parquet({"x": list(X), "label": y}), parquet(long)],
        # Not all are valid: types that a role may not have are refused.
        "crafted": [
            parquet({"x": values, role: cells})
            for role in ROLES
            for cells in odd_columns()
            for values in (X[:, 0], list(X))
        ],
        "archive": [{"GunPoint.npz": saved(lambda stream: np.savez_compressed(stream, **splits))}],
    }


def odd_columns() -> list[Any]:
    """Return a column of every Arrow type that a role may be given."""
    import pyarrow as pa

    texts = pa.array(["ab"[index % 2] * 4 for index in range(SERIES)])
    numbers = pa.array(range(SERIES), pa.int32())
    nested = ([1.0, 2.0], {"a": 1}, ["ab"], None)
    return [
        *(texts.cast(kind) for kind in (pa.large_string(), pa.binary(), pa.large_binary())),
        texts.cast(pa.binary()).cast(pa.binary(4)),
        texts.dictionary_encode(),
        *(numbers.cast(kind) for kind in (pa.bool_(), pa.date32(), pa.time32("s"), pa.float16())),
        *(numbers.cast(pa.int64()).cast(kind) for kind in (pa.timestamp("ns"), pa.duration("s"))),
        *(pa.array([cell] * SERIES) for cell in nested),
    ]


def many_files() -> list[Files]:
    """Return folders of files with one series each, and their labels."""
    table = b"time,x,y\n0,1,2\n1,2,3\n3,4,5\n"
    labels = b"file,label\na.csv,on\nb.csv,off\n"
    return [
        {"a.csv": table, "b.csv": table, "labels.csv": labels},
        {"a.txt": b"1 2\n3 4\n", "b.tsv": b"5\t6\n7\t8\n"},
        {"a.csv": b"date;value\n2024-01-01;0,5\n2024-01-02;0,7\n", "labels.csv": b"a,on\n"},
    ]


def labelled_series() -> list[Any]:
    """Return the series of the file of labels."""
    return list(np.random.default_rng(3).normal(size=(SERIES, 1, LENGTH)))


def recording() -> Any:
    """Return a recording of two channels."""
    return np.random.default_rng(4).normal(size=(2, 120)).cumsum(1)


def recording_files() -> dict[str, list[Files]]:
    """Return recordings in tables, intervals and labels of them, and bodies of requests."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nutime.labelling.log import LabelLog

    X = recording()[:, :20]
    rows = [f"{x:.3f},{y:.3f}" for x, y in X.T]
    days = [f"2024-01-{day + 1:02d} 12:00,{row}" for day, row in enumerate(rows)]
    named = [f"{'ab'[index % 2]},{row}" for index, row in enumerate(rows)]
    tables = [["x,y", *rows], ["time,x,y", *days], ["id,x,y", *named], [row.replace(",", " ") for row in rows]]
    texts = ["\n".join(lines).encode() + b"\n" for lines in tables]
    table = io.BytesIO()
    pq.write_table(pa.table({"x": X[0], "y": X[1]}), table)
    with tempfile.TemporaryDirectory() as scratch:
        log = LabelLog(Path(scratch, LABELS), labelled_series())
        event = log.label([0, 3], "on")
        log.label([2], "off")
        log.undo(event)
        log.close()
        labels = log.path.read_bytes()
    points = b"start,end,label\n0,5,on\n5,12,off\n"
    times = b"recording,start_time,end_time,label\na,2024-01-01 12:00,2024-01-03,on\n"
    bodies = [{"series": [[1, 2.5, None], [3, 4]]}, {"series": [[[1, 2], [3, 4]]], "channels": ["x", "y"]}]
    streams = [{"x": list(X), "label": ["a", "b"]}, {"id": ["a"] * 20, "time": range(20), "value": X[0]}]
    streams += [{"label": cells, "x": [[1.0]] * SERIES} for cells in odd_columns()]
    return {
        "recording": [
            *({"set.csv": text} for text in texts[:3]),
            {"set.txt": texts[3]},
            {"set.parquet": table.getvalue()},
        ],
        "labels": [{LABELS: labels}],
        "intervals": [{INTERVALS: points, RECORDING: texts[0]}, {INTERVALS: times, RECORDING: texts[1]}],
        "json": [{"body.json": json.dumps(body).encode()} for body in bodies],
        "arrow": [{"body.arrows": arrow_stream(columns)} for columns in streams],
    }


def arrow_stream(columns: dict[str, Any]) -> bytes:
    """Return columns as an Arrow IPC stream."""
    import pyarrow as pa

    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def folder_seeds() -> dict[str, list[Files]]:
    """Return saved encoders, estimators, corpora and checkpoints."""
    import torch

    from nutime.data.corpus.store import CorpusWriter
    from nutime.encoder import NuTime
    from nutime.estimators.classifier import NuTimeClassifier
    from nutime.estimators.detector import NuTimeDetector
    from nutime.estimators.regressor import NuTimeRegressor
    from nutime.finetune import train
    from nutime.model.config import NuTimeConfig
    from nutime.pretrain.checkpoint import save_checkpoint
    from nutime.recordings.annotator import NuTimeAnnotator
    from nutime.recordings.index import RecordingIndex

    tiny = NuTimeConfig(
        window=4, length=16, dim=8, depth=1, heads=1, head_dim=8, mlp_dim=8, scalar_dim=4, scales=3
    )
    torch.manual_seed(0)
    encoder = NuTime(tiny)
    X = np.random.default_rng(2).normal(size=(SERIES, LENGTH)).cumsum(1)
    y = np.array(["ab"[index % 2] for index in range(SERIES)])
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        encoder.save(home / "encoder")
        NuTimeClassifier(encoder=encoder).fit(X, y).save(home / "classifier")
        NuTimeDetector(encoder=encoder).fit(X).save(home / "detector")
        NuTimeRegressor(encoder=encoder).fit(X, X[:, -1]).save(home / "regressor")
        with mock.patch.object(train, "MIN_STEPS", 1):
            NuTimeClassifier("finetune", encoder=encoder, epochs=1).fit(X, y).save(home / "finetuned")
        halves = [(0, 60, "a"), (60, 120, "b")]
        NuTimeAnnotator(16, encoder=encoder).fit(recording(), halves).save(home / "annotator")
        RecordingIndex.build(recording(), 20, None).save(home / "index")
        RecordingIndex.build({"a": recording()}, [16, 30], encoder).save(home / "embedded_index")
        with CorpusWriter(home / "corpus", shard_bytes=4 * LENGTH * 4) as writer:
            writer.add("walks", X)
        save_checkpoint(home / "checkpoint", 1, {"w": torch.ones(3, 5), "step": torch.tensor(1)})
        contents = {folder.name: read_folder(folder) for folder in home.iterdir()}
    return {
        "encoder": [contents["encoder"]],
        "estimator": [contents[name] for name in ("classifier", "detector", "regressor", "finetuned")],
        "annotator": [contents["annotator"]],
        "index": [contents["index"], contents["embedded_index"]],
        "corpus": [contents["corpus"]],
        "checkpoint": [contents["checkpoint"]],
    }


def read_folder(folder: Path) -> Files:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def write_folder(folder: Path, files: Files) -> None:
    """Write what :func:`read_folder` returned."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def all_seeds() -> dict[str, list[Files]]:
    """Return the valid files of every reader."""
    return {**text_seeds(), **array_seeds(), "many": many_files(), **recording_files(), **folder_seeds()}
