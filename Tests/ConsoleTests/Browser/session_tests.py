"""A development service with a password, hidden pages, and the texts of apps."""

import samples
from page_case import PageCase
from webdriver import Browser


class Locked(PageCase):
    def setUp(self):
        super().setUp()
        self.world.password = "swift-as-a-swift"
        self.expected_complaints = ["401"]
        self.browser.open(self.address)

    def sign_in(self, password="swift-as-a-swift"):
        self.browser.type("input[type=password]", password)
        self.browser.click("button", "Sign in")

    def test_wrong_and_right(self):
        browser = self.browser
        self.sign_in("guess")
        browser.wait("document.querySelector('[role=alert]')?.textContent === 'the password is wrong'")
        self.assertNotIn("Your order", browser.text())
        self.sign_in("gü ess")
        browser.wait("document.querySelector('[role=alert]').textContent.includes('only ASCII')")
        self.sign_in()
        browser.wait("document.querySelectorAll('.row').length > 0")
        # Events need the password too; it is never part of a URL.
        self.world.add(samples.with_payload({"aps": {"alert": "Behind the lock"}}))
        browser.wait("document.querySelector('.row[data-at=\"0\"] .title')?.textContent === 'Behind the lock'")
        names = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual([name for name in names if self.world.password in name], [])

    def test_kept_and_forgotten(self):
        browser = self.browser
        self.sign_in()
        browser.wait("document.querySelector('.row')")
        browser.open(f"{self.address}#/status")
        browser.call("POST", "/refresh", {})
        browser.wait("document.querySelector('.snippets pre')")
        browser.click("button", "Sign out")
        browser.wait("document.querySelector('input[type=password]') && !document.querySelector('#tabs a')")
        self.assertIsNone(browser.run("return sessionStorage.getItem('apus-token')"))

    def test_taken_back(self):
        """A password that is no longer valid leads back to the sign-in form, which says why."""
        browser = self.browser
        self.sign_in()
        # Whatever the page asks for at first must be answered by then: the click has to be what finds out.
        browser.wait("document.querySelector('#link')?.classList.contains('up')")
        self.expect("20 pushes", ".total")
        self.world.password = "another"
        browser.click("#tabs a", "Violations")
        browser.wait("document.querySelector('[role=alert]')?.textContent === 'the password is wrong'")
        browser.wait("!document.querySelector('#tabs a') && !document.querySelector('.row')")


class Tabs(PageCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def test_hidden(self):
        """Hidden pages hold no connection, and catch up when they become visible."""
        browser = self.show()
        first, others = browser.tab(), []
        self.addCleanup(browser.switch, first)
        for _ in range(8):
            tab = browser.open_tab()
            others.append(tab)
            browser.switch(tab)
            self.show()
            browser.wait("document.querySelector('.total').textContent === '20 pushes'")
        for _ in range(1000):
            with self.world.lock:
                readers = len(self.world.readers)
            if readers == 1:
                break
            self.world.tell("clock", {})
            browser.run("return 0")
        self.assertEqual(readers, 1)
        self.world.add(samples.with_payload({"aps": {"alert": "Meanwhile"}}))
        for tab in others:
            browser.switch(tab)
            browser.close_tab()
        browser.switch(first)
        browser.wait("document.querySelector('.row[data-at=\"0\"] .title')?.textContent === 'Meanwhile'")
        self.expect("21 pushes", ".total")


class Texts(PageCase):
    def test_set_and_change(self):
        browser = self.show("devices")
        browser.click("summary", "Texts of apps")
        browser.wait("document.body.innerText.includes('No texts.')")
        browser.type("input", "de", "Language")
        browser.element("input", "App")
        form = "details.box form"
        browser.run(f"document.querySelector('{form} input[placeholder=de]').value = 'de'")
        text = '"HELLO" = "Grüezi, %@!";\n"BYE" = "Adieu";\n'
        browser.run(f"document.querySelector('{form} textarea').value = arguments[0]", text)
        browser.click(f"{form} button", "Set")
        browser.wait("document.querySelector('details.box').innerText.includes('2 texts')")
        self.assertEqual(self.world.strings, {(samples.TOPIC, "de"): text})
        browser.run(f"document.querySelector('{form} textarea').value = ''")
        browser.click("button", f"Edit the texts of {samples.TOPIC} in de")
        browser.wait(f"document.querySelector('{form} textarea').value === arguments[0]", text)

    def test_wrong(self):
        self.expected_complaints = ["400"]
        browser = self.show("devices")
        browser.click("summary", "Texts of apps")
        browser.run("document.querySelector('details.box form input[placeholder=de]').value = 'de'")
        browser.type("details.box textarea", "nonsense")
        browser.click("details.box form button", "Set")
        expected = "a text in quotes is expected (line 1, column 1)"
        browser.wait("document.querySelector('details.box [role=alert]').textContent === arguments[0]", expected)
