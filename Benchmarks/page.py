#!/usr/bin/env python3
"""How soon `apus dev` takes a push, how soon an open page shows it, and what memory the captured pushes take.

    make bench-page                        everything
    Benchmarks/page.py --rows page         one of the rows, after `make release`

One HTTP/2 client (h2load) sends pushes to virtual devices, which receive and acknowledge them; chromium, headless, has
the inbox open meanwhile. Load, stand-in and browser share the processors of this machine, and its clock.

Rows:
  page     1,000 pushes a second for 20 s: milliseconds from the acceptance (`receivedMilliseconds`) until the page has
           the push's element; and the longest frame of the page. More arrive between two frames than there are rows
           in sight: those that never had a row count from the frame in which their place in the list was there.
  start    milliseconds from the start of `apus dev` until it says that it is ready, and until the first push by
           `apus send`, another process, was accepted
  memory   resident memory at the start, with 100,000 captured pushes of which the usual 10,000 are kept, and with all
           of them kept (--keep 100000 --keep-mb 1024)
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import harness
from harness import ROOT, check, output_of, say

sys.path.insert(0, str(ROOT / "Tests/ConsoleTests/Browser"))
from stand_in import StandIn
from webdriver import Browser

ROWS = ["start", "page", "memory"]
DEVICES, CAPTURED = 20, 100_000
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
    """A stand-in with devices of its own for the load."""
    made = StandIn(str(options.bin / "apus"), *arguments)
    for index in range(DEVICES):
        made.call("POST", "devices", {"id": f"load-{index}"})
    return made


def send(made, scratch, *load):
    """Sends to all of the load's devices in turn; returns how many were answered with 200."""
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
    """When each push was accepted, by its number."""
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
        check(highest >= number, f"push {number} was never to be seen; the last one was {highest}")
        waits.append(rows.get(number, at) - times[number])
    p50, p99, longest = percentile(waits, 0.5), percentile(waits, 0.99), max(seen["frames"])
    say(f"\npage: {len(times):,} pushes at {options.rate:,}/s, {len(rows):,} of them had a row")
    say(f"  to be seen after p50 {p50:.0f} ms, p99 {p99:.0f} ms, at most {max(waits):.0f} ms"
        f" ({'meets' if p99 <= GOAL_MILLISECONDS else 'MISSES'} the goal of {GOAL_MILLISECONDS} ms)")
    say(f"  longest frame {longest:.0f} ms, p99 {percentile(seen['frames'], 0.99):.0f} ms")
    return {"row": "page", "pushes": len(times), "rate": options.rate, "with_row": len(rows), "unit": "ms",
            "p50": round(p50), "p99": round(p99), "most": round(max(waits)), "goal": GOAL_MILLISECONDS,
            "longest_frame": round(longest), "better": "lower"}


def start_row(options):
    ready, accepted = [], []
    for _ in range(options.starts):
        began = time.monotonic()
        made = StandIn(str(options.bin / "apus"))
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
    first = statistics.median(accepted)
    say(f"\nstart: ready after {statistics.median(ready):.0f} ms, the first push accepted after {first:.0f} ms,"
        f" at most {max(accepted):.0f} ms ({'meets' if first <= GOAL_START_MILLISECONDS else 'MISSES'} the goal of "
        f"{GOAL_START_MILLISECONDS} ms); {options.starts} starts")
    return {"row": "start", "ready": round(statistics.median(ready)), "first_push": round(first), "unit": "ms",
            "most": round(max(accepted)), "goal": GOAL_START_MILLISECONDS, "better": "lower"}


def memory_row(options, scratch, keep):
    made = stand_in(options, *([] if keep is None else ["--keep", str(keep), "--keep-mb", "1024"]))
    try:
        start = resident_megabytes(made.process)
        taken = send(made, scratch, f"-n{CAPTURED}")
        check(taken == CAPTURED, f"only {taken:,} of {CAPTURED:,} pushes were accepted")
        last = {"match": {}, "count": 1, "after": CAPTURED - 1, "timeoutMilliseconds": 60_000}
        made.call("POST", "pushes/wait", last)
        kept = made.call("GET", "status")["counts"]["kept"]
        after = resident_megabytes(made.process)
    finally:
        made.close()
    say(f"\nmemory: {start:.0f} MB resident at the start, {after:.0f} MB with {CAPTURED:,} captured pushes, "
        f"of which {kept:,} are kept")
    return {"row": f"memory, {kept} kept", "start": round(start), "captured": CAPTURED, "after": round(after),
            "unit": "MB resident", "better": "lower"}


def main(options):
    check((options.bin / "apus").exists(), f"{options.bin / 'apus'} is missing; run `make release` first.")
    if options.json:
        say.stream = sys.stderr
    say(json.dumps(harness.machine()))
    with tempfile.TemporaryDirectory(prefix="apus-bench-") as scratch:
        results = []
        if "start" in options.rows:
            results.append(start_row(options))
        if "page" in options.rows:
            results.append(page_row(options, scratch))
        if "memory" in options.rows:
            results += [memory_row(options, scratch, None), memory_row(options, scratch, CAPTURED)]
    if options.json:
        for line in [harness.machine(), *results]:
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    parser = harness.parser_for(__doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--starts", type=int, default=7, help="how often it is started (7)")
    parser.add_argument("--rate", type=int, default=1000, help="pushes a second (1000)")
    parser.add_argument("--seconds", type=int, default=20, help="for so long (20)")
    main(parser.parse_args())
