import numpy as np
import pytest
import torch

from nutime.model.noise import Noise
from nutime.pretrain.sampling import Pool, ResidentPool, StreamingPool, pool_for, source_shares

CPU = torch.device("cpu")


def noise(count, seed=0):
    return Noise(torch.tensor(seed, dtype=torch.int32), torch.arange(count, dtype=torch.int32))


@pytest.mark.parametrize(
    ("sampling", "expected"), [("size", [0.1, 0.9]), ("sqrt", [0.25, 0.75]), ("uniform", [0.5, 0.5])]
)
def test_sources_are_drawn_by_size_by_its_root_or_alike(sampling, expected):
    counts = np.array([1000, 9000])
    shares = source_shares(counts, sampling)
    np.testing.assert_allclose(shares, expected)
    pool = Pool(None, torch.tensor([0, 1000]), torch.from_numpy(counts), torch.from_numpy(shares.cumsum()))
    drawn = pool.draw(noise(20_000)).numpy()
    assert np.mean(drawn < 1000) == pytest.approx(expected[0], abs=0.02)
    assert drawn.min() >= 0
    assert drawn.max() < 10_000
    assert len(np.unique(drawn)) > 4000


def test_a_corpus_that_fits_is_resident_and_one_that_does_not_is_streamed(corpus):
    arguments = {"sampling": "size", "device": CPU, "batch": 8, "seed": 0}
    fits, streamed = (pool_for(corpus, room=room, **arguments) for room in (10**9, 20_000))
    assert isinstance(fits, ResidentPool)
    assert isinstance(streamed, StreamingPool)
    streamed.close()


@pytest.fixture
def streaming(corpus):
    pool = StreamingPool(corpus, "size", CPU, part_values=4000, batch=8, seed=0)
    yield pool
    pool.close()


def series_of(pool):
    series = pool.series
    return [series.values[s : s + n].clone() for s, n in zip(series.starts, series.lengths, strict=True)]


def test_every_part_is_made_of_series_of_the_corpus(streaming, corpus):
    flat = corpus.flat()
    known = {values.numpy().tobytes() for values in flat.values.split(flat.lengths.tolist())}
    for step in (0, 5, 10):
        streaming.prepare(step)
        count = int(streaming.pool.count)
        assert count > 10
        assert all(values.numpy().tobytes() in known for values in series_of(streaming.pool)[:count])


def test_parts_change_and_depend_on_the_step_alone(streaming):
    streaming.prepare(0)
    first = torch.stack(series_of(streaming.pool))
    streaming.prepare(50)
    later = torch.stack(series_of(streaming.pool))
    streaming.prepare(0)
    assert not torch.equal(first, later)
    assert torch.equal(first, torch.stack(series_of(streaming.pool)))
