"""Undoes the content codings of a body, so that the store's dictionaries see text.

A body decodes whole or not at all: an unknown coding, damaged data, data that ends early or goes
on behind its end, and more output than the limit (a decompression bomb) leave it as it came.
"""

import importlib
import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

MAX_CODINGS: Final = 8
"""Most codings that are undone: each costs a pass over a possible bomb."""

_PIECE_BYTES: Final = 256 << 10


class _Undecodable(Exception):
    pass


def codings_of(values: Iterable[bytes]) -> list[str]:
    """The items of all `Content-Encoding` fields, in order, without `identity`."""
    items = [item.strip().lower().decode("latin-1") for v in values for item in v.split(b",")]
    return [item for item in items if item and item != "identity"]


def decode(codings: list[str], body: bytes, limit: int) -> bytes | None:
    """The decoded body; None if it does not decode whole, within `limit` bytes."""
    if not body or not codings or len(codings) > MAX_CODINGS:
        return None
    try:
        for coding in reversed(codings):
            body = _decode_one(coding, body, limit)
    except _Undecodable:
        return None
    return body


def _decode_one(coding: str, body: bytes, limit: int) -> bytes:
    if coding in ("gzip", "x-gzip"):
        return _members(body, 31, limit)
    if coding == "deflate":
        try:
            return _inflate(body, 15, limit)
        except _Undecodable:
            return _inflate(body, -15, limit)  # As some servers send it.
    if coding == "br" and _brotli is not None:
        return _unbrotli(body, limit)
    if coding == "zstd" and _zstd is not None:
        return _unzstd(body, limit)
    raise _Undecodable(coding)


def _inflate(body: bytes, wbits: int, limit: int) -> bytes:
    plain, rest = _stream(body, wbits, limit)
    if rest:
        raise _Undecodable("goes on")
    return plain


def _members(body: bytes, wbits: int, limit: int) -> bytes:
    """Gzip members, one behind another."""
    parts: list[bytes] = []
    rest, total = body, 0
    while rest:
        plain, rest = _stream(rest, wbits, limit - total)
        parts.append(plain)
        total += len(plain)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _stream(body: bytes, wbits: int, limit: int) -> tuple[bytes, bytes]:
    """One whole stream, and what follows it."""
    decoder = zlib.decompressobj(wbits)
    try:
        plain = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        raise _Undecodable from error
    if len(plain) > limit or not decoder.eof:
        raise _Undecodable("too long, or ends early")
    return plain, decoder.unused_data


def _unbrotli(body: bytes, limit: int) -> bytes:
    decoder = _brotli.Decompressor()
    parts: list[bytes] = []
    total, given = 0, body
    try:
        while not decoder.is_finished():
            piece = decoder.process(given, output_buffer_limit=_PIECE_BYTES)
            given = b""
            total += len(piece)
            if total > limit or (not piece and not decoder.is_finished()):
                raise _Undecodable("too long, or ends early")
            parts.append(piece)
    except _brotli.error as error:
        raise _Undecodable from error
    return b"".join(parts)


def _unzstd(body: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    rest, total = body, 0
    try:
        while rest:
            decoder = _zstd.ZstdDecompressor()
            parts.append(decoder.decompress(rest, limit - total + 1))
            total += len(parts[-1])
            if total > limit or not decoder.eof:
                raise _Undecodable("too long, or ends early")
            rest = decoder.unused_data
    except _zstd.ZstdError as error:
        raise _Undecodable from error
    return b"".join(parts)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _first(names: tuple[str, ...], has: Callable[[Any], bool]) -> Any:
    return next((found for found in map(_module, names) if found is not None and has(found)), None)


# Scrapy's own decoders, where they are installed. An old brotli has no bound of its output.
_brotli: Any = _first(("brotli", "brotlicffi"), lambda m: hasattr(m.Decompressor, "is_finished"))
_zstd: Any = _first(
    ("compression.zstd", "backports.zstd"), lambda m: hasattr(m, "ZstdDecompressor")
)
