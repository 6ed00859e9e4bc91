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
        # Somebody else may take the port before the server does, which then ends.
        for _ in range(20):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port: int = free.getsockname()[1]
            command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
            self._process = subprocess.Popen(
                [*command, "--dir", str(folder)], stdout=subprocess.DEVNULL
            )
            while self._process.poll() is None:
                if self._answers():
                    return
                time.sleep(0.05)
        raise AssertionError("redis-server does not start")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as tried:
                tried.sendall(b"PING\r\n")
                return tried.recv(1) == b"+"
        except OSError:
            return False

    def seen(self, name: str) -> str:
        """The location of a set."""
        return f"redis://127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        """Kills the server."""
        self._process.kill()
        self._process.wait()
