"""Files and folders that appear complete or not at all; every writer of the package uses these.

A file is written to a temporary folder beside it, flushed to disk and renamed. A folder is exchanged with the one
it replaces in a single system call on Linux, so that neither a reader nor a crash ever meets parts of both. A
journal grows by whole lines, each of them on disk before ``append`` returns.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Self

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def replace_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of ``path`` if the block ends without an error.

    Of a symbolic link, the file it points to is replaced.
    """
    path = Path(path).resolve()
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        fresh = Path(scratch, path.name)
        with fresh.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    _sync(path.parent)


@contextmanager
def replace_folder(folder: str | Path, *, keep: bool = True) -> Iterator[Path]:
    """Yield an empty folder that takes the place of ``folder`` if the block ends without an error.

    Files of the replaced folder that the block did not write are kept, unless ``keep`` is False.
    """
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as scratch:
        fresh = Path(scratch, "new")
        fresh.mkdir()
        yield fresh
        for path in (*fresh.rglob("*"), fresh):
            _sync(path)
        if folder.exists():
            if keep:
                _keep_other_files(folder, fresh)
            _exchange(fresh, folder)
        else:
            fresh.rename(folder)
    _sync(folder.parent)


class Journal:
    """A text file to which lines are appended, by one process at a time.

    A last line without an end was torn by a crash before ``append`` returned: it is ignored, and replaced by the
    next one.

    Attributes:
        lines: the complete lines, without their ends.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115, open until close()
        try:
            _lock(self._file)
            self._file.seek(0)
            complete, end, _ = self._file.read().rpartition(b"\n")
            self._size = len(complete + end)
            self.lines = complete.decode("utf-8").split("\n") if end else []
        except BlockingIOError:
            self.close()
            raise ValueError(f"{path}: is open in another process; close that one first") from None
        except UnicodeDecodeError:
            self.close()
            raise ValueError(f"{path}: is not UTF-8 text; name another file") from None
        _sync(self.path.resolve().parent)

    def append(self, line: str) -> None:
        """Write a line to disk; after an error the journal is as before."""
        data = f"{line}\n".encode()
        self._file.truncate(self._size)
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: cannot be written; is the disk full?")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)
        self.lines.append(line)

    def close(self) -> None:
        """Let other processes open the journal."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; raise ``BlockingIOError`` if another process has locked it."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _keep_other_files(old: Path, new: Path) -> None:
    for path in old.rglob("*"):
        kept = new / path.relative_to(old)
        if path.is_dir() and not path.is_symlink():
            kept.mkdir(exist_ok=True)
        elif not os.path.lexists(kept):
            shutil.copy2(path, kept, follow_symlinks=False)


def _exchange(one: Path, other: Path) -> None:
    """Swap two folders of one file system."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        names = os.fsencode(one), os.fsencode(other)
        if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
            return
    # Other systems and file systems cannot exchange: for a moment there is no folder, but never a mixed one.
    aside = one.with_name("old")
    other.rename(aside)
    one.rename(other)


def _sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
