#!/usr/bin/env python3
"""How soon `apus dev` accepts a push, how soon an open page shows it, and the memory of captured pushes.

    make bench ROWS=page                   everything
    Benchmarks/page.py --rows page         one of the rows, after `make release`

One HTTP/2 client (h2load) sends pushes to virtual devices, which receive and acknowledge them; headless chromium has
the inbox open meanwhile. Load, development service and browser share the processors and the clock of this machine.

Rows:
  page     1,000 pushes per second for 20 s: milliseconds from acceptance (`receivedMilliseconds`) until the page has
           the push's element; and the longest frame of the page. More pushes arrive between two frames than fit on the
           screen: those that never had a row count from the frame in which their position in the list existed.
  start    milliseconds from the start of `apus dev` until it is ready, and until the first push by `apus send`, another
           process, was accepted
  memory   resident memory at the start, with 100,000 captured pushes of which the default 10,000 are kept, and with all
           of them kept (--keep 100000 --keep-mb 1024)
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import ROOT, check, output_of, say
from rows import Row, Suite

sys.path.insert(0, str(ROOT / "Tests/ConsoleTests/Browser"))
from stand_in import DevService
from webdriver import Browser

DEVICES = 20
GOAL_MILLISECONDS = 100
GOAL_START_MILLISECONDS = 1000
PAYLOAD = {"aps": {"alert": {"title": "Platform 4", "body": "The train leaves in five minutes."}, "sound": "default"}}
WATCH = """
  const now = () => performance.timeOrigin + performance.now()
  const seen = window.seen = { rows: {}, tops: [], frames: [] }
  new MutationObserver((changes) => {
    const time = now()
    let top = 0
    for (const { addedNodes } of changes) {
      for (const { id } of addedNodes) {
        const number = Number(/^row-(\\d+)$/.exec(id)?.[1])
        if (!number) continue
        seen.rows[number] ??= time
        top = Math.max(top, number)
      }
    }
    if (top) seen.tops.push([top, time])
  }).observe(document.querySelector('.sizer'), { childList: true })
  let last = performance.now()
  const frame = (time) => { seen.frames.push(time - last); last = time; requestAnimationFrame(frame) }
  requestAnimationFrame((time) => { last = time; requestAnimationFrame(frame) })"""


def resident_megabytes(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1000


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def stand_in(options, *arguments):
    """A development service with extra devices for the load."""
    made = DevService(str(options.bin / "apus"), *arguments)
    for index in range(DEVICES):
        made.call("POST", "devices", {"id": f"load-{index}"})
    return made


def send(made, scratch, *load):
    """Sends to all of the load's devices in turn; returns the number of 200 responses."""
    folder = pathlib.Path(scratch)
    devices = [one for one in made.call("GET", "devices")["devices"] if one["id"].startswith("load-")]
    tokens = [entry["token"] for one in devices for entry in one["tokens"]
              if entry["environment"] == "production" and entry["topic"] == made.topic]
    check(len(tokens) == DEVICES, f"there are {len(tokens)} tokens in place of {DEVICES}")
    host = f"https://127.0.0.1:{made.ready['http2']['production']}/3/device/"
    (folder / "addresses").write_text("".join(f"{host}{token}\n" for token in tokens))
    (folder / "payload").write_text(json.dumps(PAYLOAD))
    token = made.call("POST", "tokens/provider", {})["token"]
    text = output_of("h2load", "-t1", "-c1", "-m100", *load, "-i", folder / "addresses", "-d", folder / "payload",
                     "-H", f"authorization: bearer {token}", "-H", f"apns-topic: {made.topic}",
                     "-H", "apns-push-type: alert", "-H", "apns-priority: 10", "-H", "apns-expiration: 0")
    return int(re.search(r"status codes: (\d+) 2xx", text)[1])


def received(made):
    """Acceptance times by push number."""
    times, before = {}, ""
    while True:
        page = made.call("GET", f"pushes?limit=1000{before}")
        times.update((push["number"], push["receivedMilliseconds"]) for push in page["pushes"])
        if not page.get("next"):
            return times
        before = f"&before={page['next']}"


def page_row(options, scratch):
    made = stand_in(options, "--keep", "1000000", "--keep-mb", "1024")
    browser = Browser()
    try:
        browser.open(f"{made.address}#/inbox")
        browser.wait("document.querySelector('#link')?.classList.contains('up') && document.querySelector('.sizer')")
        browser.run(WATCH)
        sent = send(made, scratch, f"--rps={options.rate}", "-D", options.seconds)
        browser.wait("seen.tops.length > 0")
        time.sleep(2)
        seen = browser.run("return window.seen")
        times = received(made)
    finally:
        browser.close()
        made.close()
    check(sent >= options.rate * options.seconds * 0.95, f"only {sent:,} pushes were accepted")
    rows = {int(number): at for number, at in seen["rows"].items()}
    tops = sorted(seen["tops"], key=lambda pair: pair[1])
    waits, place, highest = [], 0, 0
    for number in sorted(times):
        while place < len(tops) and highest < number:
            highest = max(highest, tops[place][0])
            at = tops[place][1]
            place += 1
        check(highest >= number, f"push {number} never appeared; the last one was {highest}")
        waits.append(rows.get(number, at) - times[number])
    p50, p99, longest = percentile(waits, 0.5), percentile(waits, 0.99), max(seen["frames"])
    return Row("page.page", "ms p99", p99, goal=GOAL_MILLISECONDS,
               note=f"p50 {p50:.0f} ms, at most {max(waits):.0f} ms, longest frame {longest:.0f} ms",
               more={"pushes": len(times), "rate": options.rate, "with_row": len(rows), "p50": round(p50),
                     "most": round(max(waits)), "longest_frame": round(longest)})


def start_row(options):
    ready, accepted = [], []
    for _ in range(options.starts):
        began = time.monotonic()
        made = DevService(str(options.bin / "apus"))
        try:
            ready.append((time.monotonic() - began) * 1000)
            tokens = made.call("GET", "devices")["devices"][0]["tokens"]
            token = next(entry["token"] for entry in tokens if entry["environment"] == "production")
            facts = made.ready
            output_of(options.bin / "apus", "send", "--to", f"localhost:{facts['http2']['production']}",
                      "--authority", facts["authority_file"], "--key", facts["key_file"], "--key-id", facts["key_id"],
                      "--team", facts["team"], "--topic", made.topic, "--token", token, "--alert", "Hello")
            accepted.append((time.monotonic() - began) * 1000)
        finally:
            made.close()
    return Row("page.start", "ms", accepted, goal=GOAL_START_MILLISECONDS,
               note=f"ready after {statistics.median(ready):.0f} ms", more={"ready": round(statistics.median(ready))})


def memory_row(options, scratch, keep):
    captured = options.captured
    made = stand_in(options, *([] if keep is None else ["--keep", str(keep), "--keep-mb", "1024"]))
    try:
        start = resident_megabytes(made.process)
        taken = send(made, scratch, f"-n{captured}")
        check(taken == captured, f"only {taken:,} of {captured:,} pushes were accepted")
        last = {"match": {}, "count": 1, "after": captured - 1, "timeoutMilliseconds": 60_000}
        made.call("POST", "pushes/wait", last)
        kept = made.call("GET", "status")["counts"]["kept"]
        after = resident_megabytes(made.process)
    finally:
        made.close()
    return Row(f"page.memory-{'all' if keep else 'usual'}-kept", "MB resident", after,
               note=f"{start:.0f} MB at the start, {captured:,} captured, {kept:,} kept")


class Page:
    """The development service needs no provisioning."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch

    def provision(self):
        pass

    def page(self):
        self.results.append(page_row(self.options, self.scratch))

    def start(self):
        self.results.append(start_row(self.options))

    def memory(self):
        for keep in (None, self.options.captured):
            self.results.append(memory_row(self.options, self.scratch, keep))


def arguments(parser):
    parser.size("--starts", 7, 2, "how often it is started")
    parser.size("--rate", 1000, 500, "pushes a second")
    parser.size("--seconds", 20, 4, "for so long")
    parser.size("--captured", 100_000, 15_000, "pushes that are captured for `memory`")


SUITE = Suite(
    "page", __doc__, Page, tools=["h2load", "chromium"], arguments=arguments,
    rows={"start": "how soon apus dev accepts a push", "page": "how soon its page shows one",
    "memory": "memory of captured pushes"})

if __name__ == "__main__":
    SUITE.main()
