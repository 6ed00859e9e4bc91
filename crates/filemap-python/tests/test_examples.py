"""The examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import filemap

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_near_duplicates_are_found(path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(300))
    html = {"Content-Type": "text/html"}
    with filemap.open(path, "a") as store:
        store.put("http://a/1", f"<p>{text}</p>", headers=html)
        store.put("http://a/2", f"<h1>{text} and</h1> more", headers=html)
        store.put("http://a/3", "<p>something else altogether is here</p>", headers=html)
    out = subprocess.run(
        [sys.executable, EXAMPLES / "near_duplicates.py", path],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    (line,) = out.splitlines()
    same, *urls = line.split()
    assert float(same) > 0.9 and urls == ["http://a/1", "http://a/2"]
