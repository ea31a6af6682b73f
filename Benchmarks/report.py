#!/usr/bin/env python3
"""Puts the figures of a run of bench.py into the tables of Documentation/performance.md.

    make bench ARGUMENTS="--json all.json"
    Benchmarks/report.py all.json [more.json ...]

A table line whose first cell names a row gets that row's figures; lines of unmeasured rows stay unchanged, as does the
growth curve if its rows are missing. Several runs with different rows can be given; the last run with a row is used.
Runs with --quick are rejected.
"""

import argparse
import json
import math
import pathlib
import re
import sys
import textwrap

sys.dont_write_bytecode = True
from rows import figure

# Marker lines of the page around the chart.
CURVE = ["<!-- what growth costs, drawn by report.py -->", "<!-- end of it -->"]
PAGE = pathlib.Path(__file__).resolve().parent.parent / "Documentation/performance.md"


def spread(row, of, divisor=1):
    """The least and the greatest of the slices; empty if there is one slice."""
    low, high = row["spread"].get(of, [None, None])
    return f" ({figure(low / divisor)} to {figure(high / divisor)})" if row["slices"] > 1 and low is not None else ""


def filled(cells, rows):
    """The cells of a line with the figures of its row; unchanged if the row was not measured."""
    row = rows.get(cells[0].strip("`"))
    if row is None:
        return cells
    value = f"{figure(row['apus'])} {row['unit']}"
    if row["row"].startswith("growth."):
        late = rows.get(row["row"] + "-latency")
        return [*cells[:2], value + spread(row, "apus"),
                f"{figure(late['apus'] / 1000)} ms{spread(late, 'apus', 1000)}" if late else ""]
    if row["ratio"] is None:
        value, ratio = value + spread(row, "apus"), ""
    else:
        ratio = f"{figure(row['ratio'])} x{spread(row, 'ratio')}"
    if row["met"] is False:
        value, ratio = (value, f"{ratio}, missed") if row["goal_for"] == "ratio" else (f"{value}, missed", ratio)
    yardstick = f"{figure(row['yardstick'])}" if row["yardstick"] is not None else ""
    return [*cells[:4], value, yardstick, ratio]


def curve(rows):
    """The lines of a chart of the cost per notification by number of devices; empty if not measured."""
    points = sorted((int(name.rpartition("-")[2]), row["apus"]) for name, row in rows.items()
                    if re.fullmatch(r"growth\.devices-\d+", name))
    if not points:
        return []
    top = math.ceil(max(cost for _, cost in points) / 10) * 10
    return ["```mermaid", "xychart-beta", '  title "CPU a notification, us, by connected devices"',
            f"  x-axis [{', '.join(str(count) for count, _ in points)}]", f"  y-axis 0 --> {top}",
            f"  line [{', '.join(figure(cost) for _, cost in points)}]", "```"]


def drawn(lines, rows):
    """The lines with the chart between its markers."""
    chart = curve(rows)
    if not chart or CURVE[0] not in lines:
        return lines
    first, last = (lines.index(mark) for mark in CURVE)
    return [*lines[:first + 1], *chart, *lines[last:]]


def measured(facts, rows):
    """The sentence about the day, the machine and the number of slices."""
    most = max(row["slices"] for row in rows.values())
    return textwrap.fill(
        f"Measured: {facts['day']}, {facts['machine']}, {facts['processors']} processors, {facts['memory_gib']} GiB, "
        f"kernel {facts['kernel']}, Swift {facts['swift']}, mosquitto {facts['packages'].get('mosquitto', '?')}; "
        f"medians of up to {most} slices.", 120)


def page(text, runs):
    """The page with the measured figures."""
    rows = {row["row"]: row for run in runs for row in run["rows"]}
    lines = []
    for line in text.splitlines():
        if re.match(r"\| `[a-z]+(-[a-z]+)*\.", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            line = "| " + " | ".join(filled(cells, rows)) + " |"
            line = re.sub(r"\|  (?=\|)", "| ", line)
        lines.append(line)
    text = "\n".join(drawn(lines, rows)) + "\n"
    return re.sub(r"^Measured: .*?slices\.", lambda _: measured(runs[-1]["machine"], rows), text,
                  flags=re.DOTALL | re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="FILE")
    options = parser.parse_args()
    runs = [json.loads(file.read_text()) for file in options.runs]
    for file, run in zip(options.runs, runs):
        if "--quick" in run["arguments"]:
            sys.exit(f"report: {file} comes from a run with --quick, whose figures mean nothing")
    PAGE.write_text(page(PAGE.read_text(), runs))


if __name__ == "__main__":
    main()
