import errno
import resource

import pytest
import torch

from nutime.pretrain.checkpoint import checkpoints, load_newest, save_checkpoint


def state(value):
    return {"weights": torch.full((3, 5), float(value)), "step": torch.tensor(value, dtype=torch.int32)}


def test_what_is_saved_is_loaded(tmp_path):
    save_checkpoint(tmp_path, 7, state(7))
    loaded = load_newest(tmp_path)
    assert loaded.keys() == state(7).keys()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state(7).items())


def test_only_the_newest_are_kept(tmp_path):
    for step in range(1, 6):
        save_checkpoint(tmp_path, step, state(step), keep=2)
    assert [path.stem for path in checkpoints(tmp_path)] == ["step-000000005", "step-000000004"]


def test_an_empty_folder_has_no_checkpoint(tmp_path):
    assert load_newest(tmp_path) is None


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, damage):
    save_checkpoint(tmp_path, 1, state(1))
    newest = save_checkpoint(tmp_path, 2, state(2))
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[-10] ^= 1
    newest.write_bytes({"truncate": content[:-7], "flip": content, "empty": b""}[damage])
    with pytest.warns(UserWarning, match="step-000000002.safetensors: damaged"):
        loaded = load_newest(tmp_path)
    assert int(loaded["step"]) == 1


def test_a_failed_write_leaves_what_was_saved(tmp_path):
    save_checkpoint(tmp_path, 1, state(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # no file may grow beyond 100 bytes
    try:
        with pytest.raises(OSError) as caught:  # noqa: PT011 (the number is checked below)
            save_checkpoint(tmp_path, 2, state(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001.safetensors"]
    assert int(load_newest(tmp_path)["step"]) == 1


def test_a_crash_while_writing_leaves_no_half_checkpoint(tmp_path):
    save_checkpoint(tmp_path, 1, state(1))
    (tmp_path / "step-000000002.partial").write_bytes(b"half")
    assert int(load_newest(tmp_path)["step"]) == 1
