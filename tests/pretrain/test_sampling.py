import numpy as np
import pytest
import torch

from nutime.model.noise import Noise
from nutime.pretrain.sampling import ResidentCorpus, Sampler, StreamedCorpus, load_corpus, source_shares

CPU = torch.device("cpu")


def noise(count, seed=0):
    return Noise(torch.tensor(seed, dtype=torch.int32), torch.arange(count, dtype=torch.int32))


@pytest.mark.parametrize(
    ("sampling", "expected"), [("size", [0.1, 0.9]), ("sqrt", [0.25, 0.75]), ("uniform", [0.5, 0.5])]
)
def test_sources_are_drawn_by_size_by_its_root_or_uniformly(sampling, expected):
    counts = np.array([1000, 9000])
    shares = source_shares(counts, sampling)
    np.testing.assert_allclose(shares, expected)
    sampler = Sampler(None, torch.tensor([0, 1000]), torch.from_numpy(counts), torch.from_numpy(shares.cumsum()))
    drawn = sampler.draw(noise(20_000)).numpy()
    assert np.mean(drawn < 1000) == pytest.approx(expected[0], abs=0.02)
    assert drawn.min() >= 0
    assert drawn.max() < 10_000
    assert len(np.unique(drawn)) > 4000


def test_a_corpus_that_fits_is_resident_and_one_that_does_not_is_streamed(corpus):
    arguments = {"sampling": "size", "device": CPU, "batch": 8, "seed": 0}
    fits, streamed = (load_corpus(corpus, budget=budget, **arguments) for budget in (10**9, 20_000))
    assert isinstance(fits, ResidentCorpus)
    assert isinstance(streamed, StreamedCorpus)
    streamed.close()


def test_a_budget_of_0_is_not_the_default(corpus):
    with pytest.raises(ValueError, match="a subset of 0 values cannot hold"):
        load_corpus(corpus, "size", CPU, batch=8, seed=0, budget=0)


@pytest.fixture
def streaming(corpus):
    data = StreamedCorpus(corpus, "size", CPU, subset_values=4000, batch=8, seed=0)
    yield data
    data.close()


def series_of(sampler):
    series = sampler.series
    return [series.values[s : s + n].clone() for s, n in zip(series.starts, series.lengths, strict=True)]


def test_every_subset_is_made_of_series_of_the_corpus(streaming, corpus):
    flat = corpus.flat()
    known = {values.numpy().tobytes() for values in flat.values.split(flat.lengths.tolist())}
    for step in (0, 5, 10):
        streaming.prepare(step)
        count = int(streaming.sampler.count)
        assert count > 10
        assert all(values.numpy().tobytes() in known for values in series_of(streaming.sampler)[:count])


def test_subsets_change_and_depend_on_the_step_alone(streaming):
    streaming.prepare(0)
    first = torch.stack(series_of(streaming.sampler))
    streaming.prepare(50)
    later = torch.stack(series_of(streaming.sampler))
    streaming.prepare(0)
    assert not torch.equal(first, later)
    assert torch.equal(first, torch.stack(series_of(streaming.sampler)))


def test_series_drawn_from_a_subset_are_found_in_the_corpus(streaming, corpus):
    streaming.prepare(50)
    drawn = streaming.sampler.draw(noise(20))
    flat = corpus.flat()
    in_corpus = flat.values.split(flat.lengths.tolist())
    in_subset = series_of(streaming.sampler)
    for here, there in zip(drawn, streaming.corpus_indices(drawn), strict=True):
        assert torch.equal(in_subset[here], in_corpus[there])
