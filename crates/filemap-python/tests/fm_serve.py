"""An `fm-serve` for the tests."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def program() -> str | None:
    """The server program: `FM_SERVE`, or one that was built in this repository."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [str(target / profile / "fm-serve") for profile in ("release", "debug")]
    return next(filter(None, map(shutil.which, [os.environ.get("FM_SERVE", ""), *built])), None)


class Server:
    """A server for the store at `path`; it keeps its port when it is started again."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self._command = [os.fspath(path), *arguments]
        self._listen = "127.0.0.1:0"
        self.location = ""
        self._log = path.with_name(f"{path.name}.said")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Starts the server, also again after `stop` or `kill`. Without a program the test is
        skipped; in a run of `check.sh` it fails."""
        found = program()
        if found is None:
            said = "there is no fm-serve: build it, or name it in FM_SERVE"
            pytest.fail(said) if "FILEMAP_CHECK" in os.environ else pytest.skip(said)
        command = [found, *self._command, "--listen", self._listen]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log)
        until = time.monotonic() + 60
        # Messages about recovery may come first.
        while (at := re.search(r" at (http://\S+)\n", self._log.read_text())) is None:
            is_over = self._process.poll() is not None or time.monotonic() > until
            assert not is_over, self._log.read_text()
            time.sleep(0.01)
        self.location = at[1]
        self._listen = self.location.rpartition("/")[2]

    def seen(self, name: str) -> str:
        """The address of a seen set."""
        return f"{self.location}/v1/seen/{name}"

    def kill(self) -> None:
        """Ends the server with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ends the server if it is running."""
        assert self._end(signal.SIGTERM) in (0, None)

    def _end(self, by: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(by)
        return process.wait(timeout=60)


@contextmanager
def served(path: Path, *arguments: str) -> Iterator[str]:
    """Serves the store at `path`; yields the address of the server."""
    server = Server(path, *arguments)
    try:
        yield server.location
    finally:
        server.stop()
