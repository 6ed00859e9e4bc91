"""An `fm-serve` for the tests."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def program() -> str | None:
    """The server: `FM_SERVE`, or one that was built here."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [str(target / profile / "fm-serve") for profile in ("release", "debug")]
    return next(filter(None, map(shutil.which, [os.environ.get("FM_SERVE", ""), *built])), None)


class Server:
    """A server of the store at `path`, on a port that it keeps when it is started again."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._command = [os.fspath(path), *arguments]
        self._listen = "127.0.0.1:0"
        self.location = ""
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Starts it, once more after `stop` or `kill`. Without a program the test is skipped, or
        fails in a run of `check.sh`."""
        found = program()
        if found is None:
            said = "there is no fm-serve: build it, or name it in FM_SERVE"
            pytest.fail(said) if "FILEMAP_CHECK" in os.environ else pytest.skip(said)
        command = [found, *self._command, "--listen", self._listen]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        assert " at http" in said, said + self._process.stderr.read()
        self.location = said.split()[-1]
        self._listen = self.location.rpartition("/")[2]

    def seen(self, name: str) -> str:
        """The address of a seen set."""
        return f"{self.location}/v1/seen/{name}"

    def kill(self) -> None:
        """Ends it by SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends it, if it runs."""
        assert self._end(signal.SIGTERM) in (0, None)

    def _end(self, by: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(by)
        assert process.stderr is not None
        process.stderr.read()
        process.stderr.close()
        return process.wait()


@contextmanager
def served(path: Path, *arguments: str) -> Iterator[str]:
    """The address of a server of the store at `path`."""
    server = Server(path, *arguments)
    try:
        yield server.location
    finally:
        server.stop()
