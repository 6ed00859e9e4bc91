"""Many URLs at once: an error in their iterable loses no answer to an earlier URL."""

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import filemap
from filemap import seen


def urls(count: int, then: BaseException | None = None) -> Iterator[str]:
    for n in range(count):
        yield f"http://h/{n}"
    if then is not None:
        raise then


def read(pages: Iterable[filemap.Page | None]) -> list[bytes]:
    return [page.body for page in pages if page]


def test_pages_asked_for_before_an_error_of_the_iterable_are_given(
    store: filemap.PageStore,
) -> None:
    store.put_many((url, url) for url in urls(10))
    many = store.get_many(urls(10, RuntimeError("boom")), ahead=4)
    found: list[filemap.Page | None] = []
    with pytest.raises(RuntimeError, match="boom"):
        found.extend(iter(lambda: next(many), 0))
    assert read(found) == [url.encode() for url in urls(10)]
    with pytest.raises(StopIteration):
        next(many)


def test_ctrl_c_in_the_iterable_comes_at_once_and_loses_no_page(store: filemap.PageStore) -> None:
    store.put_many((url, url) for url in urls(3))
    many = store.get_many(urls(3, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        next(many)
    assert len(read(many)) == 3


def test_no_thread_meets_the_end_before_the_last_page(store: filemap.PageStore) -> None:
    store.put("http://h/0", b"x")
    asked, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[str]:
        yield "http://h/0"
        asked.set()
        go_on.wait(10)
        yield "http://h/0"

    many = store.get_many(slow())
    given: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: given.append(read([next(many)])))]
    threads[0].start()
    assert asked.wait(10)
    threads.append(threading.Thread(target=lambda: given.append(read([next(many)]))))
    threads[1].start()
    # This thread waits, since the other one's pages are outstanding.
    threads[1].join(0.2)
    go_on.set()
    for thread in threads:
        thread.join()
    assert given == [[b"x"], [b"x"]]


def test_urls_that_ask_for_their_own_pages_are_an_error(store: filemap.PageStore) -> None:
    class Circle:
        def __iter__(self) -> "Circle":
            return self

        def __next__(self) -> str:
            next(many)
            return "http://h/"

    many = store.get_many(Circle())
    with pytest.raises(ValueError, match="their own pages"):
        next(many)


@pytest.mark.parametrize("kind", [seen.DiskSet, seen.Trie, seen.BloomFilter])
def test_an_error_has_what_was_new_before_it(
    kind: "Callable[..., seen.SeenSet]", tmp_path: Path
) -> None:
    with kind(tmp_path / "s") as known:
        known.add("http://h/7")
        with pytest.raises(RuntimeError) as raised:
            known.add_many(urls(5000, RuntimeError("boom")))
        assert raised.value.done == [n != 7 for n in range(5000)]  # type: ignore[attr-defined]
        assert all(known.contains_many(urls(5000)))
        with pytest.raises(TypeError) as wrong:
            known.add_many(["http://new/", 5])  # type: ignore[list-item]
        assert wrong.value.done == [True]  # type: ignore[attr-defined]
        with pytest.raises(KeyboardInterrupt) as interrupted:
            known.contains_many(urls(3, KeyboardInterrupt()))
        assert interrupted.value.done == [True] * 3  # type: ignore[attr-defined]


def test_a_wrong_url_has_what_was_new_before_it(tmp_path: Path) -> None:
    with seen.Trie(tmp_path / "s", canonicalizer="whatwg") as known:
        with pytest.raises(filemap.InvalidUrlError) as wrong:
            known.add_many(["http://a/", "HTTP://A/", "no URL", "http://b/"])
        assert wrong.value.done == [True, False]  # type: ignore[attr-defined]
        assert "http://b/" not in known


def test_an_error_has_how_many_were_put_before_it(store: filemap.PageStore) -> None:
    pages = [(f"http://h/{n}", b"x") for n in range(40)]
    with pytest.raises(filemap.InvalidUrlError) as wrong:
        store.put_many([*pages, ("no URL", b"x"), ("http://h/after", b"x")])
    assert wrong.value.done == 40  # type: ignore[attr-defined]
    assert len(store) == 40
    with pytest.raises(TypeError) as mistaken:
        store.put_many([*pages[:3], 5])  # type: ignore[list-item]
    assert mistaken.value.done == 3  # type: ignore[attr-defined]
