"""URL-seen sets in files: has this URL been met before?

| class | wrong answers | bytes a URL |
|---|---|---|
| `DiskSet` | none but collisions of 80-bit hashes | 0 to 16 in memory, 8.4 to 10 on disk |
| `Trie` | none | what differs from its neighbours, in memory |
| `BloomFilter` | `rate`, up to `capacity` URLs | 1.2 to 5 in memory |
| `Md5Bitmap` | more as it fills | 2 to the `bits` / 8 in all |

No set ever calls an added URL new. Each compares bytes: give canonical URLs
(`filemap.canonicalize`), or a `canonicalizer`, which the set then applies to each URL.
Modes are those of `filemap.open`: `r`, `w`, `a` (the default), `x`.
"""

import os
from typing import TYPE_CHECKING, Self

from ._native import SeenSet

if TYPE_CHECKING:
    from .types import Mode, Path

__all__ = ["BloomFilter", "DiskSet", "Md5Bitmap", "SeenSet", "Trie"]


class DiskSet(SeenSet):
    """The exact set on disk, for any number of URLs in `memory_bytes`.

    `seed` is that of the fingerprints of a new set; a random one, if it is not given.
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
        if seed is None:
            seed = int.from_bytes(os.urandom(8), "little")
        return super().__new__(
            cls,
            "disk",
            path,
            mode,
            canonicalizer=canonicalizer,
            memory_bytes=memory_bytes,
            seed=seed,
        )


class Trie(SeenSet):
    """The exact set of texts, in memory; saved by `sync` and `close`."""

    __slots__ = ()

    def __new__(cls, path: "Path", mode: "Mode" = "a", *, canonicalizer: str | None = None) -> Self:
        return super().__new__(cls, "trie", path, mode, canonicalizer=canonicalizer)


class BloomFilter(SeenSet):
    """A Bloom filter for `capacity` URLs with the false positive rate `rate`.

    With more URLs the rate grows without end: `stat()["false_positive_rate"]` has it.
    """

    __slots__ = ()

    def __new__(
        cls,
        path: "Path",
        mode: "Mode" = "a",
        *,
        capacity: int = 1_000_000,
        rate: float = 1e-4,
        canonicalizer: str | None = None,
    ) -> Self:
        return super().__new__(
            cls, "bloom", path, mode, canonicalizer=canonicalizer, capacity=capacity, rate=rate
        )


class Md5Bitmap(SeenSet):
    """A bitmap of 2 to the `bits` slots (16 to 36), addressed by MD5; mapped from its file."""

    __slots__ = ()

    def __new__(
        cls, path: "Path", mode: "Mode" = "a", *, bits: int = 28, canonicalizer: str | None = None
    ) -> Self:
        return super().__new__(
            cls, "md5-bitmap", path, mode, canonicalizer=canonicalizer, bits=bits
        )
