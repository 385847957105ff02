import csv
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nutime.data.archives import ARCHIVE, available, bundled_sets, draw_splits, find_set, load_dataset, sublist

SHARED = Path(__file__).parents[2].parent / "shared"
REAL = Path(os.environ.get("NUTIME_DATA") or SHARED / "data")
needs_data = pytest.mark.skipif(not (REAL / "catalog.csv").is_file(), reason="no archive data folder")
needs_paper = pytest.mark.skipif(not (SHARED / "paper").is_dir(), reason="no tables of the paper")

PAPER_TABLES = {
    "ucr112": "ucr112_supervised.csv",
    "ucr125": "ucr125_selfsupervised.csv",
    "uea26": "uea26_supervised.csv",
    "uea29": "uea29_selfsupervised.csv",
    "fewshot41": "fewshot41.csv",
}

HEADERS = {
    ".ts": ["@timeStamps false", "@univariate true", "@equalLength true", "@classLabel true 1 2", "@data"],
    ".arff": [
        "@relation Chinatown",
        *(f"@attribute att{point} numeric" for point in range(24)),
        "@attribute target {1,2}",
        "@data",
    ],
}


@pytest.fixture(autouse=True)
def _empty_surroundings(tmp_path, monkeypatch):
    monkeypatch.delenv("NUTIME_DATA", raising=False)
    monkeypatch.setenv("NUTIME_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def series(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def labels(n, classes=2):
    return (np.arange(n) % classes + 1).astype(str)


def write_npz(path, **arrays):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)


def chinatown(train=20, test=343):
    arrays = {"X_train": series(train, 24), "y_train": labels(train)}
    return arrays | ({"X_test": series(test, 24), "y_test": labels(test)} if test else {})


def write_lines(path, X, y, row):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [row(",".join(f"{v:.8g}" for v in values), label) for values, label in zip(X, y, strict=True)]
    path.write_text("\n".join([*HEADERS.get(path.suffix, []), *lines, ""]))


# ---- the table ----------------------------------------------------------------------------------------


def test_there_are_128_ucr_30_uea_and_8_tfc_sets():
    archives = [entry.archive for entry in ARCHIVE.values()]
    assert [archives.count(name) for name in ("ucr", "uea", "tfc")] == [128, 30, 8]


def test_ucr_training_splits_add_up_to_the_number_of_the_paper():
    assert sum(ARCHIVE[key].train for key in sublist("ucr128")) == 60_555


def test_uea_training_channels_without_two_sets_add_up_to_the_number_of_the_paper():
    counted = set(sublist("uea30")) - {"EigenWorms", "InsectWingbeat"}
    assert sum(ARCHIVE[key].train * ARCHIVE[key].channels for key in counted) == 1_386_874


@pytest.mark.parametrize("name", ["ucr112", "ucr125", "ucr128", "uea26", "uea29", "uea30"])
def test_sublist_has_as_many_sets_as_its_name_says(name):
    assert len(sublist(name)) == int(name[3:])


def test_fewshot_list_has_the_forty_sets_printed_in_the_paper():
    assert len(sublist("fewshot41")) == 40


@needs_paper
@pytest.mark.parametrize("name", PAPER_TABLES)
def test_sublist_is_the_table_of_the_paper(name):
    with (SHARED / "paper" / PAPER_TABLES[name]).open() as table:
        printed = [row["Dataset"] for row in csv.DictReader(table)]
    # One name is cut short in the few-shot table, and every table ends with its average.
    printed = [item + "t" if item.endswith("OutlineCorrec") else item for item in printed[:-1]]
    assert [ARCHIVE[key].name for key in sublist(name)] == printed


def test_sets_of_ucr112_have_equal_length():
    assert all(ARCHIVE[key].equal_length for key in sublist("ucr112"))


def test_names_are_those_that_aeon_downloads():
    names = pytest.importorskip("aeon.datasets.tsc_datasets")
    if not hasattr(names, "UCR2019"):
        pytest.skip("this aeon has other lists of names")
    assert {ARCHIVE[key].name for key in sublist("ucr128")} == set(names.UCR2019)
    assert {ARCHIVE[key].name for key in sublist("uea30")} == set(names.UEA)


def test_unknown_sublist_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="known are fewshot41, ucr112"):
        sublist("ucr85")


# ---- names --------------------------------------------------------------------------------------------


def test_every_key_finds_its_own_set():
    assert all(find_set(key) is entry for key, entry in ARCHIVE.items())


def test_archive_may_stand_before_any_name():
    assert find_set("ucr/GunPoint") is find_set("GunPoint")


def test_name_in_two_archives_asks_for_the_archive():
    with pytest.raises(ValueError, match="uea/Epilepsy or tfc/Epilepsy"):
        find_set("Epilepsy")


def test_archive_before_an_ambiguous_name_decides():
    assert (find_set("uea/Epilepsy").channels, find_set("tfc/Epilepsy").channels) == (3, 1)


def test_published_name_leaves_out_the_archive():
    assert find_set("uea/Epilepsy").name == "Epilepsy"


def test_unknown_name_suggests_the_closest_three():
    with pytest.raises(ValueError, match="closest names: GunPoint, ") as caught:
        find_set("gun_point")
    assert str(caught.value).count(",") == 2


@given(st.text().filter(lambda name: name not in ARCHIVE and "/" not in name and name != "Epilepsy"))
def test_any_unknown_name_gives_one_line(name):
    with pytest.raises(ValueError, match="no archive has a set called") as caught:
        find_set(name)
    assert len(str(caught.value).splitlines()) == 1


# ---- layouts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["ucr/Chinatown.npz", "Chinatown.npz"])
def test_npz_is_found(folder, place):
    arrays = chinatown()
    write_npz(folder / place, **arrays)
    loaded = load_dataset("Chinatown", data_dir=folder)
    for field, expected in arrays.items():
        np.testing.assert_array_equal(getattr(loaded, field), expected)


def test_environment_names_the_folder(folder, monkeypatch):
    write_npz(folder / "ucr/Chinatown.npz", **chinatown())
    monkeypatch.setenv("NUTIME_DATA", str(folder))
    assert load_dataset("Chinatown").X_test.shape == (343, 24)


@pytest.mark.parametrize("home", ["Chinatown", "UCRArchive_2018/Chinatown"])
@pytest.mark.parametrize(
    ("suffix", "row"),
    [
        (".ts", lambda values, label: f"{values}:{label}"),
        (".tsv", lambda values, label: f"{label}\t" + values.replace(",", "\t")),
        (".txt", lambda values, label: f"  {label}  " + values.replace(",", "  ")),
        (".arff", lambda values, label: f"{values},{label}"),
    ],
)
def test_published_text_layout_is_found(folder, home, suffix, row):
    arrays = chinatown()
    for split in ("train", "test"):
        path = folder / home / f"Chinatown_{split.upper()}{suffix}"
        write_lines(path, arrays[f"X_{split}"], arrays[f"y_{split}"], row)
    loaded = load_dataset("Chinatown", data_dir=folder)
    np.testing.assert_allclose(loaded.X_test, arrays["X_test"], rtol=1e-6)
    assert loaded.y_train.tolist() == arrays["y_train"].tolist()


def test_series_of_unequal_length_are_padded_with_nan(folder):
    lengths = [361, *[40] * 49]
    lines = [",".join(["1.5"] * length) + f":{1 + index % 10}" for index, length in enumerate(lengths)]
    path = folder / "PickupGestureWiimoteZ" / "PickupGestureWiimoteZ_TRAIN.ts"
    path.parent.mkdir()
    header = "@timeStamps false\n@missing false\n@univariate true\n@equalLength false\n"
    header += "@classLabel true 1 2 3 4 5 6 7 8 9 10\n@data\n"
    path.write_text(header + "\n".join(lines) + "\n")
    X, _ = load_dataset("PickupGestureWiimoteZ", split="train", data_dir=folder)
    assert X.shape == (50, 361)
    assert np.isfinite(X).sum(axis=1).tolist() == lengths


def test_tfc_tensors_are_found(folder):
    X = {"train": series(122, 1, 1500), "val": series(41, 1, 1500), "test": series(41, 1, 1500)}
    (folder / "EMG").mkdir()
    for split, values in X.items():
        content = {"samples": torch.from_numpy(values), "labels": torch.arange(len(values)) % 3}
        torch.save(content, folder / "EMG" / f"{split}.pt")
    loaded, y = load_dataset("EMG", split="val", data_dir=folder)
    np.testing.assert_array_equal(loaded, X["val"][:, 0])
    assert set(y.tolist()) == {"0", "1", "2"}


def test_same_name_in_two_archives_is_read_from_its_own_files(folder):
    write_npz(folder / "uea/Epilepsy.npz", X_train=series(137, 3, 206), y_train=labels(137, 4))
    write_npz(folder / "extra/Epilepsy.npz", X_train=series(60, 178), y_train=labels(60))
    assert load_dataset("uea/Epilepsy", split="train", data_dir=folder).X.shape == (137, 3, 206)
    assert load_dataset("tfc/Epilepsy", split="train", data_dir=folder).X.shape == (60, 178)


def test_labels_become_strings(folder):
    write_npz(folder / "Chinatown.npz", **(chinatown(test=0) | {"y_train": np.arange(20) % 2}))
    assert set(load_dataset("Chinatown", split="train", data_dir=folder).y.tolist()) == {"0", "1"}


def test_single_channel_axis_is_dropped(folder):
    write_npz(folder / "Chinatown.npz", **(chinatown() | {"X_train": series(20, 1, 24)}))
    assert load_dataset("Chinatown", data_dir=folder).X_train.shape == (20, 24)


@pytest.mark.parametrize("size", [5881, 7352])
def test_har_is_accepted_with_and_without_its_validation_split(folder, size):
    write_npz(folder / "HAR.npz", X_train=np.ones((size, 9, 128), np.float32), y_train=labels(size, 6))
    assert len(load_dataset("HAR", split="train", data_dir=folder).X) == size


def test_unsplit_file_is_loaded_whole(folder):
    write_npz(folder / "extra/EMG.npz", X=series(204, 1500), y=np.arange(204) % 3)
    assert load_dataset("EMG", split="unsplit", data_dir=folder).X.shape == (204, 1500)


def test_bundled_set_needs_no_folder():
    pytest.importorskip("aeon")
    loaded = load_dataset("GunPoint")
    assert (loaded.X_train.shape, loaded.X_test.shape) == ((50, 150), (150, 150))
    assert set(loaded.y_train.tolist()) == {"1", "2"}


def test_bundled_set_of_unequal_length_is_dense():
    pytest.importorskip("aeon")
    X = load_dataset("JapaneseVowels").X_test
    assert X.shape == (370, 12, 29)
    assert np.isnan(X).any()


# ---- what is refused ----------------------------------------------------------------------------------


def refusal(name, **arguments):
    with pytest.raises(ValueError, match=name) as caught:
        load_dataset(name, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"X_train": series(19, 24), "y_train": labels(19)}, "19 series, 19 labels"),
        ({"X_train": series(20, 23)}, "length 23; expected 20 series, 1 channel(s), length 24"),
        ({"X_train": series(20, 2, 24)}, "2 channel(s), length 24; expected 20 series, 1 channel(s)"),
    ],
)
def test_wrong_size_is_refused(folder, change, found):
    write_npz(folder / "Chinatown.npz", **(chinatown() | change))
    message = refusal("Chinatown", data_dir=folder)
    assert message.startswith("Chinatown train: found ")
    assert found in message
    assert str(folder / "Chinatown.npz") in message


def test_older_release_of_the_test_split_is_refused(folder):
    write_npz(folder / "Chinatown.npz", **chinatown(test=345))
    assert "Chinatown test: found 345 series" in refusal("Chinatown", data_dir=folder)


def test_series_longer_than_any_published_is_refused(folder):
    write_npz(folder / "PLAID.npz", X_train=series(537, 1400), y_train=labels(537, 11))
    assert "length at most 1345" in refusal("PLAID", split="train", data_dir=folder)


def test_missing_test_split_is_refused(folder):
    write_npz(folder / "ucr/Chinatown.npz", **chinatown(test=0))
    message = refusal("Chinatown", data_dir=folder)
    assert "no test split" in message
    assert "split='train'" in message


def test_set_without_test_still_gives_its_training_split(folder):
    write_npz(folder / "ucr/Chinatown.npz", **chinatown(test=0))
    assert load_dataset("Chinatown", split="train", data_dir=folder).X.shape == (20, 24)


def test_local_set_is_never_completed_from_elsewhere(folder):
    pytest.importorskip("aeon")  # which has the test split of GunPoint
    write_npz(folder / "ucr/GunPoint.npz", X_train=series(50, 150), y_train=labels(50))
    assert "no test split" in refusal("GunPoint", data_dir=folder)


def test_fewer_labels_than_series_are_refused(folder):
    write_npz(folder / "Chinatown.npz", **(chinatown() | {"y_train": labels(19)}))
    message = refusal("Chinatown", data_dir=folder)
    assert message == f"{folder / 'Chinatown.npz'}: X_train: has 20 series but the labels have shape (19,)"


def test_missing_labels_are_refused(folder):
    write_npz(folder / "Chinatown.npz", X_train=series(20, 24))
    with pytest.raises(ValueError, match="has X_train but no y_train"):
        load_dataset("Chinatown", split="train", data_dir=folder)


def test_broken_npz_is_refused_by_name(folder):
    (folder / "Chinatown.npz").write_bytes(b"PK\x03\x04 cut short")
    assert "Chinatown.npz: cannot be read" in refusal("Chinatown", data_dir=folder)


def test_folder_that_does_not_exist_is_refused(folder):
    with pytest.raises(ValueError, match="does not exist; correct data_dir or NUTIME_DATA"):
        load_dataset("Chinatown", data_dir=folder / "nowhere")


def test_tfc_set_that_is_nowhere_says_where_it_was_looked_for(folder):
    message = refusal("FD-B", data_dir=folder)
    assert str(folder) in message
    assert "NUTIME_DATA" in message


def test_failed_download_says_how_to_get_the_set(folder, monkeypatch):
    pytest.importorskip("aeon")
    for variable in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")  # nothing listens there
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    message = refusal("Chinatown", data_dir=folder)
    assert str(folder) in message
    assert "the download failed" in message
    assert "NUTIME_DATA" in message


def test_failed_download_leaves_the_cache_empty(tmp_path, monkeypatch):
    pytest.importorskip("aeon")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    refusal("Chinatown")
    assert list((tmp_path / "cache").iterdir()) == []


def test_cached_set_is_found(tmp_path):
    write_npz(tmp_path / "cache" / "Chinatown.npz", **chinatown())
    assert load_dataset("Chinatown").X_test.shape == (343, 24)


# ---- availability and drawn splits --------------------------------------------------------------------


def test_availability_tells_complete_sets_from_others_and_why(folder):
    write_npz(folder / "ucr/Chinatown.npz", **chinatown())
    write_npz(folder / "ucr/Coffee.npz", X_train=series(28, 286), y_train=labels(28))
    write_npz(folder / "ucr/Beef.npz", X_train=series(3, 470), y_train=labels(3))
    (folder / "Wine.npz").write_bytes(b"cut short")
    found = available(["Chinatown", "Coffee", "Beef", "Wine", "FD-B"], folder)
    assert found.complete == ("Chinatown",)
    reasons = {
        "Coffee": "no test split",
        "Beef": "found 3 series",
        "Wine": "cannot be read",
        "FD-B": "not found in",
    }
    assert all(text in found.missing[name] for name, text in reasons.items())


def test_availability_in_a_folder_that_does_not_exist_is_refused(folder):
    with pytest.raises(ValueError, match="does not exist"):
        available(["Chinatown"], folder / "nowhere")


def test_drawn_splits_have_the_asked_sizes_and_share_nothing():
    parts = draw_splits(np.arange(204) % 3, (122, 41, 41), seed=0)
    assert [len(part) for part in parts] == [122, 41, 41]
    assert sorted(np.concatenate(parts)) == list(range(204))


def test_drawn_splits_keep_the_shares_of_the_classes():
    y = np.repeat(["a", "b"], [150, 54])
    shares = [np.mean(y[part] == "a") for part in draw_splits(y, (122, 41, 41), seed=3)]
    assert np.allclose(shares, 150 / 204, atol=0.02)


def test_drawn_splits_depend_on_the_seed_alone():
    y = np.arange(204) % 3
    first, again, other = (draw_splits(y, (122, 41, 41), seed)[0].tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_drawn_splits_refuse_sizes_that_lose_series():
    with pytest.raises(ValueError, match="add up to 203, expected the 204 labels"):
        draw_splits(np.arange(204) % 3, (122, 41, 40), seed=0)


# ---- the real archives, where available ---------------------------------------------------------------


def catalog():
    with (REAL / "catalog.csv").open() as table:
        return list(csv.DictReader(table))


@needs_data
@pytest.mark.parametrize(("archive", "count"), [("ucr", 95), ("uea", 17)])
def test_sets_marked_complete_are_exactly_those_that_load(archive, count):
    rows = [row for row in catalog() if row["group"] == archive]
    marked = [row["name"] for row in rows if row["train_status"] == row["test_status"] == "ok"]
    found = available([f"{archive}/{row['name']}" for row in rows], REAL)
    assert found.complete == tuple(f"{archive}/{name}" for name in marked)
    assert len(marked) == count


@needs_data
def test_every_training_split_that_is_not_partial_loads():
    whole = [row for row in catalog() if row["train_status"] in ("ok", "derived")]
    for row in whole:
        load_dataset(f"{row['group']}/{row['name']}", split="train", data_dir=REAL)
    assert len(whole) == 140


@needs_data
@pytest.mark.parametrize(
    ("name", "split", "shape"),
    [
        ("HAR", "test", (2947, 9, 128)),
        ("Gesture", "train", (320, 3, 315)),
        ("tfc/Epilepsy", "val", (20, 178)),
        ("tfc/Epilepsy", "tstcc_test", (2300, 178)),
        ("EMG", "unsplit", (204, 1500)),
    ],
)
def test_further_sets_load(name, split, shape):
    assert load_dataset(name, split=split, data_dir=REAL).X.shape == shape


@needs_data
def test_second_test_split_of_epilepsy_repeats_nothing_of_the_official_splits():
    parts = [load_dataset("tfc/Epilepsy", split=split, data_dir=REAL).X for split in ("train", "val")]
    seen = {values.tobytes() for values in np.concatenate(parts)}
    other = load_dataset("tfc/Epilepsy", split="tstcc_test", data_dir=REAL).X
    assert not any(values.tobytes() in seen for values in other)


@pytest.mark.parametrize("name", ["PickupGestureWiimoteZ", "JapaneseVowels"])
def test_both_splits_of_unequal_series_are_equally_wide(name):
    if name not in bundled_sets():
        pytest.skip(f"needs an aeon that bundles {name}")
    dataset = load_dataset(name)
    assert dataset.X_train.shape[1:] == dataset.X_test.shape[1:]
