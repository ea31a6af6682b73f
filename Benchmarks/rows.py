"""The rows that every benchmark prints: a figure of Apus and its yardstick in the same run."""

import argparse
import dataclasses
import json
import statistics
import sys

import harness
from harness import say

BETTER = {"lower": "at most", "higher": "at least"}


@dataclasses.dataclass
class Row:
    """A line of the table. Values are those of single slices; the yardstick's are from the adjacent slices.

    The ratio is Apus' median divided by the yardstick's. A goal applies to the ratio, or to the value if there is no
    yardstick; `goal_for` overrides this.
    """

    name: str
    unit: str
    apus: list
    yardstick: list = dataclasses.field(default_factory=list)
    against: str = ""
    goal: float = None
    goal_for: str = None
    better: str = "lower"
    # A note for the table, and further members of the JSON.
    note: str = ""
    more: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not isinstance(self.apus, (list, tuple)):
            self.apus = [self.apus]
        if not isinstance(self.yardstick, (list, tuple)):
            self.yardstick = [self.yardstick]
        self.goal_for = self.goal_for or ("ratio" if self.yardstick else "value")

    @property
    def value(self):
        return statistics.median(self.apus)

    @property
    def other(self):
        return statistics.median(self.yardstick) if self.yardstick else None

    @property
    def ratio(self):
        return self.value / self.other if self.other else None

    @property
    def ratios(self):
        """The ratio of each slice; if the numbers of slices differ, relative to the yardstick's median."""
        if not self.other:
            return []
        if len(self.apus) == len(self.yardstick):
            return [a / b for a, b in zip(self.apus, self.yardstick) if b]
        return [a / self.other for a in self.apus]

    @property
    def met(self):
        if self.goal is None:
            return None
        measured = self.ratio if self.goal_for == "ratio" else self.value
        if measured is None:
            return None
        return measured <= self.goal if self.better == "lower" else measured >= self.goal

    def json(self):
        spread = {"apus": span(self.apus)}
        if self.yardstick:
            spread.update(yardstick=span(self.yardstick), ratio=span(self.ratios))
        return {
            "row": self.name, "unit": self.unit, "apus": rounded(self.value), "yardstick": rounded(self.other),
            "against": self.against, "ratio": rounded(self.ratio), "goal": self.goal, "goal_for": self.goal_for,
            "better": self.better, "met": self.met, "slices": len(self.apus), "spread": spread, "note": self.note,
            **self.more}

    def cells(self):
        goal = ""
        if self.goal is not None:
            what = "x" if self.goal_for == "ratio" else self.unit
            goal = f"{BETTER[self.better]} {figure(self.goal)} {what}"
        ratio = f"{self.ratio:.2f} x" if self.ratio else ""
        low, high = span(self.ratios if self.yardstick else self.apus)
        return [
            self.name, f"{figure(self.value)} {self.unit}",
            f"{figure(self.other)} {self.against}" if self.yardstick else "", ratio, goal,
            {None: "", True: "yes", False: "NO"}[self.met],
            f"{figure(low)} .. {figure(high)}" if len(self.apus) > 1 else "", self.note]


def rounded(value):
    return None if value is None else float(f"{value:.5g}")


def span(values):
    return [rounded(min(values)), rounded(max(values))] if values else [None, None]


def figure(value):
    """Three significant digits."""
    if value is None:
        return ""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(rows):
    head = ["row", "Apus", "yardstick", "ratio", "goal", "met", "spread of the slices", ""]
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    right = {1, 2, 3}
    return "\n".join("  ".join(
        cell.rjust(width) if column in right else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def verdict(rows):
    """How many rows there are, and which miss their goals."""
    missed = [row.name for row in rows if row.met is False]
    return f"{len(rows)} {'row' if len(rows) == 1 else 'rows'}; goals missed: {', '.join(missed) or 'none'}"


USUAL_SLICES = 5


class Arguments(argparse.ArgumentParser):
    """Options whose sizes are smaller with --quick, which only checks that a row works."""

    def __init__(self, suite=None):
        super().__init__(description=suite and suite.doc, formatter_class=argparse.RawDescriptionHelpFormatter,
                         allow_abbrev=False)
        self.sizes = {"slices": (suite.slices if suite else USUAL_SLICES, 1)}
        self.add_argument("--slices", type=int, help="slices of each kind "
                          + (f"({suite.slices}; quick: 1)" if suite else f"({USUAL_SLICES}, fewer of long ones)"))
        self.add_argument("--quick", action="store_true", help="small sizes, to check that it works: no figures")
        # The yardsticks keep no ledger either.
        self.add_argument("--ledger", default="off", metavar="MODE", help="the service's option --ledger (off)")
        self.add_argument("--bin", type=harness.pathlib.Path, default=harness.ROOT / ".build/release",
                          help="folder of the programs")
        if suite:
            suite.arguments(self)

    def size(self, flag, usual, quick, what, **more):
        self.sizes[flag[2:].replace("-", "_")] = (usual, quick)
        self.add_argument(flag, type=int, help=f"{what} ({usual}; quick: {quick})", **more)

    def fill(self, options):
        """Fills in the default sizes."""
        for name, sizes in self.sizes.items():
            if getattr(options, name) is None:
                setattr(options, name, sizes[options.quick])
        return options


class Suite:
    """Rows that share a setting. `rows` describes each; `measure` gets a bench, whose `options.rows` are the wanted
    names, and adds to its `results`."""

    def __init__(self, name, doc, bench, rows, measure=None, tools=(), arguments=lambda parser: None,
                 slices=USUAL_SLICES):
        self.name, self.doc, self.bench, self.rows, self.tools = name, doc, bench, rows, list(tools)
        self.slices = slices
        self.arguments = arguments
        self.measure = measure or self._each

    @staticmethod
    def _each(bench):
        """A method for each row."""
        for name in bench.options.rows:
            getattr(bench, name.replace("-", "_"))()

    def run(self, options, results):
        """Adds to `results` as rows are measured, so that a failure loses no earlier row."""
        def measure(bench):
            bench.results = results
            self.measure(bench)
        harness.run(options, self.bench, self.tools, measure)

    def main(self):
        """Runs this suite alone."""
        parser = Arguments(self)
        names = list(self.rows)
        parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names))
        parser.add_argument("--json", action="store_true", help="print JSON, one row a line, and nothing else")
        options = parser.fill(parser.parse_args())
        options.rows = [name for name in names if name in options.rows]
        if options.json:
            say.stream = sys.stderr
        facts = harness.machine()
        say(json.dumps(facts))
        results = []
        try:
            self.run(options, results)
        finally:
            if results:
                say(f"\n{table(results)}\n\n{verdict(results)}")
            if options.json:
                for line in [facts, *({**row.json(), "ledger": options.ledger} for row in results)]:
                    print(json.dumps(line), flush=True)
