import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from nutime.finetune.linear import fit_heads


def problem(n, d, classes=3, seed=0):
    """Return normalised samples on a few directions, uneven classes that overlap, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, d)) + 0.5 * rng.standard_normal((n, d))
    X = (X - X.mean(0)) / X.std(0)
    y = np.digitize(X[:, 0] + rng.standard_normal(n), [0.3, 1.5][: classes - 1])
    return X, y, rng.uniform(0.5, 2, n)


def as_tensors(*problems):
    X, y, weights = (np.stack(parts) for parts in zip(*problems, strict=True))
    return torch.tensor(X).float(), torch.tensor(y), torch.tensor(weights).float()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("n", "d"),
    [(40, 300), (200, 30), (150, 7000)],
    ids=["more-coordinates", "more-samples", "as-many-coordinates-as-probes-read"],
)
def test_a_head_is_scikit_learns_logistic_regression(n, d, classes):
    X, y, weights = problem(n, d, classes)
    weight, bias = fit_heads(*as_tensors((X, y, weights)), classes)
    said = torch.softmax(torch.tensor(X).float() @ weight[0].T + bias[0], dim=1).numpy()
    theirs = LogisticRegression(max_iter=5000).fit(X, y, sample_weight=weights).predict_proba(X)
    np.testing.assert_allclose(said, theirs, atol=0.01)


def test_a_head_does_not_depend_on_those_fitted_beside_it():
    one, other = problem(40, 100), problem(40, 100, seed=1)
    alone, together = (fit_heads(*as_tensors(*problems), classes=3) for problems in ([one], [one, other]))
    for mine, beside in zip(alone, together, strict=True):
        torch.testing.assert_close(mine[0], beside[0], atol=1e-4, rtol=1e-3)


def test_a_class_without_samples_is_never_the_likeliest():
    X, y, weights = problem(40, 100)
    weight, bias = fit_heads(*as_tensors((X, y, weights)), classes=5)
    assert (torch.tensor(X).float() @ weight[0].T + bias[0]).argmax(1).max() < 3
