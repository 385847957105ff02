"""Saved estimators: complete, exact, refused in one line where damaged, and readable for ever."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from older_formats import ANSWERS, CHANNELS, FOLDER, NUMBERS, series, with_two_channels
from safetensors.numpy import load_file, save
from sklearn.base import clone

from nutime.encoder import NuTime
from nutime.estimators import storage
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from waves import assert_same_outputs, outputs, refusal, wave_table, waves


@pytest.fixture(scope="module")
def saved(encoder, tmp_path_factory):
    """Return the folder of a saved classifier."""
    return NuTimeClassifier(encoder=encoder).fit(*waves()).save(tmp_path_factory.mktemp("saved"))


@pytest.fixture
def copy(saved, tmp_path):
    """Return a copy of that folder, to be damaged."""
    return shutil.copytree(saved, tmp_path / "copy")


def edit(folder, **changes):
    path = folder / "estimator.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


# ---- what comes back ----------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [waves, wave_table], ids=["series", "table"])
def test_a_loaded_estimator_answers_the_same_to_the_last_digit(estimator, data, tmp_path):
    X, y = data()
    estimator.fit(X, y)
    again = storage.load(estimator.save(tmp_path / "model"))
    assert type(again) is type(estimator)
    assert_same_outputs(outputs(estimator, X), outputs(again, X))


def test_saved_twice_the_files_are_the_same(estimator, tmp_path):
    first = estimator.fit(*waves()).save(tmp_path / "first")
    second = storage.load(first).save(tmp_path / "second")
    for path in (path for path in first.rglob("*") if path.is_file()):
        assert path.read_bytes() == (second / path.relative_to(first)).read_bytes(), path.name


def test_fitted_attributes_come_back(encoder, tmp_path):
    clusterer = NuTimeClusterer(3, encoder, random_state=0).fit(wave_table(length=30)[0])
    again = storage.load(clusterer.save(tmp_path / "model"))
    assert again.n_features_in_ == 30
    assert again.n_channels_in_ == 1
    assert again.silhouette_ == clusterer.silhouette_
    np.testing.assert_array_equal(again.labels_, clusterer.labels_)


def test_the_folder_needs_nothing_outside_it(encoder, tmp_path):
    X, y = waves()
    own = shutil.copytree(encoder, tmp_path / "encoder")
    classifier = NuTimeClassifier(encoder=own).fit(X, y)
    folder = classifier.save(tmp_path / "model")
    shutil.rmtree(own)
    moved = folder.rename(tmp_path / "moved")
    assert_same_outputs(outputs(classifier, X), outputs(storage.load(moved), X))


def test_a_loaded_estimator_can_be_cloned_and_fitted_again(estimator, tmp_path):
    X, y = waves()
    loaded = storage.load(estimator.fit(X, y).save(tmp_path / "model"))
    assert_same_outputs(outputs(clone(loaded).fit(X, y), X), outputs(estimator, X))


def test_a_file_holds_no_pickle(saved):
    assert {path.suffix for path in saved.rglob("*") if path.is_file()} == {".json", ".safetensors"}


@pytest.mark.parametrize(
    "names",
    [
        np.array(["slow", "schnell ü"]),
        np.array([7, -3], dtype=np.int16),
        np.array([2**63 - 1, -(2**62)]),
        np.array([True, False]),
        np.array([0.0, 2.0], dtype=np.float32),
        np.array(["slow", "fast"], dtype=object),
        np.array([3, 10], dtype=object),
        np.array([np.int64(3), np.int64(10)], dtype=object),
    ],
    ids=["text", "small-int", "large-int", "bool", "float", "object-text", "object-int", "object-numpy"],
)
def test_labels_keep_their_type(encoder, tmp_path, names):
    X, codes = waves()
    y = names[codes]
    loaded = storage.load(NuTimeClassifier(encoder=encoder).fit(X, y).save(tmp_path / "model"))
    assert loaded.classes_.dtype == names.dtype
    assert loaded.predict(X).tolist() == y.tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"class_weight": {0: 2.0, 1: 0.5}},
        {"class_weight": "balanced"},
        {"C": np.float64(0.1)},
        {"random_state": np.int64(3)},
        {"pool": "mean"},
    ],
    ids=["dict", "text", "numpy-float", "numpy-int", "pool"],
)
def test_parameters_come_back(encoder, tmp_path, change):
    classifier = NuTimeClassifier(encoder=encoder, **change).fit(*waves())
    params = storage.load(classifier.save(tmp_path / "model")).get_params()
    assert isinstance(params.pop("encoder"), NuTime)
    assert params == {name: value for name, value in classifier.get_params().items() if name != "encoder"}


def test_a_class_loads_its_own_kind(saved):
    assert isinstance(NuTimeClassifier.load(saved), NuTimeClassifier)


def test_a_failure_while_saving_leaves_the_old_model_whole(estimator, tmp_path, monkeypatch):
    X, y = waves()
    folder = estimator.fit(X, y).save(tmp_path / "model")
    expected = outputs(estimator, X)
    other = clone(estimator).set_params(encoder=NuTime(NuTime.from_pretrained(estimator.encoder).config))
    other.fit(X, 1 - y)

    def full_disk(*given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage, "as_safetensors", full_disk)  # after the encoder has been written
    with pytest.raises(OSError, match="No space left"):
        other.save(folder)
    assert_same_outputs(outputs(storage.load(folder), X), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_device_is_not_saved(estimator, tmp_path):
    folder = estimator.set_params(device="cpu").fit(*waves()).save(tmp_path / "model")
    assert storage.load(folder).device == "auto"
    assert storage.load(folder, "cpu").encoder_.device.type == "cpu"


# ---- what is refused ----------------------------------------------------------------------------------


def test_a_folder_that_is_missing_or_holds_something_else_is_named(saved, tmp_path):
    with pytest.raises(ValueError, match=r"nope: no such folder"):
        storage.load(tmp_path / "nope")
    with pytest.raises(ValueError, match=r"config\.json: no such file; the folder holds 'encoder', 'estimator"):
        NuTime.from_pretrained(saved)


def test_a_class_refuses_another_kind(saved):
    assert refusal(NuTimeClusterer.load, saved) == f"{saved}: holds a NuTimeClassifier, not a NuTimeClusterer"


def test_a_parameter_that_json_cannot_hold_is_refused_before_anything_is_written(encoder, tmp_path):
    classifier = NuTimeClassifier(encoder=encoder, random_state=np.random.RandomState(0)).fit(*waves())
    message = refusal(classifier.save, tmp_path / "model")
    assert message.startswith("parameter random_state cannot be saved: RandomState is neither")
    assert message.endswith("text, number, bool nor dict; use one of these")
    assert not (tmp_path / "model").exists()


def test_labels_that_json_cannot_hold_are_refused(encoder, tmp_path):
    X, codes = waves()
    y = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]").astype(object)[codes]
    classifier = NuTimeClassifier(encoder=encoder).fit(X, y)
    assert refusal(classifier.save, tmp_path / "model").startswith("a label cannot be saved: date is neither")


def test_a_newer_format_is_refused(copy):
    edit(copy, format=storage.FORMAT + 1)
    message = refusal(storage.load, copy)
    assert message.endswith("format 8 is newer than this nutime reads (7); update nutime")


@pytest.mark.parametrize("scales", [[1.0, 2.0], [0.0], [float("inf")], ["1"], 1.0])
def test_scales_that_are_not_those_of_the_channels_are_refused(copy, scales):
    reading = json.loads((copy / "estimator.json").read_text())["reading"]
    edit(copy, reading=reading | {"scales": scales})
    assert "estimator.json" in refusal(storage.load, copy)


@pytest.mark.parametrize("name", ["estimator.json", "estimator.safetensors", "encoder/model.safetensors"])
@pytest.mark.parametrize("keep", [0, 20], ids=["empty", "cut"])
def test_a_cut_file_is_refused_by_name(copy, name, keep):
    path = copy / name
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(storage.load, copy).startswith(f"{path}: not ")


@pytest.mark.parametrize("name", ["estimator.json", "estimator.safetensors", "encoder/config.json"])
def test_a_missing_file_is_refused_by_name(copy, name):
    (copy / name).unlink()
    assert refusal(storage.load, copy).startswith(f"{copy / name}: no such file")


def test_arrays_of_another_estimator_are_refused(encoder, copy, tmp_path):
    other = NuTimeClusterer(2, encoder, random_state=0).fit(waves()[0]).save(tmp_path / "other")
    shutil.copy(other / "estimator.safetensors", copy)
    assert refusal(storage.load, copy).endswith("(its checksum differs)")
    edit(copy, sha256=None)  # as older versions wrote it
    message = refusal(storage.load, copy)
    assert message == f"{copy / 'estimator.safetensors'}: does not fit estimator.json (KeyError: 'mean')"


@pytest.mark.parametrize("name", ["estimator.safetensors", "encoder/model.safetensors", "encoder/config.json"])
def test_files_of_two_models_do_not_mix(encoder, copy, tmp_path, name):
    other = clone(NuTimeClassifier.load(copy)).set_params(encoder=NuTime(NuTime.from_pretrained(encoder).config))
    X, y = waves()
    shutil.copy(other.fit(X, 1 - y).save(tmp_path / "other") / name, copy / name)
    assert "its checksum differs" in refusal(storage.load, copy)


def test_a_folder_without_checksums_is_read(copy):
    edit(copy, sha256=None)
    config = json.loads((copy / "encoder" / "config.json").read_text())
    del config["sha256"]
    (copy / "encoder" / "config.json").write_text(json.dumps(config))
    storage.load(copy)


def change_arrays(folder, **changes):
    path = folder / "estimator.safetensors"
    path.write_bytes(save(load_file(path) | changes))
    edit(folder, sha256=None)


CHANGES = {
    "NaN": ({"intercept": np.array([0.0, np.nan])}, "intercept has values that are not finite"),
    "a class more": ({"intercept": np.zeros(3)}, "intercept has the shape (3,), expected (2)"),
    "a feature less": ({"mean": np.zeros(5)}, "scale has the shape"),
    "an axis more": ({"coef": np.zeros((2, 3, 4))}, "coef has the shape (2, 3, 4)"),
}


@pytest.mark.parametrize(("changes", "reason"), CHANGES.values(), ids=CHANGES)
def test_arrays_that_do_not_fit_the_labels_or_each_other_are_refused(copy, changes, reason):
    change_arrays(copy, **changes)
    assert reason in refusal(storage.load, copy)


def test_more_features_than_the_embedding_has_are_refused(copy):
    wide = {"mean": np.zeros(9999), "scale": np.ones(9999), "coef": np.zeros((2, 9999))}
    change_arrays(copy, **wide)
    assert "reads 9999 features" in refusal(storage.load, copy)


def test_fine_tuned_arrays_that_do_not_fit_are_refused(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 5)
    folder = NuTimeClassifier("finetune", encoder, epochs=1, random_state=0).fit(*waves()).save(tmp_path / "model")
    arrays = load_file(folder / "estimator.safetensors")
    bent = {"head.bias": np.zeros((1, 3), np.float32), "probe.bias": np.full_like(arrays["probe.bias"], np.inf)}
    for name, array in bent.items():
        change_arrays(folder, **arrays | {name: array})
        assert f"({'ValueError'}: {name} " in refusal(storage.load, folder)
    change_arrays(folder, **arrays)
    edit(folder, n_channels_in=2**32 - 1)
    assert "weights are too few for 4294967295 channels" in refusal(storage.load, folder)


def test_an_encoder_with_weights_that_are_not_finite_is_refused(encoder, tmp_path):
    model = NuTime.from_pretrained(encoder)
    with torch.no_grad():
        model.norm.weight[0] = torch.nan
    assert "'norm.weight' has values that are not finite" in refusal(
        NuTime.from_pretrained, model.save(tmp_path / "m")
    )


@pytest.mark.parametrize(
    "name", ["estimator.json", "estimator.safetensors", "encoder/model.safetensors", "encoder"]
)
def test_a_link_out_of_the_folder_is_not_followed(saved, copy, name):
    inside = copy / name
    shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    inside.symlink_to(saved / name)
    assert "a link out of the folder" in refusal(storage.load, copy)


def test_a_pipe_is_refused_and_not_waited_for(copy):
    for name in ("estimator.json", "encoder/model.safetensors"):
        (copy / name).unlink()
        os.mkfifo(copy / name)
        assert f"{copy / name}: not a file" in refusal(storage.load if name[1] == "s" else open_encoder, copy)


def open_encoder(folder):
    return NuTime.from_pretrained(folder / "encoder")


def test_saved_files_have_the_usual_permissions(saved, tmp_path):
    (tmp_path / "plain").touch()
    usual = (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in saved.rglob("*") if path.is_file()} == {usual}


JSON_VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers()) | st.just({"a": 1})


@settings(max_examples=60, deadline=None)
@given(
    field=st.sampled_from(["format", "class", "params", "n_channels_in", "n_features_in", "classes", "reading"]),
    value=JSON_VALUES,
)
def test_damage_to_any_field_is_refused_in_one_line_or_harmless(saved, tmp_path_factory, field, value):
    folder = shutil.copytree(saved, tmp_path_factory.mktemp("damaged") / "copy")
    edit(folder, **{field: value})
    try:
        storage.load(folder)
    except ValueError as error:
        assert str(error).startswith(str(folder))  # noqa: PT017, a refusal is allowed, not required
        assert "\n" not in str(error)  # noqa: PT017


def test_parameters_of_the_first_release_are_read_by_their_old_names():
    document = json.loads((FOLDER / "v1" / "classifier" / "estimator.json").read_text())
    assert {"n_models", "validation", "patience"} <= document["params"].keys()
    params = storage.load(FOLDER / "v1" / "classifier").get_params()
    assert (params["n_estimators"], params["validation_fraction"], params["n_iter_no_change"]) == (1, 0.0, 20)


# ---- the first release --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "finetuned"])
def test_models_of_the_first_release_predict_as_then_for_series_that_are_not_shrunk(name):
    with pytest.warns(UserWarning, match="Fit it again"):
        loaded = storage.load(FOLDER / "v1" / name)
    X = [values for values in series()[0] if len(values) <= loaded.encoder_.config.length]
    _assert_answers(loaded, X, "v1", name)


@pytest.mark.parametrize("name", list(ANSWERS))
@pytest.mark.parametrize("version", ["v2", "v3", "v4", "v5", "v6"])
def test_models_of_older_formats_predict_as_then(name, version):
    _assert_answers(storage.load(FOLDER / version / name), series()[0], version, name)


@pytest.mark.parametrize("name", list(NUMBERS))
def test_regressors_of_older_formats_predict_as_then(name):
    loaded = storage.load(FOLDER / "v4" / name)
    assert not loaded.forest
    _assert_answers(loaded, series()[0], "v4", name)
    for version in ("v5", "v6"):
        _assert_answers(storage.load(FOLDER / version / name), series()[0], version, name)


@pytest.mark.parametrize(("version", "n_scales"), [("v5", 0), ("v6", 2)])
def test_channels_had_a_scale_of_their_own_before_format_6_and_no_segments_before_format_7(version, n_scales):
    loaded = storage.load(FOLDER / version / "channels")
    assert (len(loaded.reading_.scales), loaded.reading_.segments) == (n_scales, 0)
    _assert_answers(loaded, with_two_channels(series()[0]), version, "channels")


def _assert_answers(loaded, X, version, name):
    then = json.loads((FOLDER / version / "answers.json").read_text())[name]
    assert then.keys() == set((ANSWERS | NUMBERS | CHANNELS)[name])
    for method, answer in then.items():
        now = getattr(loaded, method)(X)
        if now.dtype.kind == "f":  # another machine rounds otherwise
            np.testing.assert_allclose(now, answer[: len(X)], rtol=1e-3, atol=1e-5)
        else:
            assert now.tolist() == answer[: len(X)]
