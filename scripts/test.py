#!/usr/bin/env python3
"""Runs the tests that are built, all or those that match a regular expression, and says which took the most time.

Each process runs its tests one after the other, so that the duration of each is its own.
"""

import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# What the tests of each process begin with, in the order of their starts: first what takes longest. Most of that is
# waiting, so none takes much longer than the others.
PROCESSES = [
    r"ApusServerTests\.[P-Z]",
    r"ApusServerTests\.E",
    r"InteropTests\.(D(?!eviceClient)|E)",
    r"ConsoleTests\.BrowserTests/(?!views)",
    r"InteropTests\.(L(?!ibraryTests)|[M-Z])",
    r"ApusServerTests\.C",
    r"InteropTests\.(A|B(?!inaryClient))",
    r"ApusStoreTests\.",
    r"ApusServerTests\.B",
    r"ApusServerTests\.[L-O]",
    r"InteropTests\.ClusterC",
    r"ApusDirectoryTests\.",
    r"ApusServerTests\.D",
    r"InteropTests\.BinaryClient",
    r"ApusClusterTests\.",
    r"ApusServerTests\.A",
    r"InteropTests\.C(?!lusterC)",
    r"ApusRelayTests\.",
    r"InteropTests\.DeviceClient",
    r"ApusServerTests\.[F-K]",
    r"InteropTests\.[F-K]",
    r"ApusAgentTests\.",
    r"ConsoleTests\.BrowserTests/views",
    r"ConsoleTests\.InboxTests",
    r"ApusDeviceTests\.",
    r"ConsoleTests\.AdministrationTests",
    r"InteropTests\.LibraryTests",
    r"Apus(HTTP2|Lease)Tests\.",
    r"Apus(Client|Dev)Tests\.",
    r"SimulationTests\.",
    r"ApusCoreTests\.",
]
# Processes at a time for each processor, because many tests wait for something: with two, half of the processors' time
# is not used.
PROCESSES_PER_PROCESSOR = 3
SLOWEST = 10

# What is worth showing of the output at once. `↳` explains the line before it.
SHOWN = re.compile(r"^(✘ Test .* recorded an issue|↳ |error:)|Fatal error|SUMMARY: |^\*\*\* |^💣")
# The runner's own lines about tests that begin and end.
QUIET = re.compile(r"^(◇|✔|✘ Suite|✘ Test .* failed after|↳ Testing Library|↳ Target Platform)")


class Progress:
    """What the events of one process say. `log` gets a line for each finished test, `show` one for each suite."""

    def __init__(self, log, show):
        self.log = log
        self.show = show
        self.names = {}  # by the id of a test: its suite and title
        self.suites = set()
        self.began = {}  # by the id of a test under way
        self.seconds = {}  # by the id of a finished test
        self.failed = set()
        self.has_ended = False

    def add(self, text):
        record = json.loads(text)
        payload = record["payload"]
        if record["kind"] == "test":
            if payload["kind"] == "suite":
                self.suites.add(payload["id"])
            else:
                suite, title = payload["id"].split("/")[0], payload.get("displayName") or payload["name"]
                self.names[payload["id"]] = (suite, title)
            return
        test, at = payload.get("testID"), payload["instant"]["absolute"]
        match payload["kind"]:
            case "testStarted":
                if test not in self.suites:
                    self.began[test] = at
            case "issueRecorded":
                if not payload.get("issue", {}).get("isKnown") and test:
                    self.failed.add(test)
            case "testEnded":
                if test in self.suites:
                    self.show(f"{'✘' if self.has_failed(test) else '✔'} {test}")
                else:
                    self.seconds[test] = at - self.began.pop(test)
                    self.log(self.describe(test))
            case "runEnded":
                self.has_ended = True

    def has_failed(self, suite):
        return any(test.startswith(suite + "/") for test in self.failed)

    def describe(self, test):
        mark = "✘" if test in self.failed else "✔"
        # A test in which the process ended has no duration.
        return f"{mark} {self.seconds.get(test, math.nan):8.3f} s  {self.title(test)}"

    def title(self, test):
        suite, title = self.names.get(test, ("", test))
        return f"{suite} \"{title}\""

    @property
    def unfinished(self):
        return [self.title(test) for test in self.began]


def slowest(runs):
    """The lines of the tests that took the most time, the slowest first."""
    tests = [(seconds, run.describe(test)) for run in runs for test, seconds in run.seconds.items()]
    return [line for _, line in sorted(tests, reverse=True)[:SLOWEST]]


def verdict(runs, seconds, good):
    """One line in the runner's own form, for all processes together."""
    tests = sum(len(run.seconds) for run in runs)
    # A suite that is only a folder of others, or of which no test was chosen, does not count.
    suites = {run.names[test][0] for run in runs for test in run.seconds if test in run.names}
    mark, word = ("✔", "passed") if good else ("✘", "failed")
    return f"{mark} Test run with {tests} tests in {len(suites)} suites {word} after {seconds:.3f} seconds."


def is_good(code, progress):
    """Whether a process did what it should. The build for `make check` has no tests for some of them."""
    if code == os.EX_UNAVAILABLE and not progress.began and not progress.seconds:
        return True
    return code == 0 and progress.has_ended


class Process:
    """One process of tests, with a thread for its output and one for its events."""

    def __init__(self, bundle, show, log, choice, folder):
        self.choice = choice
        self.progress = Progress(log, show)
        self.last = collections.deque(maxlen=40)  # lines of output
        events = pathlib.Path(folder) / f"events-{threading.get_ident()}-{time.monotonic_ns()}"
        os.mkfifo(events)
        command = [
            bundle, "--testing-library", "swift-testing", "--no-parallel",
            "--event-stream-output-path", events, *choice,
        ]
        # What a test leaves, or a program that it had to kill, goes with the folder.
        environment = {**os.environ, "NO_COLOR": "1", "TMPDIR": folder}
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        # Kept open for writing until the process has ended, so that opening never blocks and reading ends.
        self.keep = os.open(events, os.O_RDWR)
        reader = open(events)
        self.threads = [
            threading.Thread(target=self.read, args=(show, log), daemon=True),
            threading.Thread(target=self.follow, args=(reader,)),
        ]
        for thread in self.threads:
            thread.start()

    def read(self, show, log):
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if QUIET.match(line):
                continue
            self.last.append(line)
            (show if SHOWN.search(line) else log)(line)

    def follow(self, reader):
        with reader:
            for line in reader:
                # A process that crashes may leave half a line.
                if line.endswith("}\n"):
                    self.progress.add(line)

    def wait(self):
        _, status, self.usage = os.wait4(self.process.pid, 0)
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - self.began
        os.close(self.keep)
        for thread in self.threads:
            # A program that a test left running may keep the output open.
            thread.join(timeout=5)
        return is_good(code, self.progress)

    def describe(self):
        """What it took, with the programs that it ran and waited for."""
        processor = self.usage.ru_utime + self.usage.ru_stime
        return f"{self.seconds:8.3f} s, {processor:8.3f} s of CPU time  {' '.join(self.choice)}"


def choices(pattern):
    """The arguments that choose the tests of each process."""
    if pattern:
        return [["--filter", pattern]]
    # The others take as long as the last.
    return [*(["--filter", "^" + prefix] for prefix in PROCESSES), ["--skip", f"^({'|'.join(PROCESSES)})"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=".build", help="the build (default: .build)")
    parser.add_argument("filter", nargs="?", help="run the tests whose Module.Suite/function matches")
    arguments = parser.parse_args()

    build = ROOT / arguments.build
    bundle, path = build / "debug" / "apusPackageTests.xctest", build / "test.log"

    begin = time.monotonic()
    lock = threading.Lock()
    # A program that ends last may still remove files of its own there.
    temporary = tempfile.TemporaryDirectory(prefix="apus-tests-", ignore_cleanup_errors=True)
    with open(path, "w", errors="replace") as file, temporary as folder:
        # The tests' database servers run as another user.
        os.chmod(folder, 0o711)

        def log(line):
            with lock:
                print(line, file=file, flush=True)

        def show(line):
            log(line)
            print(line, flush=True)

        def run(choice):
            process = Process(bundle, show, log, choice, folder)
            return process, process.wait()

        with concurrent.futures.ThreadPoolExecutor(PROCESSES_PER_PROCESSOR * len(os.sched_getaffinity(0))) as pool:
            outcomes = list(pool.map(run, choices(arguments.filter)))
        processes, results = zip(*outcomes)
        runs = [process.progress for process in processes]
        for process, good in zip(processes, results):
            failed = [process.progress.describe(test) for test in sorted(process.progress.failed)]
            if failed:
                show(f"\nThese tests failed (all output is in {path.relative_to(ROOT)}):\n" + "\n".join(failed))
            elif not good:
                show(f"\nThe tests ended with {process.process.returncode}. Under way:")
                show("\n".join(process.progress.unfinished) + "\nThe last output:\n" + "\n".join(process.last))
        log("\nThe processes of tests:\n" + "\n".join(process.describe() for process in processes))
        show(f"\nThe slowest of all tests (each test's duration is in {path.relative_to(ROOT)}):")
        show("\n".join(slowest(runs)))
        good = all(results) and any(run.seconds for run in runs)
        show(verdict(runs, time.monotonic() - begin, good))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
