#!/usr/bin/env python3
"""All benchmarks as one table: each row compares Apus with a yardstick, in the same run on the same machine.

    make bench                                    everything but `hours` (three quarters of an hour)
    make bench ROWS="idle ingest.stored"          some suites, some rows of a suite
    make bench ARGUMENTS="--json after.json"      the same as JSON, for compare.py
    make bench ARGUMENTS=--quick                  small sizes, to check that each row works; no meaningful figures
    Benchmarks/bench.py --list                    the rows, each with a sentence

Yardsticks come from Debian packages (scripts/setup.sh bench) and are started and stopped here, on free loopback ports.
Servers run on one processor and load on another; the machine should be otherwise idle. The top of each suite's file
describes its rows, and Documentation/performance.md has results. Options of a suite (see its --help) are passed on to
the suites that have them. If a suite fails, the others still run, and the exit code is 1.
"""

import importlib
import json
import pathlib
import sys
import time
import traceback

sys.dont_write_bytecode = True
import harness
import rows
from harness import check, say

NAMES = ["ingest", "binary", "delivery", "broadcast", "latency", "idle", "storm", "stop", "growth", "bad-input",
         "store", "trust", "client", "relay", "cluster", "start-up", "page", "hours"]
# Run only if they are named.
LONG = ["hours"]


def suites():
    return {name: importlib.import_module(name.replace("-", "_")).SUITE for name in NAMES}


def suites_with(known, row):
    """The suites that have a row with this name."""
    found = [name for name, suite in known.items() if row in suite.rows]
    check(found, f"unknown suite or row {row!r}. The suites are {' '.join(known)}; --list shows all rows")
    return found


def chosen(known, wanted):
    """Row names by suite, in the order of the suites."""
    picked = {}
    for word in wanted or [name for name in known if name not in LONG]:
        suite, _, row = word.partition(".")
        for each in [suite] if suite in known else suites_with(known, suite):
            there = known[each].rows
            # A row name alone selects it in each suite that has it; a suite name alone selects all of its rows.
            only = row or (word if word not in known else "")
            check(not only or only in there,
                  f"{each} has no row {only!r}; its rows are {' '.join(there)} (printed rows may be finer)")
            picked.setdefault(each, set()).update([only] if only else there)
    return {name: [row for row in known[name].rows if row in picked[name]] for name in known if name in picked}


def options_of(known, names, arguments):
    """The options of each suite. Every option on the command line must be known to at least one suite."""
    options, unknown = {}, set(arguments)
    for name in names:
        parser = rows.Arguments(known[name])
        options[name], rest = parser.parse_known_args(arguments)
        parser.fill(options[name])
        unknown &= set(rest)
    check(not unknown, f"unknown options: {' '.join(sorted(unknown))}")
    return options


def run(known, picked, options, record):
    """The results and failures; ``record`` gets both after each suite, so that an interruption loses only one suite."""
    results, failed = [], {}
    for name, wanted in picked.items():
        options[name].rows = wanted
        say(f"\n== {name}: {', '.join(wanted)} ==")
        began = time.monotonic()
        try:
            known[name].run(options[name], results)
        except KeyboardInterrupt:
            failed[name] = "interrupted"
            break
        except SystemExit as end:
            if end.code == 143:
                raise
            failed[name] = str(end.code)
        except Exception:
            failed[name] = traceback.format_exc()
        if name in failed:
            say(failed[name])
        say(f"== {name} took {time.monotonic() - began:.0f} s ==")
        record(results, failed)
    return results, failed


def main():
    parser = rows.Arguments()
    parser.description = __doc__
    parser.add_argument("names", nargs="*", metavar="ROW", help="a suite, a row, or SUITE.ROW (default: everything)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write machine and rows to FILE")
    parser.add_argument("--list", action="store_true", help="list suites and rows")
    options, rest = parser.parse_known_args()
    known = suites()
    if options.list:
        for name, suite in known.items():
            for row, sentence in suite.rows.items():
                print(f"{name + '.' + row:28} {sentence}")
        return
    # A word after a suite's option is its value, not a row.
    rows_known = {*known, *(row for suite in known.values() for row in suite.rows)}
    names = [word for word in options.names if word.partition(".")[0] in rows_known]
    picked = chosen(known, names)
    own = {"--json", str(options.json)}
    arguments = [word for word in sys.argv[1:] if word not in names and word not in own]
    facts = harness.machine()
    say(json.dumps(facts))

    def record(results, failed):
        if options.json:
            options.json.write_text(json.dumps(
                {"machine": facts, "arguments": arguments, "failed": failed, "rows": [row.json() for row in results]},
                indent=1) + "\n")

    results, failed = run(known, picked, options_of(known, picked, arguments), record)
    say("\n" + rows.table(results))
    say("\n" + rows.verdict(results))
    for name, why in failed.items():
        say(f"FAILED: {name}: {why.strip().splitlines()[-1] if why else ''}")
    if options.quick:
        say("Sizes were small (--quick): the figures mean nothing.")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
