"""The C client against the protocol's vectors and the session in its document, and against a service.

BUILD is the folder of the programs (build). APUS is the service's program; without it, what needs one is skipped.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
from testing import APUS, TOPIC, Listener, ServiceTests, SessionTests, changes, octets, vectors

BUILD = pathlib.Path(os.environ.get("BUILD", HERE.parent / "build"))
#: A program in front of the example, such as valgrind.
WRAPPER = os.environ.get("WRAPPER", "").split()


class VectorTests(unittest.TestCase):
    def test_each(self):
        found = vectors("device")
        self.assertGreater(len(found), 40)
        lines = "\n".join(octets(one["hex"]).hex() for one in found)
        printed = subprocess.run([BUILD / "decode"], input=lines, capture_output=True, text=True, check=True).stdout
        for vector, line in zip(found, printed.splitlines(), strict=True):
            with self.subTest(vector["name"]):
                self.check(vector, line)

    def check(self, vector, line):
        pairs = json.loads(line, object_pairs_hook=lambda found: found)
        certificates = " ".join(value for name, value in pairs if name == "certificate")
        found = dict(pairs)
        if "error" in vector:
            return self.assertEqual({name: found.get(name) for name in vector["error"]}, vector["error"])
        expected = dict(vector["decoded"])
        if expected.pop("message") == "unknown":
            return self.assertEqual(found, {"skipped": True})
        self.assertEqual(found["command"], octets(vector["hex"])[0])
        known = {"token", "topic", "payload", "messageID", "expirySeconds", "sentNanoseconds", "priority", "id",
                 "pushType", "collapseID", "status", "serverMilliseconds", "explanation", "reason", "text",
                 "reconnectMilliseconds", "retrySeconds", "withinSeconds", "channel", "index", "subscribed"}
        if found["command"] == 0x1D:
            known.remove("token")  # it is the connection's
        if found["command"] in (0x0B, 0x0D, 0x0E, 0x10):
            known = set()  # checked, and without meaning for this client
        for name, value in expected.items():
            value = "".join(value) if isinstance(value, list) else value
            if name == "certificates":
                self.assertEqual(certificates, value)
            elif name in known and value != "":
                shown = found.get(name)
                if name in ("payload", "explanation", "text", "collapseID") or name == "reason" and shown != value:
                    value = value.encode().hex()
                if name == "id":
                    value = value.replace("-", "").lower()
                self.assertEqual(str(shown), str(value), name)
        self.assertLessEqual(set(found) - {"command", "certificate"}, set(expected) | {"payload"})


class ChangeTests(unittest.TestCase):
    def encoded(self, lines):
        run = subprocess.run(
            [*WRAPPER, BUILD / "encode"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
        return [bytes.fromhex(line) for line in run.stdout.splitlines()]

    def test_each(self):
        expected, lines = [], []
        for data, change in changes().values():
            subscribed, unsubscribed = change["subscribed"], change["unsubscribed"]
            if subscribed and unsubscribed:
                continue  # this client asks for one of them
            kind = ("replace" if change["replaces"] else "subscribe" if subscribed else "unsubscribe" if unsubscribed
                    else "list")
            marks = " ".join("/".join(mark) for mark in subscribed + unsubscribed)
            lines.append(f"{change['index']} {change['token'] or '-'} {kind} {marks}")
            expected.append(data)
        self.assertEqual(len(expected), 6)
        self.assertEqual(self.encoded(lines), expected)

    def test_several(self):
        def message(topic, *ids):
            named = bytes([0x0A, len(topic)]) + topic + b"".join(b"\x12\x12\x0a\x10" + one for one in ids)
            count = len(named)
            return b"\x12" + (bytes([count]) if count < 128 else bytes([count & 127 | 128, count >> 7])) + named

        def frame(change):
            return (b"\x1d" + (len(change) + 10).to_bytes(4) + b"\1\0\4\0\0\0\1\2" + len(change).to_bytes(2)
                    + change)

        def line(*marks):
            return "1 - replace " + " ".join(f"{topic.decode()}/{one.hex()}" for topic, one in marks)

        ids = [bytes([number]) * 16 for number in range(60)]
        live, other = b"com.example.app.push-type.liveactivity", b"a"
        both = b"\x08\1" + message(live, *ids[:2]) + message(other, ids[2]) + message(live, ids[3]) + b"\x18\1"
        most = b"\x08\1" + message(live, *ids[:45]) + b"\x18\1"
        self.assertEqual(
            self.encoded([
                line((live, ids[0]), (live, ids[1]), (other, ids[2]), (live, ids[3])),
                line(*((live, one) for one in ids[:45])), line(*((live, one) for one in ids[:46])),
                line(*((live, one) for one in ids[:30]), *((other, one) for one in ids[30:]))]),
            [frame(both), frame(most), b"", b""])


class RotationTests(unittest.TestCase):
    """Which address is next; `!` means at once."""

    def test_each(self):
        series = {
            "3 failed failed failed failed failed failed": "1! 2! 0 1! 2! 0",
            "1 failed lost silent restart": "0 0 0 0",
            # Rounds begin with the address that worked.
            "3 failed answered lost failed failed failed": "1! 2! 0! 1 2!",
            # A service that accepts and closes at once is no success.
            "2 answered failed answered failed answered failed": "1! 1 0!",
            # After a silence the same address is tried first, then the others.
            "2 failed answered silent failed failed": "1! 1! 0! 1",
            "3 answered failed failed restart failed failed failed": "1! 2! 0 1! 2! 0",
            # An address that the service named is first in the next round, and forgotten when it fails.
            "2 answered hinted lost answered lost failed failed failed failed": "h! 0! 1! 0 1! 0",
            "1 answered hinted silent answered restart failed failed": "h! h 0! 0",
            "1 answered hinted unhinted restart": "0",
            # Services that name another one and close at once are not tried without a wait.
            "2 answered hinted failed answered hinted failed answered hinted failed answered hinted failed":
                "h! 0! 1! h",
        }
        printed = subprocess.run(
            [BUILD / "rotate"], input="\n".join(series) + "\n", capture_output=True, text=True, check=True).stdout
        for verbs, line in zip(series, printed.splitlines(), strict=True):
            self.assertEqual(line.strip(), series[verbs], verbs)


def listener(test, folder, port, authority, name, code=None, channel=None, addresses="127.0.0.1"):
    return Listener(test, folder, [
        *WRAPPER, BUILD / "apus-listen", addresses, str(port), "localhost", authority, folder / name, TOPIC,
        *([code or "-", channel] if channel else [code] if code else [])])


class DocumentTests(SessionTests, unittest.TestCase):
    """Section 14 of the document: the bytes of a session."""

    def test_follows_the_service(self):
        (self.folder / "device.pem.token").write_bytes(bytes(range(0x10, 0x30)))
        self.expect_following(
            lambda: listener(self, self.folder, self.port, self.folder / "server.pem", "device.pem"))

    def test_session(self):
        (self.folder / "device.pem.token").write_bytes(bytes(range(0x10, 0x30)))
        device = listener(self, self.folder, self.port, self.folder / "server.pem", "device.pem")
        self.play(self.accept(), self.session())
        shown = device.next("notification")
        self.assertEqual(shown["payload"], {"aps": {}})
        self.assertEqual(shown["id"], "00112233445566778899aabbccddeeff")
        self.assertTrue(shown["stored"] and shown["priority"] == 5)
        self.assertEqual(device.next("ended")["cause"], "goodbye")


@unittest.skipUnless(APUS, "APUS names no program")
class LiveTests(ServiceTests, unittest.TestCase):
    def issue(self):
        issued = self.apus("device", "add", "--name", "c")
        (self.folder / "device.pem").write_text(
            pathlib.Path(issued["key_file"]).read_text() + pathlib.Path(issued["certificate_file"]).read_text())

    def listen(self, name="device.pem", code=None, channel=None, addresses="127.0.0.1"):
        return listener(self, self.folder, self.courier, self.authority, name, code, channel, addresses)

    def test_receives_and_acknowledges(self):
        self.issue()
        listener = self.listen()
        token = listener.next("token")["token"]
        self.push(token, "hello")
        self.assertEqual(listener.next("notification")["payload"], {"aps": {"alert": "hello"}})
        listener.stop()
        self.push(token, "stored", "--expiration", "+1h")
        listener = self.listen()
        shown = listener.next("notification")
        self.assertTrue(shown["stored"])
        self.assertEqual(shown["payload"], {"aps": {"alert": "stored"}})
        self.assertEqual(listener.next("token")["token"], token)
        listener.stop()
        # Both were acknowledged.
        listener = self.listen()
        listener.next("token")
        self.push(token, "last", "--expiration", "+1h")
        self.assertEqual(listener.next("notification")["payload"], {"aps": {"alert": "last"}})

    def test_channels(self):
        self.issue()
        channel = self.create_channel()
        listener = self.listen(channel=channel)
        self.assertEqual(listener.next("subscriptions"), {"event": "subscriptions", "status": 0, "channels": [channel]})
        self.broadcast(channel, 1)
        shown = listener.next("notification")
        self.assertEqual((shown["channel"], shown["payload"]["aps"]["content-state"]), (channel, {"number": 1}))
        listener.stop()
        for number in (2, 3):
            self.broadcast(channel, number, "+1h")
        # The subscription was kept, and asking again changes nothing. What was acknowledged does not come again.
        for number in (3, 4):
            listener = self.listen(channel=channel)
            self.assertEqual(listener.next("subscriptions")["channels"], [channel])
            if number == 4:
                self.broadcast(channel, number, "+1h")
            shown = listener.next("notification")
            self.assertEqual(shown["payload"]["aps"]["content-state"], {"number": number})
            self.assertEqual(shown["stored"], number == 3)
            listener.stop()
        unknown = self.listen(channel="AAAAAAAAAAAAAAAAAAAAAA==").next("subscriptions")
        self.assertEqual((unknown["status"], unknown["channels"]), (2, [channel]))

    def test_restarts(self):
        self.issue()
        listener = self.listen()
        token = listener.next("token")["token"]
        for number in range(3):
            self.stop()
            self.start()
            listener.next("ended")
            self.push(token, f"{number}", "--expiration", "+1h")
            self.assertEqual(listener.next("notification")["payload"], {"aps": {"alert": f"{number}"}})

    def test_addresses(self):
        code = self.apus("code")["code"]
        # It enrols and connects where the service is, and goes where it went.
        listener = self.listen("own.pem", code, addresses="127.0.0.3,127.0.0.2,127.0.0.1")
        token = listener.next("token")["token"]
        for number, address in enumerate(["127.0.0.2", "127.0.0.1"]):
            self.stop()
            self.start(address)
            listener.next("ended")
            self.push(token, f"{number}", "--expiration", "+1h")
            self.assertEqual(listener.next("notification")["payload"], {"aps": {"alert": f"{number}"}})

    def test_renews_when_the_authority_is_replaced(self):
        self.issue()
        before = (self.folder / "device.pem").read_text()
        self.stop()
        self.apus("rotate", "device-authority")
        self.start()
        listener = self.listen()
        # At a random moment of the seconds that the service gives.
        listener.next("renewed", 90)
        self.assertNotEqual((self.folder / "device.pem").read_text(), before)
        # The service closes, and the next connection uses the new certificate.
        listener.next("ended")
        self.push(listener.next("token")["token"], "renewed", "--expiration", "+1h")
        self.assertEqual(listener.next("notification")["payload"], {"aps": {"alert": "renewed"}})

    def test_enrols(self):
        code = self.apus("code")["code"]
        listener = self.listen("own.pem", code)
        self.assertEqual(len(listener.next("token")["token"]), 64)
        self.assertFalse((self.folder / "own.pem.key").exists())
        self.assertEqual((self.folder / "own.pem").stat().st_mode & 0o777, 0o600)

    def test_a_retired_device_learns_it(self):
        self.issue()
        listener = self.listen()
        listener.next("token")
        subject = subprocess.run(["openssl", "x509", "-in", self.folder / "device.pem", "-noout", "-subject"],
                                 capture_output=True, text=True).stdout
        device = re.search(r"UID ?= ?([0-9a-f]{16})", subject)[1]
        self.retire(device)
        while (cause := listener.next("ended")["cause"]) not in ("refused", "certificate"):
            self.assertEqual(cause, "goodbye")


if __name__ == "__main__":
    sys.exit(unittest.main())
