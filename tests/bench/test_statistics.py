import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from nutime.bench import published, statistics
from nutime.bench.statistics import WinTieLoss, compare

#: Counts of right answers over ten series, so that ties are common.
SCORES = st.tuples(st.integers(2, 5), st.integers(1, 8)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 10).map(lambda count: count / 10))
)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def as_columns(scores):
    return {
        f"m{row}": {f"s{place}": value for place, value in enumerate(scores[row])} for row in range(len(scores))
    }


def test_ranks_of_a_case_done_by_hand():
    scores = np.array([[0.9, 0.8, 0.7], [0.9, 0.6, 0.8], [0.5, 0.7, 0.9]])
    assert statistics.average_ranks(scores) == pytest.approx(
        [(1.5 + 1 + 3) / 3, (1.5 + 3 + 2) / 3, (3 + 2 + 1) / 3]
    )


def test_scores_that_differ_only_in_their_last_bit_are_a_tie():
    ours, theirs = {"a": 0.1 + 0.2}, {"a": 0.3}
    assert statistics.win_tie_loss(ours, theirs) == (0, 1, 0)
    assert list(statistics.average_ranks(np.array([[0.1 + 0.2], [0.3]]))) == [1.5, 1.5]


@settings(max_examples=40)
@given(SCORES)
def test_ranks_of_every_set_add_up(scores):
    methods = len(scores)
    ranks = statistics.average_ranks(scores)
    assert ranks.sum() == pytest.approx(methods * (methods + 1) / 2)
    assert (ranks >= 1).all()
    assert (ranks <= methods).all()


@settings(max_examples=40)
@given(SCORES)
def test_the_order_of_methods_changes_nothing(scores):
    forward = compare(as_columns(scores))
    backward = compare(dict(reversed(as_columns(scores).items())))
    for comparison in (forward, backward):
        assert (np.diff(list(comparison.ranks.values())) >= 0).all()
    assert forward.ranks == pytest.approx(backward.ranks)
    for first, name in enumerate(forward.methods):
        for second, other in enumerate(forward.methods):
            mirrored = backward.p_values[backward.methods.index(name), backward.methods.index(other)]
            assert forward.p_values[first, second] == pytest.approx(mirrored)


@settings(max_examples=40)
@given(SCORES)
def test_cliques_hold_only_methods_that_no_test_tells_apart_and_none_is_inside_another(scores):
    comparison = compare(as_columns(scores), alpha=0.5)
    for clique in comparison.cliques:
        members = [comparison.methods.index(name) for name in clique]
        assert len(members) > 1
        assert (comparison.p_values[np.ix_(members, members)] >= 0.5).all()
    assert not any(set(a) < set(b) for a in comparison.cliques for b in comparison.cliques)


@settings(max_examples=40)
@given(SCORES)
def test_neighbours_that_are_alike_share_a_clique(scores):
    comparison = compare(as_columns(scores), alpha=0.5)
    for place, pair in enumerate(zip(comparison.methods, comparison.methods[1:], strict=False)):
        together = any(set(pair) <= set(clique) for clique in comparison.cliques)
        assert together == (comparison.p_values[place, place + 1] >= 0.5)


@settings(max_examples=40)
@given(SCORES)
def test_wins_ties_and_losses_are_all_sets_and_mirror(scores):
    columns = list(as_columns(scores).values())
    wins, ties, losses = statistics.win_tie_loss(columns[0], columns[1])
    assert wins + ties + losses == scores.shape[1]
    assert statistics.win_tie_loss(columns[1], columns[0]) == (losses, ties, wins)


def test_wins_are_counted_over_the_sets_both_have():
    outcome = statistics.win_tie_loss({"a": 0.9, "b": 0.5, "c": 0.1}, {"b": 0.5, "a": 0.2, "d": 1.0})
    assert outcome == WinTieLoss(1, 1, 0)
    assert str(outcome) == "1/1/0"


def test_holm_of_a_case_done_by_hand():
    # Sorted: 0.01·4, 0.015·3 = 0.045, 0.03·2 = 0.06, 0.5·1.
    assert statistics.holm([0.015, 0.5, 0.01, 0.03]) == pytest.approx([0.045, 0.5, 0.04, 0.06])


def test_holm_never_puts_a_larger_p_value_before_a_smaller_one():
    assert statistics.holm([0.02, 0.021]) == pytest.approx([0.04, 0.04])


@given(P_VALUES)
def test_holm_keeps_the_order_and_stays_between_the_raw_value_and_bonferroni(p_values):
    raw, corrected = np.array(p_values), statistics.holm(p_values)
    assert (corrected >= raw).all()
    assert (corrected <= np.minimum(raw * len(raw), 1) + 1e-12).all()
    assert (np.diff(corrected[np.argsort(raw, kind="stable")]) >= 0).all()


def test_p_values_are_scipys_corrected():
    rng = np.random.default_rng(0)
    scores = rng.uniform(size=(3, 20)) + np.array([[0.0], [0.1], [0.4]])
    found = statistics.pairwise_p_values(scores)
    raw = {pair: stats.wilcoxon(scores[pair[0]], scores[pair[1]]).pvalue for pair in ((0, 1), (0, 2), (1, 2))}
    smallest, middle, largest = sorted(raw, key=raw.get)
    assert found[smallest] == pytest.approx(min(1, 3 * raw[smallest]))
    assert found[middle] == pytest.approx(max(found[smallest], min(1, 2 * raw[middle])))
    assert found[largest] == pytest.approx(max(found[middle], raw[largest]))
    assert (found == found.T).all()


@pytest.mark.parametrize("differences", [[1, 2, 2, -3, 0, 5], [1, -1, 2, 4, 4, 4, 6], [3, -2, 1]])
def test_p_values_of_few_sets_with_ties_are_scipys(differences):
    scores = np.array([differences, np.zeros(len(differences))], float) / 10
    expected = stats.wilcoxon(scores[0], zero_method="pratt").pvalue
    assert statistics.pairwise_p_values(scores)[0, 1] == pytest.approx(expected)


def test_methods_that_are_equal_everywhere_have_a_p_value_of_one():
    comparison = compare({"a": {"x": 0.5, "y": 0.6}, "b": {"x": 0.5, "y": 0.6}})
    assert comparison.p_values.tolist() == [[1, 1], [1, 1]]
    assert comparison.cliques == (("a", "b"),)


def test_neighbouring_runs_may_overlap():
    alike = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], bool)
    assert statistics.find_cliques(alike) == [(0, 2), (1, 3)]


def test_only_sets_that_all_methods_have_are_compared():
    comparison = compare({"a": {"x": 0.1, "y": 0.2, "z": 1.0}, "b": {"y": 0.4, "x": 0.3}})
    assert comparison.sets == ("x", "y")
    assert comparison.methods == ("b", "a")


@pytest.mark.parametrize("columns", [{}, {"a": {"x": 1.0}}, {"a": {"x": 1.0}, "b": {"y": 1.0}}])
def test_nothing_to_compare_is_an_error(columns):
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(columns)


def test_a_deviation_needs_two_runs():
    assert statistics.estimate([0.5]) == (0.5, None)
    assert statistics.estimate([0.4, 0.6]) == pytest.approx((0.5, np.sqrt(0.02)))


def test_the_papers_own_columns_rank_as_it_claims():
    """Figure 4: first place on UCR and on UEA, and the rank 1.5 of Table 2."""
    for table in ("ucr112_supervised", "uea26_supervised"):
        assert compare(published.columns(table)).methods[0] == "NuTime"
    among = compare(published.columns("uea29_selfsupervised"))
    assert next(iter(among.ranks.values())) == pytest.approx(1.5, abs=0.2)
