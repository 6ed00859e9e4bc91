"""Responses of Scrapy as records of a store, and back.

A record has the fields of a page: URL, status, headers, decoded body. All other data of a response
is one JSON object in a separate header, `X-Crawler-Scrapy`: nothing is pickled. If it is
missing, the class is guessed as Scrapy guesses it.

| key | what | if missing |
|---|---|---|
| `time` | exact time of storing, in seconds | the page's time |
| `url` | the response's URL | that of the request |
| `_class` | class of the response, as a path | guessed from headers, URL and body |
| others | attributes of the response: `flags`, `protocol`, `encoding`, ... | the class's default |
"""

import base64
import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from scrapy.http import Headers, Request, Response, TextResponse
from scrapy.responsetypes import responsetypes
from scrapy.utils.misc import load_object

from scrapy import http as scrapy_http

from . import coding
from .shared_pages import Fields, Record

NOTE: Final = b"X-Crawler-Scrapy"
"""The header with the data for which a page has no field."""

_ORIGINAL_CODING: Final = b"X-Crawler-Content-Encoding"
_ORIGINAL_LENGTH: Final = b"X-Crawler-Content-Length"
_OF_CODED: Final = (_ORIGINAL_CODING, _ORIGINAL_LENGTH)
_OURS: Final = (NOTE, *_OF_CODED)
_OF_BODY: Final = frozenset(
    (b"Content-Encoding", b"Content-Length", b"Transfer-Encoding", b"Content-Range")
)
_LATEST_SECS: Final = 1e15
_PROTOCOLS: Final = frozenset(("HTTP/1.0", "HTTP/1.1", "HTTP/2", "HTTP/3"))
# `Headers` is a dict of lists; its own `items` and `update` normalise every name again. Uses
# `vars`, since type checkers do not know which lists.
_Lists: TypeAlias = Mapping[bytes, list[bytes]]
_items: Final[Callable[[Headers], Iterable[tuple[bytes, list[bytes]]]]] = vars(dict)["items"]
_update: Final[Callable[[Headers, _Lists], None]] = vars(dict)["update"]
_json: Final = json.JSONEncoder(separators=(",", ":")).encode
_NO_HEADER: Final = re.compile(rb"[\r\n\0]")
_FLAGS: Final = ("cached", "filemap")
_NOT_NOTED: Final = frozenset(("url", "status", "headers", "body", "request", "certificate"))


class NoteError(ValueError):
    """The note of an entry is damaged, or was not written by this package."""


class UnknownClassError(ValueError):
    """The class of an entry is not among the allowed ones."""


class Classes:
    """The response classes that an entry may name: Scrapy's, those of the setting
    `FILEMAP_RESPONSE_CLASSES`, and those that this process stored itself.

    An entry names a class; it is looked up here and never imported.
    """

    def __init__(self, more: Iterable[str | type[Response]] = ()) -> None:
        self._known: dict[str, type[Response]] = {}
        for value in vars(scrapy_http).values():
            if isinstance(value, type) and issubclass(value, Response):
                self.add(value)
        for named in more:
            found: object = load_object(named) if isinstance(named, str) else named
            if not (isinstance(found, type) and issubclass(found, Response)):
                raise TypeError(f"FILEMAP_RESPONSE_CLASSES: {named!r} is not a class of responses")
            self.add(found)

    def add(self, known: type[Response]) -> None:
        """Allows entries to name this class."""
        self._known[_path(known)] = known

    def get(self, path: object) -> type[Response]:
        """The class of this path. Raises `UnknownClassError`."""
        found = self._known.get(path) if isinstance(path, str) else None
        if found is None:
            raise UnknownClassError(f"{path!r} is not in FILEMAP_RESPONSE_CLASSES")
        return found


def _path(known: type[Response]) -> str:
    return f"{known.__module__}.{known.__qualname__}"


def record_of(
    request: Request,
    response: Response,
    *,
    url: str,
    variant: bytes | None,
    now: float,
    limit: int,
    classes: Classes,
) -> tuple[Record, list[str]]:
    """A response as a record under `url` and `variant`, its body decoded to at most `limit` bytes.

    Also returns what is lost: attributes that JSON cannot hold, and headers with a line end or a
    NUL.
    """
    classes.add(type(response))
    fields, body = _stored(response, limit)
    note, lost = _note(response)
    lost += [name.decode() for name in _OURS if name in response.headers]
    if _NO_HEADER.search(b"".join(itertools.chain.from_iterable(fields))):
        lost += [repr(name) for name, value in fields if _NO_HEADER.search(name + value)]
        fields = [(name, value) for name, value in fields if not _NO_HEADER.search(name + value)]
    note["time"] = now
    if response.url != url:
        note["url"] = response.url
    protocol = note.get("protocol")
    if protocol in _PROTOCOLS:
        del note["protocol"]
    address = note.pop("ip_address", None)
    fields.append((NOTE, _json(note).encode()))
    record = Record(
        url=url,
        variant=variant,
        time_ms=int(now * 1000),
        status=response.status,
        headers=fields,
        body=body,
        http_version=protocol if protocol in _PROTOCOLS else None,
        method=request.method,
        ip=None if address is None else str(address["ip"]).partition("%")[0],
    )
    return record, lost


def _stored(response: Response, limit: int) -> tuple[Fields, bytes]:
    """Headers and body in stored form: decoded, the original headers renamed."""
    fields = [
        (name, value)
        for name, values in _items(response.headers)
        for value in values
        if name not in _OURS
    ]
    if isinstance(response.headers, DecodedHeaders):  # From the store, and revalidated.
        length = (b"Content-Length", str(len(response.body)).encode())
        return [*fields, *response.headers.originals, length], response.body
    coded = [value for name, value in fields if name == b"Content-Encoding"]
    codings = coding.codings_of(coded) if coded else []
    body = coding.decode(codings, response.body, limit) if codings else None
    if body is None:
        return fields, response.body
    names = {b"Content-Encoding": _ORIGINAL_CODING, b"Content-Length": _ORIGINAL_LENGTH}
    renamed = [(names.get(name, name), value) for name, value in fields]
    return [*renamed, (b"Content-Length", str(len(body)).encode())], body


def _note(response: Response) -> tuple[dict[str, Any], list[str]]:
    """The data of a response besides URL, status, headers and body; and what is lost of it."""
    own = getattr(type(response), "to_dict", None)
    known: dict[str, Any]
    if own is None or own is getattr(Response, "to_dict", None):
        names = type(response).attributes
        known = {name: _attribute(response, name) for name in names if name not in _NOT_NOTED}
        if type(response) is not Response:
            known["_class"] = _path(type(response))
    else:
        known = own(response)
    known["flags"] = [flag for flag in known.get("flags") or () if flag not in _FLAGS]
    note: dict[str, Any] = {}
    lost: list[str] = []
    for name, value in known.items():
        if value is None or name in _NOT_NOTED or value == []:
            continue
        try:
            note[name] = _plain(value)
        except TypeError:
            lost.append(name)
    return note, lost


def _attribute(response: Response, name: str) -> object:
    if name == "encoding" and hasattr(response, "_encoding"):
        # An encoding that was not given was derived from headers and body, and will be again.
        # Deriving it takes longer than everything else.
        return cast(Any, response)._encoding
    return getattr(response, name)


def _plain(value: object) -> object:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode("ascii")}
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return {"ip": str(value)}
    if isinstance(value, list):
        return [_plain(item) for item in cast(list[object], value)]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in cast(tuple[object, ...], value)]}
    if isinstance(value, Mapping):
        known = cast(Mapping[object, object], value)
        if all(isinstance(name, str) for name in known):
            return {"dict": {str(name): _plain(item) for name, item in known.items()}}
    raise TypeError("it cannot be stored")


def _unplain(value: object) -> object:
    if isinstance(value, list):
        return [_unplain(item) for item in cast(list[object], value)]
    if not isinstance(value, dict):
        return value
    tagged = cast(dict[str, object], value)
    if len(tagged) == 1:
        ((kind, inner),) = tagged.items()
        if kind == "bytes" and isinstance(inner, str):
            return base64.b64decode(inner, validate=True)
        if kind == "ip" and isinstance(inner, str):
            return ipaddress.ip_address(inner)
        if kind == "tuple" and isinstance(inner, list):
            return tuple(_unplain(item) for item in cast(list[object], inner))
        if kind == "dict" and isinstance(inner, dict):
            return {k: _unplain(item) for k, item in cast(dict[str, object], inner).items()}
    raise NoteError(f"{value!r} is not a value of a note")


def note_of(record: Record) -> dict[str, Any]:
    """The note of a record. Raises `NoteError` if it is damaged."""
    # The last one is this package's: a server may send one too.
    notes = (value for name, value in reversed(record.headers) if name.lower() == NOTE.lower())
    text = next(notes, None)
    if text is None:
        return {}
    try:
        note = json.loads(text)
        if isinstance(note, dict):
            known = cast(dict[str, object], note)
            return {name: _unplain(value) for name, value in known.items()}
    except (ValueError, RecursionError) as error:
        raise NoteError(f"the note of {record.url} cannot be read: {error}") from error
    raise NoteError(f"the note of {record.url} is not an object")


def time_of(record: Record, note: Mapping[str, Any]) -> float:
    """The time when a record was stored, in seconds."""
    time = _time(note)
    return record.time_ms / 1000 if time is None else time


def _time(note: Mapping[str, Any]) -> float | None:
    time = note.get("time")
    if isinstance(time, (int, float)) and abs(time) < _LATEST_SECS:
        return float(time)
    return None


def _url_of(record: Record, note: Mapping[str, Any]) -> str:
    """The URL of a response. A page from elsewhere may have a note made by its server, which does
    not know when the page was stored: it cannot name a URL of another host."""
    noted = note.get("url")
    if not isinstance(noted, str):
        return record.url
    time = _time(note)
    is_ours = time is not None and int(time * 1000) == record.time_ms
    is_same = urlsplit(noted).netloc == urlsplit(record.url).netloc
    return noted if is_ours or is_same else record.url


def response_of(record: Record, note: Mapping[str, Any], classes: Classes) -> Response:
    """The response of a record: decoded, without Content-Encoding and Content-Length if it was
    coded.

    Raises `UnknownClassError` if the class is not among the allowed ones.
    """
    known: dict[str, Any] = {
        "url": _url_of(record, note),
        "status": record.status,
        "body": record.body,
    }
    headers = _given(record)
    if record.http_version is not None:
        known["protocol"] = record.http_version
    if record.ip is not None:
        known["ip_address"] = ipaddress.ip_address(record.ip)
    noted = {name: value for name, value in note.items() if name not in _NOT_NOTED}
    known.update({name: value for name, value in noted.items() if name != "time"})
    path = known.pop("_class", None)
    if path is not None:
        made = classes.get(path)
    else:
        made = responsetypes.from_args(headers=headers, url=known["url"], body=record.body)
        if known.get("encoding") is not None and not issubclass(made, TextResponse):
            del known["encoding"]
    if known.get("encoding") is None and "from_dict" not in vars(made):
        known.pop("encoding", None)
    response = _made(made, {**known, "headers": {}})
    response.headers = headers  # Not passed to the constructor, which copies them.
    return response


def _made(made: type[Response], known: dict[str, Any]) -> Response:
    from_dict = getattr(made, "from_dict", None)
    if from_dict is not None:
        return cast(Response, from_dict(known))
    return made(**known)


class StoredHeaders(Headers):
    """The headers of a response of the store.

    A 304 may have the coding and length of the body as it would have been sent, or a length of 0;
    these do not describe this body (RFC 9111, 3.2), so `update` skips such fields.
    """

    def update(self, seq: Any) -> None:  # type: ignore[override]
        """Copies the other fields, except those about the body."""
        given = Headers(seq)
        for name in _OF_BODY:
            given.pop(name, None)
        super().update(given)


class DecodedHeaders(StoredHeaders):
    """Headers of a response whose body was decoded."""

    originals: Fields
    """The fields of the body as received, in stored form."""

    def __init__(self, seq: Any = None, encoding: str = "utf-8") -> None:
        self.originals = []
        super().__init__(seq, encoding)


def _given(record: Record) -> Headers:
    """The headers of a response, without the note and those of the body as received."""
    kept: dict[bytes, list[bytes]] = {}
    for name, value in record.headers:
        kept.setdefault(name.title(), []).append(value)
    kept.pop(NOTE, None)
    if _ORIGINAL_CODING not in kept:
        return _headers(StoredHeaders(), kept)
    given = DecodedHeaders()
    given.originals = [(name, value) for name in _OF_CODED for value in kept.pop(name, ())]
    kept.pop(b"Content-Length", None)
    return _headers(given, kept)


def _headers(made: Headers, fields: _Lists) -> Headers:
    _update(made, fields)
    return made
