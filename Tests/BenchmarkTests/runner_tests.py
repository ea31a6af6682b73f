"""Tests what scripts/test.py makes of the runner's events. No tests run."""

import json
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
import test as runner


def described(identifier, kind="function", title=None):
    payload = {"id": identifier, "kind": kind, "name": identifier.split("/")[min(1, identifier.count("/"))]}
    return {"kind": "test", "version": "6.3.0", "payload": payload | ({"displayName": title} if title else {})}


def event(kind, test=None, at=0.0, **more):
    payload = {"kind": kind, "instant": {"absolute": at, "since1970": 1e9 + at}, "messages": []} | more
    return {"kind": "event", "version": "6.3.0", "payload": payload | ({"testID": test} if test else {})}


class Runs(unittest.TestCase):
    suite, slow, fast = "M.S", "M.S/slow()/S.swift:1:1", "M.S/fast()/S.swift:2:2"

    def setUp(self):
        self.logged, self.shown = [], []
        self.progress = runner.Progress(self.logged.append, self.shown.append)
        self.feed(described(self.suite, "suite"), described(self.slow, title="It is slow"), described(self.fast))

    def feed(self, *records):
        for record in records:
            self.progress.add(json.dumps(record))

    def run_both(self, *issues):
        self.feed(
            event("runStarted"), event("testStarted", self.suite, 1), event("testStarted", self.slow, 1),
            *issues, event("testEnded", self.slow, 3.5), event("testStarted", self.fast, 3.5),
            event("testEnded", self.fast, 3.75), event("testEnded", self.suite, 3.75), event("runEnded", at=4))

    def test_each_test_has_its_own_duration(self):
        self.run_both()
        self.assertEqual(self.logged, ['✔    2.500 s  M.S "It is slow"', '✔    0.250 s  M.S "fast()"'])
        self.assertEqual(self.shown, ["✔ M.S"])
        self.assertEqual(runner.slowest([self.progress]), self.logged)
        self.assertEqual(
            runner.verdict([self.progress], 4, True), "✔ Test run with 2 tests in 1 suites passed after 4.000 seconds.")

    def test_an_issue_fails_its_test_and_suite(self):
        self.run_both(event("issueRecorded", self.slow, 2, issue={"isKnown": False}))
        self.assertEqual(self.progress.failed, {self.slow})
        self.assertEqual(self.logged[0], '✘    2.500 s  M.S "It is slow"')
        self.assertEqual(self.shown, ["✘ M.S"])

    def test_a_known_issue_fails_nothing(self):
        self.run_both(event("issueRecorded", self.slow, 2, issue={"isKnown": True}))
        self.assertEqual(self.progress.failed, set())

    def test_a_crash_names_the_tests_under_way(self):
        self.feed(event("runStarted"), event("testStarted", self.suite, 1), event("testStarted", self.slow, 1))
        self.assertFalse(self.progress.has_ended)
        self.assertEqual(self.progress.unfinished, ['M.S "It is slow"'])

    def test_a_process_is_good_if_it_ended_well_or_has_no_tests(self):
        self.assertTrue(runner.is_good(69, runner.Progress(print, print)))
        self.assertFalse(runner.is_good(1, runner.Progress(print, print)))
        self.run_both()
        self.assertTrue(runner.is_good(0, self.progress))
        self.assertFalse(runner.is_good(1, self.progress))
        self.assertFalse(runner.is_good(69, self.progress))
        self.progress.has_ended = False
        self.assertFalse(runner.is_good(0, self.progress))

    def test_only_the_slowest_are_listed(self):
        for number in range(30):
            test = f"M.S/t{number}()/S.swift:{number}:1"
            self.feed(described(test), event("testStarted", test, 0), event("testEnded", test, number))
        lines = runner.slowest([self.progress])
        self.assertEqual(len(lines), runner.SLOWEST)
        self.assertTrue(lines[0].startswith("✔   29.000 s"))

    def test_every_test_is_in_exactly_one_process(self):
        import re

        suites = [
            "ConsoleTests.InboxTests", "ConsoleTests.AssetTests", "ApusServerTests.A", "ApusModelTests.A",
            "SimulationTests.A", "ApusDevTests.A", "ApusDeviceTests.A",
        ]
        for suite in suites:
            chosen = 0
            for option, pattern in runner.choices(None):
                matches = bool(re.search(pattern, f"{suite}/test()"))
                chosen += matches if option == "--filter" else not matches
            self.assertEqual(chosen, 1, suite)
        self.assertEqual(runner.choices("Walk"), [["--filter", "Walk"]])

    def test_what_explains_a_failure_is_shown_at_once(self):
        for line in [
            '✘ Test "a" recorded an issue at A.swift:1:1: Expectation failed: x', "↳ // why", "error: no such file",
            "A.swift:3: Fatal error: Index out of range", "SUMMARY: AddressSanitizer: heap-use-after-free",
        ]:
            self.assertTrue(runner.SHOWN.search(line) and not runner.QUIET.match(line), line)
        for line in ["◇ Test run started.", '✔ Test "a" passed after 1 seconds.', '✘ Suite "s" failed after 1 s.']:
            self.assertTrue(runner.QUIET.match(line), line)


if __name__ == "__main__":
    unittest.main()
