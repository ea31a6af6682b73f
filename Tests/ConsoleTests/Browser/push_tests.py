"""A single push, bad input, and the look of the page."""

import samples
from page_case import VIEWS, PageCase

INKS = ["accent", "good", "bad", "warn", "armed"]


class Push(PageCase):
    def test_whole(self):
        push = self.world.add(
            {
                "violations": [
                    {
                        "rule": "badge-value",
                        "severity": "warning",
                        "message": "is a text. Write a number.",
                        "path": "aps.badge",
                    }
                ],
                "verdict": {
                    "status": 200,
                    "accepted": True,
                    "reason": None,
                    "explanation": None,
                    "notes": ["the key is not known"],
                    "fault": None,
                },
                "headers": [["apns-topic", samples.TOPIC], ["x-own", "kept as it came"]],
                "collapseID": "order-7",
                "expiration": 1_800_000_000,
            }
        )
        browser = self.show(f"inbox/{push['number']}")
        text = browser.wait("document.querySelector('.way') && document.querySelector('.detail').innerText")
        for words in [
            "200 Accepted",
            "the key is not known",
            "is a text. Write a number.",
            "aps.badge",
            "Delivered to Device",
            "+14 ms",
            "kept as it came",
            "order-7",
            "1800000000",
            "key ABC123DEFG of team TEAM123456",
            "connection 3",
        ]:
            self.assertIn(words, text)
        card = browser.text(".phone .card")
        self.assertIn(push["shown"]["title"], card)
        self.assertIn(push["shown"]["body"], card)

    def test_live_activity(self):
        shown = samples.rendering(
            liveActivity={
                "event": "update",
                "timestamp": 1,
                "state": {"score": "2:1", "minute": 57},
                "attributes": None,
            }
        )
        push = self.world.add({"pushType": "liveactivity", "shown": shown, "preview": shown})
        browser = self.show(f"inbox/{push['number']}")
        card = browser.wait("document.querySelector('.phone .card')?.innerText")
        for words in ["update", "score", "2:1", "minute", "57"]:
            self.assertIn(words, card)

    def test_button_and_launch_image(self):
        """What a phone does not show on its lock screen is listed below it."""
        shown = samples.rendering(title="Chess", action="Join", launchImage="Start.png")
        push = self.world.add({"shown": shown, "preview": shown})
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.besides')")
        facts = browser.run("""return Object.fromEntries([...document.querySelectorAll('.besides dt')]
          .map((name) => [name.textContent, name.nextElementSibling.textContent]))""")
        self.assertEqual(facts, {"Button": "Join", "Launch image": "Start.png", "Language": "en"})

    def test_two_languages(self):
        german = samples.rendering(title="Deine Bestellung", body="kommt heute", language="de")
        push = self.world.add({"shown": german, "preview": german})
        browser = self.show(f"inbox/{push['number']}")
        self.assertEqual(browser.wait("document.querySelector('.card')?.lang"), "de")
        self.expect("Deine Bestellung", ".card")

    def test_copy_as_curl(self):
        browser = self.show("inbox/20")
        browser.devtools(
            "Browser.grantPermissions",
            permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
            origin=self.address.rstrip("/"),
        )
        browser.wait("document.querySelector('#copy-curl')")
        browser.press("y")
        browser.wait("document.querySelector('#toast:not([hidden])')?.textContent === 'Copied a curl command.'")
        copied = browser.run_async(
            "const done = arguments[0]; navigator.clipboard.readText().then(done, (e) => done(String(e)))"
        )
        self.assertEqual(copied, self.world.find(20)["curl"])

    def test_payload_as_it_came(self):
        """Long numbers, repeated keys and escapes stay unchanged in each view of the payload."""
        text = '{"a":12345678901234567890,"a":1.0e400,"b":"\\u0041\\ud800"}'
        push = self.world.add({**samples.with_payload(text), "payload": {}})
        browser = self.show(f"inbox/{push['number']}")
        shown = browser.wait("document.querySelector('.payload')?.textContent")
        for words in ["12345678901234567890", "1.0e400", "\\u0041\\ud800"]:
            self.assertIn(words, shown)
        self.assertEqual(shown.count('"a"'), 2)
        browser.click(".detail .segments button", "As sent")
        self.becomes("document.querySelector('.payload').textContent", text)
        browser.click(".detail .segments button", "Bytes")
        self.expect("7b 22 61 22 3a", ".payload")


class BadInput(PageCase):
    def test_shown_safely(self):
        for width in (1280, 360):
            self.browser.size(width, 740)
            for sample in samples.bad():
                push = self.world.add(sample)
                browser = self.show(f"inbox/{push['number']}")
                browser.wait(
                    "document.querySelector('.detail-head h2')?.checkVisibility() && document.querySelector('.wide')"
                )
                with self.subTest(width=width, payload=push["payloadText"][:40]):
                    self.assertIsNone(browser.run("return window.broken ?? null"), "a payload was run")
                    self.assertEqual(
                        browser.run("return document.querySelectorAll('main :is(img, script, iframe, b)').length"), 0
                    )
                    self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), width)
                    wide = browser.run(
                        "return [...document.querySelectorAll('.detail-pane, .list-pane, .detail-body > *')].filter("
                        "(one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className)"
                    )
                    self.assertEqual(wide, [], "something is cut off")

    def test_markup_is_text(self):
        push = self.world.add(next(samples.bad()))
        browser = self.show(f"inbox/{push['number']}")
        body = push["payload"]["aps"]["alert"]["body"]
        self.assertIn(body, browser.wait("document.querySelector('.phone .card')?.textContent"))
        self.assertIn(
            '<img src=x onerror=\\"window.broken=1\\">',
            browser.run("return document.querySelector('.payload').textContent"),
        )

    def test_directions(self):
        """Characters that change the text direction are named in code, and have no effect outside their text."""
        push = self.world.add([*samples.bad()][1])
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.payload .control')")
        self.expect("U+202E", ".payload")
        self.expect("U+202E", ".row .title")
        # The phone shows it as a real one would; the time is still to the right of the app's name.
        order = browser.run("""const box = (one) => document.querySelector(one).getBoundingClientRect().left
          return box('.card .app') < box('.card time')""")
        self.assertTrue(order)

    def test_not_utf8(self):
        push = self.world.add([*samples.bad()][6])
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.detail').innerText.includes('not UTF-8')")
        browser.click(".detail .segments button", "Bytes")
        self.expect("63 61 66 e9 20 ff fe", ".payload")

    def test_deep(self):
        push = self.world.add([*samples.bad()][7])
        browser = self.show(f"inbox/{push['number']}")
        browser.click(".detail .segments button", "Formatted")
        text = browser.run("return document.querySelector('.payload').textContent")
        self.assertEqual(text.count("["), 2000)
        self.assertLess(max(len(line) for line in text.split("\n")), 60)

    def test_long_search(self):
        browser = self.show()
        browser.type("#search", '%00 & # ? " <b> \u202e' + "x" * 500)
        browser.wait("document.querySelector('.empty:not([hidden])')?.innerText.includes('No push matches')")
        browser.type("#search", "")
        browser.press("x", "\ue003")
        browser.wait("document.querySelector('.total').textContent === '20 pushes'")

    def test_address(self):
        for hash in ("#/nowhere", "#/inbox/x<b>", "#/devices/%E0%A4%A", "#/constructor", "#"):
            self.expected_complaints = ["404", "500"]
            browser = self.show()
            browser.run("location.hash = arguments[0]", hash)
            browser.wait("document.querySelector('main > *')")


class Looks(PageCase):
    def test_fits_a_phone(self):
        self.browser.size(360, 740)
        for view in VIEWS:
            browser = self.show(view)
            browser.wait("document.querySelector('main > *')")
            self.assertLessEqual(browser.run("return document.querySelector('main').scrollWidth"), 360, view)
        browser = self.show()
        browser.click(".row[data-at='0']")
        browser.wait(
            "document.querySelector('.detail-head') && !document.querySelector('.list-pane').checkVisibility()"
        )
        browser.click("button", "Back")
        browser.wait("document.querySelector('.list-pane').checkVisibility()")

    def test_contrast(self):
        """Text is legible in light and dark: WCAG 2.2, 1.4.3."""
        on_any = [(ink, on) for ink in ("ink", "soft", *INKS) for on in ("ground", "surface", "raised")]
        on_own = [(ink, f"{name}-ground") for name in INKS for ink in ("ink", name)]
        others = [("soft", "line"), ("soft", "accent-ground"), ("on-accent", "accent")]
        names = sorted({name for pair in on_any + on_own + others for name in pair})
        for dark in (False, True):
            self.browser.appearance(dark)
            self.show()
            colours = self.browser.run(
                """const style = getComputedStyle(document.documentElement)
                return arguments[0].map((name) => style.getPropertyValue(`--${name}`))""", names)
            luminances = dict(zip(names, map(self.luminance, colours)))
            faint = [pair for pair in on_any + on_own + others if self.contrast(luminances, *pair) < 4.5]
            self.assertEqual(faint, [], f"dark: {dark}")
        self.assertEqual(
            self.browser.run("return getComputedStyle(document.body).backgroundColor"), "rgb(20, 21, 23)"
        )

    @staticmethod
    def luminance(colour):
        parts = [int(colour.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    @staticmethod
    def contrast(luminances, ink, ground):
        """The contrast ratio (WCAG 2.2) of two colours of the style sheet."""
        low, high = sorted([luminances[ink], luminances[ground]])
        return (high + 0.05) / (low + 0.05)

    def test_names(self):
        """Each control has a name, and no id occurs twice."""
        for view in [*VIEWS, "inbox/20"]:
            browser = self.show(view)
            browser.wait("document.querySelector('main > *')")
            nameless = browser.run(
                """return [...document.querySelectorAll('button, a, input, select, textarea, [tabindex="0"]')]
              .filter((one) => one.checkVisibility())
              .filter((one) => !(one.getAttribute('aria-label') || one.labels?.length || one.textContent.trim()))
              .map((one) => one.outerHTML.slice(0, 120))"""
            )
            self.assertEqual(nameless, [], view)
            twice = browser.run("""const ids = [...document.querySelectorAll('[id]')].map((one) => one.id)
              return ids.filter((id, index) => ids.indexOf(id) !== index)""")
            self.assertEqual(twice, [], view)

    def test_nothing_from_elsewhere(self):
        for view in VIEWS:
            browser = self.show(view)
        names = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertGreater(len(names), 10)
        self.assertEqual([name for name in names if not name.startswith(self.address)], [])

    def test_policy_holds(self):
        """The policy is in force: markup from a string and inline scripts are blocked."""
        self.expected_complaints = ["Trusted", "Content Security Policy", "404"]
        browser = self.show()
        refused = browser.run("try { document.body.innerHTML = '<p>'; return false } catch { return true }")
        self.assertTrue(refused)
        for attempt in (
            "const it = document.createElement('script'); it.textContent = 'window.broken = 1'; main.append(it)",
            "document.body.setAttribute('onclick', 'window.broken = 1'); document.body.click()",
            "setTimeout('window.broken = 1')",
        ):
            browser.run("try { " + attempt + " } catch {}")
        self.assertIsNone(browser.run("return window.broken ?? null"))
