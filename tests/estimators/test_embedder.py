"""NuTimeEmbedder: the encoder's own vectors, as a step of a pipeline."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from nutime.batch.apply import result_columns
from nutime.encoder import NuTime
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.embedder import NuTimeEmbedder
from waves import wave_table, waves


@pytest.mark.parametrize("pool", ["cls", "mean", "cls+mean"])
def test_it_returns_what_the_encoder_returns(encoder, pool):
    X, _ = waves(channels=2)
    embedding = NuTimeEmbedder(encoder, pool=pool).fit_transform(X)
    assert embedding.dtype == np.float32
    np.testing.assert_array_equal(embedding, NuTime.from_pretrained(encoder).embed(X, pool=pool))


def test_it_names_every_feature(encoder):
    X, _ = waves(channels=2)
    embedder = NuTimeEmbedder(encoder).fit(X)
    names = embedder.get_feature_names_out()
    assert len(set(names)) == embedder.transform(X).shape[1]
    assert names[0] == "nutimeembedder0"


def test_the_output_is_a_frame_if_pandas_is_requested(encoder):
    table, _ = wave_table()
    X = pd.DataFrame(table, index=[f"row {i}" for i in range(len(table))])
    embedding = NuTimeEmbedder(encoder).set_output(transform="pandas").fit_transform(X)
    assert embedding.index.equals(X.index)
    assert embedding.columns[0] == "nutimeembedder0"


def points(ids):
    """Return waves as a frame with one row per point."""
    frames = [pd.DataFrame({"a": values[0]}) for values in waves(len(ids))[0]]
    return pd.concat(frames, keys=ids, names=["machine", "time"])


@pytest.mark.parametrize("make", [NuTimeEmbedder, lambda encoder: NuTimeClusterer(2, encoder, random_state=0)])
@pytest.mark.parametrize(
    "as_given",
    [
        lambda rows: rows,
        lambda rows: rows["a"],
        lambda rows: rows.reset_index(names=["id", "time"]),
        lambda rows: rows.reset_index(names=["id", "time"]).set_index("id"),
        lambda rows: rows.reset_index().set_index("time").groupby("machine", sort=False),
        lambda rows: {key: frame.droplevel(0) for key, frame in rows.groupby(level=0, sort=False)},
    ],
    ids=["levels", "one-column", "columns", "column-and-index", "groupby", "dict"],
)
def test_the_frame_of_points_becomes_a_frame_by_id(encoder, as_given, make):
    X = as_given(points([7, 2, 9, 4]))
    embedding = make(encoder).set_output(transform="pandas").fit_transform(X)
    np.testing.assert_array_equal(embedding, make(encoder).fit(X).transform(X))
    joined = embedding.join(pd.Series({2: "two", 4: "four", 7: "seven", 9: "nine"}, name="name"))
    assert joined["name"].tolist() == ["seven", "two", "nine", "four"]


def test_ids_of_several_levels_stay_levels(encoder):
    X = pd.concat({"north": points([1, 2]), "south": points([1, 2])}, names=["plant"])
    index = NuTimeEmbedder(encoder).set_output(transform="pandas").fit_transform(X).index
    assert index.names == ["plant", "machine"]
    assert index.tolist() == [("north", 1), ("north", 2), ("south", 1), ("south", 2)]


def test_a_recording_becomes_a_frame_of_one_row(encoder):
    X = points([7]).droplevel(0)
    assert NuTimeEmbedder(encoder).set_output(transform="pandas").fit_transform(X).index.tolist() == [0]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_requested_output_is_saved_and_batches_have_arrays_all_the_same(encoder, library, tmp_path):
    X, _ = waves()
    embedder = NuTimeEmbedder(encoder).set_output(transform=library).fit(X)
    again = NuTimeEmbedder.load(embedder.save(tmp_path / "model"))
    assert again.transform(X).equals(embedder.transform(X))
    plain = NuTimeEmbedder(encoder).fit(X).transform(X)
    np.testing.assert_array_equal(result_columns(again, X)["e"], plain)
    assert type(result_columns(again, X)["e"]) is np.ndarray


def test_it_begins_a_pipeline(encoder):
    pipeline = make_pipeline(NuTimeEmbedder(encoder), LogisticRegression(max_iter=500))
    assert pipeline.fit(*waves(seed=0)).score(*waves(seed=1)) == 1
