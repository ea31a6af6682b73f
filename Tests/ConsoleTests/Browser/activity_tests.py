"""Live Activities and the lock screen of a virtual device."""

import samples
from page_case import PageCase

CARDS = "[...document.querySelectorAll('.phone .activity-card')]"


class Activities(PageCase):
    def setUp(self):
        super().setUp()
        self.list = self.world.activities["phone"]

    def ready(self, *activities):
        self.list.extend(activities)
        browser = self.show("devices/phone")
        browser.wait(f"{CARDS}.length === arguments[0]", len(activities))
        return browser

    def changed(self):
        self.world.tell("device", {"id": "phone"})

    def test_updated_in_place(self):
        browser = self.ready(samples.activity(1))
        card = browser.text(".phone .activity-card")
        for words in ["MatchAttributes", "score", "0:0", "home", "Basel"]:
            self.assertIn(words, card)
        browser.run("document.querySelector('.phone .activity-card').own = 'the same'")
        browser.click(".activity-list summary")
        self.list[0].update(
            contentState={"score": "1:0"},
            history=[*self.list[0]["history"], samples.event("updated", 60, contentState={"score": "1:0"})],
        )
        self.changed()
        browser.wait("document.querySelector('.phone .activity-card').innerText.includes('1:0')")
        self.assertEqual(browser.run("return document.querySelector('.phone .activity-card').own"), "the same")
        self.assertTrue(browser.run("return document.querySelector('.activity-list details').open"))
        self.becomes("document.querySelector('.activity-list summary').textContent", "History (2)")
        self.expect('{"score":"1:0"}', ".activity-list .way")
        self.becomes("document.activeElement.tagName", "SUMMARY")  # the focus stays

    def test_states(self):
        browser = self.ready(samples.activity(1))
        self.expect("active", ".activity-list .badge")
        for state, mark in [("stale", "Outdated"), ("ended", "Ended")]:
            self.list[0]["state"] = state
            self.changed()
            browser.wait("document.querySelector('.phone .activity-card .level')?.textContent === arguments[0]", mark)
            self.becomes("document.querySelector('.activity-list .badge').textContent", state)
        self.list[0]["state"] = "dismissed"
        self.changed()
        browser.wait("document.querySelector('.phone').innerText.includes('No notifications')")
        self.becomes("document.querySelector('.activity-list .badge').textContent", "dismissed")

    def test_sorted(self):
        """Cards are in the service's order, and move when it changes."""
        browser = self.ready(samples.activity(2, relevance=50), samples.activity(1))
        order = f"{CARDS}.map((one) => one.dataset.activity).join()"
        self.becomes(order, "2,1")
        self.list.reverse()
        self.list[0]["relevance"] = 100
        self.changed()
        self.becomes(order, "1,2")
        self.expect("relevance 100", ".activity-list")
        tokens = browser.run(
            "return [...document.querySelectorAll('.activity-list button')].map((one) => one.ariaLabel)"
        )
        self.assertEqual(tokens, [f"Copy the token of Live Activity {id} of phone" for id in (1, 2)])
        whole = {"topic": self.list[0]["topic"], "environment": "production", "token": "ab" * 32, "activity": 2}
        self.world.devices["phone"]["tokens"].append(whole)
        browser.click("[data-device=phone] summary")
        self.changed()
        self.expect("production, Live Activity 2", "[data-device=phone] .token-list")

    def test_dropped(self):
        """A dropped push says why: in the history, in the list of pushes, and in its details."""
        reason = "aps.timestamp is older than <b>9</b>"
        self.ready(samples.activity(1, history=[samples.event("dropped", 1, reason=reason)]))
        self.browser.click(".activity-list summary")
        self.expect(reason, ".activity-list .way")
        outcome = {"outcome": "dropped", "activity": None, "reason": reason}
        push = self.world.add({"pushType": "liveactivity", "shown": None, "activity": outcome})
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.callout.verdict.warn')")
        self.expect(f"Dropped by the device: {reason}.", ".callout.verdict")
        self.expect("The device dropped it.", ".beside")
        self.expect("dropped by the device", ".row[data-at='0']")

    def test_broadcast(self):
        """A broadcast shows its channel, and each device that received it, what it did and when."""
        dropped = {"outcome": "dropped", "activity": None, "reason": "the activity has ended"}
        updated = {"outcome": "updated", "activity": 2, "reason": None}
        push = self.world.add(
            {
                "pushType": "liveactivity",
                "channel": samples.CHANNEL,
                "device": None,
                "token": "",
                "states": [],
                "recipients": [],
            }
        )
        browser = self.show(f"inbox/{push['number']}")
        self.expect("Recipients (0)", ".detail-body")
        self.expect(samples.CHANNEL, ".detail-body")
        self.expect("broadcast to 0 devices", ".row[data-at='0']")
        at = push["receivedMilliseconds"]
        self.world.update(
            push["number"],
            {
                "recipients": [
                    {"device": "phone", "atMilliseconds": at + 5, "fromStorage": False, "activity": updated},
                    {"device": "tablet", "atMilliseconds": at + 60_000, "fromStorage": True, "activity": dropped},
                ]
            },
        )
        self.expect("Recipients (2)", ".detail-body")
        self.expect("Live Activity 2 updated", ".detail-body")
        self.expect("from storage", ".detail-body")
        self.expect("Dropped: the activity has ended", ".detail-body")
        self.expect("broadcast to 2 devices", ".row[data-at='0']")
        browser.click("a", "tablet")
        browser.wait("location.hash === '#/devices/tablet'")

    def test_subscribed_device(self):
        self.world.devices["phone"]["channels"] = [
            {"channel": samples.CHANNEL, "topic": samples.TOPIC, "environment": "production", "subscribed": False}
        ]
        self.show("devices/phone")
        self.expect(samples.CHANNEL, "[aria-label=Channels]")
        self.expect("not subscribed", "[aria-label=Channels]")

    def test_updated_push(self):
        push = self.world.add(
            {"pushType": "liveactivity", "activity": {"outcome": "updated", "activity": 3, "reason": None}}
        )
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.callout.verdict')")
        self.expect("Live Activity 3 updated on phone.", ".callout.verdict")

    def test_dismiss_all(self):
        browser = self.ready(samples.activity(1), samples.activity(2))
        browser.click("button", "Dismiss all")
        browser.wait(f"{CARDS}.length === 0")
        self.becomes("document.querySelectorAll('.activity-list button').length", 0)  # no tokens

    def test_bad_input(self):
        markup = '<img src=x onerror="window.broken=1"> \u202e'
        browser = self.ready(
            samples.activity(
                1,
                attributesType=markup * 20,
                attributes={markup: markup},
                contentState={"deep": {"a": {"b": {"c": {"d": 1}}}}, "long": "x" * 4000},
                history=[samples.event("updated", 1, title=markup, contentState={"x": markup})],
            )
        )
        browser.size(360, 740)
        browser.click(".activity-list summary")
        self.assertIsNone(browser.run("return window.broken ?? null"))
        self.assertEqual(browser.run("return document.querySelectorAll('main img').length"), 0)
        self.assertLessEqual(browser.run("return document.querySelector('main').scrollWidth"), 360)


class LockScreen(PageCase):
    def shown(self, **parts):
        self.world.shown["phone"].append(
            {
                "number": 1,
                "topic": samples.TOPIC,
                "environment": "production",
                "atMilliseconds": self.world.now(),
                "fromStorage": False,
                "rendering": samples.rendering(**parts),
            }
        )

    def titles(self):
        return self.browser.run(
            "return [...document.querySelectorAll('.phone .title')].filter((one) => one.checkVisibility())"
            ".map((one) => one.textContent)"
        )

    def test_no_banner_without_text(self):
        """A badge, a sound and a silent push make no banner; they are listed below the screen."""
        self.shown(title="Hello")
        self.shown(badge=7)
        self.shown(silent=True, wakesApp=True)
        self.shown(sound="ding.caf")
        self.world.devices["phone"]["badges"] = {samples.TOPIC: 7, "com.example.other": 0}
        browser = self.show("devices/phone")
        browser.wait("document.querySelector('.phone .card')")
        self.assertEqual(self.titles(), ["Hello"])
        self.assertEqual(browser.run("return document.querySelectorAll('.phone .card').length"), 1)
        self.expect("ding.caf", ".besides")
        self.expect("Badges: App 7", ".beside")
        self.expect("1 silent", ".beside")
        push = self.world.add({"shown": samples.rendering(badge=7)})
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.detail .beside')")
        self.expect("No banner: there is no text to show.", ".detail .beside")
        self.assertIsNone(browser.run("return document.querySelector('.phone')"))

    def test_alert_of_an_activity(self):
        """The alert of an update is a banner beside the activity's card."""
        activity = {"event": "update", "state": {"score": "1:0"}}
        self.shown(title="Goal", body="1:0", liveActivity=activity)
        self.world.activities["phone"].append(samples.activity(1))
        browser = self.show("devices/phone")
        browser.wait("document.querySelectorAll('.phone .card').length === 2")
        self.assertEqual(
            browser.run("return [...document.querySelectorAll('.phone .card')].map((one) => one.dataset.activity)"),
            ["1", None],
        )
        self.assertEqual(self.titles(), ["Goal"])
        self.assertEqual(browser.run("return document.querySelectorAll('.phone .activity').length"), 1)

    def test_threads(self):
        """Notifications of one thread are a stack, which stays unfolded when the screen is drawn again."""
        for number in range(3):
            self.shown(title=f"Chat {number}", thread="chat")
            self.shown(title=f"News {number}")
        self.shown(title="Match", thread="match")
        browser = self.show("devices/phone")
        browser.wait("document.querySelector('.phone .stack')")
        self.assertEqual(self.titles(), ["Match", "News 2", "Chat 2", "News 1", "News 0"])
        self.expect("2 more of this thread", ".phone .stack")
        browser.click(".phone .stack summary")
        self.assertEqual(self.titles(), ["Match", "News 2", "Chat 2", "Chat 1", "Chat 0", "News 1", "News 0"])
        self.shown(title="Chat 3", thread="chat")
        self.world.tell("device", {"id": "phone"})
        browser.wait("document.querySelector('.phone .stack summary').textContent.startsWith('3 more')")
        self.assertEqual(self.titles()[:4], ["Chat 3", "Chat 2", "Chat 1", "Chat 0"])
        self.becomes("document.activeElement.tagName", "SUMMARY")

    def test_images(self):
        """The page names an image's host, and loads nothing."""
        payload = {
            "aps": {"alert": "Photo", "mutable-content": 1},
            "picture": "https://images.example/view?id=7",
            "fcm_options": {"image": "http://127.0.0.1:9/a.png"},
            "list": ["https://other.example/b.jpeg"],
            "page": "https://example.com/page",
            "image": "javascript" + ":window.broken=1",
            "avatar": "data:image/png;base64,AAAA",
        }
        push = self.world.add(samples.with_payload(payload))
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.images')")
        links = browser.run("""return [...document.querySelectorAll('.images a')]
          .map((one) => [one.href, one.target, one.rel, one.referrerPolicy])""")
        policy = ["_blank", "noopener noreferrer", "no-referrer"]
        self.assertEqual(
            links,
            [
                [address, *policy]
                for address in [payload["picture"], payload["fcm_options"]["image"], payload["list"][0]]
            ],
        )
        self.expect("from images.example", ".images")
        self.assertEqual(browser.run("return document.querySelectorAll('main img').length"), 0)
        names = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        self.assertEqual([name for name in names if not name.startswith(self.address)], [])
