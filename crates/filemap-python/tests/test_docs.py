"""Runs every block of docs/PYTHON.md and of both READMEs unchanged, in order.

A block that begins with "```python torch" runs where torch is installed, and is reported as
skipped elsewhere; the same holds for Spark, which needs Java. A soak has both: FILEMAP_TRAINING
and FILEMAP_SPARK. A block that begins with "```python fm_serve" needs a server; the test starts
one and replaces the address in the page.
"""

import importlib.util
import os
import re
import shutil
import warnings
from contextlib import ExitStack
from pathlib import Path

import pytest

from fm_serve import program, served

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGE = ROOT / "crates" / "filemap-python"
PAGES = [ROOT / "docs" / "PYTHON.md", PACKAGE / "README.md", ROOT / "README.md"]
SERVER = "http://crawler.example:8640"


@pytest.mark.filterwarnings("default:skipped")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(
        ROOT / "tests" / "data" / "warc" / "python-docs.warc.gz", tmp_path / "sample.warc.gz"
    )
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 2, "the page has lost its blocks"
    names: dict[str, object] = {"__name__": "page"}
    with ExitStack() as servers:
        server = SERVER
        for block in blocks:
            if block[1] and not is_there(block[1]):
                warnings.warn(f"skipped: a block of {page.name} needs {block[1]}", stacklevel=1)
                continue
            if block[1] == "fm_serve" and server == SERVER:
                (tmp_path / "sets").mkdir()
                options = ("--write", "--seen-dir", str(tmp_path / "sets"))
                server = servers.enter_context(served(tmp_path / "served.fm", *options))
            line = text[: block.start()].count("\n") + 1
            # This way tracebacks have the line numbers of the page.
            lines = "\n" * line + block[2].replace(SERVER, server)
            exec(compile(lines, os.fspath(page), "exec"), names)


def is_there(name: str) -> bool:
    if name == "fm_serve":
        return program() is not None or "FILEMAP_CHECK" in os.environ
    if name == "pyspark" and shutil.which("java") is None and "FILEMAP_SPARK" not in os.environ:
        return False
    if name in ("torch", "datasets") and "FILEMAP_TRAINING" in os.environ:
        return True
    return importlib.util.find_spec(name) is not None
