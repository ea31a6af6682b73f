#!/usr/bin/env python3
"""Makes screenshots of all views of the console, for `apus dev` and `apus serve` with sample data:
`screenshots.py PROGRAM FOLDER`. `make screenshots` runs it with the Python that has aioapns."""

import json
import pathlib
import sys
import time

from serving import Serving
from stand_in import BOARDING, DevService
from webdriver import Browser

SCORE = {
    "event": "start",
    "timestamp": 1_800_000_000,
    "attributes-type": "Match",
    "attributes": {"stadium": "St. Jakob-Park"},
    "alert": {"title": "Basel : Bern", "body": "2 : 1"},
    "content-state": {"home": "Basel", "guest": "Bern", "score": "2 : 1"},
}
PUSHES = [
    ("phone", {"aps": {"alert": {"title": "Rain from 16:00", "body": "Take an umbrella."}, "sound": "default"}}),
    (
        "phone",
        {"aps": {"alert": {"title": "Anna", "subtitle": "Weekend", "body": "Look at this! 🏔️"}, "thread-id": "anna"}},
    ),
    ("tablet", {"aps": {"alert": {"title": "طلبك في الطريق", "body": "يصل اليوم بين 14:00 و16:00"}, "badge": 1}}),
    ("phone", {"aps": {"alert": "Without a title", "badge": "3", "sond": "default"}}),
    ("tablet", BOARDING),
    ("phone", BOARDING),
]
# Name, view, selector that must be visible, dark mode.
VIEWS = [
    ("inbox", "inbox/{boarding}", ".way", False),
    ("refused", "inbox/{refused}", ".detail .armed", False),
    ("compose", "compose", ".phone .card", False),
    ("devices-dark", "devices/tablet", ".phone .card", True),
    ("faults", "faults", ".rule-list", False),
    ("violations", "violations", ".rules details", False),
    ("tokens", "tokens", ".callout.good", False),
    ("status", "status", ".snippets pre", False),
]


def prepare(stand_in):
    """Sends the pushes of the screenshots; returns the numbers of two of them."""
    stand_in.call("PATCH", "devices/tablet", {"language": "de"})
    stand_in.send(*[(stand_in.token(device), payload) for device, payload in PUSHES])
    live = {"device": "phone", "topic": f"{stand_in.topic}.push-type.liveactivity", "pushType": "liveactivity"}
    stand_in.call("POST", "send", {**live, "payload": json.dumps({"aps": SCORE})})
    stand_in.call(
        "POST",
        "faults",
        {
            "name": "gone",
            "match": {"body": {"contains": "never"}},
            "effect": {"type": "respond", "reason": "Unregistered"},
        },
    )
    slow = {"type": "delay", "milliseconds": 2000}
    stand_in.call(
        "POST",
        "faults",
        {"name": "slow sometimes", "match": {"pushType": "voip"}, "rate": 0.1, "seed": 7, "effect": slow},
    )
    stand_in.send(
        (stand_in.token("phone"), {"aps": {"alert": {"title": "Your order", "body": "This never arrives."}}})
    )
    expected = len(PUSHES) + 2
    found = stand_in.call(
        "POST", "pushes/wait", {"match": {}, "count": expected, "timeoutMilliseconds": 30_000, "after": 0}
    )["pushes"]
    numbers = {push["number"]: push for push in found}
    boarding = max(
        number for number, push in numbers.items() if push["device"] == "phone" and "flight" in push["payloadText"]
    )
    refused = next(number for number, push in numbers.items() if not push["verdict"]["accepted"])
    return {"boarding": boarding, "refused": refused}


def take(browser, stand_in, folder, numbers):
    for name, path, seen, dark in VIEWS:
        browser.appearance(dark)
        browser.open(f"{stand_in.address}#/{path.format(**numbers)}")
        if name == "tokens":
            browser.click("button", "Make")
            browser.type("textarea", browser.wait("document.querySelector('.view pre')?.textContent"), "Token")
            browser.click("button", "Check")
        if name == "violations":
            browser.click("summary")
        browser.wait("document.querySelector(arguments[0])?.checkVisibility()", seen)
        browser.screenshot(folder / f"{name}.png")
        print(folder / f"{name}.png")
    browser.size(360, 740)
    for name, path in (("narrow-inbox", "inbox"), ("narrow-push", f"inbox/{numbers['boarding']}")):
        browser.appearance(False)
        browser.open(f"{stand_in.address}#/{path}")
        browser.wait("document.querySelector(arguments[0])?.checkVisibility()", ".row" if path == "inbox" else ".way")
        browser.screenshot(folder / f"{name}.png")
        print(folder / f"{name}.png")


# The same for `apus serve`: name, view, selector that must be visible, dark mode, width and height.
SERVICE_VIEWS = [
    ("overview", "overview", ".chart .line", False, (1280, 800)),
    ("overview-dark", "overview", ".chart .line", True, (1280, 800)),
    ("serve-device", "devices/{device}", "main table", False, (1280, 800)),
    ("ledger", "ledger/{notification}", ".way", False, (1280, 800)),
    ("keys", "keys", "main table", False, (1280, 800)),
    ("narrow-overview", "overview", ".chart .line", False, (360, 740)),
    ("narrow-ledger", "ledger/{notification}", ".way", False, (360, 740)),
]
# Long enough for charts: the service takes a sample every ten seconds.
TRAFFIC_SECONDS = 70


def serve_something(serving):
    """Makes the traffic of the screenshots; returns a device and a notification."""
    tokens = [serving.token] + [serving.add_device()[0] for _ in range(3)]
    serving.say("app", "--add", "com.example.two")
    end, number = time.monotonic() + TRAFFIC_SECONDS, 0
    while time.monotonic() < end:
        serving.send(tokens[number % 4] if number % 9 else "ab" * 32, f"Push {number}")
        number += 1
        time.sleep(0.1 + 0.2 * (number // 20 % 2))
    lines = serving.call("POST", "ledger/query", {"states": ["Delivered to Device"], "limit": 1})["lines"]
    return {"device": lines[0]["device"], "notification": lines[0]["id"]}


def take_service(browser, serving, folder):
    found = serve_something(serving)
    browser.open(serving.address)
    browser.type("input[type=password]", serving.secret)
    browser.click("button", "Sign in")
    browser.wait("document.querySelector('#tabs a')")
    for name, path, seen, dark, (width, height) in SERVICE_VIEWS:
        browser.size(width, height)
        browser.appearance(dark)
        browser.open(f"{serving.address}#/{path.format(**found)}")
        browser.wait("document.querySelector(arguments[0])?.checkVisibility()", seen)
        if path == "overview":
            browser.click(".segments button", "10 min")
            browser.wait("document.querySelectorAll('.chart .line').length === 7")
            # Rates appear with the second response.
            browser.wait("!document.querySelectorAll('.figure')[1].textContent.includes('–')")
            browser.run("document.querySelector('main').scrollTop = 0")
        browser.screenshot(folder / f"{name}.png")
        print(folder / f"{name}.png")


def main(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    browser = Browser(1280, 800)
    try:
        stand_in = DevService(program)
        try:
            take(browser, stand_in, folder, prepare(stand_in))
        finally:
            stand_in.close()
        serving = Serving(program)
        try:
            take_service(browser, serving, folder)
        finally:
            serving.close()
    finally:
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
