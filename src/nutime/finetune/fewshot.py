"""Few-shot learning: accuracy after training on a handful of labelled series per class (paper, Section 4.3).

An episode is a new task with a new model: some series of every class are drawn from the training series, a model
that starts from the encoder is fine-tuned on them alone, and it predicts the test series of these classes. Groups
of episodes are trained together as stacked models, see :mod:`~nutime.finetune.train`. The size of a group changes
time and memory; an episode depends only on the seed and its index.

The paper states 5 shots and 100 episodes, and follows Narwariya et al. (2020, arXiv:1909.07155), whose tasks have
as many classes as their data set. So here: all classes unless ``ways`` is given, shots from the training split,
and the whole test split as queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.checks import check_number
from nutime.data.series import Array, SeriesLike, as_series
from nutime.encoder import NuTime
from nutime.finetune.forest import Forest, ForestReading
from nutime.finetune.linear import Float64, probe_features
from nutime.finetune.train import FinetuneConfig, TrainingSet, finetune
from nutime.model.network import count_parameters
from nutime.model.reading import AUTO, Length, Reading

#: Parameters trained together, those of all episodes of a group; with their moments each takes about 20 bytes.
GROUP_PARAMETERS = {"cpu": 2**26, "cuda": 2**29}


def few_shot(
    encoder: NuTime,
    X: SeriesLike,
    y: Any,
    X_test: SeriesLike,
    y_test: Any,
    *,
    shots: int = 5,
    episodes: int = 100,
    ways: int | None = None,
    seed: int = 0,
    length: Length = AUTO,
    forest: bool = True,
    **params: Any,
) -> Float64:
    """Return the accuracy of every episode, ``(episodes,)``.

    Args:
        encoder: the start of every model; it is not changed.
        X: series to draw the shots from, in any form of :mod:`nutime.data.series`.
        y: their labels.
        X_test: series that every episode predicts.
        y_test: their labels, each of which must occur in ``y``.
        shots: series drawn of every class; of a class with fewer, some are drawn again.
        episodes: tasks drawn.
        ways: classes of a task, drawn for each; all of them unless given.
        seed: of tasks and models; fewer episodes are the first ones of more.
        length: points that series are resized to for the probes beside the models, as in :meth:`NuTime.embed`.
        forest: whether probabilities are averaged with those of trees, as a classifier does.
        params: those of :class:`~nutime.finetune.train.FinetuneConfig`, except ``n_estimators`` and
            ``validation_fraction``.
    """
    if params.get("validation_fraction"):
        raise ValueError("few-shot models are trained on all their shots: validation_fraction must be 0")
    check_number("shots", shots, "[1, inf)", integer=True)
    check_number("episodes", episodes, "[1, inf)", integer=True)
    series, queries = as_series(X), as_series(X_test)
    classes, targets = np.unique(np.asarray(y), return_inverse=True)
    test_targets = _encode(np.asarray(y_test), classes)
    _check(series, targets, queries, test_targets)
    rngs = [np.random.default_rng([seed, episode]) for episode in range(episodes)]
    tasks = [draw_task(targets, test_targets, shots, ways, rng) for rng in rngs]
    model_seed = int(np.random.default_rng(seed).integers(2**31))
    reading = Reading.choose(encoder.config, AUTO, length, series)
    embedding = None
    if params.get("trained") != "scratch":
        embedding = probe_features(encoder, series, reading)  # once for all groups
    votes = _forest_votes(series, queries, targets, tasks) if forest else np.zeros((episodes, 1, 1))
    accuracies = []
    size = max(1, GROUP_PARAMETERS[encoder.device.type] // count_parameters(encoder))
    for first in range(0, episodes, size):
        group = tasks[first : first + size]
        class_ids = np.stack([ids for ids, _ in group])
        weight, class_weight = np.ones(len(series)), np.ones(int(class_ids.max()) + 1)
        models = finetune(
            encoder,
            TrainingSet(series, class_ids[:, targets], weight, class_weight, embedding),
            FinetuneConfig(n_estimators=len(group), **params),
            model_seed,
            reading=reading,
            members=np.stack([members for _, members in group]),
            first_model=first,
        ).last
        expected = class_ids[:, test_targets]
        probabilities = np.exp(models.log_probabilities(encoder, queries)) + votes[first : first + size]
        correct = (probabilities.argmax(-1) == expected).sum(1)
        accuracies.append(correct / (expected >= 0).sum(1))
    return np.concatenate(accuracies)


def _forest_votes(
    series: list[Array],
    queries: list[Array],
    targets: NDArray[np.intp],
    tasks: list[tuple[NDArray[np.intp], NDArray[np.intp]]],
) -> Float64:
    """Return ``(tasks, n, classes)``, the probabilities of the queries by trees of each task."""
    reading = ForestReading.choose(series)  # trees are the same for any level and scale
    features, selected = reading.training_features(series)
    query_features = reading.map_features(np.asarray, queries)
    votes = []
    for class_ids, members in tasks:
        task_targets, weights = class_ids[targets[members]], np.ones(len(members))
        n_classes = int(class_ids.max()) + 1
        forest = Forest.grow(reading, features[members], selected, task_targets, weights, n_classes)
        votes.append(forest.votes(query_features))
    return np.stack(votes)


def draw_task(
    targets: NDArray[np.intp],
    test_targets: NDArray[np.intp],
    shots: int,
    ways: int | None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the index of each class in the task (−1 if it is not in it), and the indices of the shots."""
    n_classes = int(targets.max()) + 1
    selected = np.arange(n_classes)
    if ways is not None:
        tested = np.unique(test_targets)
        if not 2 <= ways <= len(tested):
            raise ValueError(f"ways must be 2 … {len(tested)}, the classes of the test series; got {ways!r}")
        selected = rng.choice(tested, ways, replace=False)
    class_ids = np.full(n_classes, -1)
    class_ids[selected] = np.arange(len(selected))
    members = [np.resize(rng.permutation(np.flatnonzero(targets == target)), shots) for target in selected]
    return class_ids, np.concatenate(members)


def _encode(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    targets = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[targets] != labels
    if unknown.any():
        raise ValueError(f"y_test has the label {labels[unknown][0]}, which y does not have")
    return targets


def _check(
    series: list[Array], targets: NDArray[np.intp], queries: list[Array], test_targets: NDArray[np.intp]
) -> None:
    for name, given, labels in (("X", series, targets), ("X_test", queries, test_targets)):
        if len(given) != len(labels):
            raise ValueError(f"{name} has {len(given)} series and {len(labels)} labels; expected one label each")
    if len(series[0]) != len(queries[0]):
        raise ValueError(f"X has {len(series[0])} channel(s), X_test has {len(queries[0])}")
    if targets.max() < 1:
        raise ValueError("y has only one class; a task needs at least two")
