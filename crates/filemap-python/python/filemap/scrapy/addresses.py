"""Settings that name a server instead of a path.

| setting | default | meaning |
|---|---|---|
| `FILEMAP_TOKEN` | `FILEMAP_TOKEN` of the environment | the token that the server asks for |
| `FILEMAP_CA_FILE` | `FILEMAP_CA_FILE` of the environment | certificates to trust, PEM |
"""

from typing import Any, Final

from scrapy.settings import BaseSettings

_SETTINGS: Final = {"token": "FILEMAP_TOKEN", "ca_file": "FILEMAP_CA_FILE"}


def is_address(path: str) -> bool:
    """Returns whether a store is behind a server: `http://host:8640`, or with `https`."""
    return path.lower().startswith(("http://", "https://"))


def is_redis(path: str) -> bool:
    """Returns whether a seen set is on Redis: `redis://host:6379/NAME`, or with `rediss`."""
    return path.lower().startswith(("redis://", "rediss://"))


def reach_of(settings: BaseSettings) -> dict[str, Any]:
    """The options for reaching a server. Unset ones come from the environment."""
    return {option: settings[name] for option, name in _SETTINGS.items() if settings.get(name)}
