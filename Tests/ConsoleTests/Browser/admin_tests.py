"""The console of `apus serve`: sign-in, the overview, and all actions of an administrator."""

import json
import unittest

import mock_admin
from admin_world import MARKUP, TOPIC, certificate
from page_case import PageCase

VIEWS = ["overview", "devices", "ledger", "send", "apps", "channels", "keys", "certificates", "webhooks", "audit"]


class AdminCase(PageCase):
    token = "all"

    def setUp(self):
        super().setUp()
        self.world, self.address = mock_admin.start()
        # A file of the same origin, so that the page itself is loaded once.
        self.browser.open(f"{self.address}assets/favicon.svg")
        self.browser.run("sessionStorage.setItem('apus-token', arguments[0])", self.token)

    def show(self, path="overview"):
        is_shown = self.browser.run("return location.pathname === '/'")
        self.browser.open(f"{self.address}#/{path}")
        if is_shown:
            self.browser.call("POST", "/refresh", {})
        self.browser.wait("document.querySelector('#tabs a')")
        return self.browser


class SignIn(AdminCase):
    def test_token(self):
        self.expected_complaints += ["401"]
        browser = self.browser
        browser.run("sessionStorage.clear()")
        browser.open("about:blank")
        browser.open(f"{self.address}#/keys")
        browser.type("input", "guess")
        browser.click("button", "Sign in")
        browser.wait("document.querySelector('[role=alert]')?.textContent.includes('the token is unknown')")
        browser.type("input", "all\n")
        self.expect("ABC123DEFG")

    def test_taken_back(self):
        self.expected_complaints += ["401"]
        browser = self.show("apps")
        self.expect("com.example.app")
        del self.world.tokens["all"]
        browser.click("#tabs a", "Keys")
        browser.wait("document.querySelector('[role=alert]')?.textContent.includes('the token is unknown')")
        self.assertNotIn("com.example.app", browser.run("return document.documentElement.textContent"))

    def test_no_scope(self):
        """If a scope was withdrawn meanwhile, the page names it, and nothing is changed."""
        self.expected_complaints += ["403"]
        browser = self.show("keys")
        self.expect("ABC123DEFG")
        self.world.tokens["all"] = {"read"}
        browser.click("button", "Revoke ABC123DEFG")
        browser.accept()
        browser.wait("document.querySelector('[role=alert]').textContent.includes('this operation needs trust')")
        self.assertNotIn("revoked", self.world.keys[0])

    def test_read_only(self):
        """A token with only the scope read is offered nothing else."""
        self.browser.run("sessionStorage.setItem('apus-token', 'read')")
        browser = self.show("keys")
        browser.wait("document.body.dataset.scopes === 'read'")
        self.expect("ABC123DEFG")
        offered, signs = {}, {"keys": "ABC123DEFG", "certificates": "Revoked", "apps": "Teams", "devices": "State"}
        for view, sign in signs.items():
            browser.click(f"#tabs a[data-view={view}]")
            self.expect(sign)
            offered[view] = browser.run("""return [...document.querySelectorAll('main button')]
              .filter((one) => one.offsetParent).map((one) => one.textContent)""")
        self.assertEqual(offered, {"keys": [], "certificates": [], "apps": [], "devices": ["Search", "More"]})
        browser.click("a", "reader 5")
        self.expect("192.0.2.7:40112")
        self.assertEqual(browser.run("""return [...document.querySelectorAll('main button')]
          .filter((one) => one.offsetParent).map((one) => one.textContent)"""), [])


class Overview(AdminCase):
    def test_figures(self):
        browser = self.show()
        for words in ["9,041", "9,000 production", "1,812", "1 ms", "none in the last minute", "81 MB", "16"]:
            self.expect(words, ".tiles")
        for words in ["Discarded - Expired", "BadDeviceToken", "22 days", "5 days", "expired"]:
            self.expect(words)
        self.expect("Apus 0.1.0, up 2 h 1 min")
        self.expect("ready", "#link")
        levels = browser.run("""return [...document.querySelectorAll('[aria-label=Certificates] .badge')]
          .map((badge) => badge.className)""")
        self.assertEqual(levels, ["badge bad", "badge bad", "badge warn", "badge good"])
        self.assertIsNone(browser.run("return window.broken ?? null"))

    def test_nodes(self):
        """The nodes of a cluster, as they come and go; nothing of a service of its own."""
        browser = self.show()
        self.expect("9,041", ".tiles")
        self.assertFalse(browser.run("return document.querySelector('[aria-label=Nodes]')"))
        node = {"version": "0.2.0", "draining": False, "asked": False, "silent_ms": 300}
        self.world.nodes = [
            {**node, "node": "a", "state": "serving", "address": "a.example.com"},
            {**node, "node": "b", "state": "standby", "draining": True, "asked": True},
            {**node, "node": "c", "state": "away"},
        ]
        for words in ["a.example.com", "this page’s", "draining", "away"]:
            self.expect(words, "[aria-label=Nodes]")
        levels = browser.run("""return [...document.querySelectorAll('[aria-label=Nodes] .badge')]
          .map((badge) => badge.className)""")
        self.assertEqual(levels, ["badge good", "badge good", "badge warn", "badge bad"])

    def test_goes_on(self):
        """Figures and rates follow the service, and problems are shown."""
        browser = self.show()
        self.expect("1,234,567 in total", ".tiles")
        self.world.accepted += 1000
        self.expect("1,235,567 in total", ".tiles")
        self.world.ready = False
        self.expect("not ready: the disk is full")
        browser.wait("!document.querySelector('#link').classList.contains('up')")

    def test_charts(self):
        browser = self.show()
        browser.wait("document.querySelectorAll('.chart .line').length === 7")
        lines = "[...document.querySelectorAll('.chart .line')]"
        browser.wait(f"{lines}.every((line) => line.getAttribute('d').length > 200)")
        browser.click("figure summary", "Numbers")
        browser.wait("document.querySelectorAll('figure details[open] tbody tr').length > 20")
        self.expect("accepted", "figure details[open] thead")
        before = browser.run("return document.querySelector('.chart .line').getAttribute('d')")
        browser.click(".segments button", "24 h")
        browser.wait("document.querySelector('.chart .line').getAttribute('d') !== arguments[0]", before)
        with self.world.lock:
            self.assertIn("history", self.world.requests)

    def test_only_while_seen(self):
        browser = self.show()
        browser.wait("document.querySelector('.tiles').innerText.includes('9,041')")
        browser.click("#tabs a", "Apps")
        self.expect("com.example.app")
        with self.world.lock:
            self.world.requests.clear()
        browser.run_async("setTimeout(arguments[0], 3000)")
        with self.world.lock:
            self.assertNotIn("overview", self.world.requests)


class Changes(AdminCase):
    def test_apps(self):
        self.expected_complaints += ["409"]
        browser = self.show("apps")
        self.expect("com.example.app", ".rows")
        pushes = "return document.querySelector('[data-label=\"Pushes to dead tokens\"]').innerText"
        self.assertEqual(browser.run(pushes), "12,345")
        self.expect("Apple, key ABC123DEFG of team DEF123GHIJ", ".rows")
        browser.type("input", "com.example.app", "New app")
        browser.click("form button", "Add")
        browser.wait("document.querySelector('[role=alert]').textContent.includes('already exists')")
        browser.type("input", "com.example.two", "New app")
        browser.click("form button", "Add")
        self.expect("com.example.two", ".rows")
        browser.click("button", "Remove com.example.app")
        browser.accept()
        browser.wait("!document.querySelector('.rows').innerText.includes('com.example.app')")
        browser.type("input", "Second", "New team")
        browser.click(".box button", "Add")
        self.expect("NEWTEAM001")
        browser.wait("document.querySelector('main select')")

    def test_keys(self):
        browser = self.show("keys")
        browser.choose("select", "production", "Valid for")
        browser.type("input", "com.example.app, com.example.two", "Only for these apps")
        browser.click("button[type=submit]", "Add")
        self.expect("BEGIN PRIVATE KEY", ".answer")
        body = self.call_of("POST", "keys")
        self.assertEqual(body, {"environments": "production", "topics": ["com.example.app", "com.example.two"]})
        browser.click("button", "Revoke NEWKEY0001")
        browser.accept()
        browser.wait("document.querySelectorAll('.rows .badge.bad').length === 1")

    def test_certificates(self):
        browser = self.show("certificates")
        browser.click("button", "Revoke the certificate of shop")
        browser.accept()
        self.expect("03" * 32)
        self.assertEqual(self.world.revoked, ["03" * 32])

    def test_rotation(self):
        """While an authority is being replaced, the page shows which are trusted, and how to end it."""
        browser = self.show("certificates")
        self.expect("Service authority", ".rows")
        self.assertEqual(browser.run("return document.querySelectorAll('main .callout.warn').length"), 0)
        names = ["Apus device authority 2", "Apus device authority"]
        self.world.certificates += [certificate("authority", name, 3650, at) for at, name in enumerate(names, 5)]
        browser = self.show("certificates")
        for words in ["3 are trusted", "authority, Apus device authority 2, Apus device authority.", "--finish"]:
            self.expect(words, "main .callout.warn")

    def test_devices(self):
        browser = self.show("devices")
        browser.wait("document.querySelectorAll('table[aria-label=Devices] tbody tr').length === 25")
        browser.click("button", "More")
        browser.wait("document.querySelectorAll('[aria-label=\"More devices\"] tbody tr').length === 25")
        browser.type("input[type=search]", "0000000000000005\n")
        browser.wait("document.querySelectorAll('main .rows th a').length === 1")
        browser.click("a", "0000000000000005")
        for words in ["192.0.2.7:40112", "low power", "com.example.app.voip", "non waking", "reader 5 <img"]:
            self.expect(words)
        browser.click("button", "Retire")
        browser.accept()
        self.expect("retired")
        browser.press("Escape")
        browser.wait("location.hash === '#/devices'")

    def test_names_and_tags(self):
        browser = self.show("devices")
        browser.type("[list=known-tags]", "floor=1\n")
        browser.wait("location.hash === '#/devices/tag/floor%3D1'")
        browser.wait("document.querySelectorAll('table[aria-label=Devices] tbody tr').length === 25")
        self.assertEqual(browser.run("return document.querySelector('#known-tags option').value"), "floor=0")
        browser.click("a", "0000000000000001")
        self.expect("floor=1", ".tools")
        browser.type("input", "kitchen", "Name")
        browser.type("input", "floor=1 room=north", "Tags, separated by spaces")
        browser.click("button", "Save")
        self.expect("kitchen", "#device-title")
        self.assertEqual(self.call_of("PATCH", "devices/0000000000000001"),
                         {"name": "kitchen", "add_tags": ["floor=1", "room=north"], "remove_tags": []})
        browser.type("input", "taken", "Name")
        browser.type("input", "room=north", "Tags, separated by spaces")
        self.expected_complaints += ["409"]
        browser.click("button", "Save")
        self.expect('has the name "taken"', "[role=alert]")
        self.assertEqual(self.call_of("PATCH", "devices/0000000000000001")["remove_tags"], ["floor"])

    def test_send_to_device(self):
        browser = self.show("devices/0000000000000004")
        browser.type("input", "Dinner", "Title")
        browser.click("button", "Send to this device")
        self.expect("Accepted", "#device-answer")
        body = self.call_of("POST", "notifications")
        self.assertEqual(body["device"], "0000000000000004")
        self.assertEqual((body["topic"], body["environment"]), (TOPIC, "production"))
        self.assertEqual(body["payload"]["aps"]["alert"]["title"], "Dinner")
        self.expect("Stored - Device Offline", "[aria-label='Notifications of the device']")
        # What happens to it is shown as it happens.
        with self.world.lock:
            self.world.lines.append({**self.world.lines[-1], "state": "Delivered to Device (From Storage)"})
        self.expect("Delivered to Device (From Storage)", "[aria-label='Notifications of the device']")

    def test_enrolments(self):
        browser = self.show("devices")
        self.expect("reader <img")
        browser.click("button", "Approve")
        browser.accept()
        self.expect("approved")
        self.assertIsNone(browser.run("return window.broken ?? null"))
        browser.type("input", "reader-7", "Device name")
        browser.type("input", "48", "Hours")
        browser.click("button", "Make")
        self.expect("K7QX-2MNP")
        self.assertEqual(self.call_of("POST", "codes"), {"name": "reader-7", "hours": 48, "uses": 1})
        browser.click("button", "Withdraw")
        browser.accept()
        browser.wait("!document.querySelector('main').innerText.includes('0 of 1')")

    def test_audit_words(self):
        """Times have their zone, and words that fit into their column are not broken."""
        self.world.audit.append({
            "time": "2026-01-02T03:04:05.678Z", "event": "certificate.revoked", "actor": "token administrator",
            "subject": "8F3A11DD00000001", "reason": "certificate revoked", "listener": "courier production",
            "explanation": "issue another certificate for a new key",
            "sha256": "ab" * 32})
        browser = self.show("audit")
        self.expect("certificate.revoked", ".log")
        self.assertRegex(browser.run("return document.querySelector('.log time').innerText"), r"^[-\d]+ [:\d]+ UTC")
        broken = browser.run("""
          const found = []
          const walker = document.createTreeWalker(document.querySelector('.log tbody'), NodeFilter.SHOW_TEXT)
          while (walker.nextNode()) {
            for (const { index, 0: word } of walker.currentNode.data.matchAll(/[\\w.:]+/g)) {
              const range = document.createRange()
              range.setStart(walker.currentNode, index)
              range.setEnd(walker.currentNode, index + word.length)
              if (word.length < 20 && range.getClientRects().length > 1) found.push(word)
            }
          }
          return found""")
        self.assertEqual(broken, [])

    def test_audit(self):
        self.world.note("key.revoked", "ABC123DEFG")
        self.world.note("app.added", MARKUP)
        browser = self.show("audit")
        self.expect("window.broken=1", ".log")
        browser.type("input", "key.revoked\n", "Event")
        browser.wait("document.querySelectorAll('.log tbody tr').length === 1")
        self.expect("ABC123DEFG", ".log")


class Webhooks(AdminCase):
    def test_actions(self):
        """Adding shows the secret once; tests, rotations and removals go to the service."""
        browser = self.show("webhooks")
        self.expect("the receiver answered 503", "[aria-label=Webhooks]")
        self.expect("https://backend.example.com/<img", "[aria-label=Webhooks]")
        browser.type("input[type=url]", "https://backend.example.com/dead")
        browser.type("input", "dead", "Name")
        browser.click("label", "token.died")
        browser.click("button", "Add")
        self.expect("apuswh_0123", "[aria-label=Secret]")
        self.assertEqual(
            self.call_of("POST", "webhooks"),
            {"url": "https://backend.example.com/dead", "name": "dead", "events": ["token.died"]},
        )
        browser.click("button", "Test dead")
        browser.wait("document.body.innerText.includes('accepted the test event')")
        browser.click("button", "Test orders")
        browser.wait("document.querySelector('[role=alert]').textContent.includes('the receiver answered 503')")
        browser.click("button", "Rotate dead")
        browser.accept()
        self.expect("apuswh_4567", "[aria-label=Secret]")
        self.expect("rotating", "[aria-label=Webhooks]")
        browser.click("button", "Finish dead")
        browser.accept()
        browser.wait("!document.querySelector('[aria-label=Webhooks]').innerText.includes('rotating')")
        self.assertEqual(self.call_of("POST", "webhooks/dead/rotate"), {"finish": True})
        browser.click("button", "Remove dead")
        browser.accept()
        browser.wait("!document.querySelector('[aria-label=Webhooks]').innerText.includes('/dead')")
        self.assertEqual([hook["name"] for hook in self.world.webhooks], ["orders"])


class Channels(AdminCase):
    def test_actions(self):
        """Channels are created and deleted, of apps that are permitted to have them."""
        browser = self.show("channels")
        self.expect("No app may have channels yet", "section")
        browser.click("button", f"Permit channels of {TOPIC}")
        self.expect("permitted", "[aria-label=Apps]")
        self.assertEqual(self.call_of("PATCH", f"apps/{TOPIC}"), {"broadcast": True})
        browser.choose("select", "development", "Environment")
        browser.click("button", "Create")
        self.expect("AAEC/wQFBgcICQoLDA0OAQ==", "[aria-label=Channels] table")
        for figure in ["Subscribers", "401", "Published", "7", "Delivered", "1203"]:
            self.expect(figure, "[aria-label=Channels] table")
        self.assertEqual(
            self.call_of("POST", "channels"), {"topic": TOPIC, "environment": "development", "storage": "newest"}
        )
        browser.click("button", "Delete AAEC/wQFBgcICQoLDA0OAQ==")
        browser.accept()
        browser.wait("document.querySelector('[aria-label=Channels] > div').innerText.includes('None')")
        self.assertEqual(self.world.channels, [])
        browser.click("button", f"Switch off channels of {TOPIC}")
        browser.accept()
        self.expect("off", "[aria-label=Apps]")
        self.assertEqual(
            self.call_of("PATCH", f"apps/{TOPIC}"), {"broadcast": False, "delete_channels": True}
        )

    def test_pages(self):
        self.world.channels = [self.world.channel(number) for number in range(201)]
        browser = self.show("channels")
        rows = "document.querySelectorAll('table[aria-label=Channels] tbody tr').length"
        browser.wait(f"{rows} === 200")
        browser.click("button", "Show more")
        browser.wait(f"{rows} === 201")
        self.assertFalse(browser.run("return document.body.innerText.includes('Show more')"))


class Ledger(AdminCase):
    def test_search(self):
        browser = self.show("ledger")
        browser.wait("document.querySelectorAll('[aria-label=\"Lines of the ledger\"] tbody tr').length === 90")
        self.expect("did you mean com.example.app?")
        browser.choose("select", "Delivered to Device", "State")
        browser.type("input[type=search]", f"{2:016X}\n")
        browser.wait("document.querySelectorAll('[aria-label=\"Lines of the ledger\"] tbody tr').length === 8")
        self.expect(f"{2:016X} hall", "[aria-label='Lines of the ledger']")
        browser.click("[aria-label='Lines of the ledger'] td:last-child a")
        self.expect("apns-unique-id")
        self.expect("+14 ms", ".way")
        unique = self.world.lines[-1]["unique_id"]
        browser.choose("select", "", "State")
        browser.type("input[type=search]", f"{unique}\n")
        self.expect(unique, "dl")

    def test_refused(self):
        self.world.refuse("ExpiredProviderToken", "It is 3 h old <b>!</b>", "123E4567-E89B-12D3-A456-426614174000")
        self.show("ledger/123e4567-e89b-12d3-a456-426614174000".upper().replace("LEDGER", "ledger"))
        self.expect("It is 3 h old <b>!</b>")
        self.show("ledger/123e4567-e89b-12d3-a456-000000000000")
        self.expect("Not found in the ledger or the rejected requests.")

    def test_unknown_topic(self):
        self.expected_complaints += ["404"]
        self.show("ledger/com.example.ap")
        self.expect('the service has no app "com.example.ap"')
        self.expect("did you mean com.example.app?")

    def test_send(self):
        """A test push, and its states in the ledger as they happen."""
        browser = self.show("send")
        browser.wait("[...document.querySelectorAll('input')].some((one) => one.value === 'com.example.app')")
        self.assertFalse(browser.run("return document.querySelector('.compose select').checkVisibility()"))
        browser.type("input", "0" * 64, "Device token")
        browser.click("button", "Send")
        self.expect("Rejected: 400 BadDeviceToken")
        self.expect("This service did not make <b>it</b>.")
        browser.type("input", "ab" * 32, "Device token")
        browser.click("button", "Send")
        browser.click("a", "See what happens to it")
        body = self.call_of("POST", "notifications")
        self.assertEqual((body["token"], body["topic"], body["push_type"]), ("ab" * 32, TOPIC, "alert"))
        self.assertEqual(json.loads(body["payload_text"])["aps"]["alert"]["title"], "Hello")
        self.expect("Sent to Device", ".way")
        with self.world.lock:
            line = self.world.lines[-1]
            self.world.lines.append({**line, "state": "Delivered to Device", "milliseconds": line["milliseconds"] + 40})
        self.expect("Delivered to Device", ".way")


class Everywhere(AdminCase):
    def test_keyboard(self):
        browser = self.show()
        for name, letter in zip(VIEWS[1:] + VIEWS[:1], "dlsahkcwuo"):
            browser.press("g", letter)
            browser.wait("document.querySelector('main').dataset.view === arguments[0]", name)
        browser.press("/")
        browser.wait("document.querySelector('[data-view=ledger] input[type=search]') === document.activeElement")

    def test_narrow(self):
        """On a phone nothing is wider than the screen, and each view can be left."""
        browser = self.show()
        browser.size(360, 740)
        for path in [*VIEWS, "devices/0000000000000005"]:
            name = path.split("/")[0]
            browser.run("location.hash = arguments[0]", f"/{path}")
            browser.wait("document.querySelector('main').dataset.view === arguments[0]", name)
            browser.wait("document.querySelector('main h1')")
            if path != name:
                self.expect("192.0.2.7:40112")
            wide = browser.run("""const main = document.querySelector('main')
              return main.scrollWidth > main.clientWidth ? main.scrollWidth : 0""")
            self.assertEqual(wide, 0, name)
            hidden = browser.run("""return [...document.querySelectorAll('#tabs a')].filter((tab) => {
              const { left, right, bottom } = tab.getBoundingClientRect()
              return left < 0 || right > innerWidth || bottom > innerHeight
            }).map((tab) => tab.textContent)""")
            self.assertEqual(hidden, [], name)
        browser.click("button", "Sign out")
        browser.wait("document.querySelector('input[type=password]')")

    def test_wide(self):
        """A large screen is used."""
        browser = self.show("audit")
        browser.size(1920, 1000)
        right = browser.run("return document.querySelector('.view').getBoundingClientRect().right")
        self.assertGreater(right, 1700)

    def test_labels(self):
        """Each control and each table has a name."""
        browser = self.show()
        for name in VIEWS:
            browser.run("location.hash = arguments[0]", f"/{name}")
            browser.wait("document.querySelector('main').dataset.view === arguments[0]", name)
            browser.wait("document.querySelector('main :is(table, form)')")
            unnamed = browser.run("""const kinds = 'input, select, textarea, table, button'
              return [...document.querySelectorAll(`main :is(${kinds})`)]
              .filter((one) => !(one.labels?.length || one.getAttribute('aria-label') || one.textContent.trim()))
              .map((one) => one.outerHTML)""")
            self.assertEqual(unnamed, [], name)


if __name__ == "__main__":
    unittest.main()
