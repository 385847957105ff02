"""Series whose points are further apart in time than those a model was fitted on."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.sampling import check_sampling, sampling_of
from nutime.data.series import read_input
from nutime.estimators.base import EmbeddedSeries
from nutime.estimators.classifier import NuTimeClassifier
from nutime.estimators.embedder import NuTimeEmbedder


def frame(step, points=60, n=6):
    """Return series with one row per point, one point every ``step`` seconds."""
    times = pd.date_range("2024", periods=points, freq=pd.Timedelta(seconds=step))
    waves = [np.sin(np.arange(points) * (1 + index % 2)) for index in range(n)]
    parts = [pd.DataFrame({"id": f"run{i}", "time": times, "x": wave}) for i, wave in enumerate(waves)]
    return pd.concat(parts, ignore_index=True)


LABELS = np.arange(6) % 2


@pytest.fixture(scope="module")
def fitted(encoder):
    return NuTimeClassifier(encoder=encoder, forest=False).fit(frame(1), LABELS)


def test_another_step_and_another_duration_are_refused(fitted, tmp_path):
    for model in (fitted, NuTimeClassifier.load(fitted.save(tmp_path / "model"))):
        with pytest.raises(ValueError, match="a point every") as error:
            model.predict(frame(10))
        assert str(error.value) == (
            "series 'run0' has a point every 10 s over 590 s, those of fit had one every 1 s over 59 s; "
            "bring both to one step (frame.resample, --freq), or give arrays without times"
        )


@pytest.mark.parametrize(
    "new",
    [frame(1, 600), frame(10, 7), frame(1.05), read_input(frame(10)).series],
    ids=["longer", "coarser but as long", "a clock that is 5 % slow", "without times"],
)
def test_the_same_step_or_duration_or_no_times_are_read(fitted, new):
    assert len(fitted.predict(new)) == 6


def test_embedded_series_keep_their_times_also_in_parts(encoder):
    model = NuTimeEmbedder(encoder).fit(EmbeddedSeries.embed(frame(1), encoder)[[0, 3]])
    with pytest.raises(ValueError, match="series 'run0' has a point every 10 s over 590 s"):
        model.transform(frame(10))


def test_a_model_of_series_without_times_reads_any(encoder):
    fitted = NuTimeEmbedder(encoder).fit(read_input(frame(1)).series)
    assert len(fitted.transform(frame(10))) == 6


steps, sizes = st.floats(1e-6, 1e6), st.integers(2, 50)


def numbers(step, points):
    return np.arange(points) * step


@given(st.lists(st.tuples(steps, sizes), min_size=1, max_size=4))
def test_the_training_series_themselves_are_never_refused(series):
    times = [numbers(*one) for one in series]
    check_sampling(times, sampling_of(times), None)


@given(steps, sizes, st.floats(1.2, 1e3))
def test_a_coarser_or_finer_step_is_refused_unless_the_duration_is_the_same(step, points, factor):
    known = sampling_of([numbers(step, points)])
    for other in (step * factor, step / factor):
        with pytest.raises(ValueError, match="series 0 has a point every"):
            check_sampling([numbers(other, points)], known, None)
        check_sampling([np.array([0, step * (points - 1)])], known, None)


def test_times_of_other_units_are_not_compared():
    dates = pd.date_range("2024", periods=5, freq="h").to_numpy()
    known = sampling_of([numbers(1, 5)])
    check_sampling([dates], known, None)
    assert sampling_of([dates, numbers(1, 5)]) is None
    assert sampling_of([numbers(1, 1)]) is None
