"""What the tests of the page have in common: a browser, and a mock service for each test."""

import atexit
import unittest

import mock_service
from eventually import Eventually
from webdriver import Browser

VIEWS = ["inbox", "compose", "devices", "faults", "violations", "tokens", "status"]


class PageCase(Eventually, unittest.TestCase):
    """One browser for all; each test has a service of its own, and so a page that knows nothing of the one before."""

    browser = None
    pushes = 20

    @classmethod
    def setUpClass(cls):
        if PageCase.browser is None:
            PageCase.browser = Browser()
            atexit.register(PageCase.browser.close)

    def setUp(self):
        self.world, self.address = mock_service.start(self.pushes)
        self.browser.size(1280, 800)
        self.browser.appearance(dark=False)
        self.expected_complaints = []

    def tearDown(self):
        complaints = [
            text for text in self.browser.complaints() if not any(word in text for word in self.expected_complaints)
        ]
        self.browser.open("about:blank")
        self.assertEqual(complaints, [], "the browser complained")

    def show(self, path="inbox"):
        self.browser.open(f"{self.address}#/{path}")
        self.browser.wait("document.querySelector('#link')?.classList.contains('up')")
        if path.startswith("inbox"):
            self.browser.wait(
                "document.querySelector('.row .title')?.textContent || document.querySelector('.empty:not([hidden])')"
            )
        return self.browser

    def call_after_click(self, text, method, path):
        """The body of the call that a form's button makes. The page may be redrawn between the look for the button and
        the click, which then lands elsewhere: a person would click again."""
        for _ in range(3):
            self.browser.click("button[type=submit]", text)
            if (body := self.find_call(method, path, 300)) is not None:
                return body
        return self.call_of(method, path)

    def find_call(self, method, path, looks):
        for _ in range(looks):
            with self.world.lock:
                found = [body for verb, to, body in self.world.calls if (verb, to) == (method, path)]
            if found:
                return found[-1]
            self.browser.run("return 0")
        return None

    def call_of(self, method, path):
        """The body of a call that the page is about to make, or made."""
        if (body := self.find_call(method, path, 2000)) is not None:
            return body
        self.fail(f"{method} {path} was not called; there were {self.world.calls}")
