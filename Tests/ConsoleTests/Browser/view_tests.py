"""The composer, devices, faults, violations, tokens, the clock and the status."""

import json

import samples
from page_case import PageCase


class Composer(PageCase):
    def payload(self):
        return json.loads(self.call_of("POST", "send")["payload"])

    def ready(self):
        browser = self.show("compose")
        browser.wait(
            "document.querySelector('.compose select').value === 'phone'"
            " && [...document.querySelectorAll('input')].some("
            "(one) => one.value === arguments[0])",
            samples.TOPIC,
        )
        return browser

    def test_channel(self):
        """A broadcast needs a channel, which says the app and the environment, and an expiration."""
        self.world.channels = [samples.channel(environment="development")]
        browser = self.ready()
        browser.choose("select", "\0channel", "To")
        browser.wait("document.querySelector('.compose').innerText.includes('of 5,120 bytes')")
        for hidden in ["Topic", "Environment", "Collapse id", "Device token"]:
            seen = browser.run(
                "return [...document.querySelectorAll('.compose label')].filter((one) => one.checkVisibility())"
                ".some((one) => one.innerText.startsWith(arguments[0]))",
                hidden,
            )
            self.assertIs(seen, False, hidden)
        browser.click("button", "Send")
        body = self.call_of("POST", "send")
        sent = {key: body[key] for key in ("channel", "topic", "environment", "pushType", "expiration")}
        self.assertEqual(
            sent,
            {
                "channel": samples.CHANNEL,
                "topic": samples.TOPIC,
                "environment": "development",
                "pushType": "liveactivity",
                "expiration": 0,
            },
        )
        self.assertNotIn("device", body)

    def test_form(self):
        browser = self.ready()
        browser.type("input", "Grüezi", "Title")
        browser.type("textarea", "Zwei\nZeilen", "Body")
        browser.type("input", "3", "Badge")
        browser.choose("select", "time-sensitive", "Interruption")
        browser.type("input", "60", "Expiration")
        browser.type("input", "order-7", "Collapse")
        browser.wait("document.querySelector('.phone .card').innerText.includes('Grüezi')")
        browser.click("button", "Send")
        browser.wait("document.querySelector('.compose').innerText.includes('Accepted')")
        body = self.call_of("POST", "send")
        self.assertEqual(
            self.payload(),
            {
                "aps": {
                    "alert": {"title": "Grüezi", "body": "Zwei\nZeilen"},
                    "badge": 3,
                    "interruption-level": "time-sensitive",
                }
            },
        )
        self.assertEqual(
            {key: body[key] for key in ("device", "topic", "pushType", "priority", "collapseID", "environment")},
            {
                "device": "phone",
                "topic": samples.TOPIC,
                "pushType": "alert",
                "priority": 10,
                "collapseID": "order-7",
                "environment": "production",
            },
        )
        self.assertAlmostEqual(body["expiration"], self.world.now() / 1000 + 60, delta=60)
        browser.click("a", "Open push 21")
        browser.wait("document.querySelector('.detail-head h2')?.textContent === 'Grüezi'")

    def test_types(self):
        """Each push type has its topic, its priority and a valid payload."""
        expected = {
            "background": (samples.TOPIC, 5, {"aps": {"content-available": 1}}),
            "voip": (samples.TOPIC + ".voip", 10, {"aps": {}}),
            "widgets": (samples.TOPIC + ".push-type.widgets", 10, {"aps": {"content-changed": True}}),
            "mdm": (samples.TOPIC, 10, {"mdm": ""}),
        }
        browser = self.ready()
        for kind, (topic, priority, payload) in expected.items():
            self.world.calls.clear()
            browser.choose("select", kind, "Push type")
            # Nothing can be sent until the response to the previous push has arrived.
            browser.wait("!document.querySelector('.compose button.primary').disabled")
            browser.click("button", "Send")
            body = self.call_of("POST", "send")
            self.assertEqual(
                (body["topic"], body["priority"], json.loads(body["payload"])), (topic, priority, payload)
            )

    def test_live_activity(self):
        browser = self.ready()
        browser.choose("select", "liveactivity", "Push type")
        browser.type("textarea", '{"score": "2:1"}', "Content state")
        browser.wait("document.querySelector('.phone .card').innerText.includes('2:1')")
        browser.click("button", "Send")
        aps = self.payload()["aps"]
        self.assertEqual((aps["event"], aps["content-state"]), ("update", {"score": "2:1"}))
        self.assertAlmostEqual(aps["timestamp"], self.world.now() / 1000, delta=60)

    def test_live_activity_on_a_channel(self):
        """The channel is part of a start alone."""
        browser = self.ready()
        browser.choose("select", "liveactivity", "Push type")
        browser.type("input", samples.CHANNEL, "Updated over channel")
        for event, channel in [("start", samples.CHANNEL), ("update", None)]:
            self.world.calls.clear()
            browser.choose("select", event, "Event")
            browser.click("button", "Send")
            self.assertEqual(self.payload()["aps"].get("input-push-channel"), channel)

    def test_by_hand(self):
        """The typed payload is sent unchanged; invalid JSON is marked with its position."""
        browser = self.ready()
        browser.click(".segments button", "JSON")
        text = '{"aps":{"alert":"x"},"n":12345678901234567890,"n":1.10}'
        browser.type("#payload-text", text)
        browser.wait("document.querySelector('.compose').innerText.includes('55 of 4,096 bytes')")
        browser.click("button", "Send")
        self.assertEqual(self.call_of("POST", "send")["payload"], text)
        browser.type("#payload-text", '{"aps":\n  oops}')
        browser.wait(
            "/a value is expected in line 2, column 3/.test(document.querySelector('.callout.bad').textContent)"
        )
        # Not typed, because the page looks at the whole text after each letter.
        browser.choose("#payload-text", "x" * 4096)
        browser.wait("document.querySelector('.compose').innerText.includes('4,096 of 4,096 bytes')")
        self.assertFalse(browser.run("return document.querySelector('.over')"))
        browser.choose("#payload-text", "x" * 4097)
        browser.wait("document.querySelector('.over')?.textContent === '4,097 of 4,096 bytes'")

    def test_button_and_launch_image(self):
        """The preview lists what is not on the lock screen; a text that only the device has is its key."""
        browser = self.ready()
        browser.click(".segments button", "JSON")
        alert = {"body": "Chess?", "action-loc-key": "OPEN", "launch-image": "Start.png"}
        browser.type("#payload-text", json.dumps({"aps": {"alert": alert}}))
        for words in ["Button\n(OPEN)", "Launch image\nStart.png"]:
            self.expect(words, ".compose .besides")

    def test_refused(self):
        self.world.send_answer = {
            "status": 410,
            "accepted": False,
            "reason": "Unregistered",
            "explanation": "The app was <b>removed</b>.",
            "notes": [],
            "fault": "gone",
        }
        browser = self.ready()
        browser.click("button", "Send")
        browser.wait("document.querySelector('.compose').innerText.includes('Rejected: 410 Unregistered')")
        self.expect("The app was <b>removed</b>.", ".compose")
        self.expect("Caused by the fault gone", ".compose")

    def test_violations(self):
        """The violations of an accepted push are shown at once."""
        message = "background pushes need priority <b>5</b>"
        self.world.send_violations = [{"rule": "priority-background", "severity": "warning", "message": message}]
        browser = self.ready()
        browser.click("button", "Send")
        browser.wait("document.querySelector('.compose .callout.warn')")
        self.expect("Accepted, with 1 violation", ".compose")
        self.expect(message, ".compose")

    def test_again(self):
        push = self.world.add(
            {
                **samples.with_payload('{"aps":{"alert":"again"},"n":1.10}'),
                "payload": {},
                "collapseID": "c",
                "priority": 5,
            }
        )
        browser = self.show(f"inbox/{push['number']}")
        browser.click("button", "Edit and send")
        browser.wait("document.querySelector('#payload-text')?.value === arguments[0]", push["payloadText"])
        browser.wait("[...document.querySelectorAll('.compose select')][0].value !== 'phone'")
        browser.click("button", "Send")
        body = self.call_of("POST", "send")
        self.assertEqual(
            (body["token"], body["payload"], body["collapseID"], body["priority"]),
            (push["token"], push["payloadText"], "c", 5),
        )


class Devices(PageCase):
    def test_switches(self):
        browser = self.show("devices")
        browser.click("[data-device=phone] [role=switch]", "Online")
        self.assertEqual(self.call_of("PATCH", "devices/phone"), {"online": False})
        browser.wait("document.querySelector('[data-device=phone] .badge').textContent === 'offline'")
        self.becomes("document.activeElement.dataset.key", "phone online")  # the focus stays
        browser.click("[data-device=phone] [role=switch]", "Notifications")
        browser.wait(
            "document.querySelectorAll('[data-device=phone] [role=switch][aria-checked=false]').length === 2"
        )
        browser.choose("[data-device=phone] select", "lowPower")
        browser.wait("document.querySelector('[data-device=phone] select').value === 'lowPower'")
        browser.click("[data-device=phone] [role=switch]", samples.TOPIC)
        browser.wait("document.querySelector('[data-device=phone] .apps').innerText.includes('removed')")
        self.assertEqual(self.world.devices["phone"]["power"], "lowPower")
        self.assertEqual(self.world.devices["phone"]["apps"], {samples.TOPIC: "removed"})

    def test_language(self):
        browser = self.show("devices")
        browser.type("[data-device=phone] input", "pt-BR\n")
        self.assertEqual(self.call_of("PATCH", "devices/phone"), {"language": "pt-BR"})

    def test_what_it_shows(self):
        def shown(**parts):
            return {
                "number": 1,
                "topic": samples.TOPIC,
                "environment": "production",
                "atMilliseconds": self.world.now(),
                "fromStorage": False,
                "rendering": samples.rendering(**parts),
            }

        self.world.shown["tablet"] = [
            shown(title="Erste"),
            shown(silent=True),
            shown(title="Zweite", sound="ding.caf", badge=4),
        ]
        browser = self.show("devices/tablet")
        browser.wait("document.querySelectorAll('.phone .card').length === 2")
        titles = browser.run("return [...document.querySelectorAll('.phone .title')].map((one) => one.textContent)")
        self.assertEqual(titles, ["Zweite", "Erste"])
        self.expect("ding.caf", ".beside")
        self.expect("1 silent", ".beside")
        self.world.shown["tablet"].append(shown(title="Dritte"))
        self.world.tell("device", {})
        browser.wait("document.querySelector('.phone .title').textContent === 'Dritte'")
        browser.click("button", "Clear the screen")
        browser.wait("document.querySelector('.phone').innerText.includes('No notifications')")

    def test_add_and_remove(self):
        self.expected_complaints = ["400"]
        browser = self.show("devices")
        browser.type("input", "no good", "New device")
        browser.click("button", "Add")
        browser.wait("document.querySelector('#toast').textContent.includes('letters, digits and hyphens (in id)')")
        browser.type("input", "watch", "New device")
        browser.click("button", "Add")
        browser.wait("document.querySelector('[data-device=watch]')")
        browser.click("button", "Remove watch")
        browser.accept()
        browser.wait("!document.querySelector('[data-device=watch]')")


class Faults(PageCase):
    def test_arm_and_disarm(self):
        browser = self.show("faults")
        browser.wait("document.body.innerText.includes('No faults armed')")
        browser.type("input", "gone", "Name")
        browser.click("button", "Add a condition")
        browser.type("[aria-label=Field]", "title")
        browser.choose("[aria-label=Test]", "contains")
        browser.type("[aria-label=Value]", "order")
        browser.choose("select", "rate", "Of matching pushes")
        browser.type("input", "0.25", "Share")
        browser.type("input", "7", "Seed")
        browser.type("input", "2", "At most")
        browser.click("button[type=submit]", "Arm")
        browser.wait("document.querySelector('.rule-list')?.innerText.includes('gone')")
        self.assertEqual(
            self.call_of("POST", "faults"),
            {
                "name": "gone",
                "match": {"title": {"contains": "order"}},
                "rate": 0.25,
                "seed": 7,
                "times": 2,
                "effect": {"type": "respond", "reason": "Unregistered"},
            },
        )
        for words in [
            "Reject with a reason: Unregistered",
            "title contains order",
            "25 % (seed 7), 2 times at most",
            "0 of 0",
        ]:
            self.expect(words, ".rule-list")
        self.world.faults[0].update(matched=8, struck=2)
        self.world.tell("fault", {})
        browser.wait("document.querySelector('.rule-list').innerText.includes('2 of 8')")
        # The badge is on every page, because faults apply whichever page is shown.
        for view in ["inbox", "compose", "status"]:
            browser.click(f"#tabs [data-view={view}]")
            self.expect("1", "#tabs [data-view=faults] .badge")
        browser.click("#tabs [data-view=faults]")
        browser.click("button", "Disarm gone")
        browser.wait("document.body.innerText.includes('No faults armed')")
        browser.wait("!document.querySelector('#tabs .badge')")

    def test_effects(self):
        """Each effect is sent with the names and types of the API."""
        expected = {
            "delay": {"type": "delay", "milliseconds": 2000},
            "noAnswer": {"type": "noAnswer"},
            "deadToken": {"type": "deadToken"},
            "resetStream": {"type": "resetStream", "code": "internalError"},
            "goAway": {"type": "goAway", "lastStream": "thisOne", "code": "noError"},
            "certificate": {"type": "certificate", "which": "expired"},
            "connections": {"type": "connections", "maxConcurrentStreams": 1},
            "binaryError": {"type": "binaryError", "status": "invalidToken"},
            "deviceOffline": {"type": "deviceOffline"},
        }
        browser = self.show("faults")
        for kind, effect in expected.items():
            self.world.calls.clear()
            browser.choose("select", kind, "Effect")
            self.assertEqual(self.call_after_click("Arm", "POST", "faults"), {"effect": effect})

    def test_wrong(self):
        self.expected_complaints = ["400"]
        browser = self.show("faults")
        browser.choose("select", "rate", "Of matching pushes")
        browser.type("input", "7", "Share")
        browser.click("button[type=submit]", "Arm")
        browser.wait(
            "document.querySelector('[role=alert]:not([hidden])')?.textContent === arguments[0]",
            "must be from 0 to 1 (in rate, line 1, column 9)",
        )


class Rest(PageCase):
    pushes = 40

    def test_violations(self):
        browser = self.show("violations")
        browser.wait("document.querySelector('.rules').innerText.includes('push-type-missing')")
        self.expect("3 notes", ".view")
        browser.click("summary", "push-type-missing")
        browser.click("td a", "13")
        browser.wait("document.querySelector('.detail-head')?.innerText.includes('No. 13')")

    def test_tokens(self):
        browser = self.show("tokens")
        browser.type("input", "90", "Age")
        browser.click("button", "Make")
        browser.wait("document.querySelector('.view').innerText.includes('eyJhbGciOiJFUzI1NiJ9.e30.')")
        body = self.call_of("POST", "tokens/provider")
        self.assertAlmostEqual(body["issuedAtSeconds"], self.world.now() / 1000 - 5400, delta=60)
        browser.type("textarea", "abcd", "Token")
        browser.click("button", "Check")
        browser.wait(
            "document.querySelector('.callout.bad')?.innerText.includes('This service did not issue the token')")

    def test_clock(self):
        browser = self.show("status")
        browser.wait("document.querySelector('.view').innerText.includes('the machine’s time')")
        browser.click("button", "+ 1 h")
        browser.wait("document.querySelector('.view').innerText.includes('1 h ahead of')")
        self.assertEqual(self.world.offset, 3_600_000)
        browser.click("button", "Reset")
        browser.wait("!document.querySelector('.view').innerText.includes('ahead of')")

    def test_status(self):
        browser = self.show("status")
        browser.wait("document.querySelector('.snippets')?.innerText.includes('# curl')")
        browser.click(".segments button", "Python, aioapns")
        browser.wait("document.querySelector('.snippets pre').textContent.startsWith('# Python')")
        for words in ["lenient", "ABC123DEFG", "/tmp/apus/AuthKey.p8", "localhost:2197", "61 MB", "412 ms"]:
            self.expect(words, ".view")


class Channels(PageCase):
    def test_actions(self):
        browser = self.show("channels")
        self.expect("None", "[aria-label=Channels]")
        browser.choose("select", "none", "Keeps")
        browser.click("button", "Create")
        self.expect(samples.CHANNEL, "[aria-label=Channels] table")
        for figure in ["Subscribers", "401", "Published", "7", "Delivered", "1203"]:
            self.expect(figure, "[aria-label=Channels] table")
        self.assertEqual(
            self.call_of("POST", "channels"),
            {"topic": samples.TOPIC, "environment": "production", "storage": "none"},
        )
        browser.click("button", f"Delete {samples.CHANNEL}")
        browser.accept()
        browser.wait("document.querySelector('[aria-label=Channels] > div').innerText.includes('None')")
        self.assertEqual(self.world.channels, [])
