import json
import os
import tracemalloc
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nutime.data.corpus.build import build_corpus, synthesize_corpus
from nutime.data.corpus.store import CORPUS_INDEX, Corpus, CorpusSource, CorpusWriter
from nutime.data.corpus.synthetic import synthesize

REAL = Path(os.environ.get("NUTIME_DATA") or Path(__file__).parents[2].parent / "shared" / "data")
needs_data = pytest.mark.skipif(not (REAL / "catalog.csv").is_file(), reason="no archive data folder")

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _empty_surroundings(tmp_path, monkeypatch):
    monkeypatch.delenv("NUTIME_DATA", raising=False)
    monkeypatch.setenv("NUTIME_CACHE", str(tmp_path / "cache"))


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def write(path, sources, **options):
    with CorpusWriter(path, **options) as writer:
        for name, series in sources.items():
            writer.add(name, series)
    return Corpus.open(path)


def split(flat):
    """The series of a FlatSeries, as arrays."""
    return [
        flat.values[start : start + length].numpy()
        for start, length in zip(flat.starts.tolist(), flat.lengths.tolist(), strict=True)
    ]


def stored(corpus):
    """The series of each source, as arrays."""
    series = split(corpus.flat())
    return {source.name: series[source.first : source.first + source.count] for source in corpus.sources}


def assert_same(series, expected):
    assert len(series) == len(expected)
    for one, other in zip(series, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def sharded(tmp_path):
    """A corpus of several shards and its series."""
    series = [noise(length, seed=length) for length in range(1, 60)]
    return write(tmp_path / "sharded", {"a": series[:20], "b": series[20:]}, shard_bytes=1000), series


# Writing and reading.


@settings(max_examples=30)
@given(
    lengths=st.lists(st.lists(st.integers(1, 50), min_size=1, max_size=8), min_size=1, max_size=4),
    shard_bytes=st.integers(1, 1000),
)
def test_what_is_written_is_read(tmp_path_factory, lengths, shard_bytes):
    sources = {
        f"source {number}": [noise(length, seed=length) for length in counts]
        for number, counts in enumerate(lengths)
    }
    corpus = write(tmp_path_factory.mktemp("round") / "corpus", sources, shard_bytes=shard_bytes)
    assert len(corpus) == sum(map(len, lengths))
    assert [source.values for source in corpus.sources] == [sum(counts) for counts in lengths]
    for name, series in stored(corpus).items():
        assert_same(series, sources[name])


def test_sources_say_where_they_begin(tmp_path):
    corpus = write(tmp_path / "corpus", {"a": noise(3, 10), "b": noise(2, 5)})
    assert corpus.sources == (CorpusSource("a", 0, 3, 30), CorpusSource("b", 3, 2, 10))


def test_tensors_have_the_types_that_crops_expect(sharded):
    flat = sharded[0].flat()
    assert (flat.values.dtype, flat.starts.dtype, flat.lengths.dtype) == (torch.float32, torch.int64, torch.int64)


def test_channels_become_series_of_their_own(tmp_path):
    X = noise(4, 3, 20)
    assert_same(stored(write(tmp_path / "corpus", {"a": X}))["a"], X.reshape(12, 20))


def test_padding_is_trimmed_and_missing_values_are_interpolated(tmp_path):
    series = [np.nan, 1.0, np.nan, 3.0, np.nan]
    assert_same(stored(write(tmp_path / "corpus", {"a": [series]}))["a"], [[1.0, 2.0, 3.0]])


def test_shards_are_written_while_series_still_come(tmp_path):
    seen = []

    def series():
        for _ in range(30):
            seen.append(len(list(tmp_path.glob(".corpus.*/new/shard-*.arrow"))))
            yield noise(100)

    write(tmp_path / "corpus", {"a": series()}, shard_bytes=4000)
    assert seen == [max(0, count - 1) // 10 for count in range(30)]


def test_memory_does_not_grow_with_the_corpus(tmp_path):
    write(tmp_path / "warm", {"a": noise(1, 9)})
    tracemalloc.start()
    write(tmp_path / "corpus", {"a": (noise(10_000) for _ in range(500))}, shard_bytes=400_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000  # of 20 MB written


def test_a_series_larger_than_a_shard_has_its_own(tmp_path):
    corpus = write(tmp_path / "corpus", {"a": [noise(5), noise(5000), noise(5)]}, shard_bytes=100)
    assert corpus.flat().lengths.tolist() == [5, 5000, 5]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"big": [[1.0, 2.0], [0.0, -1e39]]}, r"big: series 1: has values beyond ±3.40282e\+38.*rescale"),
        ({"odd": [[1.0], [2.0], [np.inf]]}, "odd: series 2: infinite value"),
        ({}, "no series to write"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(tmp_path, sources, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "corpus", sources)


def test_a_source_is_not_added_twice(tmp_path):
    with CorpusWriter(tmp_path / "corpus") as writer:
        writer.add("a", noise(2, 5))
        with pytest.raises(ValueError, match="'a' was added before"):
            writer.add("a", noise(2, 5))


# All or nothing.


def test_a_failing_source_leaves_nothing_behind(tmp_path):
    def breaks():
        yield from noise(50, 100)
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        write(tmp_path / "corpus", {"good": noise(50, 100), "bad": breaks()}, shard_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused(tmp_path):
    write(tmp_path / "corpus", {"a": noise(2, 5)})
    with pytest.raises(ValueError, match="exists already"):
        write(tmp_path / "corpus", {"b": noise(2, 5)})
    assert [source.name for source in Corpus.open(tmp_path / "corpus").sources] == ["a"]


def test_a_corpus_is_replaced_on_demand(tmp_path):
    write(tmp_path / "corpus", {"a": noise(9, 50)}, shard_bytes=400)
    corpus = write(tmp_path / "corpus", {"b": noise(2, 5)}, overwrite=True)
    assert [source.name for source in corpus.sources] == ["b"]
    assert sorted(path.name for path in corpus.path.iterdir()) == ["corpus.json", "shard-00000.arrow"]
    assert list(tmp_path.iterdir()) == [corpus.path]


def test_a_failing_replacement_leaves_the_old_corpus(tmp_path):
    write(tmp_path / "corpus", {"a": noise(2, 5)})
    with pytest.raises(ValueError, match="infinite"):
        write(tmp_path / "corpus", {"b": [[np.inf]]}, overwrite=True)
    assert [source.name for source in Corpus.open(tmp_path / "corpus").sources] == ["a"]


def test_what_is_no_corpus_is_never_replaced(tmp_path):
    precious = tmp_path / "home" / "thesis.txt"
    precious.parent.mkdir()
    precious.write_text("all of it")
    with pytest.raises(ValueError, match="is not a corpus"):
        write(precious.parent, {"a": noise(2, 5)}, overwrite=True)
    assert precious.read_text() == "all of it"


# Opening.


def test_a_missing_shard_is_named(sharded):
    corpus, _ = sharded
    (corpus.path / "shard-00002.arrow").unlink()
    with pytest.raises(ValueError, match=r"shard-00002\.arrow: is missing"):
        Corpus.open(corpus.path)


def test_a_truncated_shard_is_named(sharded):
    corpus, _ = sharded
    shard = corpus.path / "shard-00001.arrow"
    size = shard.stat().st_size
    os.truncate(shard, size - 8)
    with pytest.raises(ValueError, match=rf"shard-00001\.arrow: has {size - 8} bytes instead of {size}"):
        Corpus.open(corpus.path)


def test_opening_does_not_read_the_shards(sharded):
    corpus, _ = sharded
    shard = corpus.path / "shard-00000.arrow"
    shard.write_bytes(bytes(shard.stat().st_size))
    reopened = Corpus.open(corpus.path)
    assert reopened.sources == corpus.sources
    with pytest.raises(ValueError, match=r"shard-00000\.arrow: is damaged"):
        reopened.flat()


def test_a_newer_format_asks_for_an_update(sharded):
    index = sharded[0].path / CORPUS_INDEX
    index.write_text(json.dumps(json.loads(index.read_text()) | {"format": 2}))
    with pytest.raises(ValueError, match="format 2 is newer than this nutime reads; update nutime"):
        Corpus.open(index.parent)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": "x"}', '{"format": 1, "sources": [{}]}', "\xff"]
)
def test_a_damaged_index_is_one_line(tmp_path, content):
    (tmp_path / CORPUS_INDEX).write_bytes(content.encode("latin-1"))
    with pytest.raises(ValueError, match=r"corpus\.json: is damaged"):
        Corpus.open(tmp_path)


def test_a_folder_without_an_index_is_no_corpus(tmp_path):
    with pytest.raises(ValueError, match=r"corpus\.json: not found"):
        Corpus.open(tmp_path)


# Taking series out.


def test_one_shard_is_mapped_and_not_copied(tmp_path):
    corpus = write(tmp_path / "corpus", {"a": noise(2, 5)})
    assert corpus.flat().values.data_ptr() == corpus.flat().values.data_ptr()


def test_writing_to_a_mapped_tensor_does_not_change_the_file(tmp_path):
    corpus = write(tmp_path / "corpus", {"a": noise(2, 5)})
    corpus.flat().values.zero_()
    assert_same(split(Corpus.open(corpus.path).flat()), noise(2, 5))


@pytest.mark.parametrize(
    "indices",
    [
        [0],
        [58, 3, 3, 40, 0],
        np.arange(59),
        slice(5, 50, 7),
        np.arange(59) % 3 == 1,
        [-1],
        [],
        torch.tensor([4, 2]),
    ],
    ids=str,
)
def test_take_gives_the_series_asked_for_in_that_order(sharded, indices):
    corpus, series = sharded
    expected = np.arange(59)[np.asarray(indices, int) if isinstance(indices, list) else indices]
    assert_same(split(corpus.take(indices)), [series[index] for index in expected])
    assert corpus.lengths(indices).tolist() == [len(series[index]) for index in expected]


def test_taking_what_is_not_there_is_an_error(sharded):
    with pytest.raises(IndexError):
        sharded[0].take([59])


def test_longest(sharded):
    assert sharded[0].longest == 59


# What describes it.


def test_description(tmp_path):
    series = [np.zeros(4), *(scale * np.resize((1, -1), 10) for scale in (1e-3, 0.9, 1.1, 1e5))]
    description = write(tmp_path / "corpus", {"a": series}).describe()
    assert description["sources"] == [{"name": "a", "first": 0, "count": 5, "values": 44}]
    assert (description["series"], description["values"]) == (5, 44)
    assert description["scale_histogram"] == {"zero": 1, "1e-3": 1, "1e+0": 2, "1e+5": 1}
    assert description["length_quantiles"]["0%"] == 4
    assert description["length_quantiles"]["50%"] == 10
    assert json.loads(json.dumps(description)) == description


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20))
@settings(max_examples=20)
def test_length_quantiles_are_lengths_that_occur(tmp_path_factory, lengths):
    corpus = write(tmp_path_factory.mktemp("quantiles") / "corpus", {"a": [np.ones(length) for length in lengths]})
    quantiles = corpus.describe()["length_quantiles"]
    expected = [np.quantile(lengths, q, method="lower") for q in (0, 0.05, 0.25, 0.5, 0.75, 0.95, 1)]
    assert list(quantiles.values()) == expected


# Building: what enters. Values above zero are for training, the others must never be seen again.


def positive(*shape):
    return np.abs(noise(*shape)) + 1


def negative(*shape, seed=1):
    return -np.abs(noise(*shape, seed=seed)) - 1


def write_rows(path, X):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(["1", *map(str, row)]) + "\n" for row in X))


def published(folder):
    for suffix in (".tsv", ".txt"):
        write_rows(folder / f"UCR/Mine/Mine_TRAIN{suffix}", positive(3, 20))
        write_rows(folder / f"UCR/Mine/Mine_TEST{suffix}", negative(3, 20))
    write_rows(folder / "UCR/Mine/MineDimension1_TRAIN.txt", positive(3, 20))
    write_rows(folder / "UCR/Mine/MineDimension1_TEST.txt", negative(3, 20, seed=2))


def arrays(folder):
    (folder / "UCR").mkdir()
    held_out = {
        f"X_{name}": negative(2, 20, seed=seed) for seed, name in enumerate(("test", "val", "other_test"), 1)
    }
    np.savez(folder / "UCR" / "Mine.npz", X_train=positive(3, 20), y_train=np.arange(3), **held_out)


def tfc(folder):
    (folder / "UCR/Mine").mkdir(parents=True)
    parts = {"train": positive(3, 1, 20), "val": negative(2, 1, 20), "test": negative(2, 1, 20, seed=2)}
    for name, X in parts.items():
        content = {"samples": torch.from_numpy(X), "labels": torch.zeros(len(X))}
        torch.save(content, folder / f"UCR/Mine/{name}.pt")


def plain(folder):
    write_rows(folder / "UCR/Mine.tsv", positive(3, 20))
    write_rows(folder / "UCR/Mine-test.tsv", negative(3, 20))
    write_rows(folder / "UCR/Mine_validation.tsv", negative(3, 20, seed=2))


@pytest.mark.parametrize("layout", [published, arrays, tfc, plain])
def test_only_training_splits_of_a_folder_enter_and_they_do_once(tmp_path, layout):
    layout(tmp_path)
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert corpus.sources == (CorpusSource("UCR/Mine", 0, 3, 60),)
    assert corpus.flat().values.min() > 0


def test_folders_of_test_and_validation_series_are_held_out(tmp_path):
    parts = {"train": positive(3, 20), "test": negative(2, 20), "Validation": negative(2, 20, seed=2)}
    for name, X in parts.items():
        write_rows(tmp_path / name / "UCR" / "Mine.tsv", X)
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert corpus.sources == (CorpusSource("train/UCR/Mine", 0, 3, 60),)
    assert corpus.describe()["repeats"]["series_compared"] == 4


def test_an_array_without_splits_enters_whole(tmp_path):
    np.savez(tmp_path / "mine.npz", X=noise(4, 2, 30), y=np.arange(4))
    assert_same(stored(build_corpus([tmp_path], tmp_path / "corpus"))["mine"], noise(8, 30))


def test_members_of_an_archive_that_are_no_arrays_are_no_splits(tmp_path):
    np.savez(tmp_path / "mine.npz", X_train=noise(4, 30))
    with ZipFile(tmp_path / "mine.npz", "a") as archive:
        archive.writestr("X_columns.txt", "volt")
    assert_same(stored(build_corpus([tmp_path], tmp_path / "corpus"))["mine"], noise(4, 30))


@pytest.mark.parametrize(("series", "labels"), [("X", "y"), ("data", "labels")])
def test_a_labelled_benchmark_without_splits_is_held_out(tmp_path, series, labels):
    np.savez(tmp_path / "EMG.npz", **{series: noise(4, 100), labels: np.arange(4)})
    np.savez(tmp_path / "mine.npz", X=noise(6, 100))
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert_same(stored(corpus)["mine"], noise(6, 100)[4:])
    assert corpus.describe()["repeats"]["details"] == [{"source": "mine", "repeats": "EMG", "series": 4}]


def test_files_of_any_format_are_sources(tmp_path):
    np.save(tmp_path / "one.npy", noise(2, 20))
    (tmp_path / "two.csv").write_text("1.5,2.5\n3.5,4.5\n")
    corpus = build_corpus([tmp_path / "one.npy", str(tmp_path / "two.csv")], tmp_path / "corpus")
    assert {name: len(series) for name, series in stored(corpus).items()} == {"one": 2, "two": 2}


def test_a_file_given_twice_enters_once(tmp_path):
    np.save(tmp_path / "one.npy", noise(2, 20))
    assert len(build_corpus([tmp_path, tmp_path / "one.npy", tmp_path], tmp_path / "corpus")) == 2


def test_files_of_one_name_are_two_sources(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "one.npy", noise(2, 20))
    corpus = build_corpus([tmp_path / "a", tmp_path / "b"], tmp_path / "corpus")
    assert [source.name for source in corpus.sources] == ["one", "one (2)"]


def test_documentation_in_a_folder_is_skipped_and_listed(tmp_path):
    np.save(tmp_path / "one.npy", noise(2, 20))
    (tmp_path / "catalog.csv").write_text("name,licence\nCoffee,none\n")
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert [source.name for source in corpus.sources] == ["one"]
    assert [skipped["name"] for skipped in corpus.describe()["skipped"]] == ["catalog"]


@pytest.mark.parametrize("name", ["mine.npy", "mine.npz", "mine.tsv", "Mine_TRAIN.txt"])
def test_a_file_that_is_no_documentation_is_not_skipped(tmp_path, name):
    np.save(tmp_path / "one.npy", noise(2, 20))
    (tmp_path / name).write_text("no series at all\n")
    with pytest.raises(ValueError, match=name):
        build_corpus([tmp_path], tmp_path / "corpus")


def test_a_file_that_breaks_off_fails_the_build_and_leaves_nothing(tmp_path):
    source = tmp_path / "data" / "mine.csv"
    source.parent.mkdir()
    source.write_text("1,2\n" * 50 + "1,x\n")
    with pytest.raises(ValueError, match=r"mine\.csv:51: "):
        build_corpus([source.parent], tmp_path / "corpus")
    assert list(tmp_path.iterdir()) == [source.parent]


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (["nowhere/at/all"], "nowhere/at/all: no such file or folder, and no archive has a set"),
        ([Path("nowhere")], "nowhere: no such file or folder"),
        (["GunPont"], "closest names: GunPoint"),
        (["Mine_TEST.tsv"], r"Mine_TEST\.tsv: nothing to train on; it holds only test"),
        (["empty"], "nothing to train on; it holds no file with one of the suffixes"),
        ([], "no source given"),
    ],
)
def test_sources_without_training_series_are_refused(tmp_path, monkeypatch, sources, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    write_rows(tmp_path / "Mine_TEST.tsv", noise(2, 20))
    with pytest.raises(ValueError, match=message):
        build_corpus(sources, tmp_path / "corpus")


def test_a_pattern_of_files_is_one_series_per_file(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("time,x,y\n0,1,2\n1,3,4\n")
    corpus = build_corpus([f"{tmp_path}/*.csv"], tmp_path / "corpus")
    assert len(corpus) == 4
    assert corpus.lengths(slice(None)).tolist() == [2, 2, 2, 2]


def test_every_split_read_is_reported(tmp_path):
    reported = []
    arrays(tmp_path)
    build_corpus([tmp_path], tmp_path / "corpus", report=lambda *counts: reported.append(counts))
    assert reported == [(done, 4) for done in range(5)]


# Building: repeats.


def test_planted_repeats_are_dropped_and_reported(tmp_path):
    walks = np.cumsum(noise(6, 400), axis=1)
    np.savez(tmp_path / "Bench.npz", X_train=walks[:1], X_test=walks[1:4])
    short = np.stack([np.interp(np.linspace(0, 399, 300), np.arange(400), walk) for walk in walks])
    np.save(tmp_path / "mine.npy", [short[0], 30 - 2 * short[1], short[4], 1e3 * short[2], short[5]])
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert_same(stored(corpus)["mine"], short[[0, 4, 5]].astype(np.float32))
    report = corpus.describe()["repeats"]
    assert report["dropped"] == 2
    assert report["details"] == [{"source": "mine", "repeats": "Bench", "series": 2}]


def test_the_tests_of_the_data_folder_count_even_if_it_is_no_source(tmp_path, monkeypatch):
    archive = tmp_path / "archive"
    (archive / "ucr").mkdir(parents=True)
    np.savez(archive / "ucr" / "Coffee.npz", X_train=noise(2, 50, seed=1), X_test=noise(2, 50))
    np.save(tmp_path / "mine.npy", noise(5, 50))
    assert len(build_corpus([tmp_path / "mine.npy"], tmp_path / "without")) == 5
    assert len(build_corpus([tmp_path / "mine.npy"], tmp_path / "with", data_dir=archive)) == 3
    monkeypatch.setenv("NUTIME_DATA", str(archive))
    assert len(build_corpus([tmp_path / "mine.npy"], tmp_path / "environment")) == 3


def test_a_source_of_repeats_alone_is_reported_and_not_listed(tmp_path):
    np.savez(tmp_path / "Bench.npz", X_train=noise(1, 50, seed=1), X_test=noise(3, 50))
    np.save(tmp_path / "copy.npy", noise(3, 50))
    corpus = build_corpus([tmp_path], tmp_path / "corpus")
    assert [source.name for source in corpus.sources] == ["Bench"]
    assert corpus.describe()["repeats"]["dropped"] == 3


def test_repeats_alone_make_no_corpus(tmp_path):
    np.savez(tmp_path / "Bench.npz", X_train=noise(3, 50), X_test=noise(3, 50))
    with pytest.raises(ValueError, match="no series left to write: every training series repeats a test series"):
        build_corpus([tmp_path], tmp_path / "corpus")


# Building: archives by name.


def test_sets_bundled_with_aeon_are_sources_by_name(tmp_path):
    pytest.importorskip("aeon")
    corpus = build_corpus(["GunPoint", "BasicMotions"], tmp_path / "corpus")
    assert corpus.sources == (CorpusSource("GunPoint", 0, 50, 7500), CorpusSource("BasicMotions", 50, 240, 24000))
    assert corpus.describe()["repeats"]["splits_compared"] == 2


def test_a_set_that_is_nowhere_is_an_error_by_name_and_skipped_in_an_archive(tmp_path):
    archive = tmp_path / "archive"
    (archive / "extra").mkdir(parents=True)
    np.savez(archive / "extra" / "Gesture.npz", X_train=noise(320, 3, 30), y_train=np.arange(320) % 8)
    corpus = build_corpus(["tfc"], tmp_path / "corpus", data_dir=archive)
    assert [source.name for source in corpus.sources] == ["Gesture"]
    assert "SleepEEG" in {skipped["name"] for skipped in corpus.describe()["skipped"]}
    with pytest.raises(ValueError, match="SleepEEG: not found"):
        build_corpus(["SleepEEG", "Gesture"], tmp_path / "other", data_dir=archive)


@needs_data
def test_known_repeats_of_the_archives_are_found_and_their_lookalikes_stay(tmp_path):
    sets = ("extra/Gesture", "uea/UWaveGestureLibrary", "ucr/UWaveGestureLibraryX", "ucr/UWaveGestureLibraryAll")
    lookalikes = ("ucr/OliveOil", "ucr/Wine", "ucr/Coffee", "ucr/ItalyPowerDemand")
    corpus = build_corpus([REAL / f"{name}.npz" for name in (*sets, *lookalikes)], tmp_path / "corpus")
    found = {(row["source"], row["repeats"]): row["series"] for row in corpus.describe()["repeats"]["details"]}
    assert found == {
        ("Gesture", "UWaveGestureLibrary"): 960,  # train and test exchanged
        ("UWaveGestureLibrary", "Gesture"): 360,
        ("UWaveGestureLibraryX", "UWaveGestureLibrary"): 57,
        ("UWaveGestureLibraryX", "Gesture"): 22,
        ("UWaveGestureLibraryAll", "UWaveGestureLibrary"): 57,
        ("UWaveGestureLibraryAll", "Gesture"): 22,
    }


# Synthetic series.


def test_a_synthetic_corpus_holds_the_series_of_its_seed(tmp_path):
    corpus = synthesize_corpus(300, tmp_path / "corpus", length=40, seed=5)
    assert corpus.sources == (CorpusSource("synthetic", 0, 300, 12_000),)
    assert_same(split(corpus.flat()), synthesize(300, 40, seed=5))


def test_a_corpus_can_be_a_source_of_another(tmp_path):
    synthetic = synthesize_corpus(30, tmp_path / "synthetic", length=20)
    (tmp_path / "mine.csv").write_text("a,b,c,d\n1,2,3,4\n4,3,1,1\n")
    merged = build_corpus([tmp_path / "mine.csv", synthetic.path], tmp_path / "merged")
    assert [(source.name, source.count) for source in merged.sources] == [("mine", 2), ("synthetic", 30)]
    torch.testing.assert_close(merged.take(slice(2, None)).values, synthetic.flat().values, rtol=0, atol=0)
