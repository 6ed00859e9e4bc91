"""Seen sets: a URL that was added is never new again."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import filemap
from filemap import seen

KINDS: "list[Callable[..., seen.SeenSet]]" = [
    seen.DiskSet,
    seen.Trie,
    seen.BloomFilter,
    seen.Md5Bitmap,
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_of_each_kind(kind: "Callable[..., seen.SeenSet]", tmp_path: Path) -> None:
    path = tmp_path / "seen"
    small = {"bits": 20} if kind is seen.Md5Bitmap else {}
    with kind(path, **small) as known:
        assert known and len(known) == 0
        assert known.add("http://a/") and not known.add(b"http://a/")
        urls = [f"http://h/{n % 700}" for n in range(1000)]
        new = known.add_many(urls)
        assert new[:5] == [True] * 5 and new[700:] == [False] * 300
        assert all(known.contains_many(urls)) and "http://a/" in known and 5 not in known
        assert not known.contains_many(["http://absent/"])[0]
        known.sync()
        stats = known.stat()
        assert stats["memory_bytes"] or stats["disk_bytes"]
        with pytest.raises(BlockingIOError):
            kind(path, "w")
        with kind(path, "r") as reader:
            assert "http://a/" in reader
            with pytest.raises(PermissionError):
                reader.add("http://b/")
    known.close()
    assert known.closed and "closed" in repr(known)
    with pytest.raises(ValueError):
        known.add("http://b/")
    with kind(path, "w") as known:
        assert not known.add("http://a/") and 600 < len(known) <= 701
    with pytest.raises(FileExistsError):
        kind(path, "x")
    with pytest.raises(FileNotFoundError):
        kind(tmp_path / "none", "r")
    with pytest.raises(ValueError, match="mode"):
        kind(path, "rb")


def test_the_disk_set_takes_any_bytes(tmp_path: Path) -> None:
    keys = [bytes([n]) * 20 for n in range(256)]
    with seen.DiskSet(tmp_path / "s", memory_bytes=1 << 20) as known:
        assert all(known.add_many(keys)) and not any(known.add_many(keys)) and len(known) == 256
        assert (
            known.forget_many(keys[:2]) == [True, True]
            and keys[0] not in known
            and known.add(keys[0])
        )


def test_a_set_applies_its_canonicaliser(tmp_path: Path) -> None:
    with seen.Trie(tmp_path / "s", canonicalizer="whatwg") as known:
        assert known.add("HTTP://A/#x") and not known.add("http://a/")
        with pytest.raises(filemap.InvalidUrlError):
            known.add("no URL")
        assert "no URL" not in known
    with seen.Trie(tmp_path / "s") as known:
        assert "http://A:80/" in known
    with pytest.raises(ValueError, match="whatwg"):
        seen.Trie(tmp_path / "s", canonicalizer="crawl")
    with pytest.raises(ValueError, match="kind trie"):
        seen.DiskSet(tmp_path / "s")


def test_a_set_that_lost_its_canonicaliser_asks_for_it(tmp_path: Path) -> None:
    with seen.Trie(tmp_path / "s", canonicalizer="whatwg") as known:
        known.add("HTTP://A/#x")
    (tmp_path / "s.canon").unlink()
    with pytest.raises(ValueError, match=r"s\.canon"):
        seen.Trie(tmp_path / "s")
    with seen.Trie(tmp_path / "s", canonicalizer="whatwg") as known:
        assert not known.add("http://a:80/")


def test_a_bloom_filter_keeps_its_rate(tmp_path: Path) -> None:
    with seen.BloomFilter(tmp_path / "s", capacity=10_000, rate=0.01) as known:
        known.add_many(f"http://h/{n}" for n in range(10_000))
        wrong = sum(known.contains_many(f"http://other/{n}" for n in range(10_000)))
        assert 10 < wrong < 200


def test_a_set_that_exists_refuses_other_values_than_its_own(tmp_path: Path) -> None:
    small: dict[str, float] = {"capacity": 10_000, "rate": 0.01}
    rows: list[tuple[Callable[..., seen.SeenSet], dict[str, float], dict[str, float], str]] = [
        (seen.BloomFilter, small, {"capacity": 20_000}, "made with 10000, not 20000"),
        (seen.BloomFilter, small, {"rate": 0.001}, r"rate: .* not 0\.001"),
        (seen.BloomFilter, {}, {"capacity": 10_000}, "made with 1000000, not 10000"),
        (seen.Md5Bitmap, {"bits": 20}, {"bits": 21}, "bits: .* made with 20, not 21"),
        (seen.DiskSet, {"seed": 7}, {"seed": 8}, "seed: .* made with another"),
        (seen.DiskSet, {}, {"seed": 8}, "seed: .* made with another"),
    ]
    for n, (kind, made, other, said) in enumerate(rows):
        path = tmp_path / str(n)
        with kind(path, **made) as known:
            assert known.add("http://a/")
        # The same values again, or none.
        for given in [made, {}, *({name: value} for name, value in made.items())]:
            with kind(path, **given) as known:
                assert not known.add("http://a/")
        for mode in ("a", "w", "r"):
            with pytest.raises(filemap.InvalidValueError, match=said):
                kind(path, mode, **other)


@pytest.mark.parametrize("kind", ["DiskSet", "Trie", "BloomFilter", "Md5Bitmap"])
def test_a_program_that_ends_without_a_close_loses_nothing(tmp_path: Path, kind: str) -> None:
    code = """
import sys
from filemap import seen
known = getattr(seen, sys.argv[1])(sys.argv[2])
assert all(known.add_many(f"http://a/{n}" for n in range(100)))
"""
    path = tmp_path / "known"
    subprocess.run([sys.executable, "-c", code, kind, path], check=True)
    with getattr(seen, kind)(path, "r") as known:
        assert len(known) == 100 and "http://a/99" in known


def test_one_text_is_not_taken_for_many_urls(tmp_path: Path, store: filemap.PageStore) -> None:
    with seen.Trie(tmp_path / "known") as known:
        for one in ("http://a/", b"http://a/"):
            for call in (known.add_many, known.contains_many, store.get_many):
                with pytest.raises(TypeError, match="give a list"):
                    call(one)
        assert len(known) == 0
