"""The exceptions. Most derive from an exception of Python's own, too."""


class FileMapError(Exception):
    """The base of all exceptions of this package."""


class CorruptError(FileMapError):
    """Bytes on disk are not what was written. `file` and `offset` say where."""

    file: str | None = None
    offset: int | None = None


class LockedError(FileMapError, BlockingIOError):
    """Another handle has it open for writing. `pid` is its process, if that is known."""

    pid: int | None = None

    def __str__(self) -> str:
        return str(self.strerror)


class NotAStoreError(FileMapError, FileNotFoundError):
    """There is no store, or no seen set, at the path."""


class StoreExistsError(FileMapError, FileExistsError):
    """There is something at the path of a new store, a backup or an export."""


class ReadOnlyError(FileMapError, PermissionError):
    """It is open for reading only."""


class ClosedError(FileMapError, ValueError):
    """It is closed."""


class ForkedError(FileMapError, RuntimeError):
    """The handle was opened before a `fork`. Open it again in the child."""


class InvalidUrlError(FileMapError, ValueError):
    """The text is no URL by the canonicaliser."""


class InvalidValueError(FileMapError, ValueError):
    """An argument, an option, a key or a page has a value that cannot be."""


class RefusedError(FileMapError, PermissionError):
    """A rule of an erasure refuses the page. `rule` is its number."""

    rule: int = 0


class RemoteError(FileMapError, ConnectionError):
    """The server of a store was not reached, or did not do what it was asked."""


class OutrunError(FileMapError, LookupError):
    """What has changed since a place is not known any more: begin with `changes()`."""


class StoreIOError(FileMapError, OSError):
    """The operating system refused an operation. `errno` is its reason."""

    def __str__(self) -> str:
        return str(self.strerror)
