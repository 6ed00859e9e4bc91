#!/usr/bin/env python3
"""Writes the table of what pywb decides: tests/data/access/pywb.jsonl. Needs pywb 2.10.0 (pip install pywb==2.10.0).

usage: tests/foreign/access.py > tests/data/access/pywb.jsonl

A line is a case: files of rules, default and embargo, the time it is, and captures, each with pywb's answer. The cases are
chosen by hand, and drawn by a generator with a fixed seed. pywb searches files, so its rules are in its own order here.
"""

import json
import random
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

from pywb.utils.canonicalize import canonicalize
from pywb.warcserver import access_checker
from pywb.warcserver.index.cdxobject import CDXObject

NOW = datetime(2024, 3, 31, 12, 0, 0, tzinfo=timezone.utc)


class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def decided(files, config, captures):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for nth, text in enumerate(files):
            paths.append(str(Path(folder) / f"{nth}.aclj"))
            Path(paths[-1]).write_text(text)
        embargo = config.get("embargo")
        checker = access_checker.AccessChecker(paths, config.get("default_access", "allow"), json.loads(json.dumps(embargo)))
        answers = []
        for url, stamp in captures:
            cdx = CDXObject()
            cdx["urlkey"], cdx["timestamp"], cdx["url"] = canonicalize(url), stamp, url
            found = list(checker.wrap_iter([cdx], None))
            answers.append([url, stamp, found[0]["access"] if found else "exclude"])
        return answers


def case(rules, captures, config=None, more=()):
    files = []
    for lines in [rules, *more]:
        lines = [f"{key} - {json.dumps(fields)}" for key, fields in lines]
        # The order of `wb-manager acl validate`.
        files.append("".join(line + "\n" for line in sorted(lines, reverse=True)))
    config = config or {}
    print(json.dumps({"files": files, "config": config, "now": NOW.strftime("%Y%m%d%H%M%S"), "captures": decided(files, config, captures)}))


def by_hand():
    allow, block, exclude, ignore = ({"access": word} for word in ("allow", "block", "exclude", "allow_ignore_embargo"))
    old, new = "20190501120000", "20240301000000"
    urls = ["http://example.com/", "https://www.example.com/a", "http://example.com/a/b?y=2&x=1", "http://sub.example.com/a",
            "http://example.com:8080/a", "http://example.community/", "http://example.org/A%20b", "http://example.com/ab"]
    both = [(url, stamp) for url in urls for stamp in (old, new)]
    case([("com,example)/", block)], both)
    case([("com,example", exclude)], both)
    case([("com,example,", exclude), ("com,example)/a", block)], both)
    case([("com,example)/a", block), ("com,example)/a/b", allow), ("com,example)/a/b?x=1&y=2###", exclude)], both)
    case([("com,example)/a###", block), ("com,example)/a", exclude)], both)
    case([("com,", block), ("org,example)/a%20b###", exclude)], both)
    case([("*,", block)], both)
    case([("com,example)/", {**block, "user": "staff"}), ("com,", exclude)], both)
    case([("com,example)/", {**block, "user": ""})], both)
    case([("com,example)/", {"url": "http://example.com/"})], both)
    case([("com,example)/", allow)], both, {"default_access": "block"})
    case([("com,example)/", allow)], both, {"default_access": "exclude"})
    case([], both, {"default_access": "block"})
    case([("com,example)/", block), ("com,example)/", exclude)], both)
    case([("com,example)/", block)], both, more=[[("com,example)/", exclude), ("com,", exclude)]])
    case([("com,example)/", exclude)], both, more=[[("com,example)/", allow)], [("com,example)/", block)]])
    for condition in [{"before": "2020"}, {"after": "2020"}, {"newer": {"years": 1}}, {"older": {"months": 1}}, {"newer": {}},
                      {"before": "20190501120000"}, {"after": "20190501120000"}, {"before": "", "after": "2020"},
                      {"older": {"days": 0}}, {"newer": {"days": 0}}, {"newer": {"years": 3}, "older": {"days": 1}}]:
        for access in (allow, block, exclude, ignore):
            case([("com,example)/", {**access, **condition})], both)
        case([("com,example)/", {**block, **condition}), ("com,", exclude)], both, {"default_access": "exclude"})
        if {} in condition.values() or {"days": 0} in condition.values():
            # No embargo to pywb; refused here.
            continue
        for access in ({"access": "block"}, {"access": "exclude"}, {"access": "allow"}, {}):
            rules = [("com,example)/a", ignore), ("com,example)/", block), ("org,", exclude)]
            case(rules, both, {"embargo": {**condition, **access}})
    edges = ["20240229115959", "20240229120000", "20240229120001", "20230331120000", "20230331120001"]
    case([("com,", {"access": "exclude", "newer": {"months": 1}})], [("http://example.com/", stamp) for stamp in edges])
    case([("com,", {"access": "block", "older": {"years": 1}})], [("http://example.com/", stamp) for stamp in edges])
    case([("com,", {"access": "block", "older": {"weeks": 4, "days": 3, "months": 13}})], [("http://example.com/", stamp) for stamp in edges])


def drawn(draw):
    parts = ["com", "example", "sub", "org", "a"]

    def url():
        # pywb breaks off too early for hosts of one label.
        host = ".".join(draw.choice(parts) for _ in range(draw.randint(2, 3)))
        path = "".join("/" + draw.choice(["", "a", "ab", "b", "a-b"]) for _ in range(draw.randint(0, 3)))
        query = draw.choice(["", "", "", "?x=1", "?x=1&y=2"])
        return f"http://{draw.choice(['', 'www.'])}{host}{path or '/'}{query}"

    for _ in range(150):
        urls = [url() for _ in range(12)]
        rules = {}
        for _ in range(draw.randint(1, 12)):
            key = canonicalize(draw.choice(urls))
            key = draw.choice([key, key[:draw.randint(3, len(key))], key.split(")")[0], key.split(")")[0] + ",", key + "###"])
            fields = {"access": draw.choice(["allow", "block", "exclude", "allow_ignore_embargo"])}
            if draw.random() < 0.3:
                fields.update(draw.choice([{"before": "2021"}, {"after": "202106"}, {"newer": {"months": 30}}, {"older": {"years": 2}}]))
            rules[key] = fields
        config = {}
        if draw.random() < 0.4:
            config["default_access"] = draw.choice(["allow", "block", "exclude"])
        if draw.random() < 0.4:
            config["embargo"] = {**draw.choice([{"before": "2021"}, {"newer": {"years": 2}}]), "access": draw.choice(["block", "exclude"])}
        stamps = ["20200101000000", "20211231235959", "20240101000000"]
        case(list(rules.items()), [(url, draw.choice(stamps)) for url in urls], config)


access_checker.datetime = Clock
# pywb prints some embargoes.
access_checker.print = lambda *_: None
by_hand()
drawn(random.Random(1))
