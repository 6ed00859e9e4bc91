"""One store for many processes: the first serves the others through a socket beside the store.

A store has one writer. The process that opens it first is its *holder*; every other is a *client*,
which sends its calls to the holder over a Unix socket beside the store. When the holder ends, the
clients' connections end, and the client that gets the store's lock first is the next holder. A
call in progress is repeated there.

    member = Member("pages.fm", open_service)
    member.call(lambda service, again: service.put(record, again),
                lambda link, again: link.ask({"op": "put", ...}, body))
    member.close()

Invariants:

- The store's lock decides who the holder is; the socket only reaches it. Only a holder makes
  or removes the socket, so a socket that nobody answers belonged to a holder that died.
- A call is answered after the holder has done it: a client's result is as durable as the
  holder's own.
- A call may be done twice, when its holder dies between doing and answering. `again` marks the
  second attempt; each service makes its calls idempotent.
- The socket is readable and writable by its owner only (mode 0600), and messages are bounded.

Threads: the holder has one for connections and one for each client, all daemons; a client has one
that waits for the end of its holder, so that the next holder is ready before it is needed.
"""

import contextlib
import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import filemap

from . import wire

logger = logging.getLogger(__name__)

_R = TypeVar("_R")

_HELLO: Final = {"filemap": "broker", "version": 2}
_PAUSE_SECS: Final = 0.02
_ANSWER_SECS: Final = 60.0
_LONGEST_ADDRESS: Final = 100
_POLLRDHUP: Final = getattr(select, "POLLRDHUP", 0x2000)


class Service(Protocol):
    """The service of a holder for its clients. Called from many threads."""

    def perform(self, head: Mapping[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Executes one call of a client."""
        ...

    def close(self) -> None:
        """Closes the store, which releases its lock."""
        ...


_S = TypeVar("_S", bound=Service)


class Refused(filemap.FileMapError):
    """The holder answered with an error that is not one of this package."""


class Link:
    """A connection to the holder: one call at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._turn = threading.Lock()

    @classmethod
    def to(cls, path: str) -> "Link":
        """Connects to the holder of the store at `path`.

        Raises `OSError` if nobody answers at its socket.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_ANSWER_SECS)
            with _address(path) as address:
                connection.connect(address)
            wire.send(connection, _HELLO)
            answer, _ = wire.receive(connection)
        except BaseException:
            connection.close()
            raise
        if answer != _HELLO:
            connection.close()
            raise filemap.FileMapError(
                f"{_socket_path(path)} speaks {answer}, this is {_HELLO}: "
                "use one version of filemap-store for all processes of a store"
            )
        return cls(connection)

    def ask(self, head: Mapping[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Sends a call and waits for its answer.

        Raises `OSError` if the holder has ended, and the exception of the call there.
        """
        with self._turn:
            try:
                wire.send(self._connection, head, body)
                answer, answered = wire.receive(self._connection)
            except BaseException:
                # A late answer would be taken for that of the next call.
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
                raise
        error = answer.get("error")
        if error is not None:
            raise _exception(error)
        return answer, answered

    def wait_for_end(self) -> None:
        """Waits until the holder ends, or until `close`."""
        poll = select.poll()
        try:
            poll.register(self._connection, _POLLRDHUP)
            poll.poll()
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Ends the connection: a call that waits on another thread gets an `OSError`."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with self._turn:  # Once it is closed, its descriptor may be reused.
            self._connection.close()


class Server:
    """The holder's side: answers clients until it is closed."""

    def __init__(self, path: str, service: Service) -> None:
        self._service = service
        self._path = path
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, threading.Lock] = {}
        self._closing = False
        self._listener = _listen(path)
        self._inode = os.stat(_socket_path(path)).st_ino
        self._start(self._accept)

    def close(self) -> None:
        """Waits for calls in progress, then ends all connections and removes the socket."""
        with self._lock:
            self._closing = True
            clients = dict(self._clients)
        with contextlib.suppress(OSError):
            if os.stat(_socket_path(self._path)).st_ino == self._inode:
                os.unlink(_socket_path(self._path))
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection, busy in clients.items():
            with busy, contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, name="filemap-broker", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closing or self._listener.fileno() < 0:
                    return
                # Out of descriptors or memory, which may be temporary: clients wait.
                time.sleep(_PAUSE_SECS)
                continue
            seconds = struct.pack("ll", int(_ANSWER_SECS), 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)
            busy = threading.Lock()
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                self._clients[connection] = busy
            self._start(self._serve, connection, busy)

    def _serve(self, connection: socket.socket, busy: threading.Lock) -> None:
        try:
            wire.receive(connection)
            wire.send(connection, _HELLO)
            while True:
                head, body = wire.receive(connection)
                with busy:
                    if self._closing:
                        return
                    self._answer(connection, head, body)
        except OSError:
            pass
        finally:
            with self._lock:
                self._clients.pop(connection, None)
            connection.close()

    def _answer(self, connection: socket.socket, head: Mapping[str, Any], body: bytes) -> None:
        try:
            answer, answered = self._service.perform(head, body)
        except wire.Broken:
            raise
        except Exception as error:  # noqa: BLE001 (the client raises it)
            answer, answered = {"error": _description(error)}, b""
        wire.send(connection, answer, answered)


class Member(Generic[_S]):
    """A process's role in a store that many processes share: its holder, or a client of it.

    `open_service` opens the store for writing, and raises `filemap.LockedError` if another process
    has it. `patience` is the number of seconds that a call waits for a store locked by a process
    that does not answer, such as a long `fm-tool` command.
    """

    def __init__(self, path: str, open_service: Callable[[], _S], patience: float = 30.0) -> None:
        self._path = path
        self._open = open_service
        self._patience = patience
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._role: tuple[_S, Server | None] | Link | None = None
        self._closed = False

    @property
    def is_holder(self) -> bool:
        """Returns whether this process has the store open."""
        return isinstance(self._role, tuple)

    @property
    def held(self) -> _S | None:
        """The open service if this process is the holder, for direct calls."""
        role = self._role
        return role[0] if isinstance(role, tuple) else None

    def call(self, local: Callable[[_S, bool], _R], remote: Callable[[Link, bool], _R]) -> _R:
        """Executes a call here if this process is the holder, else through the holder.

        `local` or `remote` is called again, with `True`, if the holder ends before it answers.
        """
        again = False
        deadline = time.monotonic() + self._patience
        while True:
            role = self._role
            if isinstance(role, tuple):
                return local(role[0], again)
            if role is None:
                self.join(deadline)
                continue
            try:
                return remote(role, again)
            except OSError as error:
                if isinstance(error, filemap.FileMapError):
                    raise
                self._lose(role)
                if time.monotonic() > deadline:
                    raise
                again = True

    def join(self, deadline: float | None = None) -> None:
        """Becomes the holder, or a client of it.

        Raises `filemap.LockedError` if the store is locked and nobody answers until `deadline`.
        """
        if os.getpid() != self._pid:
            raise filemap.ForkedError(f"{self._path} was opened before a fork: open it again")
        until = time.monotonic() + self._patience if deadline is None else deadline
        with self._lock:
            while self._role is None:
                if self._closed:
                    raise filemap.ClosedError(f"{self._path} is closed")
                try:
                    self._become_holder()
                except filemap.LockedError:
                    if not self._become_client() and time.monotonic() > until:
                        raise
                    if self._role is None:
                        time.sleep(_PAUSE_SECS)

    def close(self) -> None:
        """Ends this process's role. The next call of a client makes it the holder. Does nothing
        after a fork: the store and the socket are the parent's."""
        if os.getpid() != self._pid:
            return
        self._closed = True  # Before taking the lock, which `join` may hold while it waits.
        with self._lock:
            role, self._role = self._role, None
        if isinstance(role, Link):
            role.close()
        elif role is not None:
            service, server = role
            if server is not None:
                server.close()
            service.close()

    def _become_holder(self) -> None:
        service = self._open()
        server = None
        try:
            server = Server(self._path, service)
        except OSError as error:
            logger.warning("%s cannot be shared with other processes: %s", self._path, error)
        self._role = (service, server)
        logger.debug("Process %d holds %s", os.getpid(), self._path)

    def _become_client(self) -> bool:
        try:
            link = Link.to(self._path)
        except OSError as error:
            if isinstance(error, filemap.FileMapError):
                raise
            return False
        self._role = link
        logger.debug("Process %d reaches %s through its holder", os.getpid(), self._path)
        threading.Thread(
            target=self._watch, args=(link,), name="filemap-watch", daemon=True
        ).start()
        return True

    def _watch(self, link: Link) -> None:
        link.wait_for_end()
        if not self._closed:
            self._lose(link)
            # The next caller gets the error.
            with contextlib.suppress(Exception):
                self.join()

    def _lose(self, link: Link) -> None:
        with self._lock:
            if self._role is link:
                self._role = None
        link.close()


def _listen(path: str) -> socket.socket:
    """The socket of a new holder; replaces that of a dead one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_socket_path(path))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Sets the mode with which `bind` makes the socket, so that others can never connect.
        os.fchmod(listener.fileno(), 0o600)
        with _address(path) as address:
            listener.bind(address)
        os.chmod(_socket_path(path), 0o600)
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener


def _socket_path(path: str) -> str:
    return f"{path}.sock"


@contextlib.contextmanager
def _address(path: str) -> Generator[str, None, None]:
    """The address of a store's socket, via its folder's descriptor if the path is too long."""
    address = _socket_path(path)
    if len(os.fsencode(address)) <= _LONGEST_ADDRESS:
        yield address
        return
    folder = os.open(Path(address).parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{Path(address).name}"
    finally:
        os.close(folder)


def _description(error: Exception) -> dict[str, Any]:
    known = {name: getattr(error, name, None) for name in ("file", "offset", "rule", "errno")}
    return {
        "class": type(error).__name__,
        "text": str(error),
        "with": {name: value for name, value in known.items() if isinstance(value, (str, int))},
    }


def _exception(error: object) -> Exception:
    """The exception of a call at the holder: one of the package's own, or `Refused`."""
    said = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    named = getattr(filemap, str(said.get("class")), None)
    if isinstance(named, type) and issubclass(named, filemap.FileMapError):
        more = dict(said.get("with") or {})
        text = str(said.get("text"))
        made = named(more.pop("errno", 5), text) if issubclass(named, OSError) else named(text)
        for name, value in more.items():
            with contextlib.suppress(AttributeError):
                setattr(made, name, value)
        return made
    return Refused(f"the holder of the store answered {said.get('class')}: {said.get('text')}")
