import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from nutime import NuTime, NuTimeConfig
from nutime.encoder import FORMAT, shipped_weights

SMALL = NuTimeConfig(window=8, length=64, dim=32, depth=2, heads=2, head_dim=16, mlp_dim=64, scalar_dim=8)


@pytest.fixture(scope="module")
def encoder():
    torch.manual_seed(0)
    return NuTime(SMALL)


def walk(length, seed=0, channels=None):
    shape = (length,) if channels is None else (channels, length)
    return np.random.default_rng(seed).standard_normal(shape).cumsum(-1)


# ---- embeddings depend on the series alone --------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 5000), min_size=2, max_size=6),
    st.integers(1, 7),
    st.randoms(use_true_random=False),
    st.integers(0, 50),
)
def test_embeddings_do_not_depend_on_batch_size_order_or_padding(encoder, lengths, batch_size, random, padding):
    series = [walk(length, seed) for seed, length in enumerate(lengths)]
    alone = np.concatenate([encoder.embed([one]) for one in series])
    order = list(range(len(series)))
    random.shuffle(order)
    padded = [np.pad(series[i], (padding, 2 * padding), constant_values=np.nan) for i in order]
    together = encoder.embed(padded, batch_size=batch_size)
    np.testing.assert_allclose(together, alone[order], atol=1e-5)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_embeddings_are_finite_for_every_finite_float64(encoder, low, high):
    series = [[low], [low] * 40, [low, high] * 20, np.linspace(0, 1, 40) * high]
    assert np.isfinite(encoder.embed(series)).all()


def test_a_large_offset_does_not_hide_the_shape(encoder):
    t = np.linspace(0, 6 * np.pi, 64)
    sine, noise = 1e6 + 1e-3 * np.sin(t), 1e6 + 1e-3 * np.random.default_rng(0).standard_normal(64)
    Z = encoder.embed([sine, noise])
    assert np.linalg.norm(Z[0] - Z[1]) > 0.1
    shifted = encoder.embed([2e6 + 1e-3 * np.sin(t)])
    assert np.linalg.norm(Z[0] - shifted[0]) < 0.5 * np.linalg.norm(Z[0] - Z[1])


def test_the_encoder_distinguishes_scales(encoder):
    x = walk(64)
    Z = encoder.embed([x, 1000 * x])
    assert np.linalg.norm(Z[0] - Z[1]) > 0.1


# ---- shapes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pool", "width"), [("cls", 32), ("mean", 32), ("cls+mean", 64), ("upper", 96), ("layers", 192)]
)
def test_pool_decides_the_width(encoder, pool, width):
    Z = encoder.embed(walk(50, channels=4), pool=pool)
    assert Z.shape == (4, width)
    assert Z.dtype == np.float32


def test_an_unknown_pool_is_refused(encoder):
    expected = r"pool must be one of cls, mean, .*, upper\+conv, resolutions\+conv; got 'max'"
    with pytest.raises(ValueError, match=expected):
        encoder.embed([walk(9)], pool="max")


def test_the_vectors_of_channels_of_a_univariate_encoder_are_concatenated(encoder):
    X = np.stack([walk(50, seed, channels=3) for seed in range(5)])
    parts = [encoder.embed(X[:, channel]) for channel in range(3)]
    np.testing.assert_allclose(encoder.embed(X), np.concatenate(parts, axis=1), atol=1e-5)


def test_a_multivariate_encoder_reads_its_number_of_channels_only():
    encoder = NuTime(SMALL.replace(channels=3))
    assert encoder.embed(np.zeros((2, 3, 20))).shape == (2, 64)
    with pytest.raises(ValueError, match="reads 3 channels, the series have 2"):
        encoder.embed(np.zeros((2, 2, 20)))


@pytest.mark.parametrize(("length", "pool", "unit"), [(12, "mean", 8), (64, "resolutions", 128)])
def test_a_length_that_cannot_be_cut_into_windows_is_refused(encoder, length, pool, unit):
    with pytest.raises(ValueError, match=f"length must be a multiple of {unit} for pool {pool}; got {length}"):
        encoder.embed([walk(50)], length=length, pool=pool)


def test_another_length_keeps_more_or_less_detail(encoder):
    X = [walk(500)]
    assert encoder.embed(X, length=512).shape == encoder.embed(X).shape
    assert not np.allclose(encoder.embed(X, length=512), encoder.embed(X))


# ---- weights on disk ------------------------------------------------------------------------------------


def test_a_saved_encoder_embeds_the_same(encoder, tmp_path):
    encoder.save(tmp_path)
    X = [walk(77)]
    np.testing.assert_array_equal(NuTime.from_pretrained(tmp_path).embed(X), encoder.embed(X))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_a_failure_while_saving_leaves_the_old_encoder_whole(encoder, tmp_path, monkeypatch):
    encoder.save(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}

    def full_disk(*given, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full_disk)  # the config, after the weights
    with pytest.raises(OSError, match="No space left"):
        NuTime(SMALL).save(tmp_path / "model")
    assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_save_pretrained_is_save(encoder, tmp_path):
    encoder.save_pretrained(tmp_path)
    np.testing.assert_array_equal(NuTime.from_pretrained(tmp_path).embed([walk(9)]), encoder.embed([walk(9)]))


def test_embed_reports_progress(encoder):
    reported = []
    encoder.embed([walk(9)] * 5, batch_size=2, verbose=lambda *progress: reported.append(progress))
    assert reported == [(2, 5), (4, 5), (5, 5)]


def test_a_newer_format_is_refused_in_one_line(encoder, tmp_path):
    encoder.save(tmp_path)
    document = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**document, "format": FORMAT + 1}))
    with pytest.raises(ValueError, match="newer than this nutime reads") as caught:
        NuTime.from_pretrained(tmp_path)
    assert "\n" not in str(caught.value)


def break_config(folder):
    (folder / "config.json").write_text("{")


def drop_config(folder):
    (folder / "config.json").unlink()


def unversion_config(folder):
    (folder / "config.json").write_text("{}")


def truncate_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])


def rename_weight(folder):
    weights = load_file(folder / "model.safetensors")
    weights["other"] = weights.pop("norm.weight")
    save_file(weights, folder / "model.safetensors")


def pickle_weights(folder):
    (folder / "model.safetensors").write_bytes(pickle.dumps({"norm.weight": [1.0]}))


@pytest.mark.parametrize(
    "damage", [break_config, drop_config, unversion_config, truncate_weights, rename_weight, pickle_weights]
)
def test_a_damaged_folder_is_refused_in_one_line_that_names_the_file(encoder, tmp_path, damage):
    encoder.save(tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=r"config\.json|model\.safetensors") as caught:
        NuTime.from_pretrained(tmp_path)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match=r"no weights 'nutime-giant': expected a folder or a shipped name"):
        NuTime.from_pretrained("nutime-giant")


@pytest.mark.parametrize("name", ["nutime-base", "nutime-large", "nutime-paper", "nutime-small"])
def test_shipped_weights_load_and_embed(name):
    assert name in shipped_weights()
    Z = NuTime.from_pretrained(name).embed([walk(300), walk(20, 1)])
    assert np.isfinite(Z).all()
    assert np.linalg.norm(Z[0] - Z[1]) > 0.1


def test_an_encoder_is_shown_in_one_line():
    assert repr(NuTime.from_pretrained()).startswith("NuTime(length=512, dim=")
    assert "\n" not in repr(NuTime.from_pretrained())


@pytest.mark.parametrize(("factor", "expected"), [(1e-15, True), (1e-3, False), (0.0, False)])
def test_series_that_hardly_vary_are_mentioned_in_the_log(factor, expected, caplog):
    series = factor * np.random.default_rng(0).normal(size=(3, 60))
    NuTime.from_pretrained("nutime-small").embed(series)
    assert any("nearly constant" in message for message in caplog.messages) == expected
