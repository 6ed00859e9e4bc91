"""A `redis-server` on the loopback address, for the tests of sets on Redis."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class Redis:
    """A running server with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            assert not os.environ.get("CI"), "redis-server is needed"
            pytest.skip("there is no redis-server")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._process = subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL)
        for _ in range(600):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("redis-server does not answer")

    def seen(self, name: str) -> str:
        """The location of a set."""
        return f"redis://127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        """Kills the server."""
        self._process.kill()
        self._process.wait()
