"""Every block of docs/PYTHON.md and of the package's README runs as it stands, in order."""

import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "docs" / "PYTHON.md", ROOT / "crates" / "filemap-python" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "tests" / "data" / "warc" / "python-docs.warc.gz", tmp_path / "sample.warc.gz")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 2, "the page has lost its blocks"
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks:
        line = text[: block.start()].count("\n") + 1
        # The line numbers of a traceback are those of the page.
        code = compile("\n" * line + block[1], os.fspath(page), "exec")
        exec(code, names)
