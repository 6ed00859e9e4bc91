"""The exceptions. Most also derive from a built-in exception of Python."""


class FileMapError(Exception):
    """The base of all exceptions of this package."""


class CorruptError(FileMapError):
    """Bytes on disk are not those that were written; see `file` and `offset`."""

    file: str | None = None
    offset: int | None = None


class LockedError(FileMapError, BlockingIOError):
    """Another handle has it open for writing. `pid` is its process, if known."""

    pid: int | None = None

    def __str__(self) -> str:
        return str(self.strerror)


class NotAStoreError(FileMapError, FileNotFoundError):
    """There is no store, or no seen set, at the path."""


class StoreExistsError(FileMapError, FileExistsError):
    """The path of a new store, a backup or an export exists already."""


class ReadOnlyError(FileMapError, PermissionError):
    """It is open for reading only."""


class ClosedError(FileMapError, ValueError):
    """It is closed."""


class ForkedError(FileMapError, RuntimeError):
    """The handle was opened before a `fork`. Open it again in the child."""


class InvalidUrlError(FileMapError, ValueError):
    """The canonicaliser refuses the text: it is not a URL."""


class InvalidValueError(FileMapError, ValueError):
    """An argument, an option, a key or a page has an invalid value."""


class RefusedError(FileMapError, PermissionError):
    """An erasure rule refuses the page. `rule` is its number."""

    rule: int = 0


class RemoteError(FileMapError, ConnectionError):
    """The server of a store could not be reached, or refused or failed a request."""


class OutrunError(FileMapError, LookupError):
    """The changes since a place are no longer known: begin again with `changes()`."""


class StoreIOError(FileMapError, OSError):
    """The operating system refused an operation. `errno` is its reason."""

    def __str__(self) -> str:
        return str(self.strerror)
