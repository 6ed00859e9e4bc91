"""A backend of requests-cache: responses as pages of a store.

    from filemap.requests_cache import FileMapCache
    from requests_cache import CachedSession

    session = CachedSession(backend=FileMapCache("pages.fm"))

A response is a page under its URL, with `requests:` and its cache key as variant: the decoded
body, the headers, and one header of this package with all other data. Nothing is pickled. Because
requests-cache asks by cache key only, there is a second, small page for each key, its *entry*:

| page | variant | body |
|---|---|---|
| the response's URL | `requests:KEY` | the response's |
| `urn:requests-cache:responses:KEY` | `requests:` | `{"url": ...}` |
| `urn:requests-cache:redirects:KEY` | `requests:` | `{"value": ...}`: the key of a response |

The entry is written before its page and removed after it. So every page is found by an entry; an
entry left without a page by a crash is a miss, and the next write repairs it.

Any number of threads may use a cache, and any number of caches in one process a store. A second
process gets `filemap.LockedError`, or reads while another writes with `read_only=True`. Instead of
a path, the address of an `fm-serve`, `http://host:8640`, serves caches of any number of processes
and machines; its token must allow removing pages, unless `read_only`. If two processes write and
delete one key at once, a page may remain that no entry finds, until the key is written again.
"""

import inspect
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, cast

from platformdirs import user_cache_dir
from requests_cache.backends.base import BaseCache, BaseStorage
from requests_cache.models.response import CachedResponse
from requests_cache.policy.settings import CacheSettings
from requests_cache.session import CacheMixin

import filemap

from ._requests import responses as _responses
from ._requests.handles import Handle, is_address

if TYPE_CHECKING:
    from requests import Response

    from . import StoreOptions
    from .types import Path

__all__ = ["FileMapCache", "FileMapDict"]

logger = logging.getLogger(__name__)

_ENTRY: Final = b"requests:"
_LONGEST_NAME: Final = 512
_LONGEST_URL: Final = 60_000
_PLAIN: Final = re.compile(r"[0-9a-z][0-9a-z_-]*")


def _name(key: str) -> str:
    """A key as part of a URL that no canonicaliser changes."""
    if _PLAIN.fullmatch(key):
        return key
    return "~" + key.encode("utf-8", "surrogatepass").hex()


def _key(name: str) -> str:
    if not name.startswith("~"):
        return name
    return bytes.fromhex(name[1:]).decode("utf-8", "surrogatepass")


def _place(path: "Path", use_cache_dir: bool, use_temp: bool) -> str:
    text = os.fspath(path)
    if is_address(text):
        if use_cache_dir or use_temp:
            said = "an address is not in a folder: leave `use_cache_dir` and `use_temp` out"
            raise filemap.InvalidValueError(said)
        return text
    if not isinstance(path, str) and text.lower().startswith(("http:/", "https:/")):
        raise filemap.InvalidValueError("give an address as a str: a path has one slash less")
    if use_cache_dir:
        return os.path.join(user_cache_dir(), text)
    return os.path.join(tempfile.gettempdir(), text) if use_temp else os.path.expanduser(text)


def _is_url(store: filemap.PageStore, url: object) -> bool:
    """Returns whether a page of the store can have it."""
    try:
        return isinstance(url, str) and len(store.key(url)) <= _LONGEST_URL
    except (filemap.InvalidUrlError, filemap.InvalidValueError):
        return False


class FileMapDict(BaseStorage[str, Any]):
    """A mapping in a store: responses, or JSON values, by cache key.

    `table_name` names one of any number of mappings in a store. A damaged page is logged and read
    as `None`, as requests-cache does with values that it cannot read.
    """

    def __init__(
        self,
        db_path: "Path" = "http_cache.fm",
        table_name: str = "responses",
        *,
        read_only: bool = False,
        options: "StoreOptions | None" = None,
        use_cache_dir: bool = False,
        use_temp: bool = False,
        serializer: object = None,
        **kwargs: Any,
    ) -> None:
        if serializer is not None:
            raise filemap.InvalidValueError(
                f"responses are stored as pages and JSON, not by {serializer!r}:"
                " leave `serializer` out"
            )
        # Its parameters have no type annotations.
        cast(Any, super()).__init__(serializer=None, **kwargs)
        place = _place(db_path, use_cache_dir, use_temp)
        given: Mapping[str, Any] = cast(Any, options or {})
        self._handle = Handle(place, read_only=read_only, options=given)
        self._start = f"urn:requests-cache:{_name(table_name)}:"
        table = b"" if table_name == "responses" else _name(table_name).encode() + b":"
        self._variants = _ENTRY + table

    @property
    def db_path(self) -> str:
        """The path or address of the store."""
        return self._handle.path

    @property
    def store(self) -> filemap.PageStore:
        """The open store, with all its methods (`compact`, `stat`, ...)."""
        return self._handle.store

    def close(self) -> None:
        """Closes the store if nothing else in the process uses it. The next use opens it again."""
        self._handle.close()

    def __getitem__(self, key: str) -> Any:
        # A damaged redirect leads to None or an error.
        if not isinstance(cast(object, key), str):
            raise KeyError(key)
        store = self.store
        try:
            try:
                return self._get(store, key)
            except KeyError:
                if not self._handle.read_only:
                    raise
            store.refresh()
            return self._get(store, key)
        except (filemap.CorruptError, _responses.NoteError) as error:
            logger.error("Unable to read the response of key %s: %s", key, error)
            return None

    def _get(self, store: filemap.PageStore, key: str) -> Any:
        entry = self._entry(store, key)
        if entry is None:
            raise KeyError(key)
        url = entry.get("url")
        if url is None:
            return entry.get("value")
        page = store.get(url, variant=self._variant(key))
        if page is None:
            raise KeyError(key)
        response = _responses.response_of(page)
        response.cache_key = key
        return response

    def __setitem__(self, key: str, value: Any) -> None:
        store = self.store
        with self._handle.lock(key):
            if isinstance(value, CachedResponse):
                self._put(store, key, value)
                return
            body = json.dumps({"value": value}, separators=(",", ":"))
            old = self._url(store, key)
            if old is not None:
                store.remove(old, variant=self._variant(key))
            self._put_entry(store, key, body)

    def _put(self, store: filemap.PageStore, key: str, response: CachedResponse) -> None:
        body, time, given = _responses.stored(response)
        variant = self._variant(key)
        url = self._page_url(store, key, response)
        old = self._url(store, key)
        if old == url:
            # Finds the newest, also if a response is put again unchanged.
            before = store.head(url, variant=variant)
            if before is not None and before.time > time:
                time = before.time
        else:
            if old is not None:
                store.remove(old, variant=variant)
            self._put_entry(store, key, json.dumps({"url": url}, separators=(",", ":")))
        try:
            store.put(url, body, variant=variant, time=time, **given)
        except BaseException as error:
            # After an error of a server it is unknown whether it has the page, and whose entry
            # this is by now: an entry without a page is a miss.
            is_known = not is_address(self.db_path) or isinstance(error, filemap.RefusedError)
            if old != url and is_known:
                store.remove(self._start + _name(key), variant=_ENTRY)
            raise

    def _put_entry(self, store: filemap.PageStore, key: str, body: str) -> None:
        kind = {"Content-Type": "application/json"}
        url = self._start + _name(key)
        store.put(url, body, variant=_ENTRY, status=None, kind="resource", headers=kind)

    def _page_url(self, store: filemap.PageStore, key: str, response: CachedResponse) -> str:
        """The URL of a response; a substitute if the store refuses it."""
        url = response.url or response.request.url
        if _is_url(store, url):
            return str(url)
        return f"urn:requests-cache:page:{_name(key)}"

    def __delitem__(self, key: str) -> None:
        store = self.store
        with self._handle.lock(key):
            if not self._remove(store, key):
                raise KeyError(key)

    def _remove(self, store: filemap.PageStore, key: str) -> bool:
        entry = self._raw_entry(store, key)
        if entry is None:
            return False
        url = self._url(store, key)
        found = url is None or store.remove(url, variant=self._variant(key))
        store.remove(self._start + _name(key), variant=_ENTRY)
        return found

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, str):
            return False
        store = self.store
        if self._is_live(store, key):
            return True
        if self._handle.read_only:
            store.refresh()
            return self._is_live(store, key)
        return False

    def __iter__(self) -> Iterator[str]:
        store = self.store
        if self._handle.read_only:
            store.refresh()
        for key in self._names(store):
            if self._is_live(store, key):
                yield key

    def __len__(self) -> int:
        """The number of keys. Reads each entry."""
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __str__(self) -> str:
        return str(list(self))

    def clear(self) -> None:
        """Removes all keys and their pages; other pages in the store stay."""
        store = self.store
        for key in list(self._names(store)):
            with self._handle.lock(key):
                self._remove(store, key)

    def bulk_delete(self, keys: Iterable[str]) -> None:
        """Removes keys; missing ones are ignored."""
        store = self.store
        for key in keys:
            with self._handle.lock(key):
                self._remove(store, key)

    def expired_keys(self) -> Iterator[str]:
        """The keys of responses that have expired. Reads no body."""
        for key, time in self._expirations():
            if time is not None and time <= datetime.now(UTC):
                yield key

    def count(self, expired: bool = True) -> int:
        """The number of keys; without expired ones if `expired` is False."""
        if expired:
            return len(self)
        now = datetime.now(UTC)
        return sum(1 for _, time in self._expirations() if time is None or time > now)

    def _expirations(self) -> Iterator[tuple[str, datetime | None]]:
        """The readable keys, with the times when they expire."""
        store = self.store
        for key in self:
            url = self._url(store, key)
            if url is None:
                yield key, None
                continue
            try:
                head = store.head(url, variant=self._variant(key))
                if head is not None:
                    note = _responses.note_of(head.headers.raw(), head.url)
                    yield key, _responses.expires(note)
            except (filemap.CorruptError, _responses.NoteError) as error:
                logger.error("Unable to read when key %s expires: %s", key, error)

    def _variant(self, key: str) -> bytes:
        name = _name(key)
        if len(name) > _LONGEST_NAME:
            name = "~~" + sha256(name.encode()).hexdigest()
        return self._variants + name.encode()

    def _names(self, store: filemap.PageStore) -> Iterator[str]:
        """All keys that have an entry."""
        for url in store.urls(prefix=self._start, variants=True):
            try:
                yield _key(url[len(self._start) :])
            except ValueError:
                logger.error("%s is not an entry of requests-cache", url)

    def _is_live(self, store: filemap.PageStore, key: str) -> bool:
        """Returns whether a key has an entry and, if that names a page, the page.

        A damaged entry counts: its page is None, and it can be deleted.
        """
        try:
            entry = self._entry(store, key)
            if entry is None:
                return False
            url = entry.get("url")
            return url is None or store.head(url, variant=self._variant(key)) is not None
        except (filemap.CorruptError, _responses.NoteError):
            return True

    def _raw_entry(self, store: filemap.PageStore, key: str) -> filemap.PageHead | None:
        return store.head(self._start + _name(key), variant=_ENTRY)

    def _entry(self, store: filemap.PageStore, key: str) -> dict[str, Any] | None:
        page = store.get(self._start + _name(key), variant=_ENTRY)
        if page is None:
            return None
        try:
            entry: object = json.loads(page.body)
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            found = cast(dict[str, Any], entry)
            if self._is_entry(store, found):
                return found
        raise _responses.NoteError(f"{page.url} is not an entry of requests-cache")

    def _is_entry(self, store: filemap.PageStore, entry: dict[str, Any]) -> bool:
        url = entry.get("url")
        return "value" in entry if url is None else _is_url(store, url)

    def _url(self, store: filemap.PageStore, key: str) -> str | None:
        """The URL of a key's page, if its entry is readable."""
        try:
            entry = self._entry(store, key)
        except (filemap.CorruptError, _responses.NoteError):
            return None
        return None if entry is None else entry.get("url")


class _Responses(FileMapDict):
    """The responses of a cache. Other values are refused: it could not use them."""

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(value, CachedResponse):
            raise TypeError(f"a cache keeps responses, not {type(value).__name__}")
        super().__setitem__(key, value)

    def _is_entry(self, store: filemap.PageStore, entry: dict[str, Any]) -> bool:
        return _is_url(store, entry.get("url"))


def _of_session() -> frozenset[str]:
    """The arguments of a session and of its storages."""
    calls = (cast(Any, CacheMixin).__init__, cast(Any, BaseStorage).__init__)
    parameters = [name for call in calls for name in inspect.signature(call).parameters]
    settings = inspect.signature(CacheSettings).parameters
    return frozenset([*parameters, *settings]) - {"self", "kwargs", "read_only"}


class FileMapCache(BaseCache):
    """`CachedSession(backend=FileMapCache("pages.fm"))` keeps responses in a store.

    | argument | meaning |
    |---|---|
    | `db_path` | the store, made if missing; or the address of an `fm-serve` |
    | `read_only` | reads while another process writes, and stores nothing |
    | `options` | options of `filemap.open`; for a path, `keep_versions` defaults to 1 |
    | `use_cache_dir`, `use_temp` | a relative path is below that folder |

    Arguments of a `CachedSession` may be given here too, and are ignored.
    """

    def __init__(
        self,
        db_path: "Path" = "http_cache.fm",
        *,
        read_only: bool = False,
        options: "StoreOptions | None" = None,
        use_cache_dir: bool = False,
        use_temp: bool = False,
        serializer: object = None,
        **kwargs: Any,
    ) -> None:
        if unknown := kwargs.keys() - _of_session():
            raise TypeError(f"FileMapCache has no argument {', '.join(sorted(unknown))}")
        cast(Any, super()).__init__(cache_name=os.fspath(db_path), **kwargs)
        given: dict[str, Any] = {
            "read_only": read_only,
            "options": options,
            "use_cache_dir": use_cache_dir,
            "use_temp": use_temp,
            "serializer": serializer,
        }
        self.read_only = read_only
        self._pages = _Responses(db_path, "responses", **given)
        self.responses = self._pages
        self.redirects = FileMapDict(db_path, "redirects", **given)
        # Opened now and not at the first request, so that a locked or damaged store is reported at
        # once.
        _ = self._pages.store

    @property
    def db_path(self) -> str:
        """The path or address of the store."""
        return self._pages.db_path

    @property
    def store(self) -> filemap.PageStore:
        """The open store."""
        return self._pages.store

    def save_response(
        self,
        response: "Response",
        cache_key: str | None = None,
        expires: datetime | None = None,
    ) -> None:
        """Stores a response, unless the cache is read-only or an erasure rule refuses it."""
        if self.read_only:
            logger.debug("Not stored, as the cache is read-only: %s", response.url)
            return
        try:
            super().save_response(response, cache_key, expires)
        except filemap.RefusedError as error:
            logger.warning("Not stored: %s", error)

    def delete(self, *keys: str, expired: bool = False, **kwargs: Any) -> None:
        """As `BaseCache.delete`; finds expired responses without reading bodies."""
        if expired:
            keys = (*keys, *self._pages.expired_keys())
        cast(Any, super()).delete(*keys, **kwargs)

    def count(self, expired: bool = True) -> int:
        """The number of responses; without expired ones if `expired` is False."""
        return self._pages.count(expired=expired)

    def recreate_keys(self) -> None:
        """Recomputes all keys, those of redirects too, and drops unreadable responses.

        For use after `update` from a cache with a serializer, which is part of its keys.
        """
        create_key: Callable[..., str] = cast(Any, self).create_key  # Parts of it have no types.
        for old in list(self.responses):
            response = self.responses.get(old)
            if response is None:
                continue
            new: str = create_key(response.request)
            if new == old:
                continue
            self.responses[new] = response
            for redirect in response.history:
                self.redirects[create_key(redirect.request)] = new
            del self.responses[old]
        cast(Any, self)._prune_redirects()
