#!/usr/bin/env python3
"""Draws docs/seen.svg: bytes a URL of the seen sets against their error and their speed.

    fm-bench seen --kind chart --list LIST --urls 10000000   # prints benches/data/seen.csv
    benches/seen_chart.py [benches/data/seen.csv [docs/seen.svg]]

Lines of the data that begin with `#` say how it was measured; the first is the chart's subtitle.
"""
import csv
import math
import sys
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 1100, 560
TOP, BOTTOM = 80, 500
PANELS = [(70, 480), (620, 1030)]
BYTES = (0.8, 400.0)
ERRORS = (1e-17, 1.0)
TIMES = (50.0, 3000.0)
MEMORY, DISK, BASE = "#2563a8", "#b45309", "#6b7280"


def place(value, low, high, start, end):
    """Place of a value on a logarithmic axis."""
    share = (math.log10(min(max(value, low), high)) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return start + share * (end - start)


def text(x, y, words, size=12, anchor="middle", colour="#111", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{extra}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#ddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def axes(panel, title, low, high, ticks):
    left, right = panel
    out = [text((left + right) / 2, TOP - 16, title, 14)]
    for value in (1, 2, 5, 10, 20, 50, 100, 200):
        x = place(value, *BYTES, left, right)
        out += [line(x, TOP, x, BOTTOM), text(x, BOTTOM + 18, str(value))]
    for value, label in ticks:
        y = place(value, low, high, BOTTOM, TOP)
        out += [line(left, y, right, y), text(left - 6, y + 4, label, anchor="end")]
    out.append(text((left + right) / 2, BOTTOM + 38, "bytes a URL: memory and files together"))
    return out


def spread(wanted, gap=13):
    """Labels' heights, moved apart so that none covers another."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    heights = list(wanted)
    for before, after in zip(order, order[1:]):
        heights[after] = max(heights[after], heights[before] + gap)
    ceiling = float(BOTTOM)
    for i in reversed(order):
        heights[i] = min(heights[i], ceiling)
        ceiling = heights[i] - gap
    return heights


def points(panel, rows, low, high, value):
    left, right = panel
    places = [(place(row["bytes"], *BYTES, left, right), place(value(row), low, high, BOTTOM, TOP)) for row in rows]
    out = []
    for row, (x, y), height in zip(rows, places, spread([y for _, y in places])):
        colour = BASE if row["baseline"] else DISK if row["disk"] else MEMORY
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
        # Beside all points that the label would cover.
        near = [other for other, at in places if abs(other - x) < 100 and abs(at - height) < 12] + [x]
        to_right = x < right - 150
        end = max(near) + 8 if to_right else min(near) - 8
        out.append(line(x, y, end, height, colour))
        label = end + 2 if to_right else end - 2
        out.append(text(label, height + 4, row["set"], 11, "start" if to_right else "end", colour))
    return out


def main():
    here = Path(__file__).resolve().parent
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else here / "data" / "seen.csv"
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else here.parent / "docs" / "seen.svg"
    lines = source.read_text(encoding="utf-8").splitlines()
    notes = [words[1:].strip() for words in lines if words.startswith("#")]
    rows = []
    for row in csv.DictReader(words for words in lines if words and not words.startswith("#")):
        memory, disk = float(row["memory_bytes_per_url"]), float(row["disk_bytes_per_url"])
        # The bitmap's memory is its file, mapped.
        whole = disk if row["set"].startswith("Md5Bitmap") else memory + disk
        rows.append({
            "set": row["set"], "bytes": whole, "disk": row["set"].startswith("Disk"),
            "baseline": row["set"][0].islower() and not row["set"].startswith("blocked"),
            "error": float(row["error"]), "ns": float(row["test_ns"]),
        })
    errors = [(10.0 ** -power, f"1e-{power}") for power in range(2, 17, 2)] + [(1.0, "1"), (ERRORS[0], "0")]
    times = [(ns, f"{ns} ns") for ns in (50, 100, 200, 500, 1000, 2000)]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        text(WIDTH / 2, 24, "Seen sets: what a URL costs", 18),
        text(WIDTH / 2, 44, notes[0] if notes else "", 12, colour="#555"),
        *axes(PANELS[0], "against the chance that a new URL is called seen", *ERRORS, errors),
        *points(PANELS[0], rows, *ERRORS, lambda row: row["error"] or ERRORS[0]),
        *axes(PANELS[1], "against the time of a test", *TIMES, times),
        *points(PANELS[1], rows, *TIMES, lambda row: row["ns"]),
    ]
    legend = [("in memory, or mapped", MEMORY), ("on disk", DISK), ("for comparison", BASE)]
    for number, (words, colour) in enumerate(legend):
        out += [f'<circle cx="{330 + 180 * number}" cy="{HEIGHT - 10}" r="5" fill="{colour}"/>',
                text(340 + 180 * number, HEIGHT - 6, words, 12, "start", colour)]
    out.append("</svg>")
    target.write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
