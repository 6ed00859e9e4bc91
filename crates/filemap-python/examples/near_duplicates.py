"""Find pages whose texts are nearly the same: `python near_duplicates.py pages.fm`.

Each text is cut into runs of four words and represented by a SimHash of 64 bits; texts with nearly
equal hashes are compared run by run. Memory: some hundred bytes a page; bodies are read one after
the other.

The hash is Charikar's ("Similarity estimation techniques from rounding algorithms", 2002), its
use on web pages Manku's ("Detecting near-duplicates for web crawling", 2007).
"""

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator

import filemap

BITS = 64
BANDS = 4
SAME_FROM = 0.8

TAGS = re.compile(r"<(script|style).*?</\1\s*>|<[^>]*>", re.DOTALL | re.IGNORECASE)
WORDS = re.compile(r"\w+")


def runs(page: filemap.Page) -> set[int]:
    """The hashes of all runs of four words."""
    words = WORDS.findall(TAGS.sub(" ", page.text).lower())
    texts = {" ".join(words[at : at + 4]) for at in range(max(1, len(words) - 3))}
    return {
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) for text in texts
    }


def simhash(hashes: set[int]) -> int:
    """One hash; each bit has the value that most of the hashes have."""
    half = len(hashes) / 2
    counts = [sum(value >> bit & 1 for value in hashes) for bit in range(BITS)]
    return sum(1 << bit for bit, count in enumerate(counts) if count > half)


def near_duplicates(store: filemap.PageStore) -> Iterator[tuple[float, str, str]]:
    """Pairs of URLs with the similarity of their texts, from 0 to 1."""
    met: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for page in store.pages():
        if page.status != 200 or not (page.content_type or "").startswith("text/html"):
            continue
        own = runs(page)
        value = simhash(own)
        candidates: set[str] = set()
        for band in range(BANDS):
            width = BITS // BANDS
            part = (band, value >> band * width & (1 << width) - 1)
            candidates.update(met[part])
            met[part].append(page.url)
        for url in sorted(candidates):
            other = store.get(url)
            if other is not None:
                theirs = runs(other)
                same = len(own & theirs) / len(own | theirs)
                if same >= SAME_FROM:
                    yield same, url, page.url


def main() -> None:
    with filemap.open(sys.argv[1]) as store:
        for same, one, other in near_duplicates(store):
            print(f"{same:.2f} {one} {other}")


if __name__ == "__main__":
    main()
