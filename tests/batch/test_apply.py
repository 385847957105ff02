"""A model applied to a stream of chunks gives the results of the model itself, however the rows are divided."""

import copy
import csv
import json
import signal
import subprocess
import sys
from functools import reduce
from operator import or_
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parquet_sets import files_on_disk, killed_run, list_table, vectors, walks, write_set
from typer.testing import CliRunner

from nutime import NuTimeClassifier, NuTimeDetector
from nutime.batch import source as sources
from nutime.batch.apply import apply_model, result_columns
from nutime.batch.model_files import pack, unpack
from nutime.batch.results import check_output
from nutime.batch.source import Source
from nutime.estimators.storage import open_model

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "batch_embed.py"


def refusal(call, *arguments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def run(address, model, out, **options):
    """Check the output, apply the model and return the extent of the input, as a command does."""
    extents = []
    check_output(out, address)
    apply_model(
        model, Source(address).chunks(), out, observe=lambda extent, columns: extents.append(extent), **options
    )
    return reduce(or_, extents)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(sources, "PIECE_ROWS", 16)
    monkeypatch.setattr(sources, "CHUNK_SIZE", 7)


# ---- what comes out -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("out", ["out.parquet", "out"])
def test_a_folder_of_files_is_embedded_in_order_with_its_ids(tmp_path, encoder, out):
    X = walks()
    write_set(tmp_path / "in", X)
    run(str(tmp_path / "in"), encoder, str(tmp_path / out))
    table = pq.read_table(tmp_path / out)
    assert table["id"].to_pylist() == [f"s{index}" for index in range(100)]
    np.testing.assert_array_equal(vectors(table), encoder.embed(X))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(rows=st.integers(1, 60), group=st.integers(1, 70), piece=st.integers(1, 40), batch=st.integers(1, 20))
def test_every_row_is_read_once_however_rows_are_cut(tmp_path_factory, rows, group, piece, batch):
    path = tmp_path_factory.mktemp("cut") / "x.parquet"
    pq.write_table(list_table(walks(rows, 3)), path, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "PIECE_ROWS", piece)
        patch.setattr(sources, "_BATCH_ROWS", batch)
        ids = [name for chunk in Source(str(path)).chunks() for name in chunk.columns["id"]]
    assert ids == [f"s{index}" for index in range(rows)]


@pytest.mark.usefixtures("small_pieces")
def test_lists_of_unequal_length_and_missing_values_are_embedded(tmp_path, encoder):
    series = [[1.0, 2.0, None, 4.0], [5.0, 6.0], *[[float(i), 1.0, 2.0] for i in range(20)]]
    pq.write_table(pa.table({"values": pa.array(series, pa.list_(pa.float64()))}), tmp_path / "x.parquet")
    extent = run(str(tmp_path / "x.parquet"), encoder, str(tmp_path / "o.parquet"))
    assert extent == (22, 1, 2, 4)
    expected = encoder.embed([np.array(values, dtype=float) for values in series])
    np.testing.assert_array_equal(vectors(pq.read_table(tmp_path / "o.parquet")), expected)


def test_numeric_columns_are_one_series_per_row(tmp_path, encoder):
    X = walks(20)
    columns = {"label": ["a", "b"] * 10, **{f"t{index}": column for index, column in enumerate(X.T)}}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    run(str(tmp_path / "x.parquet"), encoder, str(tmp_path / "o.parquet"))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table["label"].to_pylist() == ["a", "b"] * 10
    np.testing.assert_array_equal(vectors(table), encoder.embed(X))


@pytest.mark.usefixtures("small_pieces")
def test_a_table_with_one_row_per_point_is_not_cut_within_a_series(tmp_path, encoder):
    points = {"id": np.repeat(["a", "b"], 30), "time": np.tile(np.arange(30), 2), "value": walks(1, 60)[0]}
    pq.write_table(pa.table(points), tmp_path / "x.parquet")
    extent = run(str(tmp_path / "x.parquet"), encoder, str(tmp_path / "o.parquet"))
    assert extent == (2, 1, 30, 30)
    assert pq.read_table(tmp_path / "o.parquet")["id"].to_pylist() == ["a", "b"]


def test_any_fsspec_address_is_read_and_written(encoder):
    X = walks(10)
    with fsspec.open("memory://remote/in/x.parquet", "wb") as file:
        pq.write_table(list_table(X), file)
    run("memory://remote/in", encoder, "memory://remote/out")
    with fsspec.open("memory://remote/out/part-000000.parquet", "rb") as file:
        np.testing.assert_array_equal(vectors(pq.read_table(file)), encoder.embed(X))


def test_a_model_sent_as_files_gives_the_same_results(encoder):
    X = list(walks(12)[:, None])
    detector = NuTimeDetector(encoder=encoder).fit(X)
    for model in (encoder, detector):
        for name, column in result_columns(model, X).items():
            np.testing.assert_array_equal(result_columns(unpack(pack(model)), X)[name], column)


def test_an_encoder_and_an_estimator_are_both_opened_by_folder(tmp_path, encoder):
    encoder.save(tmp_path / "encoder")
    NuTimeDetector(encoder=encoder).fit(walks(12)).save(tmp_path / "detector")
    kinds = [type(open_model(tmp_path / name)).__name__ for name in ("encoder", "detector")]
    assert kinds == ["NuTime", "NuTimeDetector"]


# ---- what goes wrong ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_pieces")
def test_a_bad_series_is_named_by_its_place_in_its_file_and_leaves_nothing_behind(tmp_path, encoder):
    X = walks(40)
    X[37] = np.nan
    pq.write_table(list_table(X), tmp_path / "x.parquet")
    for out in ("o.parquet", "o"):
        message = refusal(run, str(tmp_path / "x.parquet"), encoder, str(tmp_path / out))
        assert message == f"{tmp_path / 'x.parquet'}: series 37 ('s37'): has only NaN; expected at least one value"
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]


def test_files_that_do_not_go_together_are_refused_before_any_work(tmp_path, encoder):
    write_set(tmp_path / "in", walks(10))
    table = pq.read_table(tmp_path / "in" / "1.parquet").drop_columns(["id"])
    pq.write_table(table, tmp_path / "in" / "1.parquet")
    message = refusal(run, str(tmp_path / "in"), encoder, str(tmp_path / "o"))
    assert "1.parquet: differs from" in message


@pytest.mark.parametrize("address", ["nowhere.parquet", "empty", "nonsense://bucket/x"])
def test_an_address_with_nothing_to_read_is_refused(tmp_path, monkeypatch, encoder, address):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    assert address in refusal(run, address, encoder, "o")


def test_a_file_that_is_no_parquet_is_named(tmp_path, encoder):
    (tmp_path / "x.parquet").write_bytes(b"PAR1 not really")
    message = refusal(run, str(tmp_path / "x.parquet"), encoder, str(tmp_path / "o"))
    assert message.startswith(f"{tmp_path / 'x.parquet'}: cannot be read")


def test_results_replace_neither_the_input_nor_a_folder_with_something_in_it(tmp_path, encoder):
    data = str(write_set(tmp_path / "in", walks(10)))
    for out in ("in", "in/out", "in/out.parquet"):
        assert "is the input or inside it" in refusal(run, data, encoder, str(tmp_path / out))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    assert "exists already" in refusal(run, data, encoder, str(tmp_path / "out"))


# ---- a run that is killed -----------------------------------------------------------------------------

LEFT = ".out.*/*/part-*.parquet"  # the parts of a killed run
DIE = """
import os, signal, sys
from nutime.batch import source as sources
from nutime.batch.apply import apply_model
from nutime.encoder import NuTime
sources.PIECE_ROWS, sources.CHUNK_SIZE = 16, 7
data, seen = sources.Source(sys.argv[2]), []
def observe(extent, columns):
    seen.append(extent.series)
    if sum(seen) >= 60:
        os.kill(os.getpid(), signal.SIGKILL)
apply_model(NuTime.from_pretrained(sys.argv[1]), data.chunks(), sys.argv[3], source=data, observe=observe)
"""


@pytest.mark.usefixtures("small_pieces")
def test_a_killed_run_is_continued_without_repeating_complete_parts(tmp_path, encoder, caplog):
    data = Source(str(write_set(tmp_path / "in", walks())))  # parts of 16, 16, 16, 2, 16, 16, 16 and 2 series
    weights = encoder.save(tmp_path / "encoder")
    out = tmp_path / "out"
    died = subprocess.run([sys.executable, "-c", DIE, weights, data.address, out], check=False)
    assert died.returncode == -signal.SIGKILL
    complete = files_on_disk(tmp_path, LEFT)
    assert len(complete) == 4

    caplog.set_level("INFO")
    extents = []
    apply_model(encoder, data.chunks(), str(out), source=data, observe=lambda extent, _: extents.append(extent))
    assert complete.items() <= files_on_disk(out, "*").items()
    assert f"{out}: continues a run that was killed; 4 part(s) were complete" in caplog.messages
    assert reduce(or_, extents) == (100, 1, 24, 24)
    apply_model(encoder, data.chunks(), str(tmp_path / "uninterrupted"))
    expected = {path.name: path.read_bytes() for path in (tmp_path / "uninterrupted").iterdir()}
    assert {path.name: path.read_bytes() for path in out.iterdir()} == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder", "in", "out", "uninterrupted"]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("change", ["nothing", "model", "input", "reading", "options"])
def test_a_killed_run_is_continued_with_the_same_model_input_and_options_only(tmp_path, encoder, change):
    X = walks(40)
    data = Source(str(write_set(tmp_path / "in", X)))
    out = killed_run(tmp_path, encoder, data, 30)
    complete = files_on_disk(out.parent, LEFT)
    model, options = encoder, {}
    match change:
        case "model":
            model = copy.deepcopy(encoder)
            model.norm.bias.data += 1
        case "input":
            pq.write_table(list_table(X[:20] + 1), tmp_path / "in" / "0.parquet")
        case "reading":
            data = Source(data.address, keep_missing=True)
        case "options":
            options = {"reject_below": 0.5}
    apply_model(model, data.chunks(), str(out), source=data, **options)
    kept = complete.items() & files_on_disk(out, "*").items()
    assert len(kept) == (2 if change == "nothing" else 0)
    np.testing.assert_array_equal(
        vectors(pq.read_table(out)), model.embed(np.concatenate([chunk.series for chunk in data.chunks()]))
    )
    assert [path.name for path in out.parent.iterdir()] == ["out"]


# ---- the commands -------------------------------------------------------------------------------------


@pytest.fixture
def nutime():
    from nutime.cli.main import app

    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


def test_embed_streams_a_folder(tmp_path, nutime, encoder):
    encoder.save(tmp_path / "encoder")
    write_set(tmp_path / "in", walks(50))
    done = nutime("embed", tmp_path / "in", "-o", tmp_path / "out", "--weights", tmp_path / "encoder")
    assert done.exit_code == 0, done.output
    assert "50 series of length 24" in done.output
    assert pq.read_table(tmp_path / "out").num_columns == 65


def test_predict_gives_from_parquet_what_it_gives_from_csv(tmp_path, nutime, encoder):
    X, y = walks(30), ["up", "down"] * 15
    NuTimeClassifier(encoder=encoder).fit(X, y).save(tmp_path / "model")
    with (tmp_path / "x.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["label", *range(24)], *[[label, *x] for label, x in zip(y, X, strict=True)]])
    values = pa.FixedSizeListArray.from_arrays(X.astype(float).ravel(), 24)
    pq.write_table(pa.table({"label": y, "values": values}), tmp_path / "x.parquet")
    documents = {}
    for kind in ("csv", "parquet"):
        out = tmp_path / f"o.{kind}"
        done = nutime("predict", tmp_path / "model", tmp_path / f"x.{kind}", "-o", out, "--json")
        assert done.exit_code == 0, done.output
        documents[kind] = {**json.loads(done.output), "out": None}
    assert documents["csv"] == documents["parquet"]


def test_detect_scores_a_folder_by_a_reference(tmp_path, nutime, encoder):
    encoder.save(tmp_path / "encoder")
    write_set(tmp_path / "in", walks(40, seed=1))
    pq.write_table(list_table(walks(30)), tmp_path / "normal.parquet")
    given = ["--weights", tmp_path / "encoder", "--reference", tmp_path / "normal.parquet", "--json"]
    done = nutime("detect", tmp_path / "in", "-o", tmp_path / "out", *given)
    assert done.exit_code == 0, done.output
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["id", "score", "is_anomaly"]
    assert json.loads(done.output)["anomalies"] == sum(table["is_anomaly"].to_pylist())


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "x.csv", "-o", "out", "--engine", "ray"],
        ["embed", "x.parquet", "-o", "out", "--workers", "2"],
        ["detect", "x.parquet", "-o", "out", "--engine", "ray"],
        ["embed", "x.parquet", "-o", "out", "--engine", "ray", "--device", "cuda"],
    ],
)
def test_an_option_that_cannot_be_met_is_wrong_usage(nutime, arguments):
    assert nutime(*arguments).exit_code == 2


def test_the_benchmark_prints_its_figures():
    command = [sys.executable, BENCHMARK, "2000", "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["series"] == 2000
    assert figures["peak_mb"] > 0
    assert figures["ratio"] > 0
