"""Covering and VUS-PR against their definitions and against published results."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from nutime.recordings.metrics import covering, tsb_ad_window, vus_pr
from nutime.recordings.windows import runs

RECORDINGS = Path(os.environ.get("NUTIME_RECORDINGS", "/nonexistent"))


def test_covering_is_one_for_the_true_segmentation_and_the_largest_share_for_none():
    assert covering([10, 30], [10, 30], 40) == 1
    assert covering([], [], 40) == 1
    assert covering([30], [], 40) == pytest.approx((30 * 30 / 40 + 10 * 10 / 40) / 40)


def test_covering_weighs_the_best_jaccard_index_of_each_true_segment_by_its_length():
    # segments 0-4, 4-6 against 0-3, 3-6: 3/4 for the first, 2/3 for the second
    assert covering([4], [3], 6) == pytest.approx((4 * 3 / 4 + 2 * 2 / 3) / 6)


@given(
    st.integers(20, 200),
    st.lists(st.integers(1, 199), max_size=6),
    st.lists(st.integers(1, 199), max_size=6),
)
def test_covering_lies_between_zero_and_one(length, true, found):
    assert 0 < covering(true, found, length) <= 1


def test_runs_of_labels_become_intervals():
    assert runs([1, 1, 0, 0, 1, 0, 1]).tolist() == [[0, 2], [4, 5], [6, 7]]
    assert runs([0, 0]).tolist() == []


def reference_area(label, score, width):
    """Precision-recall area of one buffer length, from the definition, one threshold after the other."""
    half, length = width // 2, len(label)
    soft = label.astype(float)
    for start, end in runs(label):
        for distance in range(1, half + 1):
            for point in (start - distance, end - 1 + distance):
                if 0 <= point < length:
                    soft[point] += np.sqrt(1 - distance / width)
    soft = np.minimum(soft, 1)
    near = np.zeros(length, bool)
    for start, end in runs(label):
        near[max(start - half, 0) : end + half] = True
    events = runs(near)
    area = previous = 0.0
    for threshold in -np.sort(-score)[np.linspace(0, length - 1, 250).astype(int)]:
        found = score >= threshold
        positives = soft[found].sum()
        recall = min(positives / (label.sum() + soft[found & ~label].sum() / 2), 1)
        recall *= np.mean([found[start:end].any() for start, end in events])
        area += (recall - previous) * positives / found.sum()
        previous = recall
    return area


@pytest.mark.parametrize("seed", range(4))
def test_vus_pr_is_the_mean_area_over_all_buffer_lengths(seed):
    rng = np.random.default_rng(seed)
    label = np.zeros(300, bool)
    for start in (20, 120, 250):
        label[start : start + rng.integers(3, 20)] = True
    score = np.round(rng.random(300) + label * rng.random(300), 2)  # with ties
    expected = np.mean([reference_area(label, score, width) for width in range(13)])
    assert vus_pr(label, score, 12) == pytest.approx(expected)


def test_vus_pr_refuses_labels_without_an_anomaly():
    with pytest.raises(ValueError, match="no point is labelled 1"):
        vus_pr(np.zeros(10), np.zeros(10), 3)


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason="NUTIME_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize("number", ["002", "014", "017", "541"])
def test_sub_pca_has_its_published_vus_pr(number):
    path = next((RECORDINGS / "anomaly").glob(f"{number}_*.npz"))
    with (RECORDINGS / "anomaly" / "published_vus_pr.csv").open(encoding="utf-8") as file:
        published = {row["file"]: float(row["Sub-PCA"]) for row in csv.DictReader(file)}
    data = np.load(path)
    value, label = data["value"].ravel().astype(float), data["label"].ravel()
    window = tsb_ad_window(value)
    windows = np.lib.stride_tricks.sliding_window_view(value, window)
    windows = (windows - windows.mean(0)) / windows.std(0)
    pca = PCA(random_state=0).fit(windows)
    score = (cdist(windows, pca.components_) / pca.explained_variance_ratio_).sum(1)
    score = np.pad(score, (-(-(window - 1) // 2), (window - 1) // 2), mode="edge")
    assert vus_pr(label, score, window) == pytest.approx(published[f"{path.stem}.csv"], abs=0.002)


@pytest.mark.parametrize(
    ("length", "change_points", "published"),
    [
        (2163, [577, 1154, 1550], 0.256),  # Car
        (8400, [2800, 5600, 6650], 0.281),  # FaceFour
        (5868, [1228, 3548], 0.356),  # Haptics
        (2474, [1732], 0.580),  # MedicalImages
    ],
)
def test_covering_is_that_published_for_methods_that_find_nothing(length, change_points, published):
    # TSSB's table has these for the method Window, which reports no change point there
    assert round(covering(change_points, [], length), 3) == published
