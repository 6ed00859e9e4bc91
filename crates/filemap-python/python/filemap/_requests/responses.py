"""Responses of requests-cache as pages, and back.

A page has a response's URL, status, headers and decoded body. All other data of requests-cache is
one JSON object in a separate header, `X-Crawler-Requests`, made by requests-cache's own
converter: nothing is pickled. Bytes in it are in base 64, whichever version of requests-cache
wrote them.

| key of the note | what |
|---|---|
| `request`, `history`, `cookies`, `expires`, ... | the fields that have no place in a page |
| `_content` | null: there was no body, not even an empty one |
| `_coded` | true: the body was decoded; headers about its coding are prefixed `X-Crawler-` |
| `headers` | the headers, if a page cannot hold them exactly |
"""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, cast

import attrs
from cattrs.preconf.json import make_converter
from requests.adapters import HTTPAdapter
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict
from requests_cache.models.response import CachedResponse
from requests_cache.serializers.cattrs import init_converter
from urllib3 import HTTPHeaderDict, HTTPResponse

import filemap

NOTE: Final = b"X-Crawler-Requests"
"""The header with the data for which a page has no field."""

_Fields: TypeAlias = list[tuple[bytes, bytes]]

_PREFIX: Final = b"X-Crawler-"
_OF_BODY: Final = (b"content-encoding", b"content-length")
_BAD: Final = re.compile(rb"[\r\n\0]")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_VERSIONS: Final = {10: "HTTP/1.0", 11: "HTTP/1.1", 20: "HTTP/2", 30: "HTTP/3"}
_json: Final = json.JSONEncoder(separators=(",", ":")).encode


class NoteError(ValueError):
    """The note of a page is damaged, or was not written by this package."""


def _bytes_of(value: Any, _: object) -> bytes:
    if isinstance(value, bytes):
        return value
    return base64.b64decode(value, validate=True) if value else b""


def _text_of(value: bytes | None) -> str | None:
    return base64.b64encode(value).decode("ascii") if value else None


# Newer versions of requests import these for type checkers only, and requests-cache before 1.3
# does not know that: its own backends fail with them.
attrs.resolve_types(
    CachedResponse, localns={"RequestsCookieJar": RequestsCookieJar, "HTTPAdapter": HTTPAdapter}
)

_converter: Final = init_converter(make_converter)
_converter.register_unstructure_hook(bytes, _text_of)
_converter.register_structure_hook(bytes, _bytes_of)


class Stored(NamedTuple):
    """A response as the arguments of `PageStore.put`."""

    body: bytes
    time: datetime
    given: dict[str, Any]


def stored(response: CachedResponse) -> Stored:
    """The arguments of the put of a response."""
    content: object = vars(response)["_content"]
    body = content if isinstance(content, bytes) else b""
    light = CachedResponse.__new__(CachedResponse)
    nothing: CaseInsensitiveDict[str] = CaseInsensitiveDict()
    vars(light).update(vars(response), _content=None, headers=nothing)
    note: dict[str, Any] = _converter.unstructure(light)
    note.pop("_decoded_content", None)
    if not isinstance(content, bytes):
        note["_content"] = None
    fields, is_coded, is_exact = _fields(response, body)
    if is_coded:
        note["_coded"] = True
    if not is_exact:
        note["headers"] = dict(_headers(response))
    fields.append((NOTE, _json(note).encode()))
    time = response.created_at
    method = response.request.method
    given = {
        "status": response.status_code if 100 <= (response.status_code or 0) <= 999 else None,
        # The note has the exact text.
        "reason": re.sub(r"[\r\n\0]", " ", response.reason or "").encode("latin-1", "replace"),
        "headers": fields,
        "http_version": _VERSIONS.get(getattr(response.raw, "version", None) or 0),
        "method": method if method and _TOKEN.fullmatch(method) else None,
    }
    return Stored(body, time if time.tzinfo else time.replace(tzinfo=UTC), given)


def response_of(page: filemap.Page) -> CachedResponse:
    """The response of a page. Raises `NoteError`."""
    fields = page.headers.raw()
    note = note_of(fields, page.url)
    try:
        if "_content" in note:
            del note["_content"]
        else:
            note["_content"] = page.body
        headers = note.pop("headers", None)
        is_coded = bool(note.pop("_coded", False))
        note["headers"] = _given(fields, is_coded) if headers is None else headers
        response = _converter.structure(note, CachedResponse)
        # The converter leaves times unchanged that are not text.
        times = cast(list[object], [response.created_at, response.expires or response.created_at])
        if not all(isinstance(time, datetime) for time in times):
            raise TypeError("created_at or expires is not a time")
        # requests-cache reads these of each response, and expects no error.
        _ = response.is_expired, cast(Any, response).is_older_than(0)
        return response
    except Exception as error:  # The note may be anybody's, and the converter has no bound.
        # Nested as deep as the note: the errors' texts are left out.
        what = type(error).__name__
        raise NoteError(f"the note of {page.url} cannot be read: {what}") from error


def note_of(fields: Sequence[tuple[bytes, bytes]], url: str) -> dict[str, Any]:
    """The note among the headers of the page `url`. Raises `NoteError`."""
    # The last one is this package's: a server may send one too.
    if not fields or fields[-1][0] != NOTE:
        raise NoteError(f"{url} has no note of requests-cache")
    try:
        note = json.loads(fields[-1][1])
    except (ValueError, RecursionError) as error:
        raise NoteError(f"the note of {url} cannot be read: {error}") from error
    if not isinstance(note, dict):
        raise NoteError(f"the note of {url} is not an object")
    return cast(dict[str, Any], note)


def expires(note: Mapping[str, Any]) -> datetime | None:
    """The time when a response expires. Raises `NoteError`."""
    text = note.get("expires")
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise NoteError(f"{text!r} is not a time") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _headers(response: CachedResponse) -> Mapping[str, str]:
    return cast(Mapping[str, str], cast(Any, response).headers)


def _fields(response: CachedResponse, body: bytes) -> tuple[_Fields, bool, bool]:
    """The headers for a page; whether the body was coded, and whether they read back exactly."""
    fields: _Fields = []
    is_exact = True
    raw: object = getattr(response.raw, "headers", None)
    getlist = raw.getlist if isinstance(raw, HTTPHeaderDict) else None
    headers = _headers(response)
    for name, value in headers.items():
        for line in _lines(name, value, getlist):
            try:
                field = (name.encode("ascii"), line.encode("latin-1"))
            except UnicodeEncodeError:
                field = (name.encode("utf-8", "replace"), line.encode("utf-8", "replace"))
                is_exact = False
            if _BAD.search(field[0]) or _BAD.search(field[1]):
                is_exact = False
            else:
                fields.append(field)
    is_coded = bool(body) and _is_decoded(headers.get("Content-Encoding"))
    if is_coded:
        names = {_PREFIX.lower() + name for name in _OF_BODY}
        is_exact = is_exact and not any(name.lower() in names for name, _ in fields)
        fields = [
            (_PREFIX + name if name.lower() in _OF_BODY else name, value) for name, value in fields
        ]
        fields.append((b"Content-Length", b"%d" % len(body)))
    return fields, is_coded, is_exact


def _lines(
    name: str, value: str, getlist: Callable[[str], Iterable[object]] | None
) -> Sequence[str]:
    """The lines of a field: requests joins them, urllib3 still has them."""
    if getlist is not None and ", " in value:
        lines = [str(line) for line in getlist(name)]
        if ", ".join(lines) == value:
            return lines
    return (value,)


def _is_decoded(coding: str | None) -> bool:
    """Returns whether urllib3 has decoded this `Content-Encoding`: br if brotli is installed."""
    known = HTTPResponse.CONTENT_DECODERS
    return bool(coding) and all(part.strip().lower() in known for part in str(coding).split(","))


def _given(fields: _Fields, is_coded: bool) -> dict[str, str]:
    """The headers of a response."""
    fields = fields[:-1]
    if is_coded:
        fields = [
            (name[len(_PREFIX) :] if _is_ours(name) else name, value)
            for name, value in fields[:-1]  # The last is the length of the body that is stored.
        ]
    kept: dict[str, tuple[str, list[str]]] = {}
    for name, value in fields:
        text = name.decode("latin-1")
        kept.setdefault(text.lower(), (text, []))[1].append(value.decode("latin-1"))
    return {name: ", ".join(lines) for name, lines in kept.values()}


def _is_ours(name: bytes) -> bool:
    return name.startswith(_PREFIX) and name[len(_PREFIX) :].lower() in _OF_BODY
