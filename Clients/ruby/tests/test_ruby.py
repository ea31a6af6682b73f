"""The Ruby client against the protocol's vectors and the session in its document, and against a service.

APUS is the service's program; without it, what needs one is skipped.
"""

import base64
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from testing import APUS, LIVE_TOPIC, TOPIC, Listener, ServiceTests, SessionTests, changes, octets, vectors

CLIENT = str(HERE.parent / "courier.rb")
# Where the protocol wants a random time, the shortest.
AT_ONCE = "def rand(range) = range.begin; $0 = ARGV.shift; load $0"
KEEP_ALIVE = "require ARGV.shift; Courier.new(*ARGV, ['com.example.app'], keep_alive: 0.2).run {}"


def frame(command, fields):
    body = b"".join(bytes([name]) + len(value).to_bytes(2) + value for name, value in fields.items())
    return bytes([command]) + len(body).to_bytes(4) + body


class VectorTests(unittest.TestCase):
    #: The fields that this client uses, by their names in the vectors.
    FIELDS = {
        0x08: {"status": 1, "token": 3, "serverMilliseconds": 10, "explanation": 0x40},
        0x0A: {"topic": 2, "payload": 3, "messageID": 4, "expirySeconds": 5, "sentNanoseconds": 6},
        0x12: {"status": 1, "token": 2, "topic": 3},
        0x1D: {"index": 1, "token": 3, "status": 4},
        0x80: {"reason": 0x40, "reconnectMilliseconds": 0x41},
        0x82: {"status": 0x40, "reason": 0x41, "text": 0x42, "certificates": 0x43, "retrySeconds": 0x44},
        0x85: {"withinSeconds": 0x44},
    }
    FIELDS[0x84] = FIELDS[0x82]

    def test_each(self):
        # The client leaves out two checks: of sizes, and whether who is accepted gets certificates.
        found = [one for one in vectors("device") if one.get("error", {}).get("kind") != "badField"
                 and one.get("error", {}).get("field") != 0x43]
        self.assertGreater(len(found), 40)
        run = subprocess.run(["ruby", "-w", HERE / "decode.rb"], capture_output=True, text=True, check=True,
                             input="\n".join(octets(one["hex"]).hex() for one in found))
        self.assertEqual(run.stderr, "")
        for vector, line in zip(found, run.stdout.splitlines(), strict=True):
            with self.subTest(vector["name"]):
                self.check(vector, octets(vector["hex"])[0], json.loads(line))

    def check(self, vector, command, shown):
        if "error" in vector:
            return self.assertIn("error", shown)
        self.assertNotIn("error", shown)
        for name, field in self.FIELDS.get(command, {}).items():
            if name in vector["decoded"]:
                digits, value = shown[str(field)], vector["decoded"][name]
                if name in ("payload", "explanation", "text") or name == "reason" and isinstance(value, str):
                    digits = bytes.fromhex(digits).decode()
                elif isinstance(value, int) or name == "sentNanoseconds":
                    digits, value = int(digits, 16), int(value)
                value = "".join(value) if isinstance(value, list) else value
                self.assertEqual(" ".join(digits) if isinstance(digits, list) else digits, value, name)


    def test_changes(self):
        found = changes()
        self.assertEqual(set(found), {"channel-list", "channel-unsubscribe", "channel-change", "channel-replace",
                                      "channel-replace-by-one", "channel-topic-not-listed", "channel-other-token"})

        def by_topic(marks):
            topics = {}
            for topic, digits in marks:
                topics.setdefault(topic, []).append(base64.b64encode(bytes.fromhex(digits)).decode())
            return topics

        lines = [json.dumps(one | {name: by_topic(one[name]) for name in ("subscribed", "unsubscribed")})
                 for _, one in found.values()]
        run = subprocess.run(["ruby", "-w", HERE / "encode.rb"], capture_output=True, text=True, check=True,
                             input="\n".join(lines))
        self.assertEqual(run.stderr, "")
        for name, line in zip(found, run.stdout.splitlines(), strict=True):
            self.assertEqual(line, found[name][0].hex(), name)


class DocumentTests(SessionTests, unittest.TestCase):
    def setUp(self):
        super().setUp()
        (self.folder / "device.pem.state").write_text(json.dumps({"token": bytes(range(16, 48)).hex(), "seen": []}))
        self.device = ["localhost", str(self.port), self.folder / "server.pem", self.folder / "device.pem"]

    def test_session(self):
        device = Listener(self, self.folder, ["ruby", "-w", CLIENT, *self.device, TOPIC])
        self.play(self.accept(), self.session())
        self.assertEqual(device.next("token")["token"], "ffeeddccbbaa99887766554433221100" * 2)
        shown = device.next("notification")
        self.assertEqual((shown["topic"], shown["payload"], shown["stored"]), (TOPIC, {"aps": {}}, True))
        ended = device.next("ended")
        self.assertEqual((ended["reason"], ended["seconds"]), ("bye", 1.5))

    def test_follows_the_service(self):
        self.expect_following(lambda: Listener(self, self.folder, ["ruby", "-w", CLIENT, *self.device, TOPIC]))

    def test_what_has_expired_or_came_before_is_not_shown(self):
        lines = self.session()
        begin = next(place for place, line in enumerate(lines) if line[1].startswith(b"\x0a\0\0\0"))
        token, topic = bytes.fromhex("ffeeddccbbaa99887766554433221100" * 2), lines[begin + 1][1][3:]

        def exchange(message, text, expiration, status, flags=0, identity=0):
            fields = {1: token, 2: topic, 3: b'"%s"' % text, 4: bytes([0, 0, 0, message]), 5: expiration.to_bytes(4),
                      7: bytes([flags]), 0x40: bytes([identity]) * 16}
            answer = {1: bytes(range(16, 48)), 4: bytes([0, 0, 0, message]), 8: bytes([status])}
            return [("<", frame(0x0A, fields | {6: bytes(8)})), (">", frame(0x0B, answer))]

        # The service's clock is at 1,700,000,000 s; the machine's says that all have expired.
        ages = [(1, b"late", 1_699_999_999, 3), (2, b"new", 1_700_000_255, 0), (2, b"again", 1_700_000_255, 0),
                (4, b"flagged", 0xFFFFFFFF, 0, 4), (5, b"unflagged", 0xFFFFFFFF, 0),
                (3, "létzt".encode(), 0xFFFFFFFF, 0, 4, 9)]
        device = Listener(self, self.folder, ["ruby", "-w", CLIENT, *self.device, TOPIC])
        self.play(self.accept(), lines[:begin] + [line for age in ages for line in exchange(*age)])
        self.assertEqual([device.next("notification")["payload"] for _ in range(3)], ["new", "unflagged", "létzt"])

    def test_addresses(self):
        # Each series begins with the number of addresses. `!` is an attempt at once.
        series = {
            "3 failed failed failed failed": "1! 2! 0 1!",
            "1 failed lost silent said": "0 0 0 0",
            "3 failed answered lost failed failed failed": "1! 2! 0! 1 2!",
            "2 answered failed answered failed answered failed": "1! 1 0!",
            "2 failed answered silent failed failed": "1! 1! 0! 1",
            "3 answered failed said failed failed failed": "1! 0 1! 2! 0",
            "2 answered hinted lost answered lost failed failed failed failed": "h! 0! 1! 0 1! 0",
            "1 answered hinted silent answered said failed failed": "h! h 0! 0",
            "1 answered hinted unhinted said": "0",
            "2 answered hinted failed answered hinted failed answered hinted failed answered hinted failed":
                "h! 0! 1! h",
        }
        run = subprocess.run(["ruby", "-w", HERE / "rotate.rb", self.folder / "device.pem"], capture_output=True,
                             text=True, check=True, input="\n".join(series))
        self.assertEqual(run.stderr, "")
        self.assertEqual(dict(zip(series, run.stdout.splitlines(), strict=True)), series)

    def test_keep_alive(self):
        lines = self.session()
        begin = next(place for place, line in enumerate(lines) if line[1].startswith(b"\x0a\0\0\0"))
        Listener(self, self.folder, ["ruby", "-e", KEEP_ALIVE, CLIENT, *self.device])
        alive = [(">", frame(0x0C, {5: b"\0\1"})), ("<", frame(0x0D, {}))]
        self.play(self.accept(), lines[:begin] + alive * 2)


@unittest.skipUnless(APUS, "APUS names no program")
class LiveTests(ServiceTests, unittest.TestCase):
    def issue(self):
        issued = self.apus("device", "add", "--name", "ruby")
        files = [pathlib.Path(issued[name]).read_text() for name in ("key_file", "certificate_file")]
        (self.folder / "device.pem").write_text("".join(files))

    def listen(self, name="device.pem", code=None, before=("-w",), channel=None, hosts="localhost"):
        return Listener(self, self.folder, [
            "ruby", *before, CLIENT, hosts, str(self.courier), self.authority, self.folder / name, TOPIC,
            *([code or "-", channel] if channel else [code] if code else [])])

    def refused(self, listener, reason):
        listener.statuses = (1,)
        listener.process.wait(30)
        self.assertIn(reason, (self.folder / "listen.log").read_text())

    def test_channels(self):
        self.issue()
        channel = self.create_channel()
        listener = self.listen(channel=channel)
        listed = {"event": "subscriptions", "status": 0, "channels": {LIVE_TOPIC: [channel]}}
        self.assertEqual(listener.next("subscriptions"), listed)
        self.broadcast(channel, 1)
        shown = listener.next("notification")
        self.assertEqual((shown["topic"], shown["channel"]), (LIVE_TOPIC, channel))
        self.remembered(1)
        listener.stop()
        for number in (2, 3):
            self.broadcast(channel, number, "+1h")
        # Asking again changes nothing, and what was acknowledged does not come again.
        for number in (3, 4):
            listener = self.listen(channel=channel)
            self.assertEqual(listener.next("subscriptions"), listed)
            if number == 4:
                self.broadcast(channel, number, "+1h")
            shown = listener.next("notification")
            self.assertEqual(shown["payload"]["aps"]["content-state"], {"number": number})
            self.remembered(number - 1)
            listener.stop()
        refused = self.listen(channel="AAAAAAAAAAAAAAAAAAAAAA==").next("subscriptions")
        self.assertEqual(refused, listed | {"status": 2})
        # The other way, and two changes after each other.
        program = ("require ARGV.shift; live, id = ARGV.pop(2); one = Courier.new(*ARGV, [live]); "
                   "one.change(unsubscribe: { live => [id] }); one.change; $stdout.sync = true; "
                   "one.run { |event, facts| puts JSON.generate({ event:, **facts.to_h }) }")
        listener = Listener(self, self.folder, [
            "ruby", "-w", "-e", program, CLIENT, "localhost", str(self.courier), self.authority,
            self.folder / "device.pem", LIVE_TOPIC, channel])
        for _ in range(2):
            self.assertEqual(listener.next("subscriptions"), listed | {"channels": {}})
        listener.stop()
        other = self.create_channel()
        program = ("require ARGV.shift; live, *ids = ARGV.pop(3); one = Courier.new(*ARGV, [live]); "
                   "ids.each { |id| one.change(subscribe: { live => [id] }, replaces: true) }; "
                   "one.change(replaces: true); $stdout.sync = true; "
                   "one.run { |event, facts| puts JSON.generate({ event:, **facts.to_h }) }")
        listener = Listener(self, self.folder, [
            "ruby", "-w", "-e", program, CLIENT, "localhost", str(self.courier), self.authority,
            self.folder / "device.pem", LIVE_TOPIC, channel, other])
        for channels in ({LIVE_TOPIC: [channel]}, {LIVE_TOPIC: [other]}, {}):
            self.assertEqual(listener.next("subscriptions"), listed | {"channels": channels})

    def remembered(self, count):
        """Waits until the device has taken that many notifications."""
        for _ in range(200):
            if len(json.loads((self.folder / "device.pem.state").read_text())["seen"]) == count:
                return
            time.sleep(0.05)
        self.fail(f"not {count} were taken")

    def shown(self, listener):
        return listener.next("notification")["payload"]["aps"]["alert"]

    def ledger(self, token, state, count):
        """Waits until the ledger has that many lines with that state."""
        for _ in range(200):
            run = subprocess.run([APUS, "log", "--data", self.data, "--token", token, "--json"],
                                 capture_output=True, text=True)
            if run.stdout.count(state) >= count:
                return
            time.sleep(0.05)
        self.fail(f"no {state} in {run.stdout}{run.stderr}")

    def test_receives_and_acknowledges(self):
        self.issue()
        listener = self.listen()
        token = listener.next("token")["token"]
        self.push(token, "hello")
        self.assertEqual(self.shown(listener), "hello")
        self.ledger(token, "Delivered to Device", 1)
        listener.stop()
        self.push(token, "stored", "--expiration", "+1h")
        listener = self.listen()
        notification = listener.next("notification")
        self.assertEqual((notification["payload"]["aps"]["alert"], notification["stored"]), ("stored", True))
        self.ledger(token, "Delivered to Device", 2)
        listener.stop()
        expiration = int(time.time()) + 1
        self.push(token, "expired", "--expiration", str(expiration))
        time.sleep(max(0, expiration + 0.1 - time.time()))
        # Neither what has expired nor what was acknowledged comes.
        listener = self.listen()
        self.assertEqual(listener.next("token")["token"], token)
        self.push(token, "last", "--expiration", "+1h")
        self.assertEqual(self.shown(listener), "last")

    def test_the_newest_connection_wins(self):
        self.issue()
        shutil.copy(self.folder / "device.pem", self.folder / "copy.pem")
        older = self.listen()
        token = older.next("token")["token"]
        older.process.send_signal(signal.SIGSTOP)
        self.push(token, "first", "--expiration", "+1h")
        newer = self.listen("copy.pem")
        # What the older one did not acknowledge is sent again.
        self.assertEqual(self.shown(newer), "first")
        older.process.send_signal(signal.SIGCONT)
        self.assertEqual(older.next("ended")["reason"], "the device reconnected")
        older.stop()

    def test_addresses(self):
        code = self.apus("code")["code"]
        # It enrols and connects where the service is, and goes where it went.
        listener = self.listen("own.pem", code, hosts="127.0.0.3,127.0.0.2,127.0.0.1")
        for _ in range(2):
            self.assertEqual(listener.next("ended")["seconds"], 0)
        token = listener.next("token")["token"]
        self.stop()
        self.start("127.0.0.2")
        self.push(token, "again", "--expiration", "+1h")
        self.assertEqual(self.shown(listener), "again")

    def test_an_announced_restart(self):
        self.issue()
        listener = self.listen()
        token = listener.next("token")["token"]
        self.process.terminate()
        self.process.wait(30)
        ended = listener.next("ended")
        self.assertEqual(ended["reason"], "the service is shutting down")
        self.assertLess(ended["seconds"], 1)
        self.stop()
        self.start()
        self.push(token, "after", "--expiration", "+1h")
        self.assertEqual(self.shown(listener), "after")

    def test_renews_when_the_authority_is_replaced(self):
        self.issue()
        before = (self.folder / "device.pem").read_text()
        # The service tells devices when they connect.
        self.stop()
        self.apus("rotate", "device-authority")
        self.start()
        listener = self.listen(before=("-e", AT_ONCE))
        listener.next("renewed")
        self.assertNotEqual((self.folder / "device.pem").read_text(), before)
        # The service closes, and the next connection uses the new certificate.
        listener.next("ended")
        self.push(listener.next("token")["token"], "renewed", "--expiration", "+1h")
        self.assertEqual(self.shown(listener), "renewed")

    def test_enrols_until_it_is_retired(self):
        code = self.apus("code")["code"]
        listener = self.listen("own.pem", code)
        self.assertEqual(len(listener.next("token")["token"]), 64)
        self.assertEqual((self.folder / "own.pem").stat().st_mode & 0o777, 0o600)
        subject = subprocess.run(["openssl", "x509", "-in", self.folder / "own.pem", "-noout", "-subject"],
                                 capture_output=True, text=True).stdout
        self.retire(re.search(r"UID ?= ?([0-9a-f]{16})", subject)[1])
        self.refused(listener, "is retired")
        self.refused(self.listen("other.pem", code), "the code is not accepted")


if __name__ == "__main__":
    unittest.main()
