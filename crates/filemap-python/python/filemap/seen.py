"""URL-seen sets in files: has this URL been seen before?

| class | wrong answers | bytes a URL |
|---|---|---|
| `DiskSet` | none but collisions of 80-bit hashes | 0 to 16 in memory, 8.4 to 10 on disk |
| `Trie` | none | the part that differs from its neighbours, in memory |
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
    """Open a set of any kind: a file, or the address of one behind an `fm-serve`, such as
    `http://host:8640/v1/seen/NAME`. A new one (modes `a`, `x`) is exact and on disk; behind a
    server it needs `fm-serve --write --seen-dir`.

    The other options are for an address. `token` and `ca_file` are as in `filemap.open`. Each call
    is a request, which is repeated for `patience` seconds (30) while the server does not answer; a
    URL is still new to one caller only. Added URLs survive the end of the server's process after a
    second, or after `sync` or `close`; with `durable` each call waits until they also survive a
    power loss of the server. `len` and `stat` count what survives that: without `durable`, as of
    up to a second ago.

    Raises `RemoteError` (a `ConnectionError`): it is then unknown whether the URLs were added.
    Raises `ReadOnlyError` if the server or the token does not allow adding; `forget_many` raises
    `FileMapError`.

    `redis://[user@]host:port[,host:port...]/NAME[?replicas=N]` is a set on Redis 7 or a cluster,
    which many crawlers share without an `fm-serve`; `rediss://` uses TLS. A new one is exact, for
    about `capacity` URLs (100 million; more take more memory); for one that exists, another
    `capacity` than its own raises `InvalidValueError`. `password` defaults to `REDISCLI_AUTH` of
    the environment. A call that fails with `RemoteError` loses nothing: its URLs are new to the
    next caller that adds them through this handle.
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

    `seed` is the seed of the fingerprints of a new set; by default a random one. For a set that
    exists, one other than its own raises `InvalidValueError`.
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
    With more URLs the rate grows without bound: see `stat()["false_positive_rate"]`.
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
