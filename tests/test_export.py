"""Exported models return the outputs of the Python models.

Tracing takes seconds: by default two files are written, and all other models are tested as the module that would
be traced; the slow tests write them all.
"""

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from nutime import (
    NuTime,
    NuTimeClassifier,
    NuTimeClusterer,
    NuTimeConfig,
    NuTimeDetector,
    NuTimeEmbedder,
    NuTimeRegressor,
)
from nutime.cli.export import export
from nutime.data.series import SeriesSet, resample
from nutime.export import CONTRACT, _Series, export_onnx, plan_export
from nutime.model.reading import AUTO_POOLS, NETWORK_POOLS
from nutime.version import own_version

pytest.importorskip("onnxscript")
onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

SMALL = NuTimeConfig(window=8, length=64, dim=32, depth=2, heads=2, head_dim=16, mlp_dim=64, scalar_dim=8)
TOLERANCE = 1e-4
EXAMPLE = Path(__file__).parents[1] / "examples" / "onnx_inference.py"
WITHOUT_US = """
import runpy, sys
sys.modules.update(nutime=None, torch=None)
del sys.argv[0]
runpy.run_path(sys.argv[0])
"""

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(export)


def nutime_export(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


class Module:
    """The module that would be traced."""

    def __init__(self, model, **options):
        self.plan = plan_export(model, **options)
        self.about = self.plan.about

    @classmethod
    def of(cls, model, folder, **options):
        return cls(model, **options)

    def run(self, series):
        with torch.inference_mode():
            outputs = self.plan.graph(torch.from_numpy(padded(series)))
        return {name: output.numpy() for name, output in zip(self.plan.outputs, outputs, strict=True)}


class File:
    """A file, read by onnxruntime."""

    def __init__(self, path):
        threads = onnxruntime.SessionOptions()
        threads.intra_op_num_threads = 1
        self.path = path
        self.session = onnxruntime.InferenceSession(path, threads, providers=["CPUExecutionProvider"])
        self.about = json.loads(self.session.get_modelmeta().custom_metadata_map["nutime"])

    @classmethod
    def of(cls, model, folder, **options):
        export_onnx(model, folder / "model.onnx", **options)
        return cls(folder / "model.onnx")

    def run(self, series):
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self.session.run(names, {"series": padded(series)}), strict=True))


def padded(series):
    """Return series of unequal length as one float32 array, with NaN behind the shorter ones."""
    longest = max(values.shape[-1] for values in series)
    rows = [np.pad(x, ((0, 0), (0, longest - x.shape[-1])), constant_values=np.nan) for x in series]
    return np.stack(rows).astype(np.float32)


def walks(count, channels, length, seed=0):
    steps = np.random.default_rng(seed).standard_normal((count, channels, length))
    return steps.cumsum(-1).astype(np.float32)


def waves(count, channels, seed=0):
    """Return slow and fast waves of unequal length in turn, and what they are."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(30, 60, count)
    phases = rng.uniform(0, 6, (count, channels, 1))
    series = [
        (np.sin((1 + index % 2 * 3) * np.linspace(0, 9, length) + phase) * 10).astype(np.float32)
        for index, (length, phase) in enumerate(zip(lengths, phases, strict=True))
    ]
    return series, np.array(["slow", "fast"])[np.arange(count) % 2]


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return NuTime(SMALL)


@pytest.fixture(scope="module")
def command(encoder, tmp_path_factory):
    """Return what the command printed about a saved encoder, and the file it wrote."""
    folder = tmp_path_factory.mktemp("encoder")
    path = folder / "new" / "model.onnx"
    done = nutime_export(encoder.save(folder), "-o", path)
    assert done.exit_code == 0, done.exception
    return done.stdout, path


@pytest.fixture(scope="module")
def file(command):
    return File(command[1])


@pytest.fixture(params=[Module, pytest.param(File, marks=pytest.mark.slow)], ids=["module", "file"])
def exported(request, tmp_path):
    """Return a function that exports a model one way or the other."""
    return lambda model, **options: request.param.of(model, tmp_path, **options)


# ---- the encoder, from raw series ------------------------------------------------------------------------


@settings(max_examples=150)
@given(
    count=st.integers(1, 5),
    channels=st.integers(1, 4),
    length=st.integers(1, 400),
    magnitude=st.floats(-42, 31),
    offset=st.floats(-1e6, 1e6, width=32),
    seed=st.integers(0, 2**32 - 1),
)
def test_embeddings_agree_for_every_batch_channels_length_and_magnitude(
    encoder, file, count, channels, length, magnitude, offset, seed
):
    series = (walks(count, channels, length, seed) + np.float32(offset)) * np.float32(10.0**magnitude)
    np.testing.assert_allclose(file.run(series)["embedding"], encoder.embed(series), rtol=0, atol=TOLERANCE)


@settings(max_examples=50)
@given(
    arrays(
        np.float32,
        array_shapes(min_dims=3, max_dims=3, max_side=40),
        elements=st.floats(allow_nan=False, allow_infinity=False, width=32),
    )
)
def test_embeddings_agree_for_any_finite_values(encoder, file, series):
    np.testing.assert_allclose(file.run(series)["embedding"], encoder.embed(series), rtol=0, atol=TOLERANCE)


@settings(max_examples=100)
@given(
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=4),
    channels=st.integers(1, 3),
    share=st.floats(0, 0.9),
    seed=st.integers(0, 2**32 - 1),
)
def test_gaps_and_padding_are_treated_as_by_the_input_contract(encoder, file, lengths, channels, share, seed):
    rng = np.random.default_rng(seed)
    series = [walks(1, channels, length, seed)[0] for length in lengths]
    for values in series:
        gaps = rng.random(values.shape) < share
        gaps[np.arange(channels), rng.integers(0, values.shape[1], channels)] = False
        values[gaps] = np.nan
    np.testing.assert_allclose(file.run(series)["embedding"], encoder.embed(series), rtol=0, atol=TOLERANCE)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.integers(1, 200))
def test_a_constant_series_has_no_shape_whatever_its_value(encoder, file, value, length):
    series = np.full((1, 1, length), value, np.float32)
    np.testing.assert_allclose(file.run(series)["embedding"], encoder.embed(series), atol=TOLERANCE)


@given(
    st.integers(1, 300),
    st.integers(1, 60),
    st.integers(0, 5),
    st.sampled_from([0.0, 1e6, 1e30]),
    st.integers(0, 99),
)
def test_series_are_resized_as_by_the_input_contract(size, length, padding, offset, seed):
    series = walks(2, 2, size, seed) + np.float32(offset)
    given = np.pad(series, ((0, 0), (0, 0), (padding, 2 * padding)), constant_values=np.nan)
    tensor = torch.from_numpy(given)
    resized = _Series.of(tensor, ~tensor.isnan()).resized(length)
    np.testing.assert_allclose(resized, resample(list(series), length), rtol=3e-7, atol=1e-6)


def test_a_series_of_a_hundred_thousand_points_agrees(encoder, file):
    series = walks(1, 1, 100_000)
    np.testing.assert_allclose(file.run(series)["embedding"], encoder.embed(series), atol=TOLERANCE)


def test_a_series_that_breaks_the_contract_gets_nan_and_spoils_no_other(encoder, file):
    series = walks(4, 2, 50)
    series[1, 0, 7] = np.inf
    series[2, 1] = np.nan
    answer = file.run(series)["embedding"]
    assert np.isnan(answer[1:3]).all()
    np.testing.assert_allclose(answer[[0, 3]], encoder.embed(series[[0, 3]]), atol=TOLERANCE)


def test_shapes_are_named_after_what_they_count(file):
    (taken,), (given,) = file.session.get_inputs(), file.session.get_outputs()
    assert (taken.name, taken.type) == ("series", "tensor(float)")
    assert taken.shape == ["batch", "channels", "length"]
    assert (given.name, given.shape) == ("embedding", ["batch", "64*channels"])


def test_the_file_describes_itself(file):
    assert file.about == {
        "nutime": own_version(),
        "contract": CONTRACT,
        "channels": "any",
        "outputs": ["embedding"],
        "pool": "cls+mean",
    }


def test_the_command_prints_inputs_and_outputs(command):
    printed, path = command
    assert printed == f"{path}: series (batch, any channels, length) → embedding\n"


def test_the_example_reads_the_file_without_nutime_or_torch(command):
    run = [sys.executable, "-c", WITHOUT_US, EXAMPLE, command[1]]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert CONTRACT in done.stdout
    assert "\nembedding [[" in done.stdout


def test_a_file_does_not_name_folders_of_the_machine_that_wrote_it(command):
    assert b"site-packages" not in command[1].read_bytes()


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    handlers = list(logging.getLogger().handlers)
    file = File.of("nutime-small", tmp_path_factory.mktemp("quantized"), quantize=True)
    assert logging.getLogger().handlers == handlers
    return file


def test_a_quantized_file_is_a_third_in_size_and_says_what_it_is(quantized):
    encoder = NuTime.from_pretrained("nutime-small")
    size = 4 * sum(parameter.numel() for parameter in encoder.parameters())
    assert quantized.path.stat().st_size < 0.4 * size
    assert quantized.about["quantized"] is True


def test_quantized_embeddings_differ_by_about_a_hundredth_and_not_with_the_batch(quantized):
    encoder = NuTime.from_pretrained("nutime-small")
    series = walks(8, 1, 200) * 10.0 ** np.arange(-4, 4)[:, None, None].astype(np.float32)
    found, expected = quantized.run(series)["embedding"], encoder.embed(series)
    errors = np.linalg.norm(found - expected, axis=1) / np.linalg.norm(expected, axis=1)
    assert 1e-4 < errors.mean() < 0.02
    assert errors.max() < 0.05
    # Scales of quantisation that depend on the batch would differ by a hundredth.
    np.testing.assert_allclose(quantized.run(series[2:5])["embedding"], found[2:5], atol=1e-5)


# ---- every kind of network -------------------------------------------------------------------------------


@pytest.mark.parametrize("pool", NETWORK_POOLS)
def test_every_pool_can_be_exported(encoder, exported, pool):
    series = walks(3, 2, 70)
    embedding = exported(encoder, pool=pool).run(series)["embedding"]
    np.testing.assert_allclose(embedding, encoder.embed(series, pool=pool), atol=TOLERANCE)


@pytest.mark.parametrize("pool", AUTO_POOLS)
def test_convolutions_are_exported_with_an_estimator(encoder, exported, pool):
    series = walks(3, 2, 70)
    embedder = NuTimeEmbedder(encoder, pool=pool).fit(series)
    embedding = exported(embedder).run(series)["embedding"]
    np.testing.assert_allclose(embedding, embedder.transform(series), atol=10 * TOLERANCE)


def test_a_regressor_with_its_defaults_is_written_to_a_file(encoder, tmp_path):
    series, labels = waves(20, 1)
    series = [values[..., : 2 * SMALL.length // 5] for values in series]  # read once
    regressor = NuTimeRegressor(encoder=encoder).fit(series, 1e12 + 1e3 * np.arange(20) * (labels == "slow"))
    answer = File.of(regressor, tmp_path).run(series)
    np.testing.assert_allclose(answer["prediction"], regressor.predict(series), rtol=0, atol=1)


def test_a_model_that_reads_series_in_pieces_can_be_exported(encoder, exported):
    series = walks(2, 1, 16 * SMALL.length + 7)
    embedder = NuTimeEmbedder(encoder, pool="cls").fit(series)
    assert embedder.reading_.pieces == 17
    answer = exported(embedder).run(series)["embedding"]
    np.testing.assert_allclose(answer, embedder.transform(series), atol=TOLERANCE)


@pytest.mark.slow
def test_a_network_that_reads_a_series_three_times_is_written_once(encoder, tmp_path):
    export_onnx(encoder, tmp_path / "model.onnx", pool="resolutions")
    tensors = (tensor.raw_data for tensor in onnx.load(tmp_path / "model.onnx").graph.initializer)
    weights = [values for values in tensors if len(values) > 1000]
    assert len(weights) > SMALL.depth
    assert len(set(weights)) == len(weights)


@pytest.mark.parametrize(
    "changes",
    [
        {"channels": 3},
        {"normalization": "zscore"},
        {"normalization": "instance"},
        {"normalization": "instance+tokens"},
        {"normalization": "identity"},
        {"scalar_embedding": "ple-q"},
        {"scalar_embedding": "ple-p"},
        {"scalar_embedding": "none"},
        {"scale_weighting": "plain", "scalar_epsilon": 1e-5},
    ],
    ids=str,
)
def test_every_ablation_can_be_exported(exported, changes):
    torch.manual_seed(0)
    encoder = NuTime(SMALL.replace(**changes))
    series = walks(4, encoder.config.channels, 90)
    answer = exported(encoder).run(series)["embedding"]
    np.testing.assert_allclose(answer, encoder.embed(series), atol=TOLERANCE)


@pytest.mark.parametrize("name", ["nutime-base", "nutime-paper", "nutime-small"])
def test_shipped_weights_agree_over_magnitudes(exported, name):
    copy, encoder = exported(name), NuTime.from_pretrained(name)
    for magnitude in (1e-30, 1e-9, 1e-6, 1e-3, 1.0, 1e3, 1e30):
        series = walks(3, 1, 300) * np.float32(magnitude)
        answer = copy.run(series)["embedding"]
        np.testing.assert_allclose(answer, encoder.embed(series), rtol=0, atol=TOLERANCE)


# ---- estimators ------------------------------------------------------------------------------------------


def assert_same_classes(copy, classifier, channels):
    fresh, _ = waves(9, channels, seed=1)
    answer = copy.run(fresh)
    np.testing.assert_allclose(answer["probabilities"], classifier.predict_proba(fresh), atol=TOLERANCE)
    np.testing.assert_array_equal(np.array(copy.about["classes"])[answer["label"]], classifier.predict(fresh))


@pytest.mark.parametrize("channels", [1, 3])
def test_a_probe_gives_probabilities_and_labels(encoder, exported, channels):
    series, labels = waves(20, channels)
    classifier = NuTimeClassifier(encoder=encoder).fit(series, labels)
    assert_same_classes(exported(classifier), classifier, channels)


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_a_probe_that_reads_a_part_of_many_channels_does_so_in_the_file(
    encoder, fine_tuned, exported, monkeypatch, strategy
):
    monkeypatch.setattr("nutime.finetune.linear.MAX_FEATURES", 100)
    series, labels = waves(20, channels=3)
    classifier = fine_tuned(3) if strategy == "finetune" else NuTimeClassifier(encoder=encoder).fit(series, labels)
    assert_same_classes(exported(classifier), classifier, channels=3)


def test_a_label_is_minus_one_where_there_is_no_answer(encoder, exported):
    series, labels = waves(20, channels=1)
    classifier = NuTimeClassifier(encoder=encoder).fit(series, labels)
    answer = exported(classifier).run([series[0], series[1] * np.nan])
    assert answer["label"][0] >= 0
    assert answer["label"][1] == -1
    assert np.isnan(answer["probabilities"][1]).all()


@pytest.fixture
def fine_tuned(encoder, monkeypatch):
    """Return a function that fits two models for a few steps."""
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 1)
    settings = {"n_estimators": 2, "epochs": 10, "batch_size": 4, "random_state": 0}

    def fit(channels, **options):
        return NuTimeClassifier("finetune", encoder, **settings, **options).fit(*waves(8, channels))

    return fit


@pytest.mark.parametrize("channels", [1, 2])
def test_a_fine_tuned_ensemble_gives_the_mean_probability_of_its_models_and_probes(
    fine_tuned, exported, tmp_path, channels
):
    classifier = fine_tuned(channels)
    assert "probe.weight" in classifier.model_.state
    assert_same_classes(exported(classifier.save(tmp_path / "saved")), classifier, channels)


@pytest.mark.parametrize("channels", [1, 2])
def test_an_ensemble_trained_from_scratch_answers_without_probes(fine_tuned, exported, channels):
    classifier = fine_tuned(channels, trained="scratch")
    assert "probe.weight" not in classifier.model_.state
    assert_same_classes(exported(classifier), classifier, channels)


def test_the_probes_of_an_ensemble_share_one_embedding(fine_tuned):
    networks = [part for part in plan_export(fine_tuned(1)).graph.modules() if isinstance(part, NuTime)]
    assert len(networks) == 3  # the two models and the pretrained encoder


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_regressor_gives_numbers_and_half_widths_of_intervals(
    encoder, exported, monkeypatch, strategy, channels
):
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 1)
    series, labels = waves(20, channels)
    targets = 1e12 + 1e3 * np.arange(20) * (labels == "slow")
    settings = {"n_estimators": 2, "epochs": 2, "batch_size": 4, "random_state": 0}
    regressor = NuTimeRegressor(strategy, encoder, **settings).fit(series, targets)
    copy = exported(regressor)
    fresh = [*waves(9, channels, seed=1)[0], series[0] * np.nan]
    numbers = copy.run(fresh)["prediction"]
    np.testing.assert_allclose(numbers[:-1] - 1e12, regressor.predict(fresh[:-1]) - 1e12, atol=1)
    assert np.isnan(numbers[-1])
    assert copy.about["interval_half_widths"]["0.9"] == regressor.interval_half_width(0.9)
    assert "0.99" not in copy.about["interval_half_widths"]


def test_an_embedder_gives_its_embedding(encoder, exported):
    series, _ = waves(5, channels=2)
    embedder = NuTimeEmbedder(encoder, pool="layers").fit(series)
    copy = exported(embedder)
    np.testing.assert_allclose(copy.run(series)["embedding"], embedder.transform(series), atol=TOLERANCE)
    assert copy.about["pool"] == "layers"


def test_a_clusterer_gives_distances_and_the_nearest_cluster(encoder, exported):
    series, _ = waves(20, channels=1)
    clusterer = NuTimeClusterer(3, encoder, random_state=0).fit(series)
    fresh, _ = waves(9, channels=1, seed=1)
    answer = exported(clusterer).run(fresh)
    np.testing.assert_allclose(answer["distances"], clusterer.transform(fresh), rtol=1e-4)
    np.testing.assert_array_equal(answer["label"], clusterer.predict(fresh))


def test_a_detector_gives_anomaly_scores_and_their_threshold(encoder, exported):
    series, _ = waves(20, channels=1)
    detector = NuTimeDetector(0.2, encoder).fit(series)
    fresh = [*waves(9, channels=1, seed=1)[0], *series[:9], walks(1, 1, 50)[0] * 1e6]
    copy = exported(detector)
    scores = copy.run(fresh)["anomaly_score"]
    np.testing.assert_allclose(scores, detector.anomaly_score(fresh), atol=TOLERANCE)
    np.testing.assert_array_equal(np.where(scores > copy.about["threshold"], -1, 1), detector.predict(fresh))


# ---- mistakes --------------------------------------------------------------------------------------------


def refusal(*arguments, **options):
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        export_onnx(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_detector_is_not_quantized(encoder, tmp_path):
    detector = NuTimeDetector(encoder=encoder).fit(walks(6, 1, 50))
    assert refusal(detector, tmp_path / "m.onnx", quantize=True).endswith("export it without quantize")


def test_an_unknown_pool_is_refused(encoder, tmp_path):
    assert "pool must be one of cls, mean" in refusal(encoder, tmp_path / "m.onnx", pool="max")


def test_no_length_at_all_is_refused(encoder, tmp_path):
    assert refusal(encoder, tmp_path / "m.onnx", length=0).startswith("length must be an integer in [1,")


def test_a_pipeline_is_refused_and_not_called_unfitted(encoder, tmp_path):
    pipeline = make_pipeline(NuTimeClassifier(encoder=encoder)).fit(*waves(8, 1))
    message = refusal(pipeline, tmp_path / "m.onnx")
    assert message == "a Pipeline cannot be exported; give the encoder or nutime estimator in it"


def test_an_estimator_keeps_its_own_pool(encoder, tmp_path):
    embedder = NuTimeEmbedder(encoder).fit(walks(2, 1, 20))
    assert "pool is for encoders; a NuTimeEmbedder" in refusal(embedder, tmp_path / "m.onnx", pool="cls")


def test_an_estimator_must_be_fitted(encoder, tmp_path):
    assert "not fitted yet" in refusal(NuTimeEmbedder(encoder), tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("model", "message"), [("nutime-giant", "no weights 'nutime-giant'"), (".", "config.json")]
)
def test_the_command_refuses_what_is_no_model_and_writes_nothing(tmp_path, model, message):
    done = nutime_export(model, "-o", tmp_path / "model.onnx")
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.parametrize("name", ["series.csv", "model", "model.onnx"])
def test_a_file_of_another_kind_or_a_folder_is_not_overwritten(encoder, tmp_path, name):
    path = tmp_path / name
    path.write_text("1,2") if path.suffix == ".csv" else path.mkdir()
    assert refusal(encoder, path) == f"{path}: name a file that ends in .onnx"
    assert path.is_dir() or path.read_text() == "1,2"


def test_without_onnx_the_extra_is_named(encoder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'nutime[onnx]'" in refusal(encoder, tmp_path / "m.onnx")


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_labels_that_json_cannot_hold_are_refused(encoder, tmp_path, monkeypatch, strategy):
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 1)
    dates = np.array(["2024-01-01", "2025-01-01"] * 4, "datetime64[D]")
    params = {"epochs": 1} if strategy == "finetune" else {}
    classifier = NuTimeClassifier(strategy, encoder, **params).fit(waves(8, 1)[0], dates)
    message = refusal(classifier, tmp_path / "m.onnx")
    assert message == "labels of dtype datetime64[D] cannot be saved; use text, integers, bools or floats"


@pytest.mark.parametrize("strategy", ["probe", "finetune"])
def test_names_of_channels_are_in_the_metadata(strategy, monkeypatch):
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 5)
    X = np.random.default_rng(0).standard_normal((8, 2, 40))
    data = SeriesSet(list(X), channel_names=["speed", "load"])
    params = {"epochs": 1} if strategy == "finetune" else {}
    classifier = NuTimeClassifier(strategy, NuTime(SMALL), random_state=0, **params).fit(data, [0, 1] * 4)
    assert plan_export(classifier).about["channel_names"] == ["speed", "load"]
