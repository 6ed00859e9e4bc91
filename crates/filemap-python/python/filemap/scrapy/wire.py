"""Messages between processes that share a store: a JSON object followed by bytes.

A message is a length of eight bytes (big-endian, of all that follows), a length of four bytes (of
the JSON), the JSON, and the bytes. Nothing is unpickled. A message over the receiver's bound ends
the connection before its bytes are read, and memory grows with the bytes that arrive, not with a
claimed length.
"""

import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

MAX_HEAD_BYTES: Final = 128 << 20
"""The longest JSON: a page's headers may have 64 MiB."""

MAX_BODY_BYTES: Final = (1 << 30) + (64 << 20)
"""Maximum length of the bytes after it: Scrapy's largest response, and some spare."""

_LENGTHS: Final = struct.Struct(">QI")
_PIECE_BYTES: Final = 1 << 20
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class Broken(OSError):
    """The other side has ended, or does not speak this protocol."""


def start_of(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A message without its body, which follows."""
    text = _JSON.encode(head).encode()
    if len(text) > MAX_HEAD_BYTES or len(body) > MAX_BODY_BYTES:
        raise ValueError(f"a message of {len(text)} and {len(body)} bytes is over the bound")
    return _LENGTHS.pack(_LENGTHS.size - 8 + len(text) + len(body), len(text)) + text


def send(connection: socket.socket, head: Mapping[str, Any], body: bytes = b"") -> None:
    """Sends one message."""
    start = start_of(head, body)
    if len(body) < _PIECE_BYTES:
        connection.sendall(start + body)
    else:
        connection.sendall(start)
        connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict[str, Any], bytes]:
    """Receives one message.

    Raises `Broken` if the connection ends, or delivers an invalid message.
    """
    return read(connection.recv)


def read(take: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Reads one message; `take` returns up to the given number of bytes, and none at the end.

    Raises `Broken` at the end, and for an invalid message.
    """
    whole, text_bytes = _LENGTHS.unpack(_exactly(take, _LENGTHS.size))
    body_bytes = whole - (_LENGTHS.size - 8) - text_bytes
    if text_bytes > MAX_HEAD_BYTES or not 0 <= body_bytes <= MAX_BODY_BYTES:
        raise Broken(f"a message claims {whole} bytes, {text_bytes} of them JSON")
    text = _exactly(take, text_bytes)
    try:
        head = json.loads(text)
    except ValueError as error:
        raise Broken("a message is not JSON") from error
    if not isinstance(head, dict):
        raise Broken("a message is not a JSON object")
    return cast(dict[str, Any], head), bytes(_exactly(take, body_bytes))


def _exactly(take: Callable[[int], bytes], count: int) -> bytearray:
    found = bytearray()
    while len(found) < count:
        piece = take(min(count - len(found), _PIECE_BYTES))
        if not piece:
            raise Broken("the connection ended")
        found += piece
    return found


def text_of(value: bytes) -> str:
    """Bytes in a form that JSON can hold: one character each."""
    return value.decode("latin-1")


def bytes_of(value: object) -> bytes:
    """The bytes of `text_of`."""
    if not isinstance(value, str):
        raise Broken(f"{value!r} is not text")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise Broken(f"{value!r} is not a text of bytes") from error
