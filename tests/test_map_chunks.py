"""Chunks on several threads: the results are those of one thread, and torch's settings stay as they are."""

import threading

import numpy as np
import pytest
import torch

from nutime import NuTime, NuTimeClassifier
from nutime.threads import map_chunks


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def threads_of_a_new_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_results_are_in_order_and_each_chunk_is_on_one_thread(threads):
    found = list(map_chunks(lambda chunk: (*chunk, torch.get_num_threads()), range(20), 1))
    assert found == [(item, 1) for item in range(20)]
    assert list(map_chunks(lambda chunk: torch.get_num_threads(), range(1), 1)) == [threads]


def test_the_settings_of_other_threads_stay_as_they_are(threads):
    for _ in map_chunks(len, range(9), 1):
        assert torch.get_num_threads() == threads
        break
    assert torch.get_num_threads() == threads_of_a_new_thread() == threads


def test_there_are_no_gradients(threads):
    weight = torch.ones(3, requires_grad=True)
    assert not any(part.requires_grad for part in map_chunks(lambda chunk: chunk[0] * weight, range(4), 1))


def test_an_error_of_a_chunk_is_raised(threads):
    def fail(chunk):
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match=r"chunk range\(0, 1\)"):
        list(map_chunks(fail, range(6), 1))
    assert torch.get_num_threads() == threads_of_a_new_thread() == threads


def test_the_number_of_threads_does_not_change_results(threads):
    X = np.random.default_rng(0).standard_normal((50, 40)).cumsum(1)
    y = X[:, -1] > 0
    embedded = NuTime.from_pretrained("nutime-small").embed(X, pool="upper+conv")
    probabilities = NuTimeClassifier().fit(X, y).predict_proba(X)
    torch.set_num_threads(1)
    np.testing.assert_array_equal(embedded, NuTime.from_pretrained("nutime-small").embed(X, pool="upper+conv"))
    np.testing.assert_allclose(probabilities, NuTimeClassifier().fit(X, y).predict_proba(X), atol=1e-9)


def test_every_thread_has_a_chunk_and_no_chunk_is_larger_than_the_size(threads):
    lengths = list(map_chunks(len, range(10), 4))
    assert (sum(lengths), max(lengths)) == (10, {1: 4, 2: 4, 5: 2}[threads])
    assert len(list(map_chunks(len, range(10), 100))) == threads
