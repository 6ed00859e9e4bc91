"""A set of fingerprints that many processes share, and that survives a kill.

The set is `filemap.seen.DiskSet`, which a kill makes forget what was not synced. A sync waits for
the disk, and so do all concurrent callers. So each new fingerprint is appended to a journal, a
mapped file that the kernel keeps after a kill, and the set is synced every five seconds only. The
next holder adds the fingerprints of the journals. A kill loses nothing; a power failure the last
seconds.

Asking *is it new?* adds the fingerprint, so a question must not be asked twice: if the holder dies
after it added a fingerprint and before it answered, the second attempt must not get "seen", or the
request would be lost. So each client numbers its questions, and before the holder adds a new
fingerprint it notes in a file which question of which client it is about to answer with "new". The
next holder reads the notes, adds those fingerprints, and gives the same answer to the same
question. A client asks one question at a time, so one note a client is enough.

Neither journals nor notes are synced: they are for kills, and after a power failure no client is
left to ask.
"""

import contextlib
import hashlib
import logging
import mmap
import os
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from filemap.seen import DiskSet

from . import wire
from .broker import Link, Member

logger = logging.getLogger(__name__)

SYNC_SECS: Final = 5.0
"""Interval between syncs of the set: a power failure may lose this much."""

MEMORY_BYTES: Final = 32 << 20
"""Memory of the set, for recent and popular fingerprints."""

_JOURNAL_BYTES: Final = 1 << 20
_NOTE: Final = struct.Struct("<16sQB32sxxxI")
_NOTE_BYTES: Final = 64
_MOST_CLIENTS: Final = 4096
_LONGEST_KEY: Final = 32


def key_of(fingerprint: bytes) -> bytes:
    """The form of a fingerprint in the set: itself, or a digest of a long one."""
    if len(fingerprint) <= _LONGEST_KEY:
        return fingerprint
    return hashlib.sha256(fingerprint).digest()


class Notes:
    """The last question of each client that was answered with "new"."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._path = path
        self._last: OrderedDict[bytes, tuple[int, int, bytes]] = OrderedDict()
        data = os.pread(self._file, _MOST_CLIENTS * _NOTE_BYTES, 0)
        for place in range(-(-len(data) // _NOTE_BYTES)):
            note = data[place * _NOTE_BYTES : (place + 1) * _NOTE_BYTES]
            whole = note.ljust(_NOTE_BYTES, b"\0")
            client, number, size, key, check = _NOTE.unpack(whole)
            if check == zlib.crc32(whole[: _NOTE_BYTES - 4]) and size <= _LONGEST_KEY:
                self._last[client] = (place, number, key[:size])
            elif note.strip(b"\0"):
                # A kill came while it was written: its question was not answered.
                what = "%s: the note at byte %d was being written when its process was killed, or is damaged"
                logger.warning(what, path, place * _NOTE_BYTES)

    def keys(self) -> Iterable[bytes]:
        """The fingerprints of all notes."""
        return [key for _, _, key in self._last.values()]

    def has(self, client: bytes, number: int) -> bool:
        """Returns whether this question was to be answered with "new"."""
        found = self._last.get(client)
        return found is not None and found[1] == number

    def write(self, client: bytes, number: int, key: bytes) -> None:
        """Notes that this question is about to be answered with "new"."""
        found = self._last.pop(client, None)
        if found is not None:
            place = found[0]
        elif len(self._last) < _MOST_CLIENTS:
            place = len(self._last)
            taken = {other[0] for other in self._last.values()}
            while place in taken:
                place = (place + 1) % _MOST_CLIENTS
        else:
            place = self._last.popitem(last=False)[1][0]
        note = _NOTE.pack(client, number, len(key), key, 0)[: _NOTE_BYTES - 4]
        os.pwrite(self._file, note + struct.pack("<I", zlib.crc32(note)), place * _NOTE_BYTES)
        self._last[client] = (place, number, key)

    def close(self) -> None:
        """Closes the file, and removes it if no client ever asked."""
        os.close(self._file)
        if not self._last:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)


class Journal:
    """Fingerprints added since a sync, each after its length, in a mapped file.

    A write to the map is not a system call, and the kernel has it at once. The file's space is
    reserved before it is mapped, so a full disk is an error here and not a signal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        found = os.pread(self._file, os.fstat(self._file).st_size, 0)
        self.keys = list(_listed(found))
        """The contents of the file, left by a killed holder."""
        end = sum(1 + len(key) for key in self.keys)
        if found[end:].strip(b"\0"):
            what = "%s: from byte %d on it cannot be read: a process was emptying it when it was"
            what += " killed, or it is damaged and fingerprints are missing"
            logger.warning(what, path, end)
        self._bytes = max(_JOURNAL_BYTES, len(found))
        self._map = self._mapped(self._bytes)
        self._at = len(found)

    def write(self, key: bytes) -> None:
        """Appends a fingerprint."""
        end = self._at + 1 + len(key)
        if end >= self._bytes:
            # On a full disk nothing changes.
            grown = self._mapped(self._bytes + _JOURNAL_BYTES)
            self._map.close()
            self._map, self._bytes = grown, self._bytes + _JOURNAL_BYTES
        self._map[self._at : end] = bytes((len(key) + 1,)) + key
        self._at = end

    def forget(self) -> None:
        """Empties the file: the set is synced."""
        if self._bytes > _JOURNAL_BYTES:
            self._map.close()
            self._bytes = _JOURNAL_BYTES
            os.ftruncate(self._file, self._bytes)
            self._map = self._mapped(self._bytes)
        used = min(self._at, self._bytes)
        self._map[:used] = bytes(used)
        self._at = 0

    @property
    def is_full(self) -> bool:
        """Returns whether it has outgrown its initial size, so that a sync is due."""
        return self._bytes > _JOURNAL_BYTES

    def close(self) -> None:
        """Removes the file: the set is closed."""
        self._map.close()
        os.close(self._file)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _mapped(self, size: int) -> mmap.mmap:
        os.posix_fallocate(self._file, 0, size)
        return mmap.mmap(self._file, size)


def _listed(data: bytes) -> Iterator[bytes]:
    """The fingerprints of a journal, up to its first zero."""
    at = 0
    while at < len(data) and 0 < data[at] <= _LONGEST_KEY + 1 and at + data[at] <= len(data):
        yield data[at + 1 : at + data[at]]
        at += data[at]


class SeenService:
    """The open set of the holder. Thread-safe."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        self._set = DiskSet(path, "a", memory_bytes=MEMORY_BYTES, canonicalizer="exact")
        self._turn = threading.Lock()
        self._is_changed = threading.Event()
        self._is_due = threading.Event()
        self._is_ending = False
        self._failure: Exception | None = None
        try:
            self._notes = Notes(f"{path}.clients")
            # One is written to; the other is emptied by the sync in progress.
            self._journal, self._other = Journal(f"{path}.journal0"), Journal(f"{path}.journal1")
            left = [*self._journal.keys, *self._other.keys, *self._notes.keys()]
            if left:
                self._set.add_many(left)
                self._set.sync()
            self._journal.forget()
            self._other.forget()
        except BaseException:
            self._set.close()
            raise
        self._syncer = threading.Thread(target=self._sync, name="filemap-sync", daemon=True)
        self._syncer.start()

    def add(self, key: bytes) -> bool:
        """Adds a fingerprint; returns whether it is new."""
        with self._turn:
            new = self._set.add(key)
            if new:
                self._journal.write(key)
        if new:
            self._changed()
        return new

    def answer(self, client: bytes, number: int, key: bytes) -> bool:
        """As `add`, for question `number` of a client: the same question gets the same answer."""
        with self._turn:
            if self._notes.has(client, number):
                self._set.add(key)
                new = True
            else:
                new = key not in self._set
                if new:
                    self._notes.write(client, number, key)
                    self._set.add(key)
                    self._journal.write(key)
        if new:
            self._changed()
        return new

    def add_many(self, keys: Iterable[bytes]) -> None:
        """Adds fingerprints, and makes them durable."""
        with self._turn:
            self._set.add_many(keys)
            self._set.sync()

    def __len__(self) -> int:
        return len(self._set)

    def perform(self, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Executes the call of a client."""
        call = head.get("call")
        if call == "add":
            client, number = wire.bytes_of(head.get("client")), head.get("number")
            if len(client) != 16 or not isinstance(number, int) or len(body) > _LONGEST_KEY:
                raise wire.Broken(f"{head!r} is not a question")
            return {"new": self.answer(client, number, body)}, b""
        if call == "add_many":
            self.add_many(_split(body))
            return {}, b""
        if call == "len":
            return {"len": len(self)}, b""
        raise wire.Broken(f"there is no call {call!r}")

    def close(self) -> None:
        """Makes all fingerprints durable and releases the set's lock."""
        self._is_ending = True
        self._is_due.set()
        self._is_changed.set()
        self._syncer.join()
        self._set.close()
        self._journal.close()
        self._other.close()
        self._notes.close()

    def _changed(self) -> None:
        if self._failure is not None:
            raise self._failure
        if not self._is_changed.is_set():
            self._is_changed.set()
        if self._journal.is_full:
            self._is_due.set()

    def _sync(self) -> None:
        while True:
            self._is_changed.wait()
            self._is_due.wait(SYNC_SECS)
            if self._is_ending:
                return
            self._is_due.clear()
            self._is_changed.clear()
            try:
                with self._turn:
                    self._journal, self._other = self._other, self._journal
                self._set.sync()
                self._other.forget()
            except Exception as error:  # noqa: BLE001 (the next caller raises it)
                self._failure = error
                return


def _joined(keys: Iterable[bytes]) -> bytes:
    return b"".join(bytes((len(key),)) + key for key in keys)


def _split(body: bytes) -> list[bytes]:
    keys: list[bytes] = []
    at = 0
    while at < len(body):
        end = at + 1 + body[at]
        if end > len(body) or body[at] > _LONGEST_KEY:
            raise wire.Broken("a list of fingerprints is truncated")
        keys.append(body[at + 1 : end])
        at = end
    return keys


class SharedSeen:
    """A set of fingerprints that this process holds or reaches through its holder."""

    def __init__(self, path: str, patience: float) -> None:
        self.path = path
        self.users = 0
        self._client = os.urandom(16)
        self._number = 0
        self._turn = threading.Lock()
        self._member = Member(path, lambda: SeenService(path), patience)
        self._member.join()

    @property
    def is_holder(self) -> bool:
        """Returns whether this process has the set open."""
        return self._member.is_holder

    def add(self, fingerprint: bytes) -> bool:
        """Adds a fingerprint; returns whether it is new."""
        key = key_of(fingerprint)
        if (held := self._member.held) is not None:
            return held.add(key)

        def local(service: SeenService, again: bool) -> bool:
            return service.answer(self._client, self._number, key) if again else service.add(key)

        def remote(link: Link, _again: bool) -> bool:
            client = wire.text_of(self._client)
            head = {"call": "add", "client": client, "number": self._number}
            return bool(link.ask(head, key)[0]["new"])

        with self._turn:  # One question at a time, as the module's comment says.
            self._number += 1
            return self._member.call(local, remote)

    def add_many(self, fingerprints: Iterable[bytes]) -> None:
        """Adds fingerprints without telling which are new."""
        keys = [key_of(fingerprint) for fingerprint in fingerprints]

        def remote(link: Link, _again: bool) -> None:
            link.ask({"call": "add_many"}, _joined(keys))

        self._member.call(lambda service, _: service.add_many(keys), remote)

    def __len__(self) -> int:
        return self._member.call(
            lambda service, _: len(service),
            lambda link, _: int(link.ask({"call": "len"})[0]["len"]),
        )

    def close(self) -> None:
        """Ends this use; the last one in a process releases the set."""
        with _shared_lock:
            self.users -= 1
            if self.users > 0:
                return
            _shared.pop(self.path, None)
        self._member.close()


_shared: dict[str, SharedSeen] = {}
_shared_lock = threading.Lock()


def shared(path: str, patience: float) -> SharedSeen:
    """The set at `path`, for one more user in this process."""
    path = os.path.realpath(path)
    with _shared_lock:
        found = _shared.get(path)
        if found is None:
            found = _shared[path] = SharedSeen(path, patience)
        found.users += 1
        return found
