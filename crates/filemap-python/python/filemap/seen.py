"""URL-seen sets in files: has this URL been met before?

| class | wrong answers | bytes a URL |
|---|---|---|
| `DiskSet` | none but collisions of 80-bit hashes | 0 to 16 in memory, 8.4 to 10 on disk |
| `Trie` | none | what differs from its neighbours, in memory |
| `BloomFilter` | `rate`, up to `capacity` URLs | 1.2 to 5 in memory |
| `Md5Bitmap` | more as it fills | 2 to the `bits` / 8 in all |

No set ever calls an added URL new. Each compares bytes: give canonical URLs
(`filemap.canonicalize`), or a `canonicalizer`, which the set then applies to each URL.
Modes are those of `filemap.open`: `r`, `w`, `a` (the default), `x`. `open` opens a set of any of
these kinds, one behind an `fm-serve`, and one on Redis.
"""

import os
from typing import TYPE_CHECKING, Self

from ._native import SeenSet

if TYPE_CHECKING:
    from .types import Mode, Path

__all__ = ["BloomFilter", "DiskSet", "Md5Bitmap", "SeenSet", "Trie", "open"]


def open(
    path: "Path",
    mode: "Mode" = "a",
    *,
    canonicalizer: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
    durable: bool | None = None,
    patience: float | None = None,
    password: str | None = None,
    capacity: int | None = None,
) -> SeenSet:
    """Open a set of whatever kind: a file, or the address of one behind an `fm-serve`, such as
    `http://host:8640/v1/seen/NAME`. A new one (modes `a`, `x`) is exact and on disk; behind a
    server it needs `fm-serve --write --seen-dir`.

    The other options are for an address. `token` and `ca_file` are as in `filemap.open`. Each call
    is a request. It is sent again for `patience` seconds (30) while the server does not answer, and
    a URL is new to one caller all the same. What was added survives the end of the server's
    process within a second, or after `sync` or `close`; with `durable` each call waits until it
    survives the loss of its power, too. `len` and `stat` tell of what survives that: without
    `durable`, as it was up to a second ago.

    Raises `RemoteError` (a `ConnectionError`); whether its URLs were added is not known then.
    `ReadOnlyError` if the server or the token lets nothing be added; `forget_many` raises
    `FileMapError`.

    `redis://[user@]host:port[,host:port...]/NAME[?replicas=N]` is a set on Redis 7 or a cluster,
    which many crawlers share without an `fm-serve`; `rediss://` with TLS. A new one is exact, for
    about `capacity` URLs (100 million; more take more memory); for one that exists, another
    `capacity` than its own raises `InvalidValueError`. `password` is else `REDISCLI_AUTH` of the
    environment. A call that fails with `RemoteError` loses nothing: its URLs are new to whoever
    asks for them next by this handle.
    """
    if isinstance(path, str) and path.lower().startswith(("redis://", "rediss://")):
        _refuse(path, "on Redis", token=token, ca_file=ca_file, durable=durable)
        there = {"patience": patience, "password": password, "capacity": capacity}
        given = {name: value for name, value in there.items() if value is not None}
        return SeenSet("any", path, mode, canonicalizer=canonicalizer, **given)
    _refuse(path, "not on Redis", password=password, capacity=capacity)
    there = {"token": token, "ca_file": ca_file, "durable": durable, "patience": patience}
    given = {name: value for name, value in there.items() if value is not None}
    if given and not _is_address(path):
        raise TypeError(f"{', '.join(given)}: for the address of a server, not for {path!r}")
    return SeenSet("any", path, mode, canonicalizer=canonicalizer, **given)


def _refuse(path: "Path", where: str, **options: object) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise TypeError(f"{', '.join(given)}: not for a set that is {where}, as {path!r}")


def _is_address(path: "Path") -> bool:
    return isinstance(path, str) and path.lower().startswith(("http://", "https://"))


class DiskSet(SeenSet):
    """The exact set on disk, for any number of URLs in `memory_bytes`.

    `seed` is that of the fingerprints of a new set; a random one, if it is not given. For a set
    that exists, one other than its own raises `InvalidValueError`.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: "Path",
        mode: "Mode" = "a",
        *,
        memory_bytes: int = 64 << 20,
        seed: int | None = None,
        canonicalizer: str | None = None,
    ) -> Self:
        return super().__new__(
            cls,
            "disk",
            path,
            mode,
            canonicalizer=canonicalizer,
            memory_bytes=memory_bytes,
            seed=seed,
            new_seed=int.from_bytes(os.urandom(8), "little"),
        )


class Trie(SeenSet):
    """The exact set of texts, in memory; saved by `sync` and `close`."""

    __slots__ = ()

    def __new__(cls, path: "Path", mode: "Mode" = "a", *, canonicalizer: str | None = None) -> Self:
        return super().__new__(cls, "trie", path, mode, canonicalizer=canonicalizer)


class BloomFilter(SeenSet):
    """A Bloom filter for `capacity` URLs (1,000,000) with the false positive rate `rate` (1e-4).

    For a filter that exists, values other than its own raise `InvalidValueError`.
    With more URLs the rate grows without end: `stat()["false_positive_rate"]` has it.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: "Path",
        mode: "Mode" = "a",
        *,
        capacity: int | None = None,
        rate: float | None = None,
        canonicalizer: str | None = None,
    ) -> Self:
        return super().__new__(
            cls, "bloom", path, mode, canonicalizer=canonicalizer, capacity=capacity, rate=rate
        )


class Md5Bitmap(SeenSet):
    """A bitmap of 2 to the `bits` slots (16 to 36; 28), addressed by MD5; mapped from its file.

    For a bitmap that exists, another number than its own raises `InvalidValueError`.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: "Path",
        mode: "Mode" = "a",
        *,
        bits: int | None = None,
        canonicalizer: str | None = None,
    ) -> Self:
        return super().__new__(
            cls, "md5-bitmap", path, mode, canonicalizer=canonicalizer, bits=bits
        )
