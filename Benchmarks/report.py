#!/usr/bin/env python3
"""Puts the figures of a run of bench.py into the tables of Documentation/performance.md.

    make bench ARGUMENTS="--json all.json"
    Benchmarks/report.py all.json [more.json ...]

A line of a table whose first cell names a row gets that row's figures; lines whose row was not measured stay. Of runs
of different rows several can be given; the last one that has a row counts. A run with --quick is refused.
"""

import argparse
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from rows import figure

PAGE = pathlib.Path(__file__).resolve().parent.parent / "Documentation/performance.md"


def filled(cells, rows):
    """The cells of a line with the figures of its row; as they are where that was not measured."""
    row = rows.get(cells[0].strip("`"))
    if row is None:
        return cells
    value = f"{figure(row['apus'])} {row['unit']}"
    if row["row"].startswith("growth."):
        late = rows.get(row["row"] + "-latency")
        return [*cells[:2], value, f"{figure(late['apus'] / 1000)} ms" if late else ""]
    ratio = f"{figure(row['ratio'])} x" if row["ratio"] is not None else ""
    if row["met"] is False:
        value, ratio = (value, f"{ratio}, missed") if row["goal_for"] == "ratio" else (f"{value}, missed", ratio)
    yardstick = f"{figure(row['yardstick'])}" if row["yardstick"] is not None else ""
    return [*cells[:4], value, yardstick, ratio]


def page(text, runs):
    """The page with what was measured."""
    rows = {row["row"]: row for run in runs for row in run["rows"]}
    lines = []
    for line in text.splitlines():
        if re.match(r"\| `[a-z]+(-[a-z]+)*\.", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            line = "| " + " | ".join(filled(cells, rows)) + " |"
            line = re.sub(r"\|  (?=\|)", "| ", line)
        elif line.startswith("Measured: "):
            facts = runs[-1]["machine"]
            most = max(row["slices"] for row in rows.values())
            line = (f"Measured: {facts['machine']}, {facts['processors']} processors, {facts['memory_gib']} GiB, "
                    f"kernel {facts['kernel']}, Swift {facts['swift']}, mosquitto "
                    f"{facts['packages'].get('mosquitto', '?')}; medians of up to {most} slices.")
        lines.append(line)
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in options.runs]
    for file, run in zip(options.runs, runs):
        if "--quick" in run["arguments"]:
            sys.exit(f"report: {file} is of a run with --quick, which measures nothing")
    PAGE.write_text(page(PAGE.read_text(), runs))


if __name__ == "__main__":
    main()
