"""Files and folders that appear complete or not at all; every writer of the package uses these.

A file is written to a temporary folder beside it, flushed to disk and renamed. A folder is exchanged with the one
it replaces in a single system call on Linux, so that neither a reader nor a crash ever sees a mix of both. A
journal grows by whole lines, each of them on disk before ``append`` returns.

A process that is killed leaves its temporary folder behind. A living one holds a lock on it, so that the next
writer of the same path knows which ones to remove, or to continue.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO, Self

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_WRITING = ".writing"


class InUseError(ValueError):
    """Another process writes to the same place."""


@contextmanager
def replace_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file that takes the place of ``path`` if the block ends without an error.

    Of a symbolic link, the file it points to is replaced.
    """
    path = Path(path).resolve()
    with _scratch(path) as scratch:
        fresh = scratch / path.name
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

    Raises:
        ValueError: ``folder`` is a file, or has the current folder in it, which would be gone.
    """
    folder = Path(folder).resolve()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is a file; name a folder")
    with suppress(FileNotFoundError):  # the current folder is deleted
        if Path.cwd().is_relative_to(folder):
            raise ValueError(f"{folder}: is the current folder or holds it; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _scratch(folder) as scratch:
        fresh = scratch / "new"
        fresh.mkdir()
        yield fresh
        _sync_tree(fresh)
        if folder.exists():
            if keep:
                _keep_other_files(folder, fresh)
            _exchange(fresh, folder)
        else:
            fresh.rename(folder)
    _sync(folder.parent)


@contextmanager
def new_folder(folder: str | Path, key: str | None = None) -> Iterator[Path]:
    """Yield a folder that becomes ``folder``, which must not exist or must be empty.

    It is empty, unless a process that was killed had the same ``key``: then it holds what that process left.

    Raises:
        InUseError: another process writes it, or has written it when the block ends.
    """
    folder = Path(folder).resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for old in _scratches(folder):
        with _hold(old) as held:
            if not held:
                raise InUseError(f"{folder}: another process is writing it; name another folder")
    with _scratch(folder, key) as scratch:
        fresh = scratch / (key or "new")
        fresh.mkdir(exist_ok=True)
        yield fresh
        _sync_tree(fresh)
        try:
            fresh.rename(folder)
        except OSError:
            raise InUseError(f"{folder}: another process has written it meanwhile; name another folder") from None
    _sync(folder.parent)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process.

    Raises:
        InUseError: another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _lock(descriptor) is False:
            raise InUseError(f"{folder}: another process is using it; wait for its end, or name another folder")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _scratch(path: Path, key: str | None = None) -> Iterator[Path]:
    """Yield a temporary folder beside ``path``, and in it ``key`` of a killed process; the rest is removed."""
    with ExitStack() as stack:
        while True:
            scratch = path.parent / f".{path.name}.{secrets.token_hex(8)}{_WRITING}"
            # Before the folder exists, because a signal may arrive at any time.
            stack.callback(shutil.rmtree, scratch, ignore_errors=True)
            scratch.mkdir(mode=0o700)
            with suppress(FileNotFoundError):  # another process took it for abandoned before it was locked
                descriptor = os.open(scratch, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                if _lock(descriptor) is not False and scratch.exists():
                    break
        for old in _scratches(path):
            with _hold(old) as held:
                if held and key:
                    with suppress(OSError):  # it has no folder of this name
                        (old / key).rename(scratch / key)
                if held:
                    shutil.rmtree(old, ignore_errors=True)
        yield scratch


def _scratches(path: Path) -> list[Path]:
    return list(path.parent.glob(f".{escape(path.name)}.*{_WRITING}"))


@contextmanager
def _hold(scratch: Path) -> Iterator[bool]:
    """Lock a temporary folder for the block; yield whether no living process has it."""
    try:
        descriptor = os.open(scratch, os.O_RDONLY)
    except FileNotFoundError:  # its writer has just ended
        yield True
        return
    try:
        yield _lock(descriptor) is True
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Return whether a lock was obtained, which lasts until the descriptor is closed; None without locks."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return None
    return True


class Journal:
    """A file of JSON lines to which one process at a time appends; nothing is written before the first ``append``.

    Attributes:
        lines: the complete lines, without their ends; see :func:`read_lines`.
        torn: the torn last line, which the next one replaces; empty if there is none.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise ValueError(f"{path}: is not a regular file; name another one")
        self._file = open(self.path, "a+b", buffering=0)  # noqa: SIM115, open until close()
        try:
            if _lock(self._file.fileno()) is False:
                raise InUseError(f"{path}: is open in another process; close that one first")
            self._file.seek(0)
            data = self._file.read()
            self.lines, self.torn = _split_lines(data, path)
        except ValueError:
            self.close()
            raise
        kept = data.removesuffix(self.torn)
        self._size = len(kept)
        self._missing_end = b"" if not kept or kept.endswith(b"\n") else b"\n"
        _sync(self.path.resolve().parent)

    def append(self, line: str) -> None:
        """Write a line to disk; after an error the journal is as before."""
        data = self._missing_end + f"{line}\n".encode()
        self._file.truncate(self._size)
        try:
            if self._file.write(data) != len(data):
                raise OSError(f"{self.path}: cannot be written; is the disk full?")
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self._size)
            raise
        self._size += len(data)
        self._missing_end = self.torn = b""
        self.lines.append(line)

    def close(self) -> None:
        """Let other processes open the journal."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_lines(path: str | Path) -> list[str]:
    """Return the complete lines of a :class:`Journal`, to which another process may be appending.

    A last line without an end is complete if it is JSON, because editors may remove the end; otherwise it was torn
    by a crash before ``append`` returned.
    """
    return _split_lines(Path(path).read_bytes(), path)[0]


def _split_lines(data: bytes, path: str | Path) -> tuple[list[str], bytes]:
    """Return the complete lines and the torn one."""
    torn = data[data.rfind(b"\n") + 1 :]
    with suppress(ValueError, RecursionError):
        json.loads(torn)
        torn = b""
    try:
        text = data.removesuffix(torn).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is not UTF-8 text; name another file") from None
    return text.removesuffix("\n").split("\n") if text else [], torn


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
    other.rename(one.with_name("old"))
    one.rename(other)


def _sync_tree(folder: Path) -> None:
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    """Flush a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
