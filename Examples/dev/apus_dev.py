"""A client of `apus dev`, the development service, for tests. Needs only Python's standard library.

    with ApusDev.start("apus") as apns:              # or ApusDev("http://127.0.0.1:2190") for a running one
        server.send_welcome(apns.token("phone"))     # your own code, set up by apns.ready
        push = apns.wait({"title": "Welcome"})[0]
        assert push["shown"]["body"] == "Nice to see you"

Matchers and all operations are described at /openapi.json.
"""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request


class Refused(AssertionError):
    """The service rejected the request, or an assertion failed; `answer` has the details."""

    def __init__(self, status, answer):
        self.status = status
        self.answer = answer
        super().__init__(f"{status}: {answer.get('error', {}).get('message', answer)}")


class ApusDev:
    def __init__(self, url="http://127.0.0.1:2190"):
        self.url = url.rstrip("/")
        self.process = None
        self.ready = None

    @classmethod
    def start(cls, program="apus", *options):
        """Starts a new one, strict and on free ports; `ready` has its addresses and files."""
        process = subprocess.Popen(
            [program, "dev", "--strict", "--free-ports", "--json", *options], stdout=subprocess.PIPE, text=True
        )
        line = process.stdout.readline()
        if not line.startswith('{"event":"ready"'):
            process.kill()
            raise RuntimeError(f"apus dev did not start: {line}")
        ready = json.loads(line)
        client = cls(ready["console"])
        client.process = process
        client.ready = ready
        return client

    def stop(self):
        """Stops the one started here. Returns its exit code: 1 if --fail-on found something."""
        if self.process is None:
            return 0
        self.process.terminate()
        self.process.communicate()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + "/api/v1" + path, data=data, method=method)
        request.add_header("content-type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=620) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, json.load(error)) from None

    # Pushes

    def pushes(self, **query):
        return self.call("GET", "/pushes?" + urllib.parse.urlencode(query))["pushes"]

    def wait(self, match=None, count=1, timeout=5, after=None):
        """Waits until `count` pushes match, at most `timeout` seconds."""
        body = {"match": match or {}, "count": count, "timeoutMilliseconds": int(timeout * 1000)}
        if after is not None:
            body["after"] = after
        return self.call("POST", "/pushes/wait", body)["pushes"]

    def wait_shown(self, match=None, timeout=5):
        """Waits until the device shows a matching push, at most about `timeout` seconds."""
        number = self.wait(match, timeout=timeout)[0]["number"]
        deadline = time.monotonic() + timeout
        while True:
            push = self.call("GET", f"/pushes/{number}")
            if push["shown"]:
                return push
            if time.monotonic() > deadline:
                raise AssertionError(f"the device shows nothing of push {number}: {push['states']}")
            time.sleep(0.02)

    def count(self, match=None):
        return self.call("POST", "/pushes/count", {"match": match or {}})["count"]

    def expect(self, match=None, **bounds):
        """equal=, atLeast=, atMost="""
        return self.call("POST", "/pushes/assert", {"match": match or {}, **bounds})

    def clear(self):
        self.call("DELETE", "/pushes")

    def violations(self):
        return self.call("GET", "/violations")

    # Devices, faults, the clock

    def token(self, device, topic=None, environment="production"):
        topic = topic or self.call("GET", "/status")["topics"][0]
        for one in self.call("GET", "/devices")["devices"]:
            for entry in one["tokens"]:
                if (one["id"], entry["topic"], entry["environment"]) == (device, topic, environment):
                    return entry["token"]
        raise AssertionError(f"{device} has no token for {topic}")

    def switch(self, device, **change):
        """online=, power=, language=, notifications=, apps="""
        return self.call("PATCH", f"/devices/{device}", change)

    def send(self, payload, **push):
        """Sends a push: device= or token=, topic=, pushType=, priority= ..."""
        return self.call("POST", "/send", {"payload": payload, **push})

    def fault(self, effect, **rule):
        """Arms a fault: match=, nth=, every=, rate= and seed=, times="""
        return self.call("POST", "/faults", {"effect": effect, **rule})

    def disarm(self):
        self.call("DELETE", "/faults")

    def advance(self, seconds):
        return self.call("PUT", "/clock", {"advanceMilliseconds": int(seconds * 1000)})
