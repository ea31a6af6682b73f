#!/usr/bin/env python3
"""Tests of the console of a real `apus serve` with a real device. `serve_tests.py PROGRAM [tests]`."""

import sys
import unittest

from eventually import Eventually
from serving import TOPIC, Serving
from webdriver import Browser

PROGRAM = None


class Console(Eventually, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.serving = Serving(PROGRAM)
        self.addCleanup(self.serving.close)
        self.expected_complaints = []
        self.browser.open(self.serving.address)
        self.browser.type("input[type=password]", self.serving.secret)
        self.browser.click("button", "Sign in")
        self.browser.wait("document.querySelector('#tabs a')")

    def tearDown(self):
        complaints = [
            text for text in self.browser.complaints() if not any(word in text for word in self.expected_complaints)
        ]
        self.browser.run("sessionStorage.clear()")
        self.browser.open("about:blank")
        self.assertEqual(complaints, [], "the browser complained")

    def view(self, path):
        self.browser.open(f"{self.serving.address}#/{path}")
        name = path.partition("/")[0]
        self.browser.wait("document.querySelector('main').dataset.view === arguments[0]", name)
        return self.browser

    def test_key_from_the_console_leaves_the_command_line_alone(self):
        """`apus send` signs with the oldest key that may send to the app, however many others there are."""
        other = self.serving.call("POST", "teams", {"name": "Other"})["team"]
        for team in [self.serving.made["team"], other]:
            self.serving.call("POST", "keys", {"team": team})
        self.assertEqual(len(self.serving.call("GET", "keys")["keys"]), 3)
        self.assertEqual(self.serving.send(self.serving.token, "still"), 0)

    def test_way_of_a_push(self):
        """A test push reaches a connected device, and the ledger has all of its states."""
        browser = self.view("devices")
        browser.click("main table a")
        for words in ["connected", "production", TOPIC, "enabled"]:
            self.expect(words)
        browser = self.view("send")
        browser.wait("[...document.querySelectorAll('input')].some((one) => one.value === arguments[0])", TOPIC)
        browser.type("input", self.serving.token, "Device token")
        browser.type("input", "From the console", "Title")
        browser.click("button", "Send")
        self.expect("Accepted")
        shown = self.serving.device.stdout
        while b"From the console" not in (line := shown.readline()):
            self.assertNotEqual(line, b"", "the device ended")
        browser.click("a", "See what happens to it")
        for state in ["Received by APNs", "Sent to Device", "Delivered to Device"]:
            self.expect(state, ".way")
        browser.type("input[type=search]", f"{TOPIC}\n")
        self.expect("Delivered to Device", "table")
        self.view("overview")
        self.expect("1 production", ".tiles")
        self.expect("1 in total", ".tiles")
        browser.wait("document.querySelectorAll('.chart .line').length === 7")
        self.view("audit")
        self.expect(TOPIC, ".log")

    def test_refused(self):
        browser = self.view("send")
        browser.wait("[...document.querySelectorAll('input')].some((one) => one.value === arguments[0])", TOPIC)
        browser.type("input", "ab" * 32, "Device token")
        browser.click("button", "Send")
        self.expect("Rejected: 400 BadDeviceToken")

    def test_key(self):
        """A key revoked on the page is rejected."""
        key = self.serving.made["key_id"]
        self.assertEqual(self.serving.send(self.serving.token, "Before", key), 0)
        browser = self.view("keys")
        browser.click("button", f"Revoke {key}")
        browser.accept()
        browser.wait("document.querySelector('.rows .badge.bad')?.textContent === 'revoked'")
        # The service applies such a change within a second.
        while self.serving.send(self.serving.token, "After", key) == 0:
            browser.run("return 0")
        self.view("ledger")
        self.expect("Rejected requests")
        browser = self.view("keys")
        browser.click("button[type=submit]", "Add")
        self.expect("BEGIN PRIVATE KEY", ".answer")

    def test_apps_and_certificates(self):
        browser = self.view("apps")
        browser.type("input", "com.example.two", "New app")
        browser.click("form button", "Add")
        self.expect("com.example.two", ".rows")
        self.view("certificates")
        for words in ["authority", "server", "days left"]:
            self.expect(words, ".rows")
        browser = self.view("devices")
        browser.type("input", "reader-7", "Device name")
        browser.click("button", "Make")
        self.expect("Not shown again")

    def test_retired(self):
        browser = self.view("devices")
        browser.click("main table a")
        browser.click("button", "Retire")
        browser.accept()
        self.expect("retired")
        while self.serving.send(self.serving.token, "Too late") == 0:
            browser.run("return 0")

    def test_policy(self):
        headers = dict(
            self.browser.run_async("const done = arguments[0]; fetch('/').then((answer) => done([...answer.headers]))")
        )
        for rule in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"]:
            self.assertIn(rule, headers["content-security-policy"])
        names = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual([name for name in names if not name.startswith(self.serving.address)], [])


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "--verbose", *sys.argv[2:]])
