"""Few-shot learning: what a handful of labelled series a class are worth (paper, Section 4.3).

An episode is a new task with a fresh model: some series of every class are drawn from the training series, a model
that starts from the encoder is fine-tuned on them alone, and it answers for the test series of these classes.
Unusual here: a group of episodes is one program, the stacked models of :mod:`~nutime.finetune.train`. How many
are trained together changes time and memory; an episode depends on the seed and its number only.

The paper states 5 shots and 100 episodes, and follows Narwariya et al. (2020, arXiv:1909.07155), whose tasks have
as many classes as their data set. So here: all classes unless ``ways`` says otherwise, shots from the training
split, and the whole test split as queries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nutime.data.series import Array, as_series
from nutime.encoder import NuTime
from nutime.estimators.base import Float64, TrainingSet
from nutime.finetune.finetuned import FineTuned
from nutime.finetune.train import FinetuneConfig, Trainer

#: Episodes trained together: each takes about 50 MB of parameters and moments with the paper's network.
GROUPS = {"cpu": 20, "mps": 20, "cuda": 100}


def few_shot(
    encoder: NuTime,
    X: Any,
    y: Any,
    X_test: Any,
    y_test: Any,
    *,
    shots: int = 5,
    episodes: int = 100,
    ways: int | None = None,
    seed: int = 0,
    **params: Any,
) -> Float64:
    """Return the accuracy of every episode, ``(episodes,)``.

    Args:
        encoder: where every model starts; it stays as it is.
        X: series to draw the shots from, in any form of :mod:`nutime.data.series`.
        y: their labels.
        X_test: series every episode is asked about.
        y_test: their labels, each of which must occur in ``y``.
        shots: series drawn of every class; one that has fewer gives all it has, some of them again.
        episodes: tasks drawn.
        ways: classes of a task, drawn anew in each; all of them unless given.
        seed: of tasks and models; fewer episodes are the first ones of more.
        params: those of :class:`~nutime.finetune.train.FinetuneConfig`, but for ``n_models`` and ``validation``.
    """
    series, queries = as_series(X), as_series(X_test)
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    truth = _encode(np.asarray(y_test), classes)
    _check(series, codes, queries, truth, shots, episodes)
    tasks = [_draw_task(codes, truth, shots, ways, np.random.default_rng([seed, n])) for n in range(episodes)]
    model_seed = int(np.random.default_rng(seed).integers(2**31))
    accuracies = []
    size = GROUPS[encoder.device.type]
    for first in range(0, episodes, size):
        group = tasks[first : first + size]
        places = np.stack([place for place, _ in group])
        models = _train(
            encoder,
            TrainingSet(series, places[:, codes], np.ones(len(series)), np.ones(int(places.max()) + 1)),
            np.stack([members for _, members in group]),
            FinetuneConfig(n_models=len(group), **params),
            model_seed,
            first,
        )
        wanted = places[:, truth]
        right = (models.probabilities(encoder, queries).argmax(-1) == wanted).sum(1)
        accuracies.append(right / (wanted >= 0).sum(1))
    return np.concatenate(accuracies)


def _draw_task(
    codes: NDArray[np.intp], truth: NDArray[np.intp], shots: int, ways: int | None, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return each class's place in the task (−1: not in it), and the series drawn."""
    classes = int(codes.max()) + 1
    chosen = np.arange(classes)
    if ways is not None:
        asked = np.unique(truth)
        if not 2 <= ways <= len(asked):
            raise ValueError(f"ways must be 2 … {len(asked)}, the classes of the test series; got {ways!r}")
        chosen = rng.choice(asked, ways, replace=False)
    place = np.full(classes, -1)
    place[chosen] = np.arange(len(chosen))
    members = [np.resize(rng.permutation(np.flatnonzero(codes == code)), shots) for code in chosen]
    return place, np.concatenate(members)


def _train(
    encoder: NuTime,
    data: TrainingSet,
    members: NDArray[np.intp],
    config: FinetuneConfig,
    seed: int,
    first: int,
) -> FineTuned:
    if config.validation:
        raise ValueError("few-shot models learn from all their shots: validation must be 0")
    trainer = Trainer(encoder, data, config, seed, members=members, first=first)
    trainer.run()
    return FineTuned(*trainer.result())


def _encode(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    unknown = classes[codes] != labels
    if unknown.any():
        raise ValueError(f"y_test has the label {labels[unknown][0]}, which y does not have")
    return codes


def _check(
    series: list[Array],
    codes: NDArray[np.intp],
    queries: list[Array],
    truth: NDArray[np.intp],
    shots: int,
    episodes: int,
) -> None:
    for name, given, labels in (("X", series, codes), ("X_test", queries, truth)):
        if len(given) != len(labels):
            raise ValueError(f"{name} has {len(given)} series and {len(labels)} labels; expected one label each")
    if len(series[0]) != len(queries[0]):
        raise ValueError(f"X has {len(series[0])} channel(s), X_test has {len(queries[0])}")
    if codes.max() < 1:
        raise ValueError("y has one class only; a task needs at least two")
    for name, value in (("shots", shots), ("episodes", episodes)):
        if value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}")
