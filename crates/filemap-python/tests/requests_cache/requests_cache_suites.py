"""Runs requests-cache's own tests of storages and caches with our classes.

The files come from the sdist of the installed requests-cache, at test time, into a cache folder
(`FILEMAP_TEST_CACHE`, or one next to other temporary files), as do the packages that only they
need; no copy of them is kept here. They use a pytest-httpbin server on the loopback address.
`NOT_RUN` names the tests that are left out.

    python requests_cache_suites.py        # prints pytest's output; its exit code

With a server, all caches are in the store of an `fm-serve`.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Final

NOT_RUN: Final = {
    "test_picklable_dict": "values of any class, by pickle: ours pickles nothing",
    "ProcessPoolExecutor": "several processes that write one cache: a store has one writer",
}
# Behind a server they may, but only forked processes know where the server is.
FORKS: Final = sys.version_info < (3, 14)

NEEDED: Final = (
    "pytest-httpbin>=2.1",
    "requests-mock>=1.12",
    "responses>=0.25",
    "rich>=13",
    "tenacity>=8",
    "time-machine>=2.9",
    "timeout-decorator>=0.5",
)
"""Packages that the tests of the oldest and of the newest version import."""

_OURS: Final = """
from filemap.requests_cache import FileMapCache, FileMapDict
from tests.integration.base_cache_test import BaseCacheTest
from tests.integration.base_storage_test import BaseStorageTest


class TestFileMapDict(BaseStorageTest):
    storage_class = FileMapDict


class TestFileMapCache(BaseCacheTest):
    backend_class = FileMapCache
"""

_THERE: Final = """
import pytest
import filemap.requests_cache as ours
from fm_serve import served


@pytest.fixture(autouse=True, scope="session")
def there(tmp_path_factory):
    own = ours._place
    with served(tmp_path_factory.mktemp("served") / "pages.fm", "--write") as location:
        ours._place = lambda *path: location
        yield
    ours._place = own
"""


def _cache_folder() -> Path:
    named = os.environ.get("FILEMAP_TEST_CACHE")
    folder = Path(named) if named else Path(tempfile.gettempdir(), "filemap-requests-cache-sdists")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True)


def _sdist(release: str) -> Path:
    """The folder with the unpacked tests of this version."""
    folder = _cache_folder() / f"requests-cache-{release}"
    if not (folder / "tests").is_dir():
        wanted = ("--no-binary", "requests-cache", "--no-deps")
        with tempfile.TemporaryDirectory(dir=_cache_folder()) as fresh:
            _pip("download", *wanted, "-d", fresh, f"requests-cache=={release}")
            (archive,) = Path(fresh).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                members = [m for m in tar if re.match(r"[^/]+/tests/", m.name)]
                tar.extractall(fresh, members=members, filter="data")
            (unpacked,) = (found for found in Path(fresh).iterdir() if found.is_dir())
            unpacked.rename(folder)
    return folder


def _needed() -> str:
    """The folder with packages that only the tests need."""
    tag = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = _cache_folder() / f"packages-{tag}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=_cache_folder()) as fresh:
            made = Path(fresh, "packages")
            _pip("install", "--target", str(made), *NEEDED)
            made.rename(folder)
    return str(folder)


def run(*, there: bool = False, verbose: bool = False) -> "subprocess.CompletedProcess[str]":
    """Runs the tests of the installed requests-cache in a separate process; over HTTP if
    `there`."""
    source = _sdist(version("requests-cache"))
    with tempfile.TemporaryDirectory() as work:
        Path(work, "tests").symlink_to(source / "tests")
        Path(work, "ours").mkdir()
        Path(work, "ours", "test_ours.py").write_text(_OURS)
        Path(work, "ours", "pytest.ini").write_text("[pytest]\n")
        conftest = "from tests.conftest import *  # noqa: F403\n" + (_THERE if there else "")
        Path(work, "ours", "conftest.py").write_text(conftest)
        left_out = [n for n in NOT_RUN if n != "ProcessPoolExecutor" or not (there and FORKS)]
        excluded = " and ".join(f"not {name}" for name in left_out)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-k", excluded, "-ra", *(["-v"] if verbose else [])]
        # The installed packages come before those that only the tests need.
        script = (
            "import sys, runpy; sys.path.append(sys.argv.pop(1));"
            "runpy.run_module('pytest', run_name='__main__', alter_sys=True)"
        )
        command[1:3] = ["-c", script, _needed()]
        paths = [work, str(Path(__file__).parents[1])]
        paths += [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "USE_PYTEST_HTTPBIN": "true",
            "NO_PROXY": "127.0.0.1,localhost",
        }
        return subprocess.run(
            command,
            cwd=Path(work, "ours"),
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )


if __name__ == "__main__":
    done = run(verbose=True)
    print(done.stdout, done.stderr)
    sys.exit(done.returncode)
