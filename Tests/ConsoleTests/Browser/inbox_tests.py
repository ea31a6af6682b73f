"""The inbox and the keyboard."""

import time

import samples
from page_case import LETTERS, VIEWS, PageCase

TITLES = """[...document.querySelectorAll('.row')].sort((a, b) => a.dataset.at - b.dataset.at)
  .map((row) => row.querySelector('.title').textContent)"""
AT_TOP = "document.querySelector('.row[data-at=\"0\"] .title')?.textContent"


class Inbox(PageCase):
    def test_newest_first(self):
        browser = self.show()
        names = browser.run(f"return {TITLES}")
        self.assertEqual(names[:2], ["Your order is on its way", "New message from Jörg"])
        self.expect("20 pushes", ".total")

    def test_rows_do_not_overlap_behind_another_view(self):
        # The list is created while another view is shown, when styles give its rows no height.
        browser = self.show("devices")
        browser.run("location.hash = '#/inbox'")
        browser.wait("document.querySelectorAll('.row').length > 5")
        gaps = browser.run(
            """const rows = [...document.querySelectorAll('.row')].sort((a, b) => a.dataset.at - b.dataset.at)
            const boxes = rows.map((row) => row.getBoundingClientRect())
            return boxes.slice(1).map((box, index) => box.top - boxes[index].bottom)"""
        )
        self.assertTrue(all(gap > -1 for gap in gaps), gaps)

    def test_live(self):
        browser = self.show()
        self.world.add(samples.with_payload({"aps": {"alert": {"title": "Just now", "body": "arrived"}}}))
        browser.wait(f"{AT_TOP} === 'Just now'")
        self.expect("21 pushes", ".total")

    def test_states_change(self):
        push = self.world.add({"states": [], "shown": None})
        browser = self.show(f"inbox/{push['number']}")
        browser.wait("document.body.innerText.includes('has not shown it yet')")
        delivered = {
            "state": "Delivered to Device",
            "atMilliseconds": push["receivedMilliseconds"] + 40,
            "cause": None,
        }
        self.world.update(push["number"], {"states": [delivered], "shown": push["preview"]})
        browser.wait("document.querySelector('.way')?.innerText.includes('+40 ms')")
        browser.wait("document.querySelector('.beside h3').textContent === 'On the device'")
        browser.wait("document.querySelector('.row[data-at=\"0\"] .facts-line').textContent.includes('delivered')")

    def test_empty(self):
        self.world.pushes.clear()
        browser = self.show()
        browser.wait("document.querySelector('.empty').innerText.includes('No push yet')")
        self.world.add({})
        browser.wait("document.querySelector('.row') && document.querySelector('.empty').hidden")

    def test_clear(self):
        browser = self.show("inbox/20")
        browser.click("button", "Clear")
        browser.accept()
        browser.wait("document.querySelector('.empty').innerText.includes('No push yet')")
        self.becomes("location.hash", "#/inbox")

    def test_search(self):
        browser = self.show()
        browser.type("#search", "type:background")
        browser.wait("document.querySelector('.total').textContent === '1 push'")
        # Pushes that arrive meanwhile are shown only if the service says that they match.
        self.world.add({"pushType": "background", **samples.with_payload({"aps": {"alert": "wanted"}})})
        self.world.add({"pushType": "alert", **samples.with_payload({"aps": {"alert": "unwanted"}})})
        browser.wait(f"{AT_TOP} === 'wanted'")
        self.assertNotIn("unwanted", browser.text(".list-pane"))
        browser.type("#search", "nobody said this")
        browser.wait("document.querySelector('.empty:not([hidden])')?.innerText.includes('No push matches')")

    def test_only_refused(self):
        browser = self.show()
        browser.click(".segments button", "Rejected")
        browser.wait("document.querySelector('.total').textContent === '1 push'")
        browser.wait("document.querySelector('.list-pane').innerText.includes('410 Unregistered')")

    def test_gone(self):
        self.expected_complaints = ["404"]
        browser = self.show("inbox/4711")
        browser.wait("document.querySelector('.detail').innerText.includes('This push was deleted')")

    def test_comes_back(self):
        """After a lost connection no push is missing or duplicated."""
        self.expected_complaints = ["503", "ERR_"]
        browser = self.show()
        self.world.add({})
        browser.wait("document.querySelector('.total').textContent === '21 pushes'")
        self.world.cut()
        browser.wait("document.querySelector('#link').textContent === 'reconnecting'")
        for _ in range(3):
            self.world.add({})
        self.world.streams_allowed = True
        browser.wait("document.querySelector('.total').textContent === '24 pushes'")
        browser.wait("document.querySelector('#link').textContent === 'live'")

    def test_says_what_failed(self):
        self.expected_complaints = ["500"]
        browser = self.show()
        self.world.pushes.append({"number": 99})  # The mock fails on this push.
        browser.type("#search", "order")
        browser.wait("document.querySelector('.empty:not([hidden])')?.innerText.includes('KeyError')")


class Many(PageCase):
    pushes = 10_000

    def rows(self):
        return self.browser.run("return document.querySelectorAll('.row').length")

    def test_total(self):
        """All kept pushes are counted, however few the page has fetched."""
        browser = self.show()
        self.expect("10,000 pushes", ".total")
        self.world.add({})
        self.expect("10,001 pushes", ".total")
        # The service drops old pushes for new ones.
        with self.world.lock:
            del self.world.pushes[:5000]
        self.world.add({})
        browser.wait("document.querySelector('.total').textContent === '5,002 pushes'")

    def test_arrives_while_counting(self):
        """A push that arrives while the page asks for their number is counted."""
        self.show()
        self.expect("10,000 pushes", ".total")
        self.world.arrives_while_counting = True
        self.world.add({})
        end = time.monotonic() + 60
        while self.world.counts < 2 and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.world.counts, 2)
        self.expect("10,002 pushes", ".total")

    def test_ten_thousand(self):
        browser = self.show()
        self.assertLess(self.rows(), 60)
        # Scroll to the end, page by page, as with a held key.
        browser.wait("""(() => { const list = document.querySelector('.scroller'); list.scrollTop = list.scrollHeight;
          return document.querySelector('.total').textContent === '10,000 pushes'
            && document.querySelector('.row[data-at="9999"]') !== null })()""")
        self.assertLess(self.rows(), 60)
        self.becomes("document.querySelector('.row').getAttribute('aria-setsize')", "10000")
        # Each frame of fast scrolling draws the visible rows.
        missing = browser.run_async("""const done = arguments[0]; const list = document.querySelector('.scroller')
          let step = 0; let missing = 0
          const next = () => { if (step++ === 60) { done(missing); return }
            list.scrollTop = list.scrollHeight * ((step * 37) % 60) / 60
            requestAnimationFrame(() => { requestAnimationFrame(() => {
              const box = list.getBoundingClientRect()
              const hit = document.elementFromPoint(box.left + 60, box.top + box.height / 2)
              if (!hit.closest('.row')) missing += 1
              next() }) }) }
          next()""")
        self.assertEqual(missing, 0)

    def test_flood(self):
        """A thousand pushes arrive while the user reads further down: the visible rows do not move."""
        browser = self.show()
        browser.run("document.querySelector('.scroller').scrollTop = 3000")
        visible = """(() => { const box = document.querySelector('.scroller').getBoundingClientRect()
          const row = document.elementFromPoint(box.left + 60, box.top + 300).closest('.row')
          return row && row.id + ' ' + Math.round(row.getBoundingClientRect().top) })()"""
        before = browser.wait(visible)
        for _ in range(1000):
            self.world.add({})
        browser.wait("document.querySelector('.fresh').textContent === '1,000 new'")
        browser.wait(f"{visible} === arguments[0]", before)
        self.assertLess(self.rows(), 60)
        browser.click(".fresh")
        browser.wait("document.querySelector('.row[data-at=\"0\"]')?.id === 'row-11000'")
        browser.wait("document.querySelector('.fresh').hidden")

    def test_bounded(self):
        """Above the page's limit, the oldest pushes leave the page but are counted."""
        browser = self.show()
        for _ in range(10_500):
            self.world.add({})
        self.expect("20,500 pushes", ".total")
        browser.wait("document.querySelector('.row[data-at=\"0\"]')?.id === 'row-20500'")
        self.assertLessEqual(
            int(browser.run("return document.querySelector('.row').getAttribute('aria-setsize')")), 10_200
        )

    def test_open_while_they_come(self):
        browser = self.show()
        browser.click(".row[data-at='3']")
        browser.wait("document.querySelector('.detail-head')?.innerText.includes('No. 9997')")
        for _ in range(50):
            self.world.add({})
        browser.wait("document.querySelector('.row[aria-selected=true]')?.dataset.at === '53'")
        self.expect("No. 9997", ".detail-head")


class Keyboard(PageCase):
    def test_moves_and_opens(self):
        browser = self.show()
        browser.press("j", "j", "k", "j")
        self.becomes("document.querySelector('.row[aria-selected=true]').dataset.at", "1")
        active = browser.run("return document.activeElement.getAttribute('aria-activedescendant')")
        self.assertEqual(active, "row-19")
        self.assertTrue(browser.run("return document.getElementById(arguments[0]) !== null", active))
        browser.press("Enter")
        browser.wait("document.activeElement.id === 'push-title'")
        self.becomes("location.hash", "#/inbox/19")
        # While a push is open, moving the selection opens the next one.
        browser.press("j")
        browser.wait("document.querySelector('.detail-head')?.innerText.includes('No. 18')")
        browser.press("Escape")
        browser.wait("location.hash === '#/inbox' && document.querySelector('.detail').hidden")
        self.becomes("document.activeElement.getAttribute('role')", "listbox")
        browser.press("End")
        browser.wait("document.querySelector('.row[aria-selected=true]').dataset.at === '19'")

    def test_search_field(self):
        browser = self.show("status")
        browser.press("/")
        browser.wait("document.activeElement.id === 'search'")
        browser.press("j")
        self.becomes("document.activeElement.value", "j")  # a letter in a field is text
        browser.press("Escape")
        self.assertNotEqual(browser.run("return document.activeElement.id"), "search")

    def test_help(self):
        browser = self.show()
        browser.press("?")
        browser.wait("document.querySelector('dialog').open")
        browser.press("Escape")
        browser.wait("!document.querySelector('dialog').open")

    def test_views(self):
        browser = self.show()
        for view, letter in LETTERS.items():
            browser.press("g", letter)
            browser.wait("document.querySelector('#main').dataset.view === arguments[0]", view)

    def test_focus_is_seen(self):
        """Each control shows when it has the focus."""
        for view in VIEWS:
            browser = self.show(view)
            browser.run("document.activeElement.blur()")
            for _ in range(12):
                browser.press("Tab")
                seen = browser.run("""const one = document.activeElement; if (one === document.body) return true
                  const style = getComputedStyle(one)
                  return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0
                    ? true : one.outerHTML.slice(0, 200)""")
                self.assertIs(seen, True, view)
