"""Data sets of the page: reading them, and the parts that are computed in the background."""

import io
import threading
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from nutime.data.formats.read import FORMATS
from nutime.data.series import resample
from nutime.encoder import NuTime
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.clusterer import NuTimeClusterer
from nutime.estimators.detector import NuTimeDetector
from nutime.explore import state
from nutime.explore.state import Analyses, Analysis, Collection, nearest, open_collection, read_upload
from waves import refusal

TEXT_FILES = {
    "mine.csv": "label,a,b,c\nx,1,2,3\ny,4,5,6\n",
    "mine.tsv": "x\t1\t2\t3\ny\t4\t5\t6\n",
    "mine.ts": "@problemName mine\n@univariate true\n@classLabel true x y\n@data\n1,2,3:x\n4,5,6:y\n",
    "mine.arff": "@relation mine\n@attribute a numeric\n@attribute b numeric\n@attribute c numeric\n"
    "@attribute target {x,y}\n@data\n1,2,3,x\n4,5,6,y\n",
}


def npz_bytes():
    buffer = io.BytesIO()
    np.savez(buffer, X=np.array([[1.0, 2, 3], [4, 5, 6]]), y=np.array(["x", "y"]))
    return buffer.getvalue()


def parquet_bytes():
    buffer = io.BytesIO()
    pq.write_table(pa.table({"label": ["x", "y"], "a": [1.0, 4], "b": [2.0, 5], "c": [3.0, 6]}), buffer)
    return buffer.getvalue()


FILES = {name: text.encode() for name, text in TEXT_FILES.items()}
FILES |= {"mine.npz": npz_bytes(), "mine.parquet": parquet_bytes()}


@pytest.mark.parametrize(("name", "content"), FILES.items(), ids=FILES)
def test_an_uploaded_file_is_read_in_its_format(name, content):
    collection = read_upload(name, content)
    assert collection.name == name
    np.testing.assert_array_equal(np.concatenate(collection.series), [[1, 2, 3], [4, 5, 6]])
    assert collection.labels.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "content", "start"),
    [
        ("mine.csv", b"label,a,b\nx,1,2\ny,1,oops\n", "mine.csv:3: "),
        ("mine.csv", b"label,a,b\nx,1,2\ny,nan,nan\n", "mine.csv: series 1: "),
        ("mine.docx", b"", "mine.docx: "),
    ],
)
def test_a_bad_upload_is_reported_with_its_name_and_the_place(name, content, start):
    assert refusal(read_upload, name, content).startswith(start)


def test_an_unknown_suffix_is_refused_with_the_known_ones():
    assert ".parquet" in refusal(read_upload, "mine.docx", b"")


@given(name=st.text(max_size=300), suffix=st.sampled_from(["", *FORMATS]), content=st.binary(max_size=200))
@settings(max_examples=150)
def test_any_upload_is_read_or_refused_in_one_line(name, suffix, content):
    try:
        outcome = read_upload(name + suffix, content)
    except ValueError as error:
        outcome = str(error)
    if isinstance(outcome, str):
        assert len(outcome.splitlines()) == 1
    else:
        assert all(np.isfinite(values).all() for values in outcome.series)


def test_a_file_on_disk_keeps_ids_and_labels(tmp_path):
    (tmp_path / "mine.csv").write_text("id,label,a,b\nleft,x,1,2\nright,y,3,4\n")
    collection = open_collection(tmp_path / "mine.csv")
    assert collection.name == "mine.csv"
    assert collection.ids == ["left", "right"]
    assert collection.labels.tolist() == ["x", "y"]


def test_columns_and_files_are_chosen_by_the_options_of_the_readers(tmp_path):
    for name in ("left", "right"):
        (tmp_path / f"{name}.csv").write_text("clock,x,note\n0,1,5\n1,2,5\n3,4,5\n")
    (tmp_path / "labels.csv").write_text("file,label\nleft,on\n")
    chosen = {"time_column": "clock", "channel_columns": ["x"]}
    collection = open_collection(tmp_path, **chosen)
    assert collection.ids == ["left", "right"]
    assert collection.labels.tolist() == ["on", ""]
    assert [values.tolist() for values in collection.series] == [[[1, 2, 3, 4]]] * 2
    assert open_collection(tmp_path / "left.csv", **chosen).lengths == (4, 4)
    assert "can be chosen in files only" in refusal(open_collection, "GunPoint", **chosen)


def test_an_archive_set_is_opened_with_both_splits():
    pytest.importorskip("aeon")
    collection = open_collection("GunPoint")
    assert len(collection.series) == 200
    assert collection.ids[0] == "train 0"
    assert collection.ids[-1] == "test 149"


@pytest.mark.parametrize("source", ["nowhere.csv", "GunPoit"], ids=["no file", "no set"])
def test_missing_data_is_reported_in_one_line(source):
    assert source in refusal(open_collection, source)


def test_only_what_was_filled_in_counts_as_interpolated():
    nan = np.nan
    collection = Collection.of("gaps", [[nan, 1, nan, nan, 2, nan], [1, 2, 3, 4, 5, 6]])
    assert collection.interpolated == 2
    assert collection.lengths == (4, 6)


def test_the_points_are_standardised_embeddings(encoder, make_waves, finished):
    collection = make_waves()
    analysis = finished(Analysis(collection, encoder))
    expected = StandardScaler().fit_transform(encoder.embed(collection.series).astype(float))
    np.testing.assert_allclose(analysis.points, expected, atol=1e-4)


def test_clusters_and_scores_are_those_of_the_estimators(encoder, make_waves, finished):
    collection = make_waves()
    analysis = finished(Analysis(collection, encoder))
    clusterer = NuTimeClusterer(encoder=encoder, random_state=0).fit(collection.series)
    np.testing.assert_array_equal(analysis.clusters, clusterer.labels_)
    detector = NuTimeDetector(encoder=encoder).fit(collection.series)
    np.testing.assert_allclose(analysis.scores, detector.anomaly_score(collection.series), atol=1e-3)


def test_the_map_keeps_as_much_spread_as_a_plane_can(encoder, make_waves, finished):
    analysis = finished(Analysis(make_waves(), encoder))
    spread = np.linalg.svd(analysis.points - analysis.points.mean(0), compute_uv=False)
    places = analysis.maps["pca"]
    np.testing.assert_allclose(np.linalg.norm(places, axis=0), spread[:2], rtol=1e-3)


@pytest.mark.parametrize(
    ("count", "ready"),
    [
        (1, ["pca"]),
        (2, ["pca", "anomaly", "contribution"]),
        (3, ["pca", "cluster", "anomaly", "contribution"]),
    ],
)
def test_few_series_have_the_parts_that_can_be_computed(encoder, make_waves, finished, count, ready):
    analysis = finished(Analysis(make_waves(count), encoder))
    assert not analysis.error
    assert analysis.ready == ready
    assert np.isfinite(analysis.maps["pca"]).all()
    assert len(analysis.neighbours(0, 8)) == count - 1


def test_all_of_many_series_have_a_cluster_and_a_score_fitted_on_a_sample(
    encoder, make_waves, finished, monkeypatch
):
    monkeypatch.setattr(state, "SAMPLE", 20)
    analysis = finished(Analysis(make_waves(50), encoder))
    assert analysis.sampled
    assert analysis.clusters.shape == analysis.scores.shape == (50,)
    assert ((analysis.scores >= 0) & (analysis.scores <= 1)).all()


@given(points=st.lists(st.tuples(*[st.floats(-1e3, 1e3, width=32)] * 2), min_size=1, max_size=12))
def test_neighbours_are_the_nearest_others_in_order(points):
    points = np.array(points, np.float32)
    distances = np.linalg.norm(points - points[0], axis=1)
    found = nearest(points, 0, 5)
    assert 0 not in [neighbour.series for neighbour in found]
    np.testing.assert_allclose([neighbour.distance for neighbour in found], np.sort(distances[1:])[:5])
    for series, distance in found:
        assert distance == pytest.approx(distances[series])


def test_there_are_no_neighbours_before_there_are_points(encoder, make_waves):
    analysis = Analysis(make_waves(20_000), encoder)
    assert analysis.neighbours(0, 5) == []
    analysis.cancel()


def test_attention_is_that_of_the_class_token_on_the_windows_of_the_channel(encoder, make_waves, finished):
    collection = make_waves(channels=2)
    analysis = finished(Analysis(collection, encoder))
    shares = analysis.attention(3, channel=1)
    channel = torch.from_numpy(resample([collection.series[3][1:]], encoder.config.length))
    with torch.inference_mode():
        expected = encoder.attention(channel)[0].mean(0)[0, 1:]
    np.testing.assert_allclose(shares, expected, rtol=1e-5)
    assert 0 < shares.sum() < 1


def test_contributions_are_those_of_a_classifier_of_the_labels(encoder, make_waves, finished):
    collection = make_waves(channels=2)
    contribution = finished(Analysis(collection, encoder)).contribution(3)
    classifier = NuTimeClassifier(encoder=encoder, pool="cls+mean").fit(collection.series, collection.labels)
    assert contribution.target == "class fast"
    np.testing.assert_allclose(
        contribution.values, classifier.explain(collection.series[3:4])[0], rtol=1e-3, atol=1e-4
    )


@pytest.mark.parametrize("labels", [None, [""] * 30, ["slow"] * 30, [str(index) for index in range(30)]])
def test_without_useful_labels_contributions_are_those_to_the_anomaly(
    encoder, make_waves, finished, monkeypatch, labels
):
    monkeypatch.setattr(state, "MAX_CLASSES", 20)
    collection = replace(make_waves(), labels=None if labels is None else np.array(labels))
    contribution = finished(Analysis(collection, encoder)).contribution(3)
    detector = NuTimeDetector(encoder=encoder).fit(collection.series)
    assert contribution.target == "the anomaly"
    np.testing.assert_allclose(
        contribution.values, detector.explain(collection.series[3:4])[0], rtol=1e-3, atol=1e-4
    )


def test_a_multivariate_encoder_attends_to_all_channels_at_once(encoder, make_waves, finished):
    analysis = finished(Analysis(make_waves(channels=2), NuTime(encoder.config.replace(channels=2))))
    np.testing.assert_array_equal(analysis.attention(0, channel=0), analysis.attention(0, channel=1))


def test_a_tsne_map_is_computed_only_on_request(encoder, make_waves, finished):
    analysis = finished(Analysis(make_waves(), encoder))
    assert "tsne" not in analysis.maps
    analysis.request_tsne()
    assert analysis.progress is not None
    analysis.request_tsne()
    assert finished(analysis).maps["tsne"].shape == (30, 2)


def test_a_tsne_map_of_too_many_series_is_not_computed(encoder, make_waves, finished, monkeypatch):
    monkeypatch.setattr(state, "TSNE_SERIES", 20)
    analysis = finished(Analysis(make_waves(), encoder))
    analysis.request_tsne()
    assert not analysis.allows_tsne
    assert analysis.progress is None


def test_an_error_in_the_background_is_stored_in_one_line(make_waves, finished):
    broken = NuTime(NuTime.from_pretrained().config)
    del broken.tokens
    analysis = finished(Analysis(make_waves(), broken))
    assert analysis.error.startswith("waves.csv: ")
    assert "\n" not in analysis.error
    assert analysis.ready == []


def test_a_replaced_data_set_is_closed(encoder, make_waves, finished):
    analyses = Analyses(encoder)
    first = analyses.open(make_waves(20_000))
    second = analyses.open(make_waves(10), replaces=first.key)
    first._worker.join(30)
    assert not first._worker.is_alive()
    assert "pca" not in first.maps
    assert analyses.find(first.key) is None
    assert analyses.find(second.key) is finished(second)


def test_visitors_do_not_close_each_others_data_sets(encoder, make_waves, finished):
    analyses = Analyses(encoder)
    shared = analyses.open_first(make_waves(10))
    one, other = (analyses.open(make_waves(count), replaces=shared.key) for count in (11, 12))
    assert [analyses.find(analysis.key) for analysis in (shared, one, other)] == [shared, one, other]
    assert len(finished(one)) == 11
    assert len(finished(other)) == 12


def test_the_least_recently_used_data_set_is_closed_first(encoder, make_waves, monkeypatch):
    monkeypatch.setattr(state, "MAX_OPEN", 2)
    analyses = Analyses(encoder)
    first, second = (analyses.open(make_waves(5)) for _ in range(2))
    assert analyses.find(first.key) is first
    third = analyses.open(make_waves(5))
    assert [analyses.find(analysis.key) for analysis in (first, second, third)] == [first, None, third]


def test_closing_leaves_no_thread_behind(encoder, make_waves, finished):
    analyses = Analyses(encoder)
    worker = finished(analyses.open(make_waves(10)))._worker
    analyses.close()
    assert worker not in threading.enumerate()


def test_an_encoder_of_other_channels_is_refused_before_any_work(encoder, make_waves):
    analyses = Analyses(NuTime(encoder.config.replace(channels=3)))
    message = refusal(analyses.open, make_waves(channels=2))
    assert message == "waves.csv: has 2 channel(s), but the encoder reads 3"
