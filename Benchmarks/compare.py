#!/usr/bin/env python3
"""Compares two runs of bench.py, before and after a change.

    make bench ARGUMENTS="--json before.json"
    make bench ARGUMENTS="--json after.json"      with the change
    Benchmarks/compare.py before.json after.json

If a row has a yardstick, its ratio is compared, because a slower machine slows both down; else its value. A change is
significant if each run's median lies outside all slices of the other run. With fewer than three slices nothing can be
said. The exit code is 1 if a row became worse.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True
from rows import figure

LEAST_SLICES = 3
# With fewer slices, smaller changes are ignored.
UNSURE_PERCENT = 10


def measured(row):
    """The compared values of a row: its unit, median, and the range of its slices."""
    if row.get("ratio") is not None and "ratio" in row["spread"]:
        return "x", row["ratio"], row["spread"]["ratio"]
    return row["unit"], row["apus"], row["spread"]["apus"]


def verdict(before, after):
    """The verdict, and the change in percent."""
    unit, old, old_range = measured(before)
    other_unit, new, new_range = measured(after)
    if unit != other_unit or before["better"] != after["better"]:
        return "measured differently", None
    change = (new / old - 1) * 100 if old else None
    if min(before["slices"], after["slices"]) < LEAST_SLICES:
        small = change is not None and abs(change) < UNSURE_PERCENT
        return ("no change seen" if small else "too few slices"), change
    if old_range[0] <= new <= old_range[1] or new_range[0] <= old <= new_range[1]:
        return "no change seen", change
    return ("better" if (new < old) == (before["better"] == "lower") else "WORSE"), change


def compared(before, after):
    """A line for each row of either run, and whether a row became worse."""
    old = {row["row"]: row for row in before["rows"]}
    new = {row["row"]: row for row in after["rows"]}
    lines, worse = [], False
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in old or name not in new:
            lines.append([name, "", "", "", "only " + ("before" if name in old else "after")])
            continue
        word, change = verdict(old[name], new[name])
        cells = []
        for row in (old[name], new[name]):
            unit, value, (low, high) = measured(row)
            cells.append(f"{figure(value)} {unit} ({figure(low)} .. {figure(high)})")
        lines.append([name, *cells, "" if change is None else f"{change:+.1f} %", word])
        worse = worse or word == "WORSE"
    return lines, worse


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    options = parser.parse_args()
    before, after = (json.loads(file.read_text()) for file in (options.before, options.after))
    for key in before["machine"]:
        if before["machine"][key] != after["machine"].get(key):
            print(f"{key}: {before['machine'][key]}, then {after['machine'].get(key)}")
    lines, worse = compared(before, after)
    lines.insert(0, ["row", "before", "after", "change", ""])
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
