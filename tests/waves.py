"""Series with two classes that anything can tell apart, and what an estimator says of series."""

import numpy as np
import pytest

OUTPUTS = (
    "predict",
    "predict_proba",
    "predict_interval",
    "decision_function",
    "transform",
    "score_samples",
    "anomaly_score",
)


def waves(n=24, channels=1, seed=0):
    """Return a list of ``(channels, length)`` waves of unequal length, slow and fast ones in turn, and 0/1."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    series = []
    for label in y:
        time = np.linspace(0, 1, rng.integers(30, 60))
        phase = rng.uniform(0, 6, size=(channels, 1))
        wave = np.sin(2 * np.pi * (2 + 6 * label) * time + phase) * (1 + 4 * label)
        series.append(wave + rng.normal(0, 0.05, wave.shape))
    return series, y


def wave_table(n=24, length=40, seed=0):
    """Return the same as a table, ``(n, length)``."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    phase = rng.uniform(0, 6, size=(n, 1))
    wave = np.sin((2 + 6 * y[:, None]) * np.linspace(0, 6, length) + phase) * (1 + 4 * y[:, None])
    return wave + rng.normal(0, 0.05, wave.shape), y


def outputs(estimator, X):
    """Return all an estimator has to say of X, by method."""
    return {name: getattr(estimator, name)(X) for name in OUTPUTS if hasattr(estimator, name)}


def assert_same_outputs(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def refusal(call, *arguments, **keywords):
    """Return the message of the ValueError a call ends in; it is always a single line."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the message is what the tests look at
        call(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message
    return message
