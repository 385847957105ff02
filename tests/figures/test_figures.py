"""Figures are checked for what they state: numbers, names, places of labels; how they look is for eyes."""

import re
import xml.etree.ElementTree as ET
from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb

from nutime import NuTime, NuTimeClassifier, NuTimeConfig
from nutime.figures import attention, curves, embedding_map, history, response, scales, style, weighting
from nutime.figures.contribution import ExplainedSeries, draw_contributions
from nutime.figures.cost import Cost, draw_cost
from nutime.figures.critical_difference import draw_critical_difference
from nutime.figures.scaling import LABELS, Measured, draw_scaling
from nutime.figures.scatter import draw_scatter

TINY = NuTimeConfig(window=4, length=32, dim=8, depth=1, heads=2, head_dim=4, mlp_dim=8, scalar_dim=8)


@pytest.fixture(scope="module")
def encoder():
    return NuTime(TINY)


def simple():
    return weighting.draw_weighting({"fine-tuned": {"weighted": {1: 0.8, 3: 0.9}, "plain": {1: 0.8, 3: 0.7}}})


def texts(figure):
    """Return every text of a figure that is laid out, without the tick labels that lie beyond an axis."""
    hidden = set()
    for axes in figure.findobj(mpl.axes.Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            beyond = [tick for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
            hidden |= {label for tick in beyond for label in (tick.label1, tick.label2)}
    found = figure.findobj(mpl.text.Text)
    return [text for text in found if text.get_visible() and text.get_text().strip() and text not in hidden]


def overlapping(figure):
    """Return pairs of texts that share area."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(figure)]
    pairs = []
    for (one, first), (other, second) in combinations(boxes, 2):
        width = min(first.x1, second.x1) - max(first.x0, second.x0)
        height = min(first.y1, second.y1) - max(first.y0, second.y0)
        if width > 1 and height > 1:
            pairs.append((one, other))
    return pairs


def luminance(colour):
    channels = np.array(to_rgb(colour))
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("colour", [style.INK, *style.COLOURS])
def test_colours_can_be_seen_on_white_and_on_black(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 3
    assert (luminance(colour) + 0.05) / (luminance("#15171b") + 0.05) >= 3


def test_the_first_24_classes_and_36_lines_look_different():
    assert len({style.colour_and_marker(index) for index in range(24)}) == 24
    assert len({str(style.line_style(index)) for index in range(36)}) == 36


def test_both_files_are_written(tmp_path):
    saved = style.save(simple(), tmp_path / "new" / "folder", "name")
    assert saved.png.read_bytes().startswith(b"\x89PNG")
    assert ET.parse(saved.svg).getroot().tag.endswith("svg")


def test_the_background_is_transparent(tmp_path):
    saved = style.save(simple(), tmp_path, "name")
    image = mpl.image.imread(saved.png)
    assert image.shape[2] == 4
    assert image[0, 0, 3] == 0


def test_the_same_figure_is_the_same_file(tmp_path):
    first, second = (style.save(simple(), tmp_path / name, "f").svg.read_text() for name in "ab")
    assert first == second


def test_text_of_an_svg_takes_the_colour_of_the_page():
    element = style.svg(simple())
    assert element.startswith("<svg")
    assert "currentColor" in element
    assert style.INK not in element
    assert "prefers-color-scheme" in style.standalone(element)


def test_the_callers_settings_neither_change_nor_show():
    plain = style.svg(simple())
    with mpl.rc_context({"text.color": "red", "axes.grid": True, "font.size": 20, "svg.fonttype": "none"}):
        before = dict(mpl.rcParams)
        assert style.svg(simple()) == plain
        assert dict(mpl.rcParams) == before


def test_no_figure_needs_pyplot_or_opens_a_window():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from nutime.figures import style, weighting\n"
        "assert 'matplotlib' not in sys.modules\n"
        "style.svg(weighting.draw_weighting({'a': {'weighted': {1: 0.5}}}))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


NAMES = [f"a method with a long name {index}" for index in range(14)]


@settings(max_examples=10)
@given(st.lists(st.floats(1, 14), min_size=2, max_size=14))
def test_labels_of_a_critical_difference_diagram_never_overlap(ranks):
    figure = draw_critical_difference(dict(zip(NAMES, ranks, strict=False)), [NAMES[:2]], "a title")
    assert overlapping(figure) == []
    width, height = figure.get_size_inches() * figure.dpi
    for text in texts(figure):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= width
        assert box.y1 <= height


def test_a_critical_difference_diagram_has_the_best_on_the_right():
    figure = draw_critical_difference({"good": 1.2, "middling": 2.0, "bad": 2.8}, [("good", "middling")], "")
    places = {text.get_text().split()[-1]: text.get_window_extent().x0 for text in texts(figure)}
    assert places["good"] > places["2.80"]
    labels = [text.get_text() for text in texts(figure)]
    assert "1.20  good" in labels
    assert "bad  2.80" in labels


def test_a_bar_spans_the_ranks_of_its_clique():
    figure = draw_critical_difference({"a": 1.0, "b": 2.0, "c": 3.0}, [("b", "c")], "")
    [bar] = [line for line in figure.axes[0].get_lines() if line.get_linewidth() == 4]
    ticks = {text.get_text(): text.get_position()[0] for text in texts(figure) if text.get_text() in "123"}
    assert sorted(bar.get_xdata()) == pytest.approx([ticks["3"] - 0.05, ticks["2"] + 0.05])


def test_a_scatter_counts_wins_ties_and_losses_on_shared_sets():
    ours = {"a": 0.9, "b": 0.5, "c": 0.7, "only ours": 0.1}
    rivals = {"one": {"a": 0.8, "b": 0.5, "c": 0.9}, "two": {"c": 0.6, "only theirs": 1.0}}
    figure = draw_scatter("nutime", ours, rivals)
    assert [axes.get_title() for axes in figure.axes] == [
        "win/tie/loss 1/1/1 on 3 sets",
        "win/tie/loss 1/0/0 on 1 sets",
    ]
    points = np.concatenate([part.get_offsets() for part in figure.axes[0].collections])
    assert sorted(points.tolist()) == [[0.5, 0.5], [0.8, 0.9], [0.9, 0.7]]


def test_the_band_of_a_scatter_is_five_points_wide():
    [axes] = draw_scatter("nutime", {"a": 0.9}, {"one": {"a": 0.8}}).axes
    dotted = [line for line in axes.get_lines() if line.get_linestyle() == ":"]
    assert sorted(np.mean(line.get_ydata() - line.get_xdata()) for line in dotted) == pytest.approx([-0.05, 0.05])


def test_scales_zooms_into_the_quietest_part():
    values = np.concatenate([np.sin(np.arange(50)), 0.001 * np.sin(np.arange(30)), np.sin(np.arange(20))])
    part = scales.quietest_part(values)
    assert part.start >= 50
    assert part.stop <= 80
    figure = scales.draw_scales({"one": values, "two": 100 * values, "three": values / 50}, ("one", values))
    assert overlapping(figure) == []
    assert figure.axes[0].get_yscale() == "log"


def test_any_number_of_sets_methods_and_devices_is_drawn():
    names = "abcdefghi"
    values = np.sin(np.arange(50))
    assert len(scales.draw_scales(dict.fromkeys(names, values), ("a", values)).axes[0].lines) == 9
    assert len(draw_scaling([Measured(name, "series", 100, 1.0) for name in names]).axes[0].lines) == 9
    assert len(draw_cost([Cost(name, 0.9, 1.0, name) for name in names]).axes[0].collections) == 9


def test_a_quiet_part_is_not_a_constant_one():
    values = np.concatenate([np.zeros(40), np.sin(np.arange(60))])
    assert np.ptp(values[scales.quietest_part(values)]) > 0


def test_the_typical_series_has_the_median_spread_and_no_padding():
    rows = np.array([[1.0, 2, 3, np.nan], [0.0, 90, 0, 90], [0.0, 10, 0, 10]])
    assert scales.typical_series(rows).tolist() == [0, 10, 0, 10]
    assert scales.typical_series(rows[:1]).tolist() == [1, 2, 3]


def test_the_most_varied_series_is_found_and_broken_ones_are_passed_over():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4, 64))
    rows[2, :16] *= 1e-4
    rows[3, 5] = np.nan
    values, ratio = scales.most_varied_series(rows)
    assert (values == rows[2]).all()
    assert ratio > 1000
    assert scales.most_varied_series(np.zeros((2, 8)))[1] == 1
    assert scales.most_varied_series(np.zeros((2, 64)))[1] == 1


def test_a_block_saturates_away_from_its_scale_and_nme_does_not(encoder):
    found = response.respond(encoder)
    far = found.x > 1e3
    by_scale = dict(zip(response.BLOCK_SCALES, found.block, strict=True))
    assert np.ptp(by_scale[0.01][far]) < 1e-3
    assert np.ptp(found.nme[0][far]) > 0.05
    figure = response.draw_response({"random weights": found, "trained weights": found})
    assert [axes.get_title() for axes in figure.axes][::2] == ["One block, random weights", "NME, random weights"]
    assert overlapping(figure) == []


def test_a_block_is_linear_and_layer_norm(encoder):
    found = response.respond(encoder)
    module = response._nme(encoder)
    middle = len(module.weight) // 2
    w, b = (part[middle].detach().double().numpy() for part in (module.weight, module.bias))
    z = found.x[:, None] * w + 10.0 * b
    y = (z - z.mean(1, keepdims=True)) / z.std(1, keepdims=True)
    assert found.block[response.BLOCK_SCALES.index(10.0)] == pytest.approx(y[:, 0], abs=1e-4)


def test_an_encoder_without_nme_has_no_response_to_draw():
    with pytest.raises(ValueError, match="expected 'nme'"):
        response.respond(NuTime(TINY.replace(scalar_embedding="ple-p")))


def test_a_map_shows_every_series_in_its_class():
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.normal(size=(20, 6)), rng.normal(8, size=(20, 6))])
    labels = np.repeat(["calm", "storm"], 20)
    points = embedding_map.project(groups)
    centres = points[:20].mean(0), points[20:].mean(0)
    spread = max(points[:20].std(), points[20:].std())
    assert np.linalg.norm(centres[0] - centres[1]) > 2 * spread
    figure = embedding_map.draw_embedding_map({"weather": embedding_map.Map(points, labels)})
    assert figure.axes[0].get_title() == "weather: 40 series, 2 classes"
    assert [len(part.get_offsets()) for part in figure.axes[0].collections] == [20, 20]
    assert {text.get_text() for text in figure.axes[0].get_legend().get_texts()} == {"calm", "storm"}


def test_a_map_of_many_classes_has_no_legend():
    figure = embedding_map.draw_embedding_map({"many": embedding_map.Map(np.eye(30)[:, :2], np.arange(30))})
    assert figure.axes[0].get_legend() is None


def test_a_map_needs_three_series():
    with pytest.raises(ValueError, match="at least 3"):
        embedding_map.project(np.ones((2, 4)))


def test_attention_is_a_share_of_every_window(encoder):
    X = np.random.default_rng(0).normal(size=(5, 50))
    shares = attention.cls_attention(encoder, X)
    assert shares.shape == (5, 8)
    assert shares.sum(1) == pytest.approx(np.ones(5))
    assert (shares > 0).all()


def test_attention_of_other_channels_is_refused(encoder):
    with pytest.raises(ValueError, match=r"reads 1 channel\(s\), the series have 3"):
        attention.cls_attention(encoder, np.zeros((2, 3, 40)))


def test_attention_bars_are_as_high_as_the_attention(encoder):
    values = np.sin(np.arange(50))
    shares = attention.cls_attention(encoder, [values])[0]
    panel = attention.AttendedSeries("a series", values, shares)
    figure = attention.draw_attention([[panel, panel], [panel]])
    assert len(figure.axes) == 3
    heights = np.array([bar.get_height() for bar in figure.axes[0].containers[0]])
    assert heights / heights.sum() == pytest.approx(shares)


def test_weighting_draws_accuracy_by_number_of_scales():
    [axes] = simple().axes
    weighted, plain = axes.get_lines()
    assert weighted.get_ydata() == pytest.approx([80, 90])
    assert plain.get_ydata() == pytest.approx([80, 70])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "3"]


def test_curves_draw_what_runs_measured_and_leave_out_what_none_did():
    metrics = [{"step": step, "loss": 1 / step, "spread": 0.8} for step in range(100, 40_100, 100)]
    figure = curves.draw_curves({"one": metrics, "other": metrics[:200]})
    assert [axes.get_title() for axes in figure.axes] == ["loss", "spread of the embedding"]
    one, other = figure.axes[0].get_lines()
    assert one.get_ydata() == pytest.approx([line["loss"] for line in metrics])
    assert len(other.get_xdata()) == 200
    assert not overlapping(figure)


def test_history_draws_loss_and_validation_accuracy_per_epoch():
    first = {"loss": [3.0, 2.0, 1.0], "validation_score": [0.5, 0.6, 0.7]}
    figure = history.draw_history({"first": first, "second": {"loss": [2.0, 1.0]}})
    assert [axes.get_title() for axes in figure.axes] == ["loss", "accuracy on the validation series"]
    assert {axes.get_xlabel() for axes in figure.axes} == {"epoch"}
    one, other = figure.axes[0].get_lines()
    assert list(one.get_xdata()) == [1, 2, 3]
    assert list(one.get_ydata()) == [3.0, 2.0, 1.0]
    assert list(other.get_ydata()) == [2.0, 1.0]
    assert list(figure.axes[1].get_lines()[0].get_ydata()) == [0.5, 0.6, 0.7]


def test_the_history_of_a_saved_classifier_is_read(encoder, tmp_path, monkeypatch):
    monkeypatch.setattr("nutime.finetune.train.MIN_STEPS", 5)
    X = np.random.default_rng(0).normal(size=(12, 40))
    classifier = NuTimeClassifier("finetune", encoder, epochs=2, validation_fraction=0.5, random_state=0)
    classifier.fit(X, np.arange(12) % 2).save(tmp_path)
    found = history.read_history(tmp_path)
    assert found.keys() == {"loss", "validation_score"}
    assert list(found["loss"]) == list(classifier.history_["loss"])


def test_a_classifier_that_was_not_fine_tuned_has_no_history(encoder, tmp_path):
    NuTimeClassifier("probe", encoder).fit(np.eye(4, 30), [0, 1, 0, 1]).save(tmp_path)
    with pytest.raises(ValueError, match="has no training history; fit with the strategy finetune"):
        history.read_history(tmp_path)


def test_no_figure_refers_to_other_files():
    assert not re.search(r'(href|src)="http', style.svg(simple()))


def test_scaling_has_a_panel_per_quantity_and_a_line_per_method():
    measured = [Measured(name, "series", n, n / 100) for name in ("ours", "rival") for n in (100, 1000)]
    panels = draw_scaling([*measured, Measured("ours", "channels", 2, 1.0)]).axes
    assert [panel.get_xlabel() for panel in panels] == [LABELS["series"], LABELS["channels"]]
    lines = {line.get_label(): line.get_xydata().tolist() for line in panels[0].lines}
    assert lines == {name: [[100, 1], [1000, 10]] for name in ("ours", "rival")}


def test_cost_has_a_point_with_its_name_for_every_method_and_a_marker_per_device():
    costs = [Cost("small", 0.86, 10, "cpu"), Cost("large", 0.87, 50, "cpu"), Cost("tuned", 0.88, 20, "GPU")]
    [panel] = draw_cost(costs).axes
    assert [text.get_text() for text in panel.texts] == ["small", "large", "tuned"]
    assert [len(points.get_offsets()) for points in panel.collections] == [2, 1]
    assert panel.get_xscale() == "log"


def test_contributions_are_drawn_at_the_points_of_the_input():
    contribution = np.repeat([0.0, 1.0], 5)
    (panel,) = draw_contributions([ExplainedSeries("run", np.arange(10.0), contribution, 20)]).axes
    assert panel.lines[0].get_xdata().tolist() == list(range(20, 30))
    assert panel.get_xlim() == (19.5, 29.5)
    assert panel.patches[-1].get_window_extent().x1 == pytest.approx(panel.get_window_extent().x1)
