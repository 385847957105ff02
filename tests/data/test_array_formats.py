"""Files that hold all series in one array: .npz, .npy and the TF-C .pt."""

import io
import os
import zipfile

import numpy as np
import pytest
import torch
from format_files import refusal, values_of

from nutime.data.formats.read import read_file, read_records


@pytest.fixture
def splits(tmp_path):
    X, y = np.zeros((2, 3), np.float32), np.array(["a", "b"])
    np.savez(tmp_path / "set.npz", X_train=X, y_train=y, X_test=X[:1] + 1, y_test=y[:1])
    return tmp_path / "set.npz"


@pytest.mark.parametrize(("split", "labels"), [("train", ["a", "b"]), ("test", ["a"]), (None, ["a", "b", "a"])])
def test_npz_split_is_read_alone_and_all_by_default(splits, split, labels):
    assert read_file(splits, split=split).labels.tolist() == labels


def test_npz_without_the_split_asked_for_is_refused(tmp_path):
    np.savez(tmp_path / "set.npz", X_train=np.ones((2, 3)))
    assert refusal(tmp_path / "set.npz", split="test") == " has no X_test, only X_train"


@pytest.mark.parametrize("key", ["X", "arr_0", "anything"])
@pytest.mark.parametrize("split", ["train", "test", None])
def test_npz_of_a_single_set_is_read_whole_for_any_split(tmp_path, key, split):
    np.savez(tmp_path / "set.npz", **{key: np.ones((2, 3))})
    assert len(values_of(tmp_path / "set.npz", split=split)) == 2


def test_npz_other_sets_are_read_too(tmp_path):
    np.savez(tmp_path / "set.npz", X_train=np.ones((1, 3)), X_val=np.ones((1, 3)), subject=np.arange(2))
    assert len(values_of(tmp_path / "set.npz")) == 2


def test_npz_ids_are_read(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.ones((2, 3)), ids=["b", "a"])
    assert read_file(tmp_path / "set.npz").ids == ["b", "a"]
    X = np.ones((1, 3))
    np.savez(tmp_path / "set.npz", X_train=X, ids_train=[7], X_test=X, ids_test=[8])
    assert read_file(tmp_path / "set.npz").ids == ["7", "8"]


@pytest.mark.parametrize(("series", "suffix"), [("X", ""), ("X_train", "_train"), ("signals", "")])
@pytest.mark.parametrize(("labels", "ids"), [("y", "ids"), ("labels", "id"), ("label", "id")])
def test_npz_labels_and_ids_have_several_names(tmp_path, series, suffix, labels, ids):
    arrays = {f"{labels}{suffix}": ["u", "v"], f"{ids}{suffix}": ["b", "a"], series: np.ones((2, 3))}
    np.savez(tmp_path / "set.npz", **arrays)
    found = read_file(tmp_path / "set.npz")
    assert (found.labels.tolist(), found.ids, found.notes) == (["u", "v"], ["b", "a"], ())


@pytest.mark.parametrize(
    "others",
    [
        {"subject": np.arange(2)},
        {"labels": ["of", "the", "classes"]},
        {"labels": np.zeros((2, 3))},
        {"y": [0, 1], "labels": ["off", "on"]},
        {"label": np.array({"a": 1})},
    ],
)
def test_npz_arrays_left_out_are_noted(tmp_path, others):
    np.savez(tmp_path / "set.npz", X=np.ones((2, 3)), **others)
    found = read_file(tmp_path / "set.npz")
    name = list(others)[-1]
    assert found.notes[0].endswith(f"set.npz: left out '{name}'; the labels of X are named y, its ids ids")
    assert (None if found.labels is None else found.labels.tolist()) == (["0", "1"] if "y" in others else None)


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (np.array([0, 1]), ["0", "1"]),
        (np.array([0.0, 1.0]), ["0", "1"]),
        (np.array([0.5, 1.0]), ["0.5", "1"]),
        (np.array(["a", "1.0"]), ["a", "1"]),
        (np.array([b"a", b"b"]), ["a", "b"]),
        (np.array([True, False]), ["True", "False"]),
    ],
)
def test_npz_labels_become_text(tmp_path, y, labels):
    np.savez(tmp_path / "set.npz", X=np.ones((2, 3)), y=y)
    assert read_file(tmp_path / "set.npz").labels.tolist() == labels


def test_series_of_a_set_without_labels_are_unlabelled(tmp_path):
    np.savez(tmp_path / "set.npz", X_train=np.ones((1, 3)), y_train=["a"], X_test=np.ones((1, 3)))
    assert read_file(tmp_path / "set.npz").labels.tolist() == ["a", ""]


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"X": np.array([[1, None]])}, "X: holds pickled Python objects, which are not read"),
        ({"X": np.ones((2, 3)), "y": np.array(["a", None])}, "y: holds pickled Python objects"),
        ({"X": np.ones((2, 3)), "y": np.arange(3)}, "X: has 2 series but the labels have shape (3,)"),
        ({"X": np.ones((2, 3)), "y": np.eye(2)}, "X: has 2 series but the labels have shape (2, 2)"),
        ({"X": np.ones((2, 3)), "y_train": np.arange(2)}, "y_train: has no array of series"),
        ({"X_train": np.ones((2, 3)), "ids": np.arange(2)}, "ids: has no array of series of"),
        ({"X_a": np.ones((1, 3)), "X_b": np.ones((1, 3)), "ids_b": [1]}, "has ids_b but no ids_a; give"),
        ({"X_a": np.ones((1, 3)), "X_b": np.ones((1, 3)), "id_a": [1]}, "has id_a but no ids_b; give"),
        ({"X": np.ones((2, 3)), "ids": np.arange(3)}, "ids: has dtype int64, shape (3,); expected 2 texts or"),
        ({"X": np.ones((2, 3)), "ids": ["a", ""]}, "ids: the id of a series is missing"),
        ({"X": np.ones((2, 3)), "y": np.ones(2, complex)}, "X: labels of dtype complex128"),
        ({"X": np.ones(3)}, "X: has shape (3,), expected (n, length) or (n, channels, length)"),
        ({"X": np.ones((1, 1, 1, 1))}, "X: has shape (1, 1, 1, 1), expected"),
        ({"X": np.ones((0, 3))}, "X: has shape (0, 3), expected"),
        ({"X": np.ones((2, 0))}, "X: has shape (2, 0), expected"),
        ({"X": np.ones((2, 3), complex)}, "X: dtype complex128 is not numeric"),
        ({"X": np.array([["a", "b"]])}, "X: dtype <U1 is not numeric"),
        ({"X": np.array([[1, np.inf]])}, "X: series 0: holds an infinite value"),
        ({"X": np.ones((2, 3)), "labels": np.array(["a", None])}, "labels: holds pickled Python objects"),
        ({"a": np.ones((2, 3)), "b": np.ones((2, 3))}, "expected an array X, X_train or X_test, found only"),
        ({}, "expected an array X, X_train or X_test, found only"),
    ],
)
def test_npz_complaints_name_the_array(tmp_path, arrays, complaint):
    np.savez(tmp_path / "set.npz", **arrays)
    assert refusal(tmp_path / "set.npz").startswith(f" {complaint}")


def test_npz_that_claims_more_than_the_file_has_is_refused_before_it_is_unpacked(tmp_path):
    header = io.BytesIO()
    shape = (2**33, 1000)
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    assert refusal(tmp_path / "set.npz").startswith(" X: claims 68719476736000 bytes")


def test_npy_of_pickled_objects_is_refused(tmp_path):
    np.save(tmp_path / "set.npy", np.array([[1, None]]), allow_pickle=True)
    assert "holds pickled Python objects" in refusal(tmp_path / "set.npy")


def test_npy_in_fortran_order_and_big_endian(tmp_path):
    X = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "set.npy", np.asfortranarray(X.astype(">f4")))
    (first, second) = read_records(tmp_path / "set.npy")
    assert first.values.dtype == np.float32
    assert second.values.tolist() == [[3, 4, 5]]


@pytest.mark.parametrize("zipped", [True, False])
def test_tfc_tensors_with_labels(tmp_path, zipped):
    content = {"samples": torch.arange(6.0).reshape(2, 1, 3), "labels": torch.tensor([1.0, 0.0])}
    torch.save(content, tmp_path / "train.pt", _use_new_zipfile_serialization=zipped)
    table = read_file(tmp_path / "train.pt")
    assert table.labels.tolist() == ["1", "0"]
    assert [values.tolist() for values in table.series] == [[[0, 1, 2]], [[3, 4, 5]]]


def test_tfc_file_that_would_run_code_is_refused(tmp_path):
    class Harmful:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "harm"),))

    torch.save({"samples": Harmful(), "labels": torch.zeros(1)}, tmp_path / "train.pt")
    assert "mkdir', which is no part of a tensor" in refusal(tmp_path / "train.pt")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ([torch.zeros(2, 3)], "expected a dict with tensors 'samples' and 'labels'"),
        ({"labels": torch.zeros(2)}, "expected a dict with tensors 'samples' and 'labels'"),
        ({"samples": torch.zeros(2, 3), "labels": [1, 2]}, "expected a dict with tensors"),
        ({"samples": torch.zeros(2, 3), "labels": torch.zeros(3)}, "samples: has 2 series but"),
        ({"samples": torch.zeros(3)}, "samples: has shape (3,), expected"),
        ({"samples": torch.zeros(1, 1).expand(10**9, 10**3)}, "claims a size of 1000000000, more"),
        ({"samples": torch.zeros(1, 1).expand(999, 999)}, "samples: claims 3992004 bytes"),
    ],
    ids=["list", "no-samples", "list-labels", "label-count", "flat", "expanded", "repeated"],
)
def test_tfc_complaints(tmp_path, content, complaint):
    torch.save(content, tmp_path / "train.pt")
    assert refusal(tmp_path / "train.pt").startswith(f" {complaint}")
