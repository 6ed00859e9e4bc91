"""The pages that wait to be put, in a file beside the store: a kill of their process loses none.

Only the holder of the store has the file. It begins with the name of the machine's boot; behind it
are messages as `wire` has them. It is never synced, for what a process has written outlives the
process. What an earlier boot left may be torn, and is passed over.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from . import wire

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class Waiting:
    """Messages that say which pages may not be in the store yet."""

    def __init__(self, path: str) -> None:
        """Makes the file, or takes that of a process which was killed.

        Raises `OSError`.
        """
        self._path = path
        try:
            self._boot = _BOOT.read_bytes()
        except OSError:
            self._boot = os.urandom(16)  # No boot is known to be this one.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        try:
            if os.pread(self._file, len(self._boot), 0) != self._boot:
                os.ftruncate(self._file, 0)
                self._write(self._boot, at=0)
            self.bytes = os.fstat(self._file).st_size
        except BaseException:
            os.close(self._file)
            raise

    def left(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """What the file has, in its order. Ends the file where the process was killed that wrote."""
        at = len(self._boot)

        def take(count: int) -> bytes:
            nonlocal at
            found = os.pread(self._file, count, at)
            at += len(found)
            return found

        while True:
            self.bytes = at
            try:
                yield wire.read(take)
            except wire.Broken:
                return

    def add(self, head: Mapping[str, Any], body: bytes) -> None:
        """Adds a page that is about to be given to the store.

        Raises `OSError` if there is no room; then it has not been added.
        """
        at = self.bytes
        for piece in wire.packed(head, body):
            at = self._write(piece, at)
        self.bytes = at

    def empty(self) -> None:
        """Forgets all, which must be in the store."""
        self.bytes = len(self._boot)
        os.ftruncate(self._file, self.bytes)

    def close(self) -> None:
        """Removes the file. All that was added must be in the store."""
        os.unlink(self._path)
        os.close(self._file)

    def _write(self, piece: bytes, at: int) -> int:
        rest = memoryview(piece)
        while rest:
            count = os.pwrite(self._file, rest, at)
            rest, at = rest[count:], at + count
        return at
