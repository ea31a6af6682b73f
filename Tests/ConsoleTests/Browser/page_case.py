"""The base of the page's tests: one browser, and a mock service for each test."""

import atexit
import time
import unittest

import mock_service
from eventually import Eventually
from webdriver import PATIENCE_SECONDS, Browser

LETTERS = {
    "inbox": "i",
    "compose": "c",
    "devices": "d",
    "channels": "h",
    "faults": "f",
    "violations": "v",
    "tokens": "t",
    "status": "s",
}
VIEWS = [*LETTERS]


class PageCase(Eventually, unittest.TestCase):
    """All tests share a browser; each test has its own service, and a page without state from earlier tests."""

    browser = None
    pushes = 20

    @classmethod
    def setUpClass(cls):
        if PageCase.browser is None:
            PageCase.browser = Browser(program=Browser.SHELL)
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
        self.browser.run("try { sessionStorage.clear() } catch {}")
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
        """Clicks a form's button and returns the body of the call that it makes. If the page is redrawn between finding
        the button and the click, the click misses it: so click again, as a person would."""
        for _ in range(3):
            self.browser.click("button[type=submit]", text)
            if (body := self.find_call(method, path, 2)) is not None:
                return body
        return self.call_of(method, path)

    def find_call(self, method, path, seconds):
        end = time.monotonic() + seconds
        while True:
            with self.world.lock:
                found = [body for verb, to, body in self.world.calls if (verb, to) == (method, path)]
            if found:
                return found[-1]
            if time.monotonic() > end:
                return None
            time.sleep(0.01)

    def call_of(self, method, path):
        """Waits for a call of the page and returns its body."""
        if (body := self.find_call(method, path, PATIENCE_SECONDS)) is not None:
            return body
        self.fail(f"{method} {path} was not called; there were {self.world.calls}")
