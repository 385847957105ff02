"""NuTimeEmbedder: the encoder's own vectors, as a step of a pipeline."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from nutime.encoder import NuTime
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


def test_it_begins_a_pipeline(encoder):
    pipeline = make_pipeline(NuTimeEmbedder(encoder), LogisticRegression(max_iter=500))
    assert pipeline.fit(*waves(seed=0)).score(*waves(seed=1)) == 1
