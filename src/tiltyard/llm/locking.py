"""One asker per folder: a lock that the operating system lets go of when its holder ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

LOCK_FILE = "asking.lock"
_LOOK_AGAIN_SECONDS = 0.5


@asynccontextmanager
async def folder_lock(
    folder: Path, *, notice: Callable[[str], None], sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    """The folder is ours inside the block; while another asker holds it we wait, and say so once.

    The lock is `flock` on a file that stays, so it needs a file system with locks (a local disk, NFS 4).
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _take(descriptor):
            holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "another process"
            notice(
                f"process {holder} is asking in {folder}: waiting until it has ended, then going on with what is left."
            )
            while not _take(descriptor):
                await sleep(_LOOK_AGAIN_SECONDS)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
