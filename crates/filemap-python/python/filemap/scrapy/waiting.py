"""Pages that wait to be put, noted in a file beside the store, so that a kill loses none.

Only the holder of the store has the file. It has messages in the format of `wire`, each followed
by a checksum, and then zeros. It is never synced: data that a process has written outlives the
process.
"""

import contextlib
import errno
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from . import wire

# Each time it is full, all queued puts are waited for.
_MOST_BYTES: Final = 32 << 20
_CHECKSUM: Final = struct.Struct(">I")
_END: Final = bytes(16)


def message_of(head: Mapping[str, Any], body: bytes) -> bytes:
    """A message about a page: in the format of `wire`, and a checksum."""
    message = wire.start_of(head, body) + body
    return message + _CHECKSUM.pack(zlib.crc32(message))


class Waiting:
    """Messages about pages that may not be in the store yet. The first one makes the file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: int | None = None
        self._end = 0
        self.unread_from: int | None = None
        """Offset at which `left` found an incomplete message: truncated by a kill, or damaged."""

    def left(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The messages of a process that was killed, in their order.

        Raises `OSError` if the file cannot be read.
        """
        with contextlib.suppress(FileNotFoundError):
            self._open(0)
        at = checksum = 0
        self.unread_from = None

        def take(count: int) -> bytes:
            nonlocal at, checksum
            found = b"" if self._file is None else os.pread(self._file, count, at)
            at += len(found)
            checksum = zlib.crc32(found, checksum)
            return found

        while True:
            start, checksum = at, 0
            with contextlib.suppress(wire.Broken):
                message = wire.read(take)
                wanted = checksum
                if take(_CHECKSUM.size) == _CHECKSUM.pack(wanted):
                    yield message
                    continue
            at = start
            if take(len(_END)).strip(b"\0"):
                self.unread_from = start
            return

    def add(self, message: bytes) -> bool:
        """Adds the message about a page to be put, as made by `message_of` or `PutQueue.put`;
        False if there is no room for it.

        Raises `OSError` if it cannot be written; then it was not added.
        """
        if self._end + len(message) + len(_END) > _MOST_BYTES:
            return False
        if self._file is None:
            self._open(os.O_CREAT)
        self._write((message, _END), self._end)
        self._end += len(message)
        return True

    def empty(self) -> None:
        """Forgets all pages, which must be in the store. Raises `OSError`."""
        self._end = 0
        if self._file is not None:
            self._write((_END,), 0)

    def close(self) -> None:
        """Closes the file, and keeps it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def remove(self) -> None:
        """Removes the file. All added pages must be in the store."""
        if self._file is not None:
            self.close()
            # Putting a page a second time finds it stored.
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _open(self, flags: int) -> None:
        flags |= os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)

    def _write(self, pieces: tuple[bytes, ...], at: int) -> None:
        assert self._file is not None
        if os.pwritev(self._file, pieces, at) < sum(map(len, pieces)):
            raise OSError(errno.ENOSPC, "there is no room for waiting pages", self._path)
