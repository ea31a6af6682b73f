"""Times on the page: each has its time zone, in every view, also on a phone."""

import samples
from admin_tests import VIEWS as SERVICE_VIEWS
from admin_tests import AdminCase
from page_case import VIEWS, PageCase

# Nobody's default, and as long as an offset can be.
ZONE, OFFSET = "Australia/Darwin", "UTC+9:30"
# Elements that show a time without its zone, and texts that look like a time. Payloads and texts of providers are shown
# as they are, and a phone's lock screen as it would be: there the zone is in the tooltip.
WITHOUT_ZONE = """
  const [offset, main] = [arguments[0], document.querySelector('main')]
  const found = [...main.querySelectorAll('time')].filter((time) =>
    !(time.closest('.phone') ? time.title : time.innerText).includes(offset)).map((time) => time.outerHTML)
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode
    const isOther = parentElement.closest('time, pre, textarea, bdi, .phone, svg')
    if (!isOther && /\\b\\d{1,2}:\\d\\d(:\\d\\d)?\\b/.test(data)) found.push(data)
  }
  return found"""
TIMES = "document.querySelectorAll('main time').length"


class Zoned:
    """Mixin for the pages of both services."""

    def setUp(self):
        super().setUp()
        self.browser.devtools("Emulation.setTimezoneOverride", timezoneId=ZONE)
        self.addCleanup(self.browser.devtools, "Emulation.setTimezoneOverride", timezoneId="")

    def check(self, what, least=1):
        """Checks the shown view on a screen and on a phone. `least`: its number of times."""
        self.browser.wait(f"{TIMES} >= arguments[0]", least, what=f"{least} times in {what}")
        for width in (1280, 360):
            self.browser.size(width, 800)
            self.assertEqual(self.browser.run(WITHOUT_ZONE, OFFSET), [], what)
            for part in ("main", ".detail-pane"):
                wide = self.browser.run("""const part = document.querySelector(arguments[0])
                  return part && part.scrollWidth > part.clientWidth + 1 ? part.scrollWidth : 0""", part)
                self.assertEqual(wide, 0, f"{part} of {what} at {width}")
        self.browser.size(1280, 800)


class DevelopmentService(Zoned, PageCase):
    def test_views(self):
        yesterday = self.world.now() - 86_400_000
        self.world.add({"receivedMilliseconds": yesterday})
        silent = {"number": 1, "topic": samples.TOPIC, "environment": "production", "atMilliseconds": yesterday}
        self.world.shown["phone"] = [{**silent, "fromStorage": False, "rendering": samples.rendering(silent=True)}]
        least = {"inbox": 5, "devices": 1, "violations": 1, "status": 2}
        for view in VIEWS:
            browser = self.show(view)
            browser.wait("document.querySelector('main > *')")
            if view == "violations":
                browser.click("summary", "push-type-missing")
            self.check(view, least.get(view, 0))

    def test_push(self):
        push = self.world.add({"expiration": 1_800_000_000})
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.querySelector('.way')")
        # Received, expiration, three states, and the card on the phone.
        browser.wait("document.querySelectorAll('.detail time').length === 6")
        self.check("a push")
        self.expect("1800000000 (2027-01-15 17:30:00 UTC+9:30)", ".detail")

    def test_impossible_expiration(self):
        push = self.world.add({"expiration": 10**20})
        self.show(f"inbox/{push['number']}")
        self.expect("100000000000000000000 (–)", ".detail")

    def test_tokens(self):
        browser = self.show("tokens")
        browser.click("button", "Make")
        self.check("tokens", 2)

    def test_clock(self):
        self.show("status")
        self.expect(OFFSET, ".service-time")
        self.expect(f"Set to ({ZONE})", ".inline")


class Service(Zoned, AdminCase):
    def test_views(self):
        self.world.note("app.added", "com.example.two")
        least = {"overview": 1, "devices": 2, "ledger": 90, "certificates": 1, "audit": 1}
        for view in SERVICE_VIEWS:
            self.show(view)
            self.check(view, least.get(view, 0))

    def test_notification(self):
        self.show(f"ledger/{self.world.lines[0]['id']}")
        self.expect("Since", "dl")
        self.check("a notification", 4)
        self.expect(f"From ({ZONE})", ".search")

    def test_device(self):
        self.show(f"devices/{1:016X}")
        self.check("a device", 3)

    def test_charts(self):
        """The time axis of each chart names the zone, and so does the time of each number."""
        browser = self.show()
        browser.wait("document.querySelectorAll('.chart .line').length === 7")
        zones = "[...document.querySelectorAll('.chart text')].filter((text) => text.textContent === arguments[0])"
        browser.wait(f"{zones}.length === 4", OFFSET)
        browser.click("figure summary", "Numbers")
        browser.wait("document.querySelectorAll('figure details[open] tbody time').length > 20")
        browser.run("""const chart = document.querySelector('.chart')
          const { x, y, width } = chart.getBoundingClientRect()
          chart.dispatchEvent(new PointerEvent('pointermove', { clientX: x + width / 2, clientY: y + 20 }))""")
        self.expect(OFFSET, ".legend time")
        self.check("charts", 21)

    def test_marks(self):
        """No mark of a time axis covers the zone, whatever the minute is."""
        browser = self.show()
        browser.wait("document.querySelectorAll('.chart .line').length === 7")
        covered = browser.run("""const place = document.querySelector('.chart').closest('figure').parentNode
          return import('/assets/chart.js').then(({ Chart }) => Array.from({ length: 60 }, (_, minute) => {
            const chart = new Chart({ title: 'Marks', series: [{ name: 'one', key: 'one' }] })
            place.append(chart.element)
            chart.set([], [minute * 60_000, (minute + 60) * 60_000])
            chart.draw()
            const texts = [...chart.drawing.querySelectorAll('text')]
            const zone = texts.find((text) => text.textContent === arguments[0]).getBoundingClientRect()
            const marks = texts.filter((text) => /:/.test(text.textContent) && text.textContent !== arguments[0])
            const covers = marks.filter((text) => text.getBoundingClientRect().left < zone.right)
            chart.element.remove()
            return marks.length < 5 ? [`only ${marks.length} marks`] : covers.map((text) => text.textContent)
          }).flat())""", OFFSET)
        self.assertEqual(covered, [])
