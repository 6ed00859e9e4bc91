"""The pages that wait to be put, in a file beside the store: a kill of their process loses none.

Only the holder of the store has the file, mapped into memory: what is copied there outlives the
process. It begins with the name of the machine's boot; behind it are messages as `wire` has them,
and a length of zero. The length of a message is written last, so that one which was being written
is none. The file is never synced: what an earlier boot left may be torn, and is passed over.
"""

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from . import wire

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_BYTES: Final = 8 << 20
_LENGTH_BYTES: Final = 8
_END: Final = bytes(_LENGTH_BYTES)


class Waiting:
    """Messages that say which pages may not be in the store yet."""

    def __init__(self, path: str) -> None:
        """Makes the file, or takes that of a process which was killed.

        Raises `OSError`, such as for a full disk: no later write can meet one.
        """
        self._path = path
        try:
            boot = _BOOT.read_bytes()
        except OSError:
            boot = os.urandom(16)  # No boot is known to be this one.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path, flags, 0o600)
        try:
            is_left = os.pread(file, len(boot), 0) == boot and os.fstat(file).st_size == _BYTES
            if not is_left:
                os.ftruncate(file, 0)
                os.posix_fallocate(file, 0, _BYTES)
            self._map = mmap.mmap(file, _BYTES)
        finally:
            os.close(file)
        if not is_left:
            self._map[: len(boot)] = boot
        self._start = self._end = len(boot)

    def left(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The messages, in their order; what is added next stands behind them."""
        at = self._end = self._start

        def take(count: int) -> bytes:
            nonlocal at
            found = self._map[at : at + count]
            at += len(found)
            return found

        while True:
            try:
                message = wire.read(take)
            except wire.Broken:
                return
            self._end = at
            yield message

    def add(self, head: Mapping[str, Any], body: bytes) -> bool:
        """Adds a page that is about to be put; False if there is no room for it."""
        start = wire.start_of(head, body)
        length, text = start[:_LENGTH_BYTES], start[_LENGTH_BYTES:]
        first = self._end
        if first + len(start) + len(body) + len(_END) > _BYTES:
            return False
        at = first + _LENGTH_BYTES
        for piece in (text, body, _END):
            self._map[at : at + len(piece)] = piece
            at += len(piece)
        self._map[first : first + _LENGTH_BYTES] = length
        self._end = at - len(_END)
        return True

    def empty(self) -> None:
        """Forgets all, which must be in the store."""
        self._map[self._start : self._start + len(_END)] = _END
        self._end = self._start

    def close(self) -> None:
        """Removes the file. All that was added must be in the store."""
        os.unlink(self._path)
        self._map.close()
