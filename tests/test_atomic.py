"""Writers leave the old or the new behind, never a mixture and never a stray file."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from nutime.atomic import InUseError, Journal, new_folder, read_lines, replace_file, replace_folder


def test_a_file_appears_when_the_block_ends_and_with_the_usual_permissions(tmp_path):
    with replace_file(tmp_path / "a") as file:
        file.write(b"new")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").read_bytes() == b"new"
    (tmp_path / "plain").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with suppress(OSError), replace_file(tmp_path / "a") as file:
        file.write(b"new")
        raise OSError("full")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "link").symlink_to("target")
    with replace_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_a_folder_is_replaced_as_a_whole_and_keeps_files_that_are_not_ours(tmp_path):
    folder = tmp_path / "model"
    for name, content in (("a", "old"), ("b", "old"), ("notes/mine.txt", "kept")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    with replace_folder(folder) as fresh:
        (fresh / "a").write_text("new")
        (fresh / "b").write_text("new")
    assert [(folder / name).read_text() for name in ("a", "b", "notes/mine.txt")] == ["new", "new", "kept"]
    assert os.listdir(tmp_path) == ["model"]


def test_a_file_is_never_replaced_by_a_folder(tmp_path):
    file = tmp_path / "train.csv"
    file.write_text("1,2\n")
    with pytest.raises(ValueError, match=r"train\.csv: is a file; name a folder"), replace_folder(file):
        pass
    assert file.read_text() == "1,2\n"


@pytest.mark.parametrize("name", [".", "", ".."])
def test_the_current_folder_is_never_replaced(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is the current folder or holds it"), replace_folder(name):
        pass
    assert os.path.samefile(tmp_path, ".")


def test_a_folder_is_written_from_a_current_folder_that_is_deleted(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with replace_folder(tmp_path / "model") as fresh:
        (fresh / "a").touch()
    assert (tmp_path / "model" / "a").exists()


def test_other_files_of_a_replaced_folder_go_where_they_are_not_kept(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "old").write_text("old")
    with replace_folder(tmp_path / "folder", keep=False) as fresh:
        (fresh / "new").write_text("new")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "new"]


def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "a").write_text("old")
    with suppress(OSError), replace_folder(folder) as fresh:
        (fresh / "a").write_text("new")
        raise OSError("full")
    assert (folder / "a").read_text() == "old"
    assert os.listdir(tmp_path) == ["model"]


SWAP_FOREVER = """
import itertools, sys
from nutime.atomic import replace_folder
for turn in itertools.count():
    with replace_folder(sys.argv[1]) as fresh:
        for name in "abc":
            (fresh / name).write_text(str(turn))
    print(turn, flush=True)
"""


@pytest.mark.parametrize("moment", range(8))
def test_a_kill_never_leaves_parts_of_two_writes(tmp_path, moment):
    folder = tmp_path / "model"
    writer = subprocess.Popen([sys.executable, "-c", SWAP_FOREVER, str(folder)], stdout=subprocess.PIPE)
    writer.stdout.readline()
    time.sleep(0.003 * moment)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    assert len({(folder / name).read_text() for name in "abc"}) == 1


def test_a_line_that_cannot_be_written_leaves_the_journal_as_it_was(tmp_path):
    """The file may grow to 40 bytes only: the second line does not fit."""
    code = (
        "import resource, signal, sys; from nutime.atomic import Journal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40, 40))\n"
        "with Journal(sys.argv[1]) as journal:\n"
        "    journal.append('a' * 30)\n"
        "    try: journal.append('b' * 30)\n"
        "    except OSError: print(len(journal.lines))\n"
        "    journal.append('c' * 5)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "j"], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert (tmp_path / "j").read_text() == "a" * 30 + "\n" + "c" * 5 + "\n"


@pytest.mark.parametrize(
    ("last", "kept"),
    [('{"a": 2}', True), ('{"a": 2', False), ('{"a": "é"}'.encode()[:8], False), ("[" * 10**5, False)],
)
def test_a_last_line_without_an_end_is_kept_if_it_is_json_and_otherwise_replaced(tmp_path, last, kept):
    path = tmp_path / "j"
    content = b'{"a": 1}\n' + (last if isinstance(last, bytes) else last.encode())
    path.write_bytes(content)
    lines = ['{"a": 1}', *[last] * kept]
    assert read_lines(path) == lines
    with Journal(path) as journal:
        assert journal.lines == lines
        assert path.read_bytes() == content  # opening changes nothing
        for line in ("3", "4"):
            journal.append(line)
    assert path.read_text() == "\n".join([*lines, "3", "4", ""])


def write_file(folder):
    with replace_file(folder / "out") as file:
        file.write(b"new")


def write_folder(folder):
    with replace_folder(folder / "out") as fresh:
        (fresh / "a").write_text("new")


HOLD = """
import sys, time
from nutime.atomic import replace_folder
with replace_folder(sys.argv[1]):
    print("writing", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("write", [write_file, write_folder])
def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path, write):
    killed = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "out")], stdout=subprocess.PIPE)
    killed.stdout.readline()
    with replace_folder(tmp_path / "out") as fresh:  # the other writer lives: its folder is left alone
        (fresh / "a").write_text("mine")
    assert len(list(tmp_path.glob(".out.*"))) == 1
    shutil.rmtree(tmp_path / "out")
    killed.kill()
    killed.communicate()
    write(tmp_path)
    assert list(tmp_path.glob(".out.*")) == []


def test_a_new_folder_is_written_by_one_process_only(tmp_path):
    with new_folder(tmp_path / "out") as first:
        (first / "a").write_text("first")
        with pytest.raises(InUseError, match="is writing it"), new_folder(tmp_path / "out"):
            pass
    assert (tmp_path / "out" / "a").read_text() == "first"
    assert os.listdir(tmp_path) == ["out"]


def test_a_new_folder_that_exists_at_the_end_is_not_touched(tmp_path):
    def write_while_another_does():
        with new_folder(tmp_path / "out") as fresh:
            (fresh / "b").write_text("second")
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "a").write_text("first")

    with pytest.raises(InUseError, match="has written it"):
        write_while_another_does()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
