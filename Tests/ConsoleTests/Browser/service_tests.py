#!/usr/bin/env python3
"""Tests of the page of a real `apus dev` with real pushes. `service_tests.py PROGRAM [tests]`, with a Python that has
aioapns (`scripts/setup.sh test` installs one in .venv)."""

import base64
import subprocess
import sys
import unittest

import samples
from eventually import Eventually
from stand_in import BOARDING, DevService
from webdriver import Browser

PROGRAM = None


def alert(title, **parts):
    return {"aps": {"alert": {"title": title, "body": f"{title}, in more words"}, **parts}}


class Service(Eventually, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.stand_in = DevService(PROGRAM)
        self.addCleanup(self.stand_in.close)
        self.expected_complaints = []
        self.open("inbox")

    def tearDown(self):
        complaints = [
            text for text in self.browser.complaints() if not any(word in text for word in self.expected_complaints)
        ]
        self.browser.open("about:blank")
        self.assertEqual(complaints, [], "the browser complained")

    def open(self, path):
        self.browser.open(f"{self.stand_in.address}#/{path}")
        self.browser.wait("document.querySelector('#link')?.classList.contains('up')")
        return self.browser

    def title_at_top(self, title):
        self.browser.wait("document.querySelector('.row[data-at=\"0\"] .title')?.textContent === arguments[0]", title)

    def test_two_languages(self):
        """A push of aioapns appears, can be opened, and is shown in the language of its device."""
        self.stand_in.call("PATCH", "devices/tablet", {"language": "de"})
        expected = {
            "phone": ("Boarding begins", "LX 318 leaves from gate B42."),
            "tablet": ("Das Boarding beginnt", "Flugsteig B42: LX 318 ist bereit."),
        }
        browser = self.browser
        for device, (title, body) in expected.items():
            answers = self.stand_in.send((self.stand_in.token(device), BOARDING))
            self.assertEqual([status for status, _ in answers], [200])
            self.title_at_top(title)
            browser.click(".row[data-at='0']")
            browser.wait("document.querySelector('.detail h2')?.textContent === arguments[0]", title)
            browser.wait("document.querySelector('.way')?.innerText.includes('Delivered to Device')")
            browser.wait("document.querySelector('.beside h3').textContent === 'On the device'")
            card = browser.text(".detail .card")
            self.assertIn(title, card)
            self.assertIn(body, card)
            self.assertIn("Time Sensitive", card)
            detail = browser.text(".detail")
            for words in ["200 Accepted", f"key {self.stand_in.ready['key_id']}", '"loc-key": "BOARDING"', device]:
                self.assertIn(words, detail)
            self.open("inbox")
        self.open("devices/tablet")
        browser.wait("document.querySelector('.phone .card')?.innerText.includes('Das Boarding beginnt')")

    def test_fault(self):
        """A fault armed on the page applies to the next push, and not to the one after it."""
        browser = self.open("faults")
        browser.type("input", "gone", "Name")
        browser.type("input", "1", "At most")
        browser.click("button[type=submit]", "Arm")
        browser.wait("document.querySelector('.rule-list')?.innerText.includes('gone')")
        token = self.stand_in.token("phone")
        answers = self.stand_in.send((token, alert("First")), (token, alert("Second")))
        self.assertEqual(answers, [(410, "Unregistered"), (200, "")])
        browser.wait("document.querySelector('.rule-list').innerText.includes('1 of')")
        self.open("inbox")
        self.title_at_top("Second")
        browser.click(".row[data-at='1']")
        detail = browser.wait("document.querySelector('.detail .badges')?.innerText")
        self.assertIn("410 Unregistered", detail)
        self.assertIn("fault: gone", detail)

    def test_away_and_back(self):
        """A push to an offline device is stored, and shown once the device reconnects."""
        browser = self.open("devices/phone")
        browser.click("[data-device=phone] [role=switch]", "Online")
        browser.wait("document.querySelector('[data-device=phone] .badge').textContent === 'offline'")
        # The library sends no expiration, so one is sent from the composer.
        self.open("compose")
        browser.wait("document.querySelector('.compose select').value === 'phone'")
        browser.type("input", "Kept for you", "Title")
        browser.type("input", "3600", "Expiration")
        browser.click("button", "Send")
        browser.click("a", "Open push 1")
        browser.wait("document.querySelector('.way')?.innerText.includes('Stored - Device Offline')")
        self.expect("has not shown it yet", ".detail .beside")
        self.open("devices/phone")
        browser.wait("document.querySelector('.phone')?.innerText.includes('No notifications')")
        browser.click("[data-device=phone] [role=switch]", "Online")
        browser.wait("document.querySelector('.phone .card')?.innerText.includes('Kept for you')")
        self.open("inbox/1")
        browser.wait("document.querySelector('.way')?.innerText.includes('Delivered to Device (From Storage)')")

    def test_violations(self):
        """Violations of an accepted push are named, at the push and in the report."""
        self.stand_in.send((self.stand_in.token("phone"), alert("Wrong", badge="3")))
        browser = self.browser
        self.title_at_top("Wrong")
        browser.click(".row[data-at='0']")
        browser.wait("document.querySelector('.violations')?.innerText.includes('aps.badge')")
        self.open("violations")
        browser.wait("document.querySelector('.rules')?.innerText.includes('value-type')")

    def test_clock_and_tokens(self):
        """A token expires after two hours of the service's own clock."""
        browser = self.open("tokens")
        browser.click("button", "Make")
        token = browser.wait("document.querySelector('.view pre')?.textContent")
        browser.type("textarea", token, "Token")
        browser.click("button", "Check")
        browser.wait("document.querySelector('.callout.good')")
        self.open("status")
        for _ in range(2):
            browser.click("button", "+ 1 h")
        browser.wait("document.querySelector('.view').innerText.includes('2 h ahead of')")
        self.open("tokens")
        browser.type("textarea", token, "Token")
        browser.click("button", "Check")
        browser.wait("document.querySelector('.callout.bad')?.innerText.includes(' s old')")

    def test_copied_curl(self):
        """The command that the page copies sends the same push again."""
        payload = alert('It\'s "quoted" $HOME `id` \\u0041 שלום', n=[1, {"a": "\u202e"}])
        self.stand_in.send((self.stand_in.token("phone"), payload))
        self.title_at_top('It\'s "quoted" $HOME `id` \\u0041 שלום')
        command = self.stand_in.call("GET", "pushes/1")["curl"]
        printed = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
        self.assertIn("HTTP/2 200", printed.stdout, printed.stderr)
        self.browser.wait("document.querySelector('.total').textContent === '2 pushes'")
        first, second = (self.stand_in.call("GET", f"pushes/{number}") for number in (1, 2))
        self.assertEqual(second["payloadText"], first["payloadText"])

    def test_bad_input(self):
        """Input that no library would send reaches the page and does no harm."""
        token = self.stand_in.call("POST", "tokens/provider", {})["token"]
        port, device = self.stand_in.ready["http2"]["production"], self.stand_in.token("phone")
        for sample in samples.bad():
            body = (
                base64.b64decode(sample["payloadBase64"])
                if "payloadBase64" in sample
                else sample["payloadText"].encode()
            )
            subprocess.run(
                [
                    "curl",
                    "--silent",
                    "--http2",
                    "--cacert",
                    self.stand_in.ready["authority_file"],
                    "--data-binary",
                    "@-",
                ]
                + ["--header", f"authorization: bearer {token}", "--header", f"apns-topic: {self.stand_in.topic}"]
                + [f"https://localhost:{port}/3/device/{device}"],
                input=body,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        count = len([*samples.bad()])
        self.browser.wait("document.querySelector('.total').textContent === arguments[0]", f"{count} pushes")
        for number in range(1, count + 1):
            browser = self.open(f"inbox/{number}")
            browser.wait("document.querySelector('.detail-head')?.innerText.includes(arguments[0])", f"No. {number}")
            self.assertIsNone(browser.run("return window.broken ?? null"), number)
            self.assertEqual(
                browser.run("return document.querySelectorAll('main :is(img, script, iframe, b)').length"), 0
            )

    def test_locked(self):
        """On another address the page asks for the printed password."""
        self.expected_complaints = ["401"]
        locked = DevService(PROGRAM, "--listen", "0.0.0.0")
        self.addCleanup(locked.close)
        browser = self.browser
        browser.open(locked.address)
        browser.type("input[type=password]", "a-guess-of-sixteen")
        browser.click("button", "Sign in")
        browser.wait("document.querySelector('[role=alert]')?.textContent")
        browser.type("input[type=password]", locked.ready["password"])
        browser.click("button", "Sign in")
        browser.wait("document.querySelector('#link').classList.contains('up')")
        self.assertEqual(locked.send((locked.token("phone"), alert("Behind the lock"))), [(200, "")])
        self.title_at_top("Behind the lock")
        browser.click("button", "Sign out")
        browser.wait("document.querySelector('input[type=password]') && !document.querySelector('.row')")

    def test_texts(self):
        """A device shows an app's texts once they are set on the page."""
        browser = self.open("devices")
        browser.click("summary", "Texts of apps")
        browser.click("button", f"Edit the texts of {self.stand_in.topic} in en")
        browser.wait("document.querySelector('details.box textarea').value.includes('Boarding begins')")
        text = '"BOARDING_TITLE" = "Now boarding";\n"BOARDING" = "%1$@, gate %2$@";\n'
        browser.type("textarea", text, "Localizable.strings")
        browser.click("details.box form button", "Set")
        browser.wait("document.querySelector('#toast').textContent === 'Set the texts in en.'")
        self.stand_in.send((self.stand_in.token("phone"), BOARDING))
        self.open("inbox")
        self.title_at_top("Now boarding")

    def test_policy(self):
        """The service sends the page with its policy, and its files only for use by the page itself."""
        headers = self.browser.run_async(
            "const done = arguments[0]; fetch('/').then((answer) => done([...answer.headers]))"
        )
        headers = dict(headers)
        for rule in ["default-src 'none'", "script-src 'self'", "require-trusted-types-for 'script'"]:
            self.assertIn(rule, headers["content-security-policy"])
        self.assertEqual(headers["x-content-type-options"], "nosniff")
        names = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual([name for name in names if not name.startswith(self.stand_in.address)], [])


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    unittest.main(argv=[sys.argv[0], "--verbose", *sys.argv[2:]])
