"""One open store for each path or address in a process, shared by all its caches and storages.

A store has one writer, and programs make several sessions on one cache. So each path is opened
once, at the first use, and closed when its last user closes or is collected. A handle that was
closed, or made useless by a `fork`, reopens the store at its next use.
"""

import logging
import os
import threading
import weakref
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import filemap

_STRIPES: Final = 64

_logger: Final = logging.getLogger("filemap.requests_cache")


def is_address(path: str) -> bool:
    """Returns whether a store is behind a server: `http://host:8640`, or with `https`."""
    return path.lower().startswith(("http://", "https://"))


def _spelled(address: str) -> str:
    """An address with scheme and host in lower case, so that two spellings share one store."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme.lower()}://{host.lower()}{slash}{path}".rstrip("/")


class _Shared:
    """An open store, and the number of handles that use it."""

    def __init__(self, path: str, read_only: bool, options: Mapping[str, Any]) -> None:
        self.options = dict(options)
        self.pid = os.getpid()
        self.users = 0
        self.locks = tuple(threading.Lock() for _ in range(_STRIPES))
        given: Any = self.options
        is_there = is_address(path)
        if not (read_only or is_there):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        mode: Any = "r" if read_only else "w" if is_there else "a"
        self.store = filemap.open(path, mode, **given)


_all: dict[tuple[str, bool], _Shared] = {}
# Reentrant: the garbage collector may run a finalizer that takes it while it is held.
_lock = threading.RLock()


def _forked() -> None:
    global _lock
    _lock = threading.RLock()
    _all.clear()


os.register_at_fork(after_in_child=_forked)


def _release(name: tuple[str, bool], used: list[_Shared]) -> None:
    served: list[_Shared] = []
    with _lock:
        while used:
            shared = used.pop()
            if shared.pid != os.getpid():
                continue
            shared.users -= 1
            if shared.users == 0:
                if _all.get(name) is shared:
                    del _all[name]
                if is_address(name[0]):
                    served.append(shared)
                else:
                    shared.store.close()
    # A server may be slow, and nobody else must wait for it.
    for shared in served:
        shared.store.close()


def _finalize(name: tuple[str, bool], used: list[_Shared]) -> None:
    try:
        _release(name, used)
    except filemap.RemoteError as error:
        # Nobody could catch the error; the server has what was put.
        _logger.warning("Unable to close the store at %s: %s", name[0], error)


class Handle:
    """A use of the store at a path; opened at the first access.

    Two handles of one process on one path must have the same options.
    """

    def __init__(self, path: str, *, read_only: bool, options: Mapping[str, Any]) -> None:
        is_there = is_address(path)
        self.path = _spelled(path) if is_there else os.path.realpath(path)
        self.read_only = read_only
        # The server decides how many versions its store keeps.
        given = {**({} if is_there else {"keep_versions": 1}), **options}
        self._options = {name: value for name, value in given.items() if value is not None}
        self._used: list[_Shared] = []
        self._finalizer = weakref.finalize(self, _finalize, (self.path, read_only), self._used)

    @property
    def store(self) -> filemap.PageStore:
        """The store. Raises what `filemap.open` raises: `LockedError` if another process has it
        open for writing, `RemoteError` if its server is not reached."""
        return self._shared().store

    def lock(self, key: str) -> AbstractContextManager[Any]:
        """The lock of a key, shared by all writers of this store in this process."""
        return self._shared().locks[hash(key) % _STRIPES]

    def close(self) -> None:
        """Ends this use; the last one closes the store."""
        _release((self.path, self.read_only), self._used)

    def _shared(self) -> _Shared:
        try:
            shared = self._used[-1]
            if shared.pid == os.getpid():
                return shared
        except IndexError:
            pass
        # A store behind a server is opened without the lock, so two threads may open it at once.
        opened: _Shared | None = None
        while True:
            with _lock:
                taken = self._taken(opened)
            if taken is not None:
                break
            opened = _Shared(self.path, self.read_only, self._options)
        if opened is not None and opened is not taken:
            opened.store.close()
        return taken

    def _taken(self, opened: _Shared | None) -> _Shared | None:
        """The store, with this use counted; `None` if it must be opened first."""
        if self._used and self._used[-1].pid == os.getpid():
            return self._used[-1]
        shared = self._found(opened)
        while shared is not None:
            shared.users += 1
            if not shared.store.closed:
                # A store opened before a fork stays in the list: it is the parent's.
                self._used.append(shared)
                return shared
            # Closed by such a finalizer just now.
            shared = self._found(None)
        return None

    def _found(self, opened: _Shared | None) -> _Shared | None:
        name = (self.path, self.read_only)
        shared = _all.get(name)
        if shared is None:
            if opened is None:
                if is_address(self.path):
                    return None
                opened = _Shared(self.path, self.read_only, self._options)
            _all[name] = opened
            return opened
        if shared.options != self._options:
            # A token must not appear in a message.
            names = [sorted(options) for options in (shared.options, self._options)]
            own, other = names if is_address(self.path) else (shared.options, self._options)
            raise filemap.InvalidValueError(
                f"{self.path} is open in this process with other options: {own}, not {other};"
                " give both the same"
            )
        return shared
