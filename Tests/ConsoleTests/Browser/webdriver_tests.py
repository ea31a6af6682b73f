"""Tests of starting chromedriver, which shell scripts replace to simulate a port in use, and of ending a browser."""

import os
import pathlib
import tempfile
import time
import unittest

from webdriver import Browser, WebDriverError, start_driver

IN_USE = """#!/bin/sh
echo x >> "$0.starts"
if [ "$(wc -l < "$0.starts")" -lt 3 ]; then
    echo "Starting ChromeDriver on port 0"
    echo "IPv4 port not available. Exiting..."
    exit 1
fi
echo "ChromeDriver was started successfully on port 9515."
"""
BROKEN = """#!/bin/sh
echo x >> "$0.starts"
echo "libnss3.so: cannot open shared object file" >&2
exit 127
"""


class Starting(unittest.TestCase):
    def program(self, text):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "chromedriver")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def starts(self, program):
        with open(program + ".starts", encoding="utf-8") as file:
            return len(file.readlines())

    def test_a_port_in_use_starts_it_again(self):
        program = self.program(IN_USE)
        process, port = start_driver(program)
        process.wait()
        process.stdout.close()
        self.assertEqual(port, 9515)
        self.assertEqual(self.starts(program), 3)

    def test_ports_always_in_use_end_the_attempts(self):
        program = self.program(IN_USE)
        with self.assertRaisesRegex(WebDriverError, "IPv4 port not available"):
            start_driver(program, attempts=2)
        self.assertEqual(self.starts(program), 2)

    def test_another_fault_is_reported_at_once(self):
        program = self.program(BROKEN)
        with self.assertRaisesRegex(WebDriverError, "libnss3.so: cannot open.*exit code 127"):
            start_driver(program)
        self.assertEqual(self.starts(program), 1)


def processes():
    """The parent of each process."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name may contain spaces and brackets.
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass  # It has ended meanwhile.
    return found


def descendants(ancestor):
    parents, family = processes(), {ancestor}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return family


class Ending(unittest.TestCase):
    def test_no_process_of_a_browser_is_left(self):
        for program in ["chromium", Browser.SHELL]:
            browser = Browser(program=program)
            family = descendants(browser.process.pid)
            self.assertGreater(len(family), 3, program)
            browser.close()
            deadline = time.monotonic() + 30
            while (left := family & processes().keys()) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(left, set(), program)


if __name__ == "__main__":
    unittest.main()
