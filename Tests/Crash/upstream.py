"""The other service of a gateway's upstream: `apus dev`, which rejects some tokens as bad and some as dead."""

import json
import random
import signal
import subprocess
import threading
import time
import urllib.request

DEAD_SINCE = 1_700_000_000
# How its tokens begin.
GOOD, BAD, DEAD = "aa", "bad0", "dead"


def token(number, kind, devices):
    """That of a notification: good ones are for few devices, and each other one is for a device of its own."""
    return devices[number % len(devices)] if kind == GOOD else f"{kind}{number:060x}"


class Upstream:
    """The other service, and what it received."""

    def __init__(self, scratch, programs):
        rules = [
            {"match": {"token": {"startsWith": BAD}}, "effect": {"type": "respond", "reason": "BadDeviceToken"}},
            {"match": {"token": {"startsWith": DEAD}},
             "effect": {"type": "respond", "reason": "Unregistered", "timestampMilliseconds": DEAD_SINCE * 1000}},
        ]
        faults = scratch / "faults.json"
        faults.write_text(json.dumps(rules))
        self.process = subprocess.Popen(
            [programs / "apus", "dev", "--free-ports", "--json", "--keep", "100000", "--keep-mb", "1000",
             "--faults", faults],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.ready = json.loads(self.process.stdout.readline())
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.ready["api"] + path, method=method, data=data, headers={"content-type": "application/json"})
        return json.loads(urllib.request.urlopen(request, timeout=30).read() or b"null")

    def disturb(self):
        """One outage: the process stands still, is busy, or ends its connections."""
        effects = [
            (4, {"type": "respond", "reason": "ServiceUnavailable"}),
            (3, {"type": "goAway", "lastStream": "before", "closes": True}), (3, {"type": "resetStream", "code": 7}),
        ]
        if random.random() < 0.4:
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(random.uniform(0.2, 1.5))
            self.process.send_signal(signal.SIGCONT)
        else:
            times, effect = random.choice(effects)
            self.ask("POST", "/faults", {"times": times, "effect": effect})

    def accepted(self):
        """The ids under which each text was accepted, each as often as it was."""
        ids, before = {}, None
        while True:
            page = self.ask("GET", "/pushes?limit=1000" + (f"&before={before}" if before else ""))
            for push in page["pushes"]:
                if push["verdict"]["status"] == 200:
                    text = push["payload"]["aps"]["alert"]
                    ids.setdefault(text, []).append(push["apnsID"])
            before = page.get("next")
            if not before:
                return ids
