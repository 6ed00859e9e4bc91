"""A set of fingerprints behind a server: the calls of `SharedSeen`, each a request to an
`fm-serve` or to Redis.

A fingerprint is added as `urn:scrapy:` and its hexadecimal digits, which is a URL by any rules, so
it may be a set that others use too. A repeated request has the same id and the same answer, so a
fingerprint is new to one spider, however often the server dies.
"""

from collections.abc import Iterable
from typing import Any, Final

from filemap import seen

from .addresses import is_address, is_redis
from .shared_seen import SharedSeen, key_of, shared

_PREFIX: Final = "urn:scrapy:"


def url_of(fingerprint: bytes) -> str:
    """The form of a fingerprint in the set."""
    return _PREFIX + key_of(fingerprint).hex()


class ServedSeen:
    """A set behind a server. A missing one is made if the server allows that."""

    is_holder = False

    def __init__(self, location: str, options: dict[str, Any], patience: float) -> None:
        self.path = location
        self._set = seen.open(location, "a", patience=patience, **options)

    def add(self, fingerprint: bytes) -> bool:
        """Adds a fingerprint; returns whether it is new. Raises `RemoteError` once patience is
        over."""
        return self._set.add(url_of(fingerprint))

    def add_many(self, fingerprints: Iterable[bytes]) -> None:
        """Adds fingerprints without telling which are new."""
        self._set.add_many(map(url_of, fingerprints))

    def __len__(self) -> int:
        """The number of fingerprints. Raises `RemoteError`."""
        self._set.sync()  # The server counts durable ones only.
        return len(self._set)

    def close(self) -> None:
        """Makes added fingerprints durable. Raises `RemoteError`."""
        self._set.close()


Seen = SharedSeen | ServedSeen
"""The set that the filter uses."""


def seen_at(path: str, options: dict[str, Any], patience: float) -> Seen:
    """The set at a path, for one more user in this process, or at an address."""
    if is_address(path):
        return ServedSeen(path, options, patience)
    if is_redis(path):
        return ServedSeen(path, {}, patience)
    return shared(path, patience)
