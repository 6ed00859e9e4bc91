"""Seen sets behind a server: `filemap.seen.open("http://...")`."""

import select
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import filemap
from filemap import seen
from fm_serve import Server

URLS = [f"http://a.example/{n}" for n in range(10_000)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = serving(tmp_path)
    yield server
    server.stop()


def serving(folder: Path, *arguments: str) -> Server:
    (folder / "sets").mkdir(exist_ok=True)
    sets = ("--write", "--seen-dir", str(folder / "sets"))
    return Server(folder / "pages.fm", *sets, *arguments)


def test_a_set_is_a_set(server: Server) -> None:
    location = server.seen("pages")
    with pytest.raises(filemap.RemoteError, match="there is no seen set"):
        seen.open(location, "w")
    with seen.open(location) as known, seen.open(location, "w") as other:
        assert known and len(known) == 0 and known.mode == "a"
        assert known.path == location and location in repr(known)
        assert known.add("http://a/") and not other.add(b"http://a/")
        assert other.add_many(iter(URLS[:6000])) == [True] * 6000
        new = known.add_many([*URLS, URLS[0]])
        assert new == [False] * 6000 + [True] * 4000 + [False]
        known.sync()
        assert known.add_many([]) == [] and len(known) == len(other) == 10_001
        assert all(known.contains_many(URLS)) and "http://a/" in other and 5 not in known
        assert known.contains_many(["http://absent/", "http://a/"]) == [False, True]
        assert known.stat()["urls"] == 10_001
        with pytest.raises(filemap.FileMapError, match="forgets no URL"):
            known.forget_many(["http://a/"])
        with seen.open(location, "r") as reader:
            assert "http://a/" in reader
            with pytest.raises(filemap.ReadOnlyError):
                reader.add("http://b/")
        assert "http://b/" not in known
    assert known.closed
    with pytest.raises(filemap.ClosedError):
        known.add("http://b/")
    with pytest.raises(FileExistsError):
        seen.open(location, "x")
    seen.open(server.seen("other"), "x").close()


@pytest.mark.parametrize("rest", ["", "http://b\n/", "http://b\r/"])
def test_what_is_no_line_is_no_url_and_those_before_it_are_added(server: Server, rest: str) -> None:
    with seen.open(server.seen("pages")) as known:
        with pytest.raises(filemap.InvalidUrlError) as raised:
            known.add_many(["http://a/", "http://b/", "http://a/", rest, "http://c/"])
        assert raised.value.done == [True, True, False]
        known.sync()
        assert len(known) == 2 and rest not in known and "http://c/" not in known
        with pytest.raises(ValueError):
            known.add(rest)


def test_a_served_set_applies_its_canonicaliser(server: Server) -> None:
    location = server.seen("pages")
    with seen.open(location, canonicalizer="whatwg") as known:
        assert known.add("HTTP://A/#x") and not known.add("http://a/")
        with pytest.raises(filemap.InvalidUrlError):
            known.add("no URL")
        assert "no URL" not in known
    with seen.open(location) as known:
        assert "http://A:80/" in known
    with pytest.raises(ValueError, match="by whatwg .*, not by crawl"):
        seen.open(location, canonicalizer="crawl")


def test_what_is_no_address_of_a_set(server: Server, tmp_path: Path) -> None:
    for wrong in ("", "/v1/seen", "/v1/seen/", "/v1/seen/UPPER", "/v1/seen/a/b"):
        with pytest.raises(filemap.RemoteError):
            seen.open(server.location + wrong)
    with pytest.raises(filemap.FileMapError, match="filemap.seen.open"):
        seen.DiskSet(server.seen("pages"))
    with pytest.raises(TypeError, match="token"):
        seen.open(tmp_path / "here", token="0123456789abcdef")
    with pytest.raises(TypeError):
        seen.open(server.seen("pages"), patience="long")  # type: ignore[arg-type]
    for patience in (-1.0, float("nan"), float("inf")):
        with pytest.raises(filemap.InvalidValueError, match="patience"):
            seen.open(server.seen("pages"), patience=patience)
    with pytest.raises(ValueError, match="mode"):
        seen.open(server.seen("pages"), "rb")  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        seen.open("http://127.0.0.1:1/v1/seen/pages", patience=0.2)
    with seen.open(server.seen("pages"), patience=1e15) as known:
        assert known.add("http://a/")
    with seen.open(tmp_path / "here") as known:
        assert known.add("http://a/")
    with seen.DiskSet(tmp_path / "here", "w") as known:
        assert not known.add("http://a/")


def test_a_server_that_makes_no_sets_or_only_reads(tmp_path: Path) -> None:
    path = tmp_path / "pages.fm"
    filemap.open(path, "x").close()
    server = Server(path, "--write")
    try:
        with pytest.raises(filemap.RemoteError, match="no seen set.*none can be made.*--seen-dir"):
            seen.open(server.seen("pages"))
    finally:
        server.stop()
    seen.Trie(tmp_path / "pages").close()
    server = Server(path, "--seen", f"pages={tmp_path / 'pages'}")
    try:
        with pytest.raises(filemap.ReadOnlyError):
            seen.open(server.seen("pages"))
        with seen.open(server.seen("pages"), "r") as known:
            assert "http://a/" not in known
    finally:
        server.stop()


def test_a_token_comes_from_the_environment_and_stands_in_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef\nwrite 123456789abcdef0\n")
    server = serving(tmp_path, "--token-file", str(tokens))
    location = server.seen("pages")
    try:
        with pytest.raises(filemap.RemoteError, match="token"):
            seen.open(location)
        with pytest.raises(filemap.RemoteError):
            seen.open(location, token="0123456789abcdef")  # It creates no set.
        in_url = location.replace("http://", "http://x:123456789abcdef0@")
        with pytest.raises(filemap.FileMapError) as raised:
            seen.open(in_url)
        assert "123456789abcdef0" not in str(raised.value)
        monkeypatch.setenv("FILEMAP_TOKEN", "123456789abcdef0")
        with seen.open(location) as known:
            assert known.add("http://a/")
            assert "123456789abcdef0" not in repr(known)
        monkeypatch.setenv("FILEMAP_TOKEN", "0123456789abcdef")
        with pytest.raises(filemap.ReadOnlyError):
            seen.open(location)
        with seen.open(location, "r") as known:
            assert "http://a/" in known
    finally:
        server.stop()


@pytest.mark.parametrize("durable", [False, True])
def test_a_server_that_dies_and_comes_back_has_what_was_answered(
    server: Server, durable: bool
) -> None:
    with seen.open(server.seen("pages"), durable=durable) as known:
        assert known.add_many(URLS[:100]) == [True] * 100
        known.sync()
        server.kill()
        back = threading.Thread(target=lambda: (time.sleep(0.3), server.start()))
        back.start()
        assert known.add_many(URLS[50:150]) == [False] * 50 + [True] * 50
        back.join()
        known.sync()
        assert len(known) == 150


def test_without_patience_a_server_that_is_gone_is_an_error(server: Server) -> None:
    with seen.open(server.seen("pages"), patience=0) as known:
        server.kill()
        with pytest.raises(filemap.RemoteError) as raised:
            known.add_many(URLS[:3])
        assert raised.value.done == []
        for call in (known.sync, known.stat, lambda: "http://a/" in known):
            with pytest.raises(ConnectionError):
                call()
        server.start()
        assert known.add(URLS[0])


METHODS = (b"GET ", b"POST ", b"PUT ")


class Forgetful:
    """Forwards requests to a server; loses the first `losses` answers to those that add URLs."""

    def __init__(self, location: str, losses: int) -> None:
        self._to = location.partition("://")[2]
        self.losses = losses
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.location = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        host, _, port = self._to.rpartition(":")
        with client, socket.create_connection((host, int(port))) as server:
            adds = False
            while True:
                # A request and its answer arrive in any number of parts, at any time.
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(1 << 16)
                    if not data:
                        return
                    if ready is client:
                        adds = b"/add" in data if data.startswith(METHODS) else adds
                        server.sendall(data)
                    elif adds and self.losses > 0:
                        self.losses -= 1
                        return
                    else:
                        client.sendall(data)

    def close(self) -> None:
        self._listener.close()


def test_a_url_whose_answer_was_lost_is_new_all_the_same(server: Server) -> None:
    between = Forgetful(server.location, 0)
    try:
        with seen.open(f"{between.location}/v1/seen/pages") as known:
            between.losses = 2
            assert known.add(URLS[0]) and between.losses == 0
            between.losses = 1
            assert known.add_many(URLS[:3]) == [False, True, True]
            assert not known.add(URLS[0])
            known.sync()
            assert len(known) == 3
    finally:
        between.close()
