"""Every block of docs/PYTHON.md and of both READMEs runs as it stands, in order.

A block that begins with "```python torch" runs where torch is installed, and is named as skipped
elsewhere.
"""

import importlib.util
import os
import re
import shutil
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PACKAGE = ROOT / "crates" / "filemap-python"
PAGES = [ROOT / "docs" / "PYTHON.md", PACKAGE / "README.md", ROOT / "README.md"]


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
    for block in blocks:
        if block[1] and not importlib.util.find_spec(block[1]):
            warnings.warn(f"skipped: a block of {page.name} needs {block[1]}", stacklevel=1)
            continue
        line = text[: block.start()].count("\n") + 1
        # The line numbers of a traceback are those of the page.
        code = compile("\n" * line + block[2], os.fspath(page), "exec")
        exec(code, names)
