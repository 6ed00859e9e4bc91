"""Decodes the content codings of a body, so that the store's dictionaries see text.

A body is decoded completely or not at all: an unknown coding, damaged data, data that ends early
or continues after its end, and output over the limit (a decompression bomb) leave it as received.
The decoders are the store's: gzip, deflate (raw too), br, zstd.
"""

from collections.abc import Iterable

import filemap


def codings_of(values: Iterable[bytes]) -> list[str]:
    """The items of all `Content-Encoding` fields, in order, without `identity`."""
    items = [item.strip().lower().decode("latin-1") for v in values for item in v.split(b",")]
    return [item for item in items if item and item != "identity"]


def decode(codings: list[str], body: bytes, limit: int) -> bytes | None:
    """The decoded body; None if it does not decode completely, within `limit` bytes."""
    if not codings or not body:
        return None
    return filemap.decode_body(codings, body, max_bytes=limit)
