"""The crawler, with a callback a page."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, cast

from . import _native
from ._native import CrawledPage, CrawlSummary

if TYPE_CHECKING:
    from typing import Unpack

    from .types import Age, Path


class PageReply(TypedDict, total=False):
    """Answer of a callback. An omitted key changes nothing."""

    links: list[str]
    """More links, relative ones too; followed if they are in scope."""
    fields: dict[str, str]
    """Values to keep beside the page."""
    store: bool
    """`False` leaves the page out of the store. It counts as fetched."""
    follow: bool
    """`False` does not follow the page's links."""


OnPage: TypeAlias = Callable[[CrawledPage], PageReply | None]


class CrawlOptions(TypedDict, total=False):
    """Options of `crawl`. One omitted, or `None`, keeps its earlier value, else the default."""

    contact: str | None
    user_agent: str | None
    scope: Literal["host", "domain", "prefix", "any"] | None
    rate: float | None
    address_rate: float | None
    connections: int | None
    host_connections: int | None
    max_depth: int | None
    max_pages: int | None
    max_host_pages: int | None
    recrawl: "Age | None"
    include: list[str] | None
    exclude: list[str] | None
    accept_types: list[str] | None
    reject_extensions: list[str] | None
    follow_nofollow: bool | None
    hosts: "Path | None"
    attempts: int | None
    patience: "Age | None"
    max_body: int | None
    fields: list[Literal["lang", "charset", "simhash64"]] | None
    obey_robots: bool | None
    robots_token: str | None
    sitemaps: bool | None
    requisites: bool | None
    cookies: bool | None
    forever: bool | None
    warc: "Path | None"
    min_free: int | None
    allow_private: bool | None
    resolve: list[str] | None
    proxy: str | None
    bind: str | None


def crawl(
    store: "Path",
    seeds: str | Iterable[str] = (),
    *,
    on_page: OnPage | None = None,
    **options: "Unpack[CrawlOptions]",
) -> CrawlSummary:
    """Crawl politely from `seeds` into a store, until nothing is left or a limit is reached.

    A crawl that was begun before continues, without seeds too. `on_page` is called for each page
    before it is stored, from several threads, one at a time where there is a GIL, and may answer a
    `PageReply`. An exception of the callback ends the crawl and is raised here; so does Ctrl-C.
    Neither loses anything: fetched pages are stored; the page whose callback raised, and those in
    flight, are fetched again by the next call.

    Raises `InvalidValueError` for an invalid option or seed, `LockedError` if another handle
    writes the store or another crawl runs, `CorruptError`.
    """
    given = [seeds] if isinstance(seeds, str) else list(seeds)
    return _native.crawl(store, given, on_page, cast("dict[str, Any]", options))
