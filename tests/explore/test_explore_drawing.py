"""The figures of the page: thinned lines, sparklines, shading and maps."""

from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nutime.explore.state import Analysis, Collection

pytest.importorskip("plotly")

from nutime.explore import drawing, layout

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALUES = arrays(np.float64, st.integers(1, 600), elements=FINITE)
SVG = "{http://www.w3.org/2000/svg}"


@given(VALUES, st.integers(2, 50))
def test_a_thinned_line_keeps_its_ends_and_extremes(values, most):
    kept = drawing.line_points(values, most)
    assert len(kept) <= max(most, 2) + 2
    assert {0, len(values) - 1} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()
    assert values[kept].min() == values.min()
    assert values[kept].max() == values.max()


@given(VALUES, VALUES)
def test_a_sparkline_of_any_values_stays_in_its_box(values, behind):
    address = drawing.sparkline(values, behind)
    lines = list(ElementTree.fromstring(unquote(address.partition(",")[2])).iter(f"{SVG}polyline"))
    corners = [[*map(float, pair.split(","))] for line in lines for pair in line.get("points").split()]
    width, height = drawing.SPARK_SIZE
    assert len(lines) == 2
    assert all(0 <= x <= width and 0 <= y <= height for x, y in corners)


@given(VALUES)
def test_a_series_is_drawn_within_its_axes(values):
    low, high = drawing.series_figure(values).layout.yaxis.range
    assert low <= values.min()
    assert values.max() <= high
    assert low < high


def test_attention_is_drawn_from_the_first_point_to_the_last():
    figure = drawing.series_figure(np.arange(100.0), attention=np.full(32, 0.02))
    heat = figure.data[0]
    assert len(heat.x) == 33
    assert (heat.x[0], heat.x[-1]) == (-0.5, 99.5)
    np.testing.assert_allclose(heat.z, [[2.0] * 32])


def test_contributions_are_drawn_from_the_first_point_to_the_last_around_zero():
    contribution = np.repeat([0.5, -2.0, -2.0, 1.0], 25)
    heat = drawing.series_figure(np.arange(100.0), contribution=contribution).data[0]
    assert list(heat.x) == [-0.5, 24.5, 74.5, 99.5]
    np.testing.assert_array_equal(heat.z, [[0.5, -2.0, 1.0]])
    assert (heat.zmin, heat.zmax) == (-2, 2)


@pytest.fixture
def analysis_of(encoder, finished):
    """Return a function that analyses random series with given labels."""

    def analyse(labels):
        values = np.random.default_rng(0).normal(size=(len(labels), 8))
        return finished(Analysis(Collection.of("noise", values, np.array(labels)), encoder))

    return analyse


def test_every_series_is_on_the_map_once_under_its_label(analysis_of):
    labels = ["b", "a", "c"] * 4
    traces = drawing.map_figure(analysis_of(labels), "pca", "label").data
    assert [trace.name for trace in traces] == ["a", "b", "c"]
    found = {index: trace.name for trace in traces for index in trace.customdata}
    assert found == dict(enumerate(labels))


def test_series_without_a_label_are_no_class(analysis_of):
    analysis = analysis_of(["a", "b", ""] * 4)
    names = [trace.name for trace in drawing.map_figure(analysis, "pca", "label").data]
    assert names == ["no label", "a", "b"]
    assert layout.summary(analysis.collection)[1] == " 12 series · length 8 · 2 classes"
    assert layout.facts(analysis, 2).startswith("no label · cluster")


def test_more_classes_than_colours_leave_no_series_out(analysis_of):
    labels = [str(number // 2) for number in range(2 * drawing.CLASSES + 6)]
    traces = drawing.map_figure(analysis_of(labels), "pca", "label").data
    assert len(traces) == drawing.CLASSES
    assert traces[-1].name == "4 other classes"
    assert sorted(index for trace in traces for index in trace.customdata) == list(range(len(labels)))
    assert len({(trace.marker.color, trace.marker.symbol) for trace in traces}) == drawing.CLASSES


def test_the_most_anomalous_series_lie_on_top(analysis_of):
    analysis = analysis_of(["a", "b"] * 10)
    (trace,) = drawing.map_figure(analysis, "pca", "anomaly").data
    assert (np.diff(analysis.scores[list(trace.customdata)]) >= 0).all()


def test_a_label_is_text_and_not_markup(analysis_of):
    figure = drawing.map_figure(analysis_of(["<a href='x'>y", "%{x}", "z", "z"]), "pca", "label")
    assert "&lt;a href" in figure.data[1].name
    assert all("%{x}" not in trace.hovertemplate for trace in figure.data)


def test_long_labels_are_cut_in_the_middle(analysis_of):
    labels = ["a rather long name 1", "a rather long name 2"] * 2
    names = [trace.name for trace in drawing.map_figure(analysis_of(labels), "pca", "label").data]
    assert names == ["a rather …g name 1", "a rather …g name 2"]


def test_a_large_map_is_drawn_with_webgl(analysis_of, monkeypatch):
    analysis = analysis_of(["a", "b"] * 5)
    assert drawing.map_figure(analysis, "pca", "label").data[0].type == "scatter"
    monkeypatch.setattr(drawing, "GL_POINTS", 9)
    assert drawing.map_figure(analysis, "pca", "label").data[0].type == "scattergl"
