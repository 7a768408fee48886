"""A disk that loses at a power failure whatever SQLite wrote and never synced.

The functions of SQLite's own file layer are replaced in this process: what is written is remembered, and only a sync
copies it to a second set of files, which is what such a disk would hold. After a `kill -9` that second set is put in
the place of the first. No compiler and no other SQLite is needed; a Python whose SQLite cannot be reached is told so.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import random
import shutil
import sqlite3
import threading
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any

SECTOR = 512
"""What a disk writes whole or not at all."""

KEPT_KINDS = 0x100 | 0x800 | 0x80000
"""Databases, journals and write-ahead logs; temporary files are nobody's promise."""

_Open = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int, c_void_p)
_Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = CFUNCTYPE(c_int, c_void_p, c_int)


class _Vfs(ctypes.Structure):
    """The beginning of `sqlite3_vfs`."""

    _fields_ = (
        *(("version", c_int), ("file_size", c_int), ("longest_path", c_int), ("next", c_void_p)),
        *(("name", c_char_p), ("data", c_void_p), ("open", c_void_p), ("delete", c_void_p)),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, in its third version."""

    _fields_ = (
        *(("version", c_int), ("close", c_void_p), ("read", c_void_p), ("write", c_void_p)),
        *(("truncate", c_void_p), ("sync", c_void_p), ("others", c_void_p * 13)),
    )


class _File(ctypes.Structure):
    _fields_ = (("methods", POINTER(_Methods)),)


def sqlite_library() -> ctypes.CDLL | None:
    """The SQLite that Python's own module uses, if it is a library of its own."""
    name = ctypes.util.find_library("sqlite3")
    if name is None:
        return None
    library = ctypes.CDLL(name)
    library.sqlite3_libversion.restype = c_char_p
    library.sqlite3_sourceid.restype = c_char_p
    own = sqlite3.connect(":memory:")
    (source,) = own.execute("SELECT sqlite_source_id()").fetchone()
    own.close()
    return library if library.sqlite3_sourceid() == source.encode() else None


_pointed_at: list[Any] = []
"""What SQLite points at, and must live as long as the process."""


class LossyDisk:
    """Where the synced bytes of a folder's files are, for the process that writes and for the one that watches."""

    def __init__(self, synced: Path) -> None:
        self._synced = synced
        self._unsynced: dict[str, list[tuple[int, bytes | None]]] = {}
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()

    def keep(self, database: Path) -> None:
        """Whatever is in the files now is safe."""
        shutil.rmtree(self._synced, ignore_errors=True)
        self._synced.mkdir()
        for path in _files(database):
            shutil.copy(path, self._synced / path.name)

    def fail(self, database: Path, chance: random.Random, survive: float) -> None:
        """Cut the power. Of what was never synced each sector is written by chance, or none: disks do either."""
        written = {path.name: path.read_bytes() for path in _files(database)}
        for path in (*_files(database), database.with_name(f"{database.name}-shm")):
            path.unlink(missing_ok=True)
        synced = {path.name: path.read_bytes() for path in self._synced.iterdir()}
        for name in {*synced, *(written if survive else ())}:
            held, new = bytearray(synced.get(name, b"")), written.get(name, b"")
            if survive:
                held.extend(bytes(max(0, len(new) - len(held))))
                for start in range(0, len(new), SECTOR):
                    if chance.random() < survive:
                        held[start : start + SECTOR] = new[start : start + SECTOR]
            database.with_name(name).write_bytes(held)
        self.keep(database)

    def install(self) -> None:
        """Replace SQLite's functions, for every file that this process opens from now on."""
        library = sqlite_library()
        assert library is not None
        library.sqlite3_vfs_find.restype = POINTER(_Vfs)
        vfs = library.sqlite3_vfs_find(None).contents
        opens, deletes = _Open(vfs.open), _Delete(vfs.delete)
        ours: dict[int, _Methods] = {}

        def opened(at: int, name: bytes | None, file: int, flags: int, told: int) -> int:
            found = opens(at, name, file, flags, told)
            if found == 0 and name and flags & KEPT_KINDS:
                self._names[file] = os.path.basename(os.fsdecode(name))  # noqa: PTH119 - a C string
                head = ctypes.cast(file, POINTER(_File)).contents
                place = ctypes.addressof(head.methods.contents)
                if place not in ours:
                    ours[place] = self._methods(head.methods.contents)
                head.methods = ctypes.pointer(ours[place])
            return int(found)

        def deleted(at: int, name: bytes, sync: int) -> int:
            found = deletes(at, name, sync)
            if found == 0:
                self._note(os.path.basename(os.fsdecode(name)), 0, None)  # noqa: PTH119
            return int(found)

        _pointed_at.extend((opens, deletes, ours, _Open(opened), _Delete(deleted)))
        vfs.open, vfs.delete = (ctypes.cast(one, c_void_p) for one in _pointed_at[-2:])

    def _methods(self, theirs: _Methods) -> _Methods:
        write, truncate = _Write(theirs.write), _Truncate(theirs.truncate)

        def written(file: int, data: int, size: int, offset: int) -> int:
            found = write(file, data, size, offset)
            if found == 0:
                self._note(self._names[file], offset, ctypes.string_at(data, size))
            return int(found)

        def truncated(file: int, size: int) -> int:
            found = truncate(file, size)
            if found == 0:
                self._note(self._names[file], size, None)
            return int(found)

        def synced(file: int, _flags: int) -> int:
            self._write_down(self._names[file])
            return 0

        mine = _Methods.from_buffer_copy(theirs)
        functions = (_Write(written), _Truncate(truncated), _Sync(synced))
        _pointed_at.extend((write, truncate, *functions))
        mine.write, mine.truncate, mine.sync = (ctypes.cast(one, c_void_p) for one in functions)
        return mine

    def _note(self, name: str, place: int, data: bytes | None) -> None:
        with self._lock:
            self._unsynced.setdefault(name, []).append((place, data))

    def _write_down(self, name: str) -> None:
        """A sync: whatever was written to the file through any connection is on the disk."""
        with self._lock:
            file = os.open(self._synced / name, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                for place, data in self._unsynced.pop(name, ()):
                    if data is None:
                        os.ftruncate(file, place)
                    else:
                        os.pwrite(file, data, place)
            finally:
                os.close(file)


def _files(database: Path) -> list[Path]:
    names = (database.name, f"{database.name}-wal", f"{database.name}-journal")
    return [path for name in names if (path := database.with_name(name)).exists()]


def vote_on_a_lossy_disk(synced: str, synchronous: str, url: str, name: str, clients: int, seconds: float) -> None:
    """`tests.arena.voting_process`, with whatever SQLite does not sync as good as not written."""
    from tests.arena import voting_process
    from tiltyard.arena.store.database import Database

    LossyDisk(Path(synced)).install()
    connected = Database._connected

    def weaker(database: Database) -> Any:
        driver = connected(database)
        driver.execute(f"PRAGMA synchronous = {synchronous}")
        return driver

    if synchronous:
        Database._connected = weaker
    voting_process.main(url, name, clients, seconds)
