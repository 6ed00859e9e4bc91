"""Runs Scrapy's own tests of its HTTP cache and dupe filters with our classes.

The files come from the sdist of the installed Scrapy, at test time, into a cache folder
(`FILEMAP_TEST_CACHE`, or one next to other temporary files); no copy of them is kept here. In the
copy that runs, our classes replace those of Scrapy. `NOT_RUN` names the tests that are left out.

    python scrapy_suites.py        # prints pytest's output; its exit code

With a server, the storage's folder is the address of an `fm-serve`, one for each test, which also
has the filter's set.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CACHE: Final = "test_downloadermiddleware_httpcache.py"
DUPES: Final = "test_dupefilters.py"

NOT_RUN: Final = {
    # It tests attributes of the other storage.
    "test_custom_dbm_module_loaded": "the module of the DBM storage",
    # They test the format of `requests.seen`, which our filter imports but never writes.
    "test_seenreq_newlines": "the format of requests.seen up to 2.18",
    "test_seenreq_truncated": "the format of requests.seen since 2.19",
    # It tests the deprecated list of all fingerprints; our filter keeps no texts of them.
    "test_fingerprints_deprecation": "RFPDupeFilter.fingerprints, deprecated",
}

_CONFTEST: Final = """
from scrapy.settings import default_settings
from scrapy.utils.reactor import install_reactor

default_settings.DUPEFILTER_CLASS = "filemap.scrapy.FileMapDupeFilter"


def pytest_configure(config):
    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
"""

_THERE: Final = """

import hashlib

import pytest
from fm_serve import Server

from filemap.scrapy import cache, dupefilter, served_seen


@pytest.fixture(autouse=True)
def there(tmp_path_factory, monkeypatch):
    servers = {}

    def server():
        if not servers:
            folder = tmp_path_factory.mktemp("served")
            (folder / "sets").mkdir()
            sets = ("--write", "--seen-dir", str(folder / "sets"))
            servers[None] = Server(folder / "pages.fm", *sets)
        return servers[None]

    def seen_at(path, options, patience):
        name = hashlib.sha256(path.encode()).hexdigest()
        return served_seen.ServedSeen(server().seen(name), {}, patience)

    monkeypatch.setattr(cache, "path_of", lambda *path: server().location)
    monkeypatch.setattr(dupefilter, "seen_at", seen_at)
    yield
    for started in servers.values():
        started.stop()
"""

_HOOKS: Final = '''

def _put_note(storage, spider, request, note):
    """Puts the entry of a request again, with this note."""
    from filemap.scrapy import responses
    url, variant = storage._key(request)
    record = storage.pages.get(url, variant)
    record.headers = [field for field in record.headers if field[0] != responses.NOTE]
    if note is not None:
        record.headers.append((responses.NOTE, note))
    storage.pages.put(record)


def _corrupt(self, storage, spider, request):
    _put_note(storage, spider, request, b"{not JSON")


def _downgrade(self, storage, spider, request):
    _put_note(storage, spider, request, None)


for _class in list(globals().values()):
    for _name, _ours in (("_corrupt_cache_entry", _corrupt), ("_downgrade_cache_entry", _downgrade)):
        if isinstance(_class, type) and _name in vars(_class) and _class is not StorageTestMixin:
            setattr(_class, _name, _ours)
'''


def _cache_folder() -> Path:
    named = os.environ.get("FILEMAP_TEST_CACHE")
    folder = Path(named) if named else Path(tempfile.gettempdir(), "filemap-scrapy-sdists")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", *arguments], check=True)


def _sdist(scrapy: str) -> Path:
    """The folder with the unpacked tests of this version."""
    folder = _cache_folder() / f"scrapy-{scrapy}"
    if not (folder / "tests").is_dir():
        wanted = ("--no-binary", "scrapy", "--no-deps")
        with tempfile.TemporaryDirectory(dir=_cache_folder()) as fresh:
            _pip("download", *wanted, "-d", fresh, f"scrapy=={scrapy}")
            (archive,) = Path(fresh).glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                members = [m for m in tar if re.match(r"[^/]+/tests/", m.name)]
                tar.extractall(fresh, members=members, filter="data")
            (unpacked,) = (found for found in Path(fresh).iterdir() if found.is_dir())
            unpacked.rename(folder)
    return folder


def _needed(text: str) -> "list[str]":
    """Folders with packages that only the tests need."""
    if "testfixtures" not in text or find_spec("testfixtures") is not None:
        return []
    folder = _cache_folder() / "packages"
    if not (folder / "testfixtures").is_dir():
        _pip("install", "--target", str(folder), "testfixtures")
    return [str(folder)]


def _pointed_at_ours(name: str, text: str) -> str:
    for storage in ("FilesystemCacheStorage", "DbmCacheStorage"):
        text = text.replace(
            f"scrapy.extensions.httpcache.{storage}", "filemap.scrapy.FileMapCacheStorage"
        )
    text = text.replace("scrapy.extensions.httpcache.time", "filemap.scrapy.cache.time")
    text = text.replace(
        "from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter",
        "from scrapy.dupefilters import BaseDupeFilter\n"
        "from filemap.scrapy import FileMapDupeFilter as RFPDupeFilter",
    )
    assert "filemap.scrapy." in text or "filemap.scrapy " in text, name
    if name == CACHE and "_corrupt_cache_entry" in text:
        text += _HOOKS
    return text


def run(*, there: bool = False, verbose: bool = False) -> "subprocess.CompletedProcess[str]":
    """Runs the tests of the installed Scrapy in a separate process; over HTTP if `there`."""
    source = _sdist(version("scrapy"))
    with tempfile.TemporaryDirectory() as work:
        tests = Path(work, "tests")
        tests.symlink_to(source / "tests")
        copies = Path(work, "ours")
        copies.mkdir()
        paths = [work, str(Path(__file__).parents[1])]
        for name in (CACHE, DUPES):
            text = _pointed_at_ours(name, (source / "tests" / name).read_text())
            (copies / name).write_text(text)
            paths += _needed(text)
        Path(copies, "conftest.py").write_text(_CONFTEST + (_THERE if there else ""))
        Path(copies, "pytest.ini").write_text("[pytest]\n")
        excluded = " and ".join(f"not {name}" for name in NOT_RUN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", excluded]
        command += ["-ra", "-v"] if verbose else ["-ra"]
        paths += [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run(
            command, cwd=copies, env=environment, text=True, capture_output=True, check=False
        )


if __name__ == "__main__":
    done = run(verbose=True)
    print(done.stdout, done.stderr)
    sys.exit(done.returncode)
