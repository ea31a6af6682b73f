"""Tests how bench.py, compare.py and allocations.py evaluate figures. No server runs, and nothing is measured."""

import io
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
import allocations
import bench
import compare
import harness
import report
import rows
from rows import Row


class Rows(unittest.TestCase):
    def test_ratio_uses_medians_and_spread_uses_adjacent_slices(self):
        row = Row("a", "us", [1, 2, 9], [4, 2, 3], "other", goal=1.0)
        self.assertEqual((row.value, row.other), (2, 3))
        self.assertAlmostEqual(row.ratio, 2 / 3)
        self.assertEqual(row.json()["spread"]["ratio"], [0.25, 3])

    def test_goal_applies_to_ratio_with_yardstick(self):
        self.assertTrue(Row("a", "us", [30], [100], goal=0.4).met)
        self.assertFalse(Row("a", "us", [50], [100], goal=0.4).met)
        self.assertTrue(Row("a", "/s", [100], [100], goal=0.9, better="higher").met)
        self.assertFalse(Row("a", "/s", [80], [100], goal=0.9, better="higher").met)

    def test_goal_applies_to_value_without_yardstick_or_if_set(self):
        self.assertTrue(Row("a", "ms", [99], goal=100).met)
        self.assertFalse(Row("a", "ms", [101], goal=100).met)
        self.assertFalse(Row("a", "us", [20_000], [1], goal=10_000, goal_for="value").met)
        self.assertIsNone(Row("a", "ms", [99]).met)

    def test_zero_yardstick_gives_no_ratio(self):
        row = Row("a", "KB", [5], [0], "none", goal=1)
        self.assertIsNone(row.ratio)
        json.dumps(row.json())
        rows.table([row])

    def test_verdict_names_the_rows_that_miss_their_goals(self):
        met, missed, none = Row("a", "us", [1], goal=2), Row("b", "us", [3], goal=2), Row("c", "us", [9])
        self.assertEqual(rows.verdict([met, missed, none]), "3 rows; goals missed: b")
        self.assertEqual(rows.verdict([met]), "1 row; goals missed: none")

    def test_table_has_the_figures(self):
        text = rows.table([Row("slow.one", "us", [30.0], [100.0], "sink", goal=0.2)])
        for part in ("slow.one", "30 us", "100 sink", "0.30 x", "at most 0.20 x", "NO"):
            self.assertIn(part, text)

    def test_quick_sizes_are_the_defaults(self):
        def arguments(parser):
            parser.size("--frames", 500, 5, "frames")
            parser.size("--devices", 100, 1, "devices")
        suite = rows.Suite("s", "text", None, {}, arguments=arguments)
        parser = rows.Arguments(suite)
        options = parser.fill(parser.parse_args(["--quick", "--frames", "7"]))
        self.assertEqual((options.frames, options.devices, options.slices), (7, 1, 1))
        self.assertEqual(parser.fill(parser.parse_args([])).devices, 100)


class Suites(unittest.TestCase):
    def test_every_row_can_be_chosen_and_measured(self):
        known = bench.suites()
        self.assertEqual(list(known), bench.NAMES)
        for name, suite in known.items():
            self.assertEqual(suite.name, name)
            rows.Arguments(suite).parse_known_args(["--quick"])
            if suite.measure == suite._each:
                for row in suite.rows:
                    self.assertTrue(callable(getattr(suite.bench, row.replace("-", "_"), None)), f"{name}.{row}")
        everything = bench.chosen(known, [])
        self.assertEqual(
            {name: list(suite.rows) for name, suite in known.items() if name not in bench.LONG}, everything)
        self.assertEqual(bench.chosen(known, ["hours"]), {"hours": ["memory"]})
        self.assertEqual(bench.chosen(known, ["trust", "ingest.stored"]), {
            "ingest": ["stored"], "trust": ["full", "known", "resumed", "revoked", "tokens"]})
        self.assertEqual(bench.chosen(known, ["stored", "fan-out"]), {
            "ingest": ["stored"], "delivery": ["fan-out"], "cluster": ["stored"]})

    def test_unknown_names_are_reported(self):
        known = bench.suites()
        with self.assertRaisesRegex(SystemExit, "unknown suite or row 'nothing'"):
            bench.chosen(known, ["nothing"])
        with self.assertRaisesRegex(SystemExit, "no row 'nothing'"):
            bench.chosen(known, ["ingest.nothing"])
        with self.assertRaisesRegex(SystemExit, "--bogus"):
            bench.options_of(known, ["ingest"], ["--bogus"])
        self.assertEqual(bench.options_of(known, ["ingest"], ["--requests", "5"])["ingest"].requests, 5)

    def test_failed_suite_keeps_other_suites_and_its_own_rows(self):
        class Broken:
            rows = {"a": ""}

            def run(self, options, results):
                results.append(Row("broken.a", "us", [1]))
                sys.exit("broken: no")

        class Good:
            rows = {"a": ""}

            def run(self, options, results):
                results.append(Row("good.a", "us", [1]))

        options = {name: type("Options", (), {})() for name in ("broken", "good")}
        with redirect_stdout(io.StringIO()):
            harness.say.stream = sys.stdout
            recorded = []
            results, failed = bench.run(
                {"broken": Broken(), "good": Good()}, {"broken": ["a"], "good": ["a"]}, options,
                lambda results, failed: recorded.append(([row.name for row in results], dict(failed))))
        harness.say.stream = sys.stdout
        self.assertEqual([row.name for row in results], ["broken.a", "good.a"])
        self.assertEqual(failed, {"broken": "broken: no"})
        # After each suite, so that an end midway loses one of them.
        self.assertEqual(recorded, [(["broken.a"], failed), (["broken.a", "good.a"], failed)])


class Machine(unittest.TestCase):
    def said(self, body):
        out = io.StringIO()
        harness.say.stream = out
        try:
            body()
        finally:
            harness.say.stream = sys.stdout
        return out.getvalue()

    def with_file(self, path):
        def body():
            with mock.patch.object(harness, "WAKEFULNESS", path), harness.awake():
                pass
        return self.said(body)

    def test_zero_latency_is_requested(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "cpu_dma_latency"
            self.assertEqual(self.with_file(path), "")
            # A 32-bit number, says the kernel's pm_qos_interface.
            self.assertEqual(path.read_bytes(), b"\0\0\0\0")

    def test_refused_latency_request_is_reported(self):
        said = self.with_file(pathlib.Path("/nowhere/cpu_dma_latency"))
        self.assertIn("Processors may halt", said)
        self.assertIn("/nowhere/cpu_dma_latency", said)

    def test_a_failure_shows_the_output_of_a_crashed_program(self):
        with tempfile.TemporaryDirectory() as folder:
            def process(script):
                return harness.Process(["sh", "-c", script], os.sched_getaffinity(0), pathlib.Path(folder) / "log")
            for script, shown in [("echo Fatal error; kill -ILL $$", True), ("echo Fatal error; exit 1", False)]:
                child = process(script)
                with self.assertRaises(SystemExit) as ended:
                    harness.die("no answer")
                child.stop()
                self.assertIn("no answer", str(ended.exception))
                self.assertEqual("sh -c crashed with -4" in str(ended.exception), shown)
                self.assertEqual("Fatal error" in str(ended.exception), shown)

    def test_stolen_time_is_printed(self):
        def body():
            ticks = iter([(10, 1000), (40, 2000)])
            with mock.patch.object(harness, "processor_ticks", lambda: next(ticks)), harness.stolen():
                pass
        self.assertEqual(self.said(body), "the hypervisor stole 3.0% of the processors' time\n")


class Comparisons(unittest.TestCase):
    def verdict(self, before, after, **more):
        return compare.verdict(Row("a", "us", before, **more).json(), Row("a", "us", after, **more).json())

    def test_no_change_within_the_spread(self):
        self.assertEqual(self.verdict([10, 11, 12], [11, 12, 13])[0], "no change seen")
        # One run spread wide enough to have been the other.
        self.assertEqual(self.verdict([10, 10, 10], [9, 13, 14])[0], "no change seen")

    def test_change_outside_the_spread_has_a_direction(self):
        word, change = self.verdict([10, 11, 12], [20, 22, 24])
        self.assertEqual(word, "WORSE")
        self.assertAlmostEqual(change, 100, places=2)
        self.assertEqual(self.verdict([10, 11, 12], [5, 6, 7])[0], "better")
        self.assertEqual(self.verdict([10, 11, 12], [20, 22, 24], better="higher")[0], "better")

    def test_a_slower_machine_is_slower_for_the_yardstick_too(self):
        before = Row("a", "us", [10, 11, 12], [20, 22, 24]).json()
        after = Row("a", "us", [20, 22, 24], [40, 44, 48]).json()
        self.assertEqual(compare.verdict(before, after)[0], "no change seen")

    def test_few_slices_are_inconclusive(self):
        self.assertEqual(self.verdict([10], [20])[0], "too few slices")
        self.assertEqual(self.verdict([10], [10.5])[0], "no change seen")

    def test_rows_of_only_one_run_are_listed(self):
        one, other = ({"rows": [Row(name, "us", [1, 2, 3]).json()]} for name in ("old", "new"))
        lines, worse = compare.compared(one, other)
        self.assertEqual([(line[0], line[4]) for line in lines], [("old", "only before"), ("new", "only after")])
        self.assertFalse(worse)


class Reports(unittest.TestCase):
    FACTS = {"day": "2026-12-24", "machine": "A", "processors": 2, "memory_gib": 4, "kernel": "6", "swift": "6.3",
             "packages": {}}

    def page(self, *measured):
        text = ("| `a.one` | what | other | at most 1 x | not measured yet | | |\n"
                "| `b.two` | what | | | not measured yet | | |\n"
                "| `growth.devices-10` | ten | not measured yet | |\nMeasured: on a machine, of\n2 slices.\n"
                f"| no row | x |\n{report.CURVE[0]}\nold\n{report.CURVE[1]}\nthe end\n")
        return report.page(text, [{"machine": self.FACTS, "rows": [row.json() for row in measured]}]).splitlines()

    def test_lines_get_figures_of_measured_rows_only(self):
        lines = self.page(Row("a.one", "us", [30.0], [100.0], "other", goal=0.2))
        self.assertEqual(lines[0], "| `a.one` | what | other | at most 1 x | 30 us | 100 | 0.30 x, missed |")
        self.assertEqual(lines[1], "| `b.two` | what | | | not measured yet | | |")
        self.assertTrue(lines[3].startswith("Measured: 2026-12-24, A, 2 processors"), lines[3])
        rest = lines.index("| no row | x |")
        self.assertTrue(lines[rest - 1].endswith("medians of up to 1 slices."), lines[rest - 1])
        # Without its rows the curve stays, too.
        self.assertEqual(lines[rest + 1:], [report.CURVE[0], "old", report.CURVE[1], "the end"])

    def test_several_slices_have_a_spread(self):
        lines = self.page(Row("a.one", "us", [10, 20, 60], [100, 100, 100], "other"), Row("b.two", "us", [1, 3]))
        self.assertEqual(lines[0], "| `a.one` | what | other | at most 1 x | 20 us | 100 | 0.20 x (0.10 to 0.60) |")
        self.assertEqual(lines[1], "| `b.two` | what | | | 2 us (1 to 3) | | |")

    def test_the_curve_of_growth_is_drawn_in_the_order_of_its_numbers(self):
        rows = [Row("growth.devices-10000", "us CPU", [21.0]), Row("growth.devices-2000", "us CPU", [19.5]),
                Row("growth.devices-2000-latency", "us p99", [2500]), Row("growth.workers-2", "us CPU", [99.0])]
        lines = self.page(*rows)
        chart = lines[lines.index(report.CURVE[0]) + 1:lines.index(report.CURVE[1])]
        self.assertEqual([chart[0], chart[-1]], ["```mermaid", "```"])
        self.assertEqual([line.strip() for line in chart[3:-1]],
                         ["x-axis [2000, 10000]", "y-axis 0 --> 30", "line [19.5, 21]"])
        self.assertEqual(lines[-1], "the end")

    def test_growth_has_cost_and_latency_in_one_line(self):
        cost, late = Row("growth.devices-10", "us CPU", [12.0]), Row("growth.devices-10-latency", "us p99", [2500])
        lines = self.page(cost, late)
        self.assertEqual(lines[2], "| `growth.devices-10` | ten | 12 us CPU | 2.50 ms |")

    def test_every_row_of_the_page_exists(self):
        known = bench.suites()
        for name in re.findall(r"^\| `([^`]+)`", report.PAGE.read_text(), re.M):
            self.assertIn(name.partition(".")[0], known, name)


class Allocations(unittest.TestCase):
    CEILINGS = {"path": {"ceiling": 7.2, "room": 0.2}}

    def test_above_the_ceiling_fails_with_its_file(self):
        lines, bad = allocations.verdicts({"path": 7.3}, self.CEILINGS)
        self.assertTrue(bad)
        self.assertIn("MORE than its ceiling of 7.2", lines[0])
        self.assertIn("allocation-ceilings.json", lines[0])

    def test_within_the_room_passes(self):
        self.assertEqual(allocations.verdicts({"path": 7.0}, self.CEILINGS), (
            [f"{'path':22} {7.0:8.3f}  ceiling 7.2"], False))

    def test_far_below_the_ceiling_can_be_lowered(self):
        lines, bad = allocations.verdicts({"path": 5.0}, self.CEILINGS)
        self.assertFalse(bad)
        self.assertIn("can be lowered to 5.20", lines[0])

    def test_a_path_without_a_ceiling_fails(self):
        self.assertTrue(allocations.verdicts({"new": 1.0}, self.CEILINGS)[1])

    def test_every_counted_path_has_a_ceiling(self):
        ceilings = json.loads(allocations.CEILINGS.read_text())
        self.assertEqual(set(ceilings), set(allocations.PATHS))
        for name, ceiling in ceilings.items():
            self.assertGreater(ceiling["ceiling"], ceiling["room"], name)

    def test_allocations_of_connections_cancel_out(self):
        # A thousand for each run, three for each message; and once something in the background.
        noise = iter([0, 0, 500, 0, 0, 0])
        figure = allocations.counted(lambda messages: 1000 + 3 * messages + next(noise))
        self.assertEqual(figure, 3)

    def test_a_counter_reads_what_the_library_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            counter = allocations.Counter("lib.so", pathlib.Path(folder) / "counts")
            self.assertEqual(counter.calls, 0)
            counter.file.write_bytes((258).to_bytes(8, "little") + bytes(8))
            self.assertEqual(counter.calls, 258)


if __name__ == "__main__":
    unittest.main()
