"""The commands over series: their results, and their messages when something is wrong."""

import csv
import json
import logging
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from nutime import NuTimeClassifier, NuTimeClusterer, NuTimeDetector, NuTimeEmbedder, NuTimeRegressor
from nutime.batch.source import CHUNK_SIZE
from nutime.cli import main, progress
from nutime.cli.options import SHIPPED, SMALL, Pool
from nutime.encoder import DEFAULT_WEIGHTS, SMALL_WEIGHTS, NuTime
from nutime.estimators import storage
from nutime.model.reading import AUTO, POOLS
from waves import wave_table


@pytest.fixture(scope="module")
def weights(encoder):
    return encoder


def waves(n=24, seed=0):
    """Return slow and fast waves in turn, and the names of their classes."""
    X, fast = wave_table(n, seed=seed)
    return X, np.array(["slow", "fast"])[fast]


def write_csv(path, X, y):
    """Write a table whose label column no reader finds by itself, with ids."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", "speed", *[f"t{index}" for index in range(X.shape[1])]])
        writer.writerows([f"p{index}", label, *x] for index, (x, label) in enumerate(zip(X, y, strict=True)))
    return path


@pytest.fixture
def train(tmp_path):
    return write_csv(tmp_path / "train.csv", *waves())


@pytest.fixture
def chosen():
    return ["--label", "speed", "--id", "patient"]


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


def read_rows(path):
    return rows_of(path.read_text())


# ---- all commands -------------------------------------------------------------------------------------


def test_options_offer_what_the_library_has():
    assert (SHIPPED, SMALL) == (DEFAULT_WEIGHTS, SMALL_WEIGHTS)
    assert tuple(Pool) == (*POOLS, AUTO)


@pytest.mark.parametrize("command", ["embed", "predict", "explain", "cluster", "detect"])
def test_json_and_results_do_not_share_standard_output(nutime, train, command):
    model = ["model"] if command in ("predict", "explain") else []
    assert nutime(command, *model, train, "-o", "-", "--json").code == 2


@pytest.mark.parametrize("command", ["embed", "cluster", "detect"])
def test_the_input_is_never_overwritten(nutime, train, weights, chosen, command):
    before = train.read_bytes()
    done = nutime(command, train, "-o", train, "--weights", weights, *chosen)
    assert "is the input" in done.refusal
    assert train.read_bytes() == before


@pytest.mark.parametrize(
    "command",
    [["embed"], ["predict", "model"], ["cluster"], ["detect"], ["explain", "model"], ["suggest", "model"]],
)
def test_a_file_of_labels_is_never_overwritten(nutime, tmp_path, command):
    labels = tmp_path / "labels.csv"
    labels.write_text("a.csv,walk\n")
    done = nutime(*command, tmp_path / "runs", "--labels", labels, "-o", labels)
    assert "is the input" in done.refusal
    assert labels.read_text() == "a.csv,walk\n"


FILES = {
    "bad.csv": "label,a,b\nx,1,2\ny,1,oops\n",
    "empty.csv": "",
    "gap.csv": "label,a,b\nx,1,2\ny,,\n",
    "one.csv": "label,a,b\nx,1,2\nx,2,3\n",
    "plain.csv": "1.5,2\n2,3\n3,5\n",
    "single.csv": "label,a,b\nx,1,2\n",
    "three.ts": "@univariate false\n@dimensions 3\n@classLabel true x y\n@data\n1,2:3,4:5,6:x\n1,2:3,4:5,7:y\n",
}
MISTAKES = {
    "a file that is not there": ["embed nowhere.csv -o OUT.csv", "nowhere.csv: cannot be read: No such file"],
    "a set that does not exist": ["embed GunPoit -o OUT.csv", "closest names: GunPoint"],
    "an empty file": ["embed empty.csv -o OUT.csv", "empty.csv: holds no series"],
    "a malformed file": ["cluster bad.csv -o OUT.csv", "bad.csv:3: column 'b': 'oops' is not a number"],
    "a series without values": ["detect gap.csv -o OUT.csv", "gap.csv: series 1: has only NaN"],
    "a suffix nobody writes": ["embed plain.csv -o OUT.xlsx", "OUT.xlsx: unknown suffix; results are written as"],
    "weights that are not there": ["cluster plain.csv -o OUT.csv --weights no", "no weights 'no'"],
    "a device that is not here": [
        "fit three.ts -o OUT --device cuda:99",
        "device cuda:99 is not available here: ",
    ],
    "a device that is none": ["embed plain.csv -o OUT.csv --device gpu", "device gpu is not available"],
    "a column that is not there": ["embed plain.csv -o OUT.csv --label kind", "has no column 'kind'"],
    "no labels to learn": ["fit plain.csv -o OUT", "plain.csv: has no labels; name their column with --label"],
    "labels of one class": ["fit one.csv -o OUT --weights TINY", "one.csv: y has one class, 'x'"],
    "a single series to cluster": ["cluster single.csv -o OUT.csv --weights TINY", "single.csv: choosing"],
    "a single series to detect by": ["detect single.csv -o OUT.csv --weights TINY", "use: nutime scan single.csv"],
    "other channels to detect by": [
        "detect three.ts --reference one.csv -o OUT.csv --weights TINY",
        "three.ts: X has 3 channel(s)",
    ],
    "a folder that is no model": ["predict . plain.csv -o OUT.csv", ".: is not a folder saved by nutime fit"],
    "a source that is not there": ["corpus build nowhere.csv -o OUT", "nowhere.csv: no such file or folder"],
    "a malformed source": ["corpus build bad.csv -o OUT", "bad.csv:3: column 'b': 'oops' is not a number"],
    "a folder that is no corpus": ["corpus info .", "corpus.json: not found"],
    "a corpus that is not there": ["pretrain nowhere -o OUT --probe none", "nowhere/corpus.json: not found"],
}


@pytest.mark.parametrize(("line", "complaint"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_1_and_leaves_nothing(
    nutime, tmp_path, monkeypatch, weights, line, complaint
):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    done = nutime(*[str(weights) if word == "TINY" else word for word in line.split()])
    assert complaint in done.refusal
    assert done.out == ""
    assert {path.name for path in tmp_path.iterdir()} == set(FILES)


RUN_ALL = """
import json, sys
from nutime.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["nutime", *arguments]
    try:
        main()
    except SystemExit as end:
        print(end.code, *{"torch", "sklearn"} & set(sys.modules))
"""


def test_a_missing_file_or_column_is_reported_before_torch_is_imported(tmp_path, train):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "estimator.json").write_text("{}")
    out = ["-o", str(tmp_path / "out.csv")]
    commands = [
        ["embed", "nowhere.csv", *out],
        ["cluster", str(train), *out, "--label", "sped"],
        ["fit", "nowhere.csv", "-o", str(tmp_path / "new")],
        ["fit", str(train), "-o", str(tmp_path / "model"), "--label", "speed", "--id", "patient"],
        ["predict", str(tmp_path / "model"), "nowhere.parquet", *out],
        ["predict", "nowhere", str(train), *out],
        ["detect", str(train), "--label", "speed", "--id", "patient", "--reference", "nowhere.csv", *out],
        ["explore", str(train), "--label", "sped"],
        ["explore", "nowhere.csv"],
        ["corpus", "build", "nowhere", "-o", str(tmp_path / "corpus")],
    ]
    command = [sys.executable, "-c", RUN_ALL, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n" * len(commands), done.stderr
    assert done.stderr.count("\n") == len(commands), done.stderr


def start(*arguments):
    """Start the command as a process of its own that reads standard input."""
    command = [sys.executable, "-m", "nutime", *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_pipe_writes_the_results_of_the_first_series_before_it_reads_the_last(weights):
    process = start("embed", "-", "-o", "-", "--weights", weights, "--id", "patient")
    process.stdin.write("patient,a,b,c\n" + "".join(f"s{index},1,2,{index}\n" for index in range(CHUNK_SIZE)))
    process.stdin.flush()
    lines = [process.stdout.readline() for _ in range(1 + CHUNK_SIZE)]
    assert process.poll() is None
    assert lines[0].startswith("id,e0,e1,")
    assert [line.split(",")[0] for line in lines[1:]] == [f"s{index}" for index in range(CHUNK_SIZE)]
    out, errors = process.communicate("last,3,2,1\n")
    assert out.startswith("last,")
    assert process.returncode == 0, errors
    assert f"standard input: {CHUNK_SIZE + 1:,} series" in errors


@pytest.mark.usefixtures("ctrl_c")
def test_a_process_that_is_interrupted_leaves_nothing_behind(tmp_path, weights):
    process = start("embed", "-", "-o", tmp_path / "out.csv", "--weights", weights)
    process.stdin.write("1,2,3\n" * (2 * CHUNK_SIZE))
    process.stdin.flush()
    end = time.monotonic() + 60
    while not list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()), "the output was never begun"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out"])
def test_a_command_that_is_terminated_leaves_nothing_behind(nutime, tmp_path, weights, monkeypatch, name):
    transform, calls = NuTimeEmbedder.transform, []

    def terminated(self, X):
        calls.append(X)
        if len(calls) == 2:
            assert list(tmp_path.iterdir()), "the output was never begun"
            os.kill(os.getpid(), signal.SIGTERM)
        return transform(self, X)

    monkeypatch.setattr(NuTimeEmbedder, "transform", terminated)
    rows = "a,b,c\n" + "1,2,3\n" * (2 * CHUNK_SIZE)
    done = nutime("embed", "-", "-o", tmp_path / name, "--weights", weights, stdin=rows)
    assert (done.code, done.err, len(calls)) == (143, "", 2)
    assert not list(tmp_path.iterdir())


def test_progress_is_printed_as_lines_where_there_is_no_terminal(
    nutime, tmp_path, train, weights, chosen, monkeypatch
):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    done = nutime("embed", train, "-o", tmp_path / "e.csv", "--weights", weights, *chosen)
    assert done.err == "nutime: series: 24\n"
    done = nutime("fit", train, "-o", tmp_path / "model", "--weights", weights, *chosen)
    assert "nutime: fitting: 5 of 6 (83%)\n" in done.err


def test_warnings_of_other_packages_are_not_shown_and_those_of_nutime_are_one_line(nutime, monkeypatch):
    import typer

    def warn():
        warnings.warn_explicit("of another package", DeprecationWarning, "other.py", 1, module="torch.nn")
        warnings.warn_explicit("two\nlines", UserWarning, "series.py", 1, module="nutime.data.series")
        logging.getLogger("torch").info("of another package")
        logging.getLogger("nutime.data").info("resampled")

    app = typer.Typer()
    app.command()(warn)
    monkeypatch.setattr(main, "app", app)
    assert nutime().err == "nutime: two lines\nnutime: resampled\n"


WRONG_USAGE = [
    "nonsense",
    "pretrain",
    "corpus synth 0 -o corpus",
    "export nutime-base",
    "embed in.csv",
    "embed in.csv -o out.csv --pool median",
    "fit in.csv -o model --strategy guess",
    "fit in.csv -o model --folds 1",
    "fit in.csv -o model --holdout 1.5",
    "fit in.csv -o model --holdout 0.2 --folds 5",
    "fit in.csv -o model --epochs 3",
    "fit in.csv -o model --n-estimators 3",
    "fit in.csv -o model --class-weight heavy",
    "embed in.csv -o out.csv --length 0",
    "cluster in.csv -o out.csv -k 0",
    "detect in.csv -o out.csv --contamination 0.6",
]


@pytest.mark.parametrize("line", WRONG_USAGE)
def test_wrong_usage_is_exit_code_2(nutime, line):
    assert nutime(*line.split()).code == 2


# ---- embed --------------------------------------------------------------------------------------------


def test_embed_writes_ids_labels_and_the_vectors_of_the_library(nutime, tmp_path, train, weights, chosen):
    done = nutime("embed", train, "-o", tmp_path / "e.parquet", "--weights", weights, "--json", *chosen)
    described = json.loads(done.out)
    assert (described["series"], described["dimensions"], described["pool"]) == (24, 64, "cls+mean")
    found = pq.read_table(tmp_path / "e.parquet")
    assert found.column_names == ["id", "label", *[f"e{index}" for index in range(64)]]
    assert found["label"].to_pylist() == waves()[1].tolist()
    vectors = np.stack([found[f"e{index}"].to_numpy() for index in range(64)], axis=1)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, NuTimeEmbedder(weights).fit_transform(list(waves()[0])))


def test_the_processor_can_be_chosen(nutime, tmp_path, train, weights, chosen):
    for name, device in (("usual", []), ("named", ["--device", "cpu"])):
        nutime("fit", train, "-o", tmp_path / name, *device, "--weights", weights, *chosen)
        nutime("predict", tmp_path / name, train, "-o", tmp_path / f"{name}.csv", *device, *chosen)
    assert read_rows(tmp_path / "usual.csv") == read_rows(tmp_path / "named.csv")


@pytest.mark.parametrize(("option", "value"), [("pool", "cls"), ("length", 64)])
def test_embed_uses_the_given_pool_and_length(nutime, tmp_path, train, weights, chosen, option, value):
    nutime("embed", train, "-o", tmp_path / "e.npz", f"--{option}", value, "--weights", weights, *chosen)
    with np.load(tmp_path / "e.npz") as found:
        expected = NuTime.from_pretrained(weights).embed(list(waves()[0]), **{option: value})
        np.testing.assert_array_equal(found["e"], expected)


@pytest.mark.parametrize("command", ["fit", "cluster", "detect"])
def test_a_model_is_fitted_with_the_length_given(nutime, tmp_path, train, weights, chosen, command):
    model = tmp_path / "model"
    out = ["-o", model] if command == "fit" else ["-o", tmp_path / "out.csv", "--save", model]
    nutime(command, train, *out, "--length", 64, "--weights", weights, *chosen)
    assert storage.load(model).reading_.points == 64


def test_embed_accepts_series_of_unequal_length_with_gaps(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("id,a,b,c,d\np,1,2,,\nq,1,,3,4\nr,5,6,7,8\n")
    done = nutime("embed", tmp_path / "in.csv", "-o", tmp_path / "e.csv", "--weights", weights)
    assert "3 series of lengths 2 to 4" in done.out
    assert [row["id"] for row in read_rows(tmp_path / "e.csv")] == ["p", "q", "r"]


def test_embed_accepts_several_channels(nutime, tmp_path, weights):
    (tmp_path / "three.ts").write_text(FILES["three.ts"])
    done = nutime("embed", tmp_path / "three.ts", "-o", tmp_path / "e.npz", "--weights", weights)
    assert "2 series of length 2, 3 channels" in done.out
    with np.load(tmp_path / "e.npz") as found:
        assert found["e"].shape == (2, 3 * 64)
        assert found["label"].tolist() == ["x", "y"]


def test_embed_accepts_a_single_series(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("1,2,3\n")
    nutime("embed", tmp_path / "in.csv", "-o", tmp_path / "e.csv", "--weights", weights)
    assert len(read_rows(tmp_path / "e.csv")) == 1


# ---- fit and predict ----------------------------------------------------------------------------------


def test_fit_measures_by_cross_validation_and_saves_a_model_of_all_series(
    nutime, tmp_path, train, weights, chosen
):
    done = nutime("fit", train, "-o", tmp_path / "model", "--weights", weights, *chosen, "--json")
    described = json.loads(done.out)
    assert (described["classes"], described["folds"], described["validated"]) == (["fast", "slow"], 5, 24)
    assert described["accuracy"] > 0.9
    assert np.sum(described["confusion"]) == 24
    X, y = waves()
    expected = NuTimeClassifier(encoder=weights).fit(list(X), y).predict_proba(list(X))
    found = NuTimeClassifier.load(tmp_path / "model").predict_proba(list(X))
    np.testing.assert_array_equal(found, expected)


def test_fit_prints_accuracy_confusions_and_the_commands_to_use_the_model(
    nutime, tmp_path, train, weights, chosen
):
    folder = tmp_path / "my model"
    done = nutime("fit", train, "-o", folder, "--weights", weights, *chosen)
    shown = ("24 series of length 40, 2 classes", "by 5-fold cross-validation", "macro-F1", "predicted →")
    assert [text for text in shown if text not in done.out] == []
    assert done.err == ""
    assert done.out.splitlines()[-6:] == [
        f"Model: {folder}",
        "Next steps:",
        f"  nutime predict '{folder}' NEW.csv -o predictions.csv",
        f"  nutime export '{folder}' -o model.onnx",
        f"  nutime serve '{folder}'",
        f"  nutime explore {train}",
    ]


@pytest.mark.parametrize("command", ["fit", "cluster", "detect"])
def test_a_model_is_replaced_only_by_force(nutime, tmp_path, train, weights, chosen, command):
    place = ["-o", tmp_path / "model"]
    if command != "fit":
        place = ["-o", tmp_path / "out.csv", "--save", tmp_path / "model"]
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "estimator.json").write_text("mine")
    done = nutime(command, train, *place, "--weights", weights, *chosen)
    expected = f"{tmp_path / 'model'}: exists already; give --force to replace it, or name another folder"
    assert done.refusal == expected
    assert (tmp_path / "model" / "estimator.json").read_text() == "mine"
    assert not (tmp_path / "out.csv").exists()
    assert nutime(command, train, *place, "--weights", weights, *chosen, "--force").code == 0
    assert (tmp_path / "model" / "estimator.json").read_text() != "mine"


def test_fit_weights_classes_alike(nutime, tmp_path, train, weights, chosen):
    nutime("fit", train, "-o", tmp_path / "m", "--weights", weights, *chosen, "--class-weight", "balanced")
    assert NuTimeClassifier.load(tmp_path / "m").class_weight == "balanced"


def test_fit_leaves_out_series_without_a_label(nutime, tmp_path, weights):
    lines = "?,1,2,3\n" + "x,1,2,3\ny,3,2,1\n" * 3 + ",1,2,3\nNaN,1,2,3\n"
    (tmp_path / "in.csv").write_text("label,a,b,c\n" + lines)
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights)
    assert "6 series of length 3, 2 classes; 3 series without a label left out" in done.out
    assert NuTimeClassifier.load(tmp_path / "model").classes_.tolist() == ["x", "y"]


def test_a_folder_of_files_is_fitted_and_predicted(nutime, tmp_path, weights):
    home = tmp_path / "runs"
    home.mkdir()
    X, y = waves(12)
    for index, values in enumerate(X):
        (home / f"r{index:02}.csv").write_text(
            "stamp,v,w\n" + "".join(f"{t},{v},0\n" for t, v in enumerate(values))
        )
    classes = tmp_path / "classes.csv"
    classes.write_text("file,label\n" + "".join(f"r{index:02}.csv,{label}\n" for index, label in enumerate(y)))
    options = ["--time", "stamp", "--channels", "v", "--labels", classes]
    done = nutime("fit", home, "-o", tmp_path / "model", "--weights", weights, *options, "--json")
    assert (json.loads(done.out)["series"], json.loads(done.out)["accuracy"] > 0.8) == (12, True)
    nutime("predict", tmp_path / "model", f"{home}/r0*.csv", "-o", tmp_path / "p.csv", *options[:4])
    assert [row["id"] for row in read_rows(tmp_path / "p.csv")] == [f"r{index:02}" for index in range(10)]


def test_an_interrupted_fit_saves_no_model(nutime, tmp_path, train, weights, chosen, ctrl_c_at_step):
    steps = ctrl_c_at_step(3)
    options = ["--strategy", "finetune", "--weights", weights, *chosen]
    assert nutime("fit", train, "-o", tmp_path / "model", *options).code == 130
    assert len(steps) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


def test_fit_measures_on_a_hold_out(nutime, tmp_path, train, weights, chosen):
    done = nutime("fit", train, "-o", tmp_path / "m", "--weights", weights, *chosen, "--holdout", 0.25, "--json")
    described = json.loads(done.out)
    assert (described["holdout"], described["validated"]) == (0.25, 6)
    assert "folds" not in described


def test_fit_names_the_class_that_it_could_not_measure(nutime, tmp_path, weights):
    text = "label,a,b,c\n" + "x,1,2,3\ny,3,2,1\n" * 3 + "rare,5,5,5\n"
    (tmp_path / "in.csv").write_text(text)
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights)
    assert "a single series: rare" in done.out
    assert NuTimeClassifier.load(tmp_path / "model").classes_.tolist() == ["rare", "x", "y"]


def test_fit_of_two_series_measures_nothing_but_learns(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("label,a,b\nx,1,2\ny,2,1\n")
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights, "--json")
    assert json.loads(done.out)["accuracy"] is None
    assert (tmp_path / "model").is_dir()


def test_many_classes_are_shown_by_their_confusions(nutime, tmp_path, weights):
    rng = np.random.default_rng(0)
    lines = [f"class{index % 15:02}," + ",".join(map(str, rng.normal(size=8))) for index in range(45)]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights)
    assert "most often confused" in done.out
    assert "predicted →" not in done.out


def test_escape_characters_of_a_file_do_not_reach_the_terminal(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("label,a,b,c\n" + "x\x1b[2J,1,2,3\ny\x9b1m,3,2,1\n" * 3)
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights)
    assert "x\\x1b[2J" in done.out
    done = nutime("predict", tmp_path / "model", tmp_path / "nowhere\x1b[2J.csv", "-o", tmp_path / "out.csv")
    assert "nowhere\\x1b[2J.csv" in done.err
    (tmp_path / "y\x1b.csv").write_text("y,a,b\n1,2,3\n")
    noted = nutime("embed", tmp_path / "y\x1b.csv", "-o", tmp_path / "e.csv", "--weights", weights)
    assert "y\\x1b.csv: column 'y' is read as the label" in noted.err
    assert not {"\x1b", "\x9b"} & set(done.out + done.err + noted.out + noted.err)


def test_fit_refuses_a_continuous_target_with_the_way_to_regression(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("price,a,b\n" + "".join(f"{0.3 * row:.1f},1,{row}\n" for row in range(12)))
    arguments = "fit", tmp_path / "in.csv", "--label", "price", "-o", tmp_path / "model", "--weights", weights
    message = nutime(*arguments).refusal
    assert "to predict numbers, use NuTimeRegressor or nutime fit --target" in message
    assert not (tmp_path / "model").exists()


def test_a_label_with_markup_is_printed_as_it_is(nutime, tmp_path, weights):
    (tmp_path / "in.csv").write_text("label,a,b,c\n" + "[red]x,1,2,3\ny,3,2,1\n" * 3)
    done = nutime("fit", tmp_path / "in.csv", "-o", tmp_path / "model", "--weights", weights)
    assert "[red]x" in done.out


def test_fit_again_with_the_same_seed_is_the_same(nutime, tmp_path, train, weights, chosen):
    options = ["--weights", weights, *chosen, "--seed", 3, "--json"]
    first, second = (json.loads(nutime("fit", train, "-o", tmp_path / name, *options).out) for name in "ab")
    assert {**first, "model": None} == {**second, "model": None}


@pytest.mark.slow
def test_fit_finetunes_and_measures_on_a_fifth(nutime, tmp_path, weights, chosen):
    train = write_csv(tmp_path / "train.csv", *waves(10))
    options = ["--strategy", "finetune", "--epochs", 1, "--n-estimators", 1, "--weights", weights, "--json"]
    done = nutime("fit", train, "-o", tmp_path / "model", *options, *chosen)
    described = json.loads(done.out)
    assert (described["holdout"], described["validated"]) == (0.2, 2)
    model = NuTimeClassifier.load(tmp_path / "model")
    assert (model.strategy, model.epochs, model.verbose) == ("finetune", 1, False)


def test_of_a_file_with_two_splits_fit_reads_one_and_predict_the_other(nutime, tmp_path, weights):
    (X, y), (X_test, y_test) = waves(), waves(10, seed=1)
    np.savez(tmp_path / "set.npz", X_train=X, y_train=y, X_test=X_test, y_test=y_test)
    done = nutime("fit", tmp_path / "set.npz", "-o", tmp_path / "model", "--weights", weights, "--json")
    assert json.loads(done.out)["series"] == 24
    done = nutime("predict", tmp_path / "model", tmp_path / "set.npz", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(done.out)["series"] == 10


@pytest.fixture
def model(tmp_path, weights):
    X, y = waves()
    return NuTimeClassifier(encoder=weights).fit(list(X), y).save(tmp_path / "model")


def test_predict_writes_labels_and_probabilities_in_the_order_of_the_input(nutime, tmp_path, model, chosen):
    X, y = waves(301, seed=1)  # more than one chunk of series
    new = write_csv(tmp_path / "new.csv", X, y)
    done = nutime("predict", model, new, "-o", tmp_path / "p.csv", *chosen)
    rows = read_rows(tmp_path / "p.csv")
    assert list(rows[0]) == ["id", "label", "predicted", "p_fast", "p_slow"]
    assert [row["id"] for row in rows] == [f"p{index}" for index in range(301)]
    classifier = NuTimeClassifier.load(model)
    assert [row["predicted"] for row in rows] == classifier.predict(list(X)).tolist()
    found = np.array([[row["p_fast"], row["p_slow"]] for row in rows], float)
    np.testing.assert_allclose(found, classifier.predict_proba(list(X)), rtol=1e-4)
    accuracy = classifier.score(list(X), y)
    assert f"Accuracy: {100 * accuracy:.1f} %" in done.out


def test_predict_leaves_the_class_of_uncertain_series_empty_and_counts_them(nutime, tmp_path, model, chosen):
    X, y = waves(30, seed=1)
    X[:10] = np.random.default_rng(0).normal(0, 3, (10, 40))  # neither slow nor fast
    new = write_csv(tmp_path / "new.csv", X, y)
    confidence = NuTimeClassifier.load(model).predict_proba(list(X)).max(axis=1)
    limit = np.sort(confidence)[4] + 1e-6
    done = nutime("predict", model, new, "-o", tmp_path / "p.csv", "--reject-below", limit, *chosen)
    predicted = np.array([row["predicted"] for row in read_rows(tmp_path / "p.csv")])
    np.testing.assert_array_equal(predicted == "", confidence < limit)
    assert "Rejected, no class predicted: 5 of 30" in done.out
    kept = predicted != ""
    assert f"({(predicted == y)[kept].sum()} of 25)" in done.out


def test_only_a_classifier_can_reject(nutime, tmp_path, train, weights, model, chosen):
    NuTimeDetector(encoder=weights).fit(list(waves()[0])).save(tmp_path / "detector")
    out = ["-o", tmp_path / "p.csv", *chosen]
    done = nutime("predict", tmp_path / "detector", train, "--reject-below", 0.5, *out)
    assert "only a classifier" in done.refusal
    assert nutime("predict", model, train, "--reject-below", 80, *out).code == 2


def test_explain_writes_a_row_per_point_and_a_figure(nutime, tmp_path, train, model, chosen):
    pytest.importorskip("matplotlib")
    arguments = ["--index", 3, "--index", 1, "--figure", tmp_path / "figures"]
    done = nutime("explain", model, train, "-o", tmp_path / "c.csv", *arguments, *chosen)
    assert done.code == 0, done.err
    rows = read_rows(tmp_path / "c.csv")
    assert list(rows[0]) == ["series", "id", "predicted", "channel", "point", "contribution"]
    classifier, X = NuTimeClassifier.load(model), waves()[0]
    found = np.array([row["contribution"] for row in rows], float).reshape(2, 1, 40)
    np.testing.assert_allclose(found, classifier.explain(X[[3, 1]]), rtol=1e-4, atol=1e-5)
    assert [(row["id"], row["point"]) for row in rows[38:42]] == [
        ("p3", "38"),
        ("p3", "39"),
        ("p1", "0"),
        ("p1", "1"),
    ]
    assert rows[0]["predicted"] == classifier.predict(X[[3]])[0]
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"explain.png", "explain.svg"}


@pytest.mark.parametrize(("name", "mentioned"), [("age", True), ("t40", False)])
def test_fit_mentions_a_column_among_the_points_that_is_not_numbered_like_them(
    nutime, tmp_path, train, weights, chosen, name, mentioned
):
    header, *lines = train.read_text().splitlines()
    train.write_text("\n".join([f"{header},{name}", *(f"{line},{len(line)}" for line in lines)]))
    done = nutime("fit", train, "-o", tmp_path / "m", "--weights", weights, *chosen)
    assert done.code == 0, done.err
    assert (f"'{name}' read as values of the series" in done.err) == mentioned


def test_the_figure_of_explain_shows_each_channel_with_its_own_contribution(nutime, tmp_path, weights):
    pytest.importorskip("matplotlib")
    X, y = waves(6)
    rows = [
        (f"s{series}", t, 9 * x, t % 5, y[series]) for series, wave in enumerate(X) for t, x in enumerate(wave)
    ]
    pictures = []
    for order in ([0, 1, 2, 3, 4], [0, 1, 3, 2, 4]):
        names = [("id", "time", "volt", "ampere", "label")[column] for column in order]
        lines = [",".join(str(row[column]) for column in order) for row in rows]
        (tmp_path / "series.csv").write_text("\n".join([",".join(names), *lines]))
        if not pictures:
            done = nutime("fit", tmp_path / "series.csv", "-o", tmp_path / "model", "--weights", weights)
            assert done.code == 0, done.err
        figure = ["--index", 0, "--figure", tmp_path / "figures"]
        assert nutime("explain", tmp_path / "model", tmp_path / "series.csv", "-o", "-", *figure).code == 0
        pictures.append((tmp_path / "figures" / "explain.png").read_bytes())
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("command", ["explain", "forecast"])
def test_a_figure_that_cannot_be_written_is_refused_before_the_work(
    nutime, tmp_path, train, model, chosen, command
):
    (tmp_path / "taken").write_text("")
    arguments = [model, train] if command == "explain" else [train, "--horizon", 3]
    done = nutime(command, *arguments, "-o", tmp_path / "out.csv", "--figure", tmp_path / "taken", *chosen)
    assert "taken: is a file; name a folder" in done.refusal
    assert not (tmp_path / "out.csv").exists()


def test_explain_counts_points_as_the_input_does(nutime, tmp_path, model, chosen):
    X, y = waves()
    gaps = X[:2].copy()
    gaps[:, :5] = gaps[:, 37:] = np.nan
    given = write_csv(tmp_path / "gaps.csv", gaps, y[:2])
    rows = rows_of(nutime("explain", model, given, "-o", "-", "--index", 1, *chosen).out)
    assert [int(row["point"]) for row in rows] == list(range(5, 37))
    expected = NuTimeClassifier.load(model).explain([X[1, 5:37]])[0].ravel()
    np.testing.assert_allclose([float(row["contribution"]) for row in rows], expected, rtol=1e-4, atol=1e-5)


def test_explain_refuses_columns_in_another_order(nutime, tmp_path, train, chosen):
    header, *lines = train.read_text().splitlines()
    cells = header.split(",")
    turned = tmp_path / "turned.csv"
    turned.write_text("\n".join([",".join([*cells[:2], *cells[:1:-1]]), *lines]))
    assert nutime("fit", train, "-o", tmp_path / "named", *chosen).code == 0
    done = nutime("explain", tmp_path / "named", turned, "-o", "-", *chosen)
    assert "in another order" in done.refusal


def test_explain_writes_the_times_of_the_input(nutime, tmp_path, model):
    values = ["", "", *waves()[0][0].ravel()]
    lines = [f"2024-01-01 00:00:{second:02},{value}" for second, value in enumerate(values)]
    (tmp_path / "timed.csv").write_text("\n".join(["time,value", *lines]))
    rows = rows_of(nutime("explain", model, tmp_path / "timed.csv", "-o", "-").out)
    assert list(rows[0]) == ["series", "predicted", "channel", "point", "time", "contribution"]
    assert (rows[0]["point"], rows[0]["time"]) == ("2", "2024-01-01 00:00:02")
    assert (rows[-1]["point"], rows[-1]["time"]) == ("41", "2024-01-01 00:00:41")


def test_explain_writes_all_times_alike(nutime, tmp_path, model):
    days = np.datetime64("2024-01-01") + np.arange(40)
    hours = np.datetime64("2024-01-01T00") + np.arange(40)
    lines = [
        f"{name},{time},{time.astype(int) % 7}" for name, times in (("p", days), ("q", hours)) for time in times
    ]
    (tmp_path / "timed.csv").write_text("\n".join(["id,time,value", *lines]))
    rows = rows_of(nutime("explain", model, tmp_path / "timed.csv", "-o", "-").out)
    assert {len(row["time"]) for row in rows} == {len("2024-01-01 00:00:00")}


def test_explain_writes_dates_and_numbers_as_text(nutime, tmp_path, model):
    days = [f"p,{day},{day.astype(int) % 7}" for day in np.datetime64("2024-01-01") + np.arange(40)]
    numbers = [f"q,{number},{number % 7}" for number in range(40)]
    (tmp_path / "timed.csv").write_text("\n".join(["id,time,value", *days, *numbers]))
    rows = rows_of(nutime("explain", model, tmp_path / "timed.csv", "-o", "-").out)
    assert (rows[0]["time"], rows[-1]["time"]) == ("2024-01-01 00:00:00", "39")


def test_a_detector_is_explained_and_a_clusterer_refused(nutime, tmp_path, train, weights, chosen):
    X = list(waves()[0])
    NuTimeDetector(encoder=weights).fit(X).save(tmp_path / "detector")
    NuTimeClusterer(2, weights).fit(X).save(tmp_path / "clusterer")
    done = nutime("explain", tmp_path / "detector", train, "-o", "-", "--index", 0, *chosen)
    assert list(rows_of(done.out)[0]) == ["series", "id", "channel", "point", "contribution"]
    done = nutime("explain", tmp_path / "clusterer", train, "-o", "-", *chosen)
    assert "does not explain" in done.refusal
    done = nutime("explain", tmp_path / "detector", train, "-o", "-", "--index", 24, *chosen)
    assert "has no series 24, its 24 series count from 0" in done.refusal


def test_predict_without_labels_reports_no_accuracy(nutime, tmp_path, model):
    np.savez(tmp_path / "new.npz", X=waves(5)[0])
    done = nutime("predict", model, tmp_path / "new.npz", "-o", tmp_path / "p.csv", "--json")
    described = json.loads(done.out)
    assert "accuracy" not in described
    assert sum(described["predicted"].values()) == 5


def test_predict_names_labels_the_model_does_not_know(nutime, tmp_path, model, chosen):
    X, y = waves(6)
    new = write_csv(tmp_path / "new.csv", X, ["stopped", *y[1:]])
    described = json.loads(nutime("predict", model, new, "-o", tmp_path / "p.csv", "--json", *chosen).out)
    assert described["unknown_labels"] == ["stopped"]
    assert described["accuracy"] <= 5 / 6


@pytest.mark.parametrize("kind", [int, float])
def test_labels_that_were_numbers_in_python_are_recognised_in_a_file(nutime, tmp_path, weights, kind):
    X, y = waves()
    numbers = (y == "fast").astype(kind)
    NuTimeClassifier(encoder=weights).fit(list(X), numbers).save(tmp_path / "model")
    np.savez(tmp_path / "new.npz", X=X, y=numbers)
    done = nutime("predict", tmp_path / "model", tmp_path / "new.npz", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(done.out)["accuracy"] > 0.9
    assert list(read_rows(tmp_path / "p.csv")[0]) == ["label", "predicted", "p_0", "p_1"]


def test_predict_with_an_embedder_embeds(nutime, tmp_path, train, weights, chosen):
    embedder = NuTimeEmbedder(weights).fit(list(waves()[0]))
    embedder.save(tmp_path / "model")
    nutime("predict", tmp_path / "model", train, "-o", tmp_path / "e.npz", *chosen)
    with np.load(tmp_path / "e.npz") as found:
        np.testing.assert_array_equal(found["e"], embedder.transform(list(waves()[0])))


def test_an_archive_set_is_learned_and_predicted_by_name(nutime, tmp_path):
    pytest.importorskip("aeon")
    one_resolution = ["--length", 96]  # the 150 points would be read at three, which takes five times as long
    fitted = json.loads(nutime("fit", "GunPoint", "-o", tmp_path / "model", *one_resolution, "--json").out)
    predicted = json.loads(
        nutime("predict", tmp_path / "model", "GunPoint", "-o", tmp_path / "p.csv", "--json").out
    )
    assert (fitted["series"], predicted["series"]) == (50, 150)
    assert fitted["accuracy"] > 0.85
    assert predicted["accuracy"] > 0.9


# ---- cluster ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [[], ["-k", 3]])
def test_cluster_finds_the_clusters_of_the_library(nutime, tmp_path, train, weights, chosen, given):
    done = nutime("cluster", train, "-o", tmp_path / "c.csv", *given, "--weights", weights, "--json", *chosen)
    described = json.loads(done.out)
    expected = NuTimeClusterer(3 if given else None, weights, random_state=0).fit(list(waves()[0]))
    assert described["sizes"] == np.bincount(expected.labels_).tolist()
    assert described["silhouette"] == expected.silhouette_
    rows = read_rows(tmp_path / "c.csv")
    assert list(rows[0]) == ["id", "label", "cluster"]
    assert [int(row["cluster"]) for row in rows] == expected.labels_.tolist()


def test_the_silhouette_is_printed_and_one_cluster_has_none(nutime, tmp_path, train, weights, chosen):
    options = ["cluster", train, "-o", tmp_path / "c.csv", "--weights", weights, *chosen]
    assert "Silhouette: 0." in nutime(*options, "-k", 2).out
    assert "Silhouette: not defined" in nutime(*options, "-k", 1).out
    assert json.loads(nutime(*options, "-k", 1, "--json").out)["silhouette"] is None


@pytest.mark.parametrize("command", [["cluster", "-k", 3], ["detect"]])
def test_a_saved_model_predicts_what_was_written(nutime, tmp_path, train, weights, chosen, command):
    options = ["--save", tmp_path / "model", "--weights", weights]
    nutime(*command, train, "-o", tmp_path / "c.csv", *options, *chosen)
    nutime("predict", tmp_path / "model", train, "-o", tmp_path / "p.csv", *chosen)
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "c.csv").read_text()


# ---- detect -------------------------------------------------------------------------------------------


def test_detect_finds_what_is_unlike_the_reference(nutime, tmp_path, weights, chosen):
    X, y = waves()
    normal = write_csv(tmp_path / "normal.csv", X, y)
    strange = X[:5].copy()
    strange[3] = 1e6 * np.random.default_rng(0).normal(size=40)
    new = write_csv(tmp_path / "new.csv", strange, y[:5])
    options = ["--reference", normal, "--weights", weights, "--json", *chosen]
    described = json.loads(nutime("detect", new, "-o", tmp_path / "d.csv", *options).out)
    assert described["top"][0]["id"] == "p3"
    rows = read_rows(tmp_path / "d.csv")
    assert list(rows[0]) == ["id", "label", "score", "is_anomaly"]
    assert rows[3]["is_anomaly"] == "true"
    assert described["anomalies"] == sum(row["is_anomaly"] == "true" for row in rows)


@pytest.mark.parametrize("contamination", [0.04, 0.05, 0.1, 0.2, 0.5])
def test_detect_marks_what_the_library_marks(nutime, tmp_path, train, weights, chosen, contamination):
    options = ["--contamination", contamination, "--weights", weights, *chosen]
    nutime("detect", train, "-o", tmp_path / "d.npz", *options)
    X = list(waves()[0])
    detector = NuTimeDetector(contamination, weights).fit(X)
    with np.load(tmp_path / "d.npz") as found:
        np.testing.assert_array_equal(found["score"], detector.anomaly_score(X))
        np.testing.assert_array_equal(found["is_anomaly"], detector.predict(X) == -1)


def test_detect_warns_that_it_was_trained_on_the_same_series(nutime, tmp_path, train, weights, chosen):
    done = nutime("detect", train, "-o", tmp_path / "d.csv", "--weights", weights, *chosen)
    assert "Trained on the same series" in done.out
    assert "Anomalies: 1 of 24" in done.out


def write_sensors(path, order, labelled):
    """Write one row per point; a bad bearing shows in the vibration alone."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "time", *order, *(["label"] if labelled else [])])
        for machine in range(12):
            bad = machine % 2
            label = [["ok", "bearing"][bad]] if labelled else []
            for point in range(40):
                cells = {"vibration": rng.normal() * (1 + 29 * bad), "temperature": 300 + rng.normal()}
                writer.writerow([machine, point, *map(cells.get, order), *label])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_sensor_columns_in_another_order_change_no_prediction(nutime, weights, tmp_path, suffix):
    train, new, other = (tmp_path / f"{name}.csv" for name in ("train", "new", "other"))
    write_sensors(train, ["vibration", "temperature"], True)
    write_sensors(new, ["vibration", "temperature"], False)
    write_sensors(other, ["temperature", "vibration"], False)
    if suffix == ".parquet":
        for path in (train, new, other):
            pq.write_table(arrow_csv.read_csv(path), path.with_suffix(suffix))
        train, new, other = (path.with_suffix(suffix) for path in (train, new, other))
    assert nutime("fit", train, "-o", tmp_path / "model", "--weights", weights).code == 0
    for source in (new, other):
        assert nutime("predict", tmp_path / "model", source, "-o", source.with_suffix(".tsv")).code == 0
    assert new.with_suffix(".tsv").read_text() == other.with_suffix(".tsv").read_text()


def test_other_sensors_than_those_of_fit_are_refused_by_name(nutime, weights, tmp_path):
    train, new = tmp_path / "train.csv", tmp_path / "new.csv"
    write_sensors(train, ["vibration", "temperature"], True)
    write_sensors(new, ["vibration", "temperature"], False)
    new.write_text(new.read_text().replace("temperature", "pressure"))
    nutime("fit", train, "-o", tmp_path / "model", "--weights", weights)
    message = nutime("predict", tmp_path / "model", new, "-o", tmp_path / "out.csv").refusal
    assert "pressure" in message
    assert "temperature" in message


def write_points(path, X, names, **columns):
    """Write one row per series, with the columns given before its points; NaN is an empty cell."""
    table = pa.table(columns | dict(zip(names, np.where(np.isnan(X), None, X).T.tolist(), strict=True)))
    write = pq.write_table if path.suffix == ".parquet" else arrow_csv.write_csv
    write(table, path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_points_in_another_order_change_no_prediction(nutime, weights, tmp_path, suffix):
    X, y = waves(300)
    X[1, 7] = X[2, 0] = X[299, 39] = np.nan
    names, order = [f"t{index}" for index in range(40)], np.random.default_rng(0).permutation(40)
    train = write_points(tmp_path / f"train{suffix}", X[:24], names, quality=y[:24])
    new = write_points(tmp_path / f"new{suffix}", X, names)
    other = write_points(tmp_path / f"other{suffix}", X[:, order], [names[index] for index in order])
    model = tmp_path / "model"
    assert nutime("fit", train, "-o", model, "--label", "quality", "--weights", weights).code == 0
    for source in (new, other):
        assert nutime("predict", model, source, "-o", source.with_suffix(".tsv")).code == 0
    assert new.with_suffix(".tsv").read_text() == other.with_suffix(".tsv").read_text()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_class_column_is_not_read_as_a_point(nutime, weights, tmp_path, suffix):
    X, y = waves()
    names = [f"t{index}" for index in range(40)]
    train = write_points(tmp_path / f"train{suffix}", X, names, quality=(y == "fast").astype(int))
    nutime("fit", train, "-o", tmp_path / "model", "--label", "quality", "--weights", weights)
    message = nutime("predict", tmp_path / "model", train, "-o", tmp_path / "out.csv").refusal
    assert f"{train}: the columns differ from 't0'" in message
    assert "unexpected 'quality'" in message


@pytest.mark.parametrize("target", ["-1", "Visc"])
def test_a_target_chosen_in_another_way_is_not_read_as_a_point(nutime, weights, tmp_path, target):
    X, _ = waves()
    names = [*[f"t{index}" for index in range(40)], "visc"]
    train = write_points(tmp_path / "train.csv", np.column_stack([X, X.std(1)]), names)
    assert nutime("fit", train, "-o", tmp_path / "model", "--target", target, "--weights", weights).code == 0
    done = nutime("predict", tmp_path / "model", train, "-o", tmp_path / "out.csv")
    assert "unexpected 'visc'" in done.refusal


def test_points_without_names_are_predicted_by_a_model_fitted_with_names(nutime, weights, tmp_path):
    X, y = waves()
    train = write_points(tmp_path / "train.csv", X, [f"t{index}" for index in range(40)], label=y)
    np.save(tmp_path / "new.npy", X)
    assert nutime("fit", train, "-o", tmp_path / "model", "--weights", weights).code == 0
    assert nutime("predict", tmp_path / "model", tmp_path / "new.npy", "-o", tmp_path / "out.csv").code == 0


def test_files_with_a_row_of_other_points_each_are_fitted_and_predicted(nutime, weights, tmp_path):
    X, y = waves(6)
    folder = tmp_path / "rows"
    folder.mkdir()
    for index, (x, label) in enumerate(zip(X, y, strict=True)):
        length = 40 - index
        names = [f"t{point}" for point in range(length)]
        write_points(folder / f"{index}.csv", x[None, :length], names, label=[label])
    assert nutime("fit", folder, "-o", tmp_path / "model", "--weights", weights).code == 0
    (folder / "0.csv").unlink()
    done = nutime("predict", tmp_path / "model", folder, "-o", tmp_path / "out.csv")
    assert done.code == 0, done.err


# ---- numbers ------------------------------------------------------------------------------------------


@pytest.fixture
def numbers(tmp_path):
    """Write waves whose column ``speed`` is the logarithm of their amplitude."""
    rng = np.random.default_rng(0)
    y = rng.uniform(-1, 1, 40)
    X = np.exp(y)[:, None] * np.sin(np.linspace(0, 12, 40) + rng.uniform(0, 6, (40, 1)))
    return write_csv(tmp_path / "numbers.csv", X, [*y.round(4).astype(str)[:38], "", "?"])


def test_fit_with_a_target_trains_a_regressor_that_predict_applies(nutime, numbers, weights, tmp_path):
    model, out = tmp_path / "model", tmp_path / "out.csv"
    options = ["--target", "speed", "--id", "patient", "--weights", weights, "--json"]
    done = nutime("fit", numbers, "-o", model, *options)
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert (document["series"], document["unlabelled"], document["folds"]) == (38, 2, 5)
    assert 0.5 < document["r2"] < 1
    chosen = ["--label", "speed", "--id", "patient"]
    done = nutime("predict", model, numbers, "-o", out, "--interval", "0.9", *chosen)
    assert done.code == 0, done.err
    assert "RMSE: " in done.out
    assert "Inside the interval: " in done.out
    rows = read_rows(out)
    assert list(rows[0]) == ["id", "label", "predicted", "lower", "upper"]
    X = [list(row.values())[2:] for row in read_rows(numbers)]
    expected = NuTimeRegressor.load(model).predict_interval(list(np.array(X, float)), 0.9)
    np.testing.assert_allclose([[float(row["lower"]), float(row["upper"])] for row in rows], expected, rtol=1e-5)


def test_a_label_that_is_no_number_is_refused_by_a_regressor_with_its_file(
    nutime, numbers, train, weights, tmp_path
):
    model = tmp_path / "model"
    options = ["--id", "patient", "--weights", weights]
    assert nutime("fit", numbers, "-o", model, "--target", "speed", *options).code == 0
    done = nutime("predict", model, train, "-o", tmp_path / "out.csv", "--id", "patient", "--label", "speed")
    assert f"{train}: 'slow' is not a number" in done.refusal
    assert not (tmp_path / "out.csv").exists()


def test_the_page_of_fit_states_the_errors_of_numbers(nutime, numbers, weights, tmp_path):
    done = nutime(
        "fit", numbers, "-o", tmp_path / "m", "--target", "speed", "--id", "patient", "--weights", weights
    )
    assert done.code == 0, done.err
    assert "targets from -0.9" in done.out
    assert "R²: 0." in done.out
    assert "by 5-fold cross-validation" in done.out


def test_a_column_with_what_the_model_predicts_is_not_read_as_values(nutime, numbers, weights, tmp_path):
    model = tmp_path / "model"
    options = ["--id", "patient", "--weights", weights]
    assert nutime("fit", numbers, "-o", model, "--target", "speed", *options).code == 0
    full = tmp_path / "full.csv"
    full.write_text("\n".join(numbers.read_text().splitlines()[:30]) + "\n")
    for command in ("predict", "explain"):
        done = nutime(command, model, full, "-o", tmp_path / "out.csv", "--id", "patient")
        assert "column 'speed' holds what the model predicts; give --label speed" in done.refusal


def test_the_labels_of_a_file_without_columns_are_numbers_with_target_label(nutime, weights, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "set.npz", X=rng.normal(size=(20, 30)), y=np.linspace(5, 9, 20))
    options = ["-o", tmp_path / "model", "--weights", weights]
    expected = "20 distinct numbers for 20 series; to predict numbers, use NuTimeRegressor or nutime fit --target"
    assert expected in nutime("fit", tmp_path / "set.npz", *options).refusal
    assert not (tmp_path / "model").exists()
    done = nutime("fit", tmp_path / "set.npz", "--target", "label", *options)
    assert done.code == 0, done.err
    assert "targets from 5 to 9" in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--target", "speed", "--label", "speed"], 2, "choose one of them"),
        (["--target", "speed", "--class-weight", "balanced"], 2, "numbers have no classes"),
        (["--target", "sped"], 1, "speed"),
        (["--target", "patient"], 1, "'p0' is not a number"),
    ],
)
def test_mistakes_about_targets_are_one_line(nutime, numbers, weights, tmp_path, arguments, code, reason):
    done = nutime("fit", numbers, "-o", tmp_path / "model", "--weights", weights, *arguments)
    assert done.code == code
    assert reason in done.err


def test_intervals_are_for_numbers(nutime, train, weights, chosen, tmp_path):
    NuTimeClassifier(encoder=weights).fit(*waves()).save(tmp_path / "model")
    done = nutime("predict", tmp_path / "model", train, "-o", tmp_path / "out.csv", "--interval", "0.9", *chosen)
    assert done.code == 2
    assert "predicts no numbers" in " ".join(done.err.replace("│", " ").split())  # wrapped in a box
