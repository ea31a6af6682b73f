"""The vectors of the protocol (Documentation/courier-vectors.json), for the device's end."""

import base64
import pathlib
import re
import sys
import unittest

from apus_device import Subscription, channels, frames, messages

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from testing import octets, vectors


def named(text):
    """messageID becomes message_id."""
    return re.sub("(?<=[a-z])([A-Z]+)", lambda found: "_" + found[1].lower(), text)


def comparable(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list) and all(isinstance(one, Subscription) for one in value):
        return " ".join(f"{one.topic}/{base64.b64decode(one.channel).hex()}" for one in value)
    if isinstance(value, list):
        return " ".join(one.hex() for one in value)
    return value


def subscriptions(text):
    """What TOPIC/ID and TOPIC/ID@NANOSECONDS stand for."""
    text = "".join(text) if isinstance(text, list) else text
    for topic, channel, _, newest in re.findall(r"(\S+)/([0-9a-f]+)(@(\d+))?", text):
        yield Subscription(topic, base64.b64encode(bytes.fromhex(channel)).decode(), int(newest or 0))


class Decoding(unittest.TestCase):
    def check(self, vector):
        if "error" in vector:
            with self.assertRaises(frames.Fault) as raised:
                for command, body in frames.Decoder().feed(octets(vector["hex"])):
                    messages.decode(command, body)
            expected = vector["error"]
            self.assertEqual({name: getattr(raised.exception, name) for name in expected}, expected)
            return
        (command, body), = frames.Decoder().feed(octets(vector["hex"]))
        message, expected = messages.decode(command, body), dict(vector["decoded"])
        kind = expected.pop("message")
        if kind == "unknown":
            return self.assertIsNone(message)
        self.assertEqual(type(message).__name__.removesuffix("Message").lower(), kind.lower())
        if (count := expected.pop("payloadBytes", None)) is not None:
            self.assertEqual(len(message.payload), count)
        for name, value in expected.items():
            found = getattr(message, named(name))
            if name == "payload":
                found = found.decode()
            # A long text comes in pieces, and a large number as text.
            value = "".join(value) if isinstance(value, list) else value
            found = str(found) if isinstance(value, str) and isinstance(found, int) else found
            self.assertEqual(comparable(found), value, name)
        absent = {named(name) for name in expected} | {"payload", "certificates"}
        for name, value in vars(message).items():
            if name not in absent:
                self.assertIsNone(value, name)

    def test_each(self):
        count = 0
        for vector in vectors("device"):
            with self.subTest(vector["name"]):
                self.check(vector)
                count += 1
        self.assertGreater(count, 40)

    def test_in_pieces(self):
        good = [vector for vector in vectors("device", dialect=None) if "error" not in vector]
        stream = b"".join(octets(v["hex"]) for v in good)
        whole = list(frames.Decoder().feed(stream))
        decoder, parts = frames.Decoder(), []
        for place in range(0, len(stream), 7):
            parts += decoder.feed(stream[place:place + 7])
        self.assertEqual(parts, whole)
        self.assertEqual(len(whole), len(good))


class Encoding(unittest.TestCase):
    """What this client sends, from the meaning of a vector to its bytes."""

    def encoded(self, facts):
        def octets_of(name):
            return bytes.fromhex(facts[name]) if name in facts else None

        match facts["message"]:
            case "connect" if facts.get("state") == 1 and facts.get("flags") == 0x41:
                return messages.connect(octets_of("token"))
            case "filter" if "enabledCount" not in facts:
                names = ["enabled", "ignored", "opportunistic", "paused", "nonWaking"]
                lists = [(n, [bytes.fromhex(one) for one in facts.get(name, "").split()])
                         for n, name in enumerate(names, 2)]
                return messages.filter_message(octets_of("token"), lists)
            case "acknowledgement":
                return messages.acknowledgement(octets_of("token"), facts["messageID"], facts["status"])
            case "keepAlive" if "intervalMinutes" in facts:
                return messages.keep_alive(facts["intervalMinutes"])
            case "appTokenRequest" if facts.get("appID") == 0:
                return messages.app_token_request(octets_of("token"), octets_of("topic"))
            case "setState" if facts.get("interval") == 0x7FFFFFFF:
                return messages.set_state(facts["state"])
            case "channelRequest":
                change = channels.encode(
                    subscriptions(facts.get("subscribed", "")), subscriptions(facts.get("unsubscribed", "")),
                    "replaces" in facts)
                return messages.channel_request(octets_of("token"), facts["index"], change)
            case "enrolmentRequest":
                request = octets_of("certificateRequest")
                tags = facts.get("tags", "").split()
                return messages.enrolment_request(facts.get("code"), request, facts.get("name"), tags)
            case "renewalRequest":
                return messages.renewal_request(octets_of("certificateRequest"))
        return None

    def test_each(self):
        seen = set()
        for vector in vectors("service"):
            if "decoded" not in vector or not vector.get("canonical", True):
                continue
            encoded = self.encoded(vector["decoded"])
            if encoded is None:
                continue
            with self.subTest(vector["name"]):
                self.assertEqual(encoded.hex(), octets(vector["hex"]).hex())
                seen.add(vector["decoded"]["message"])
        self.assertEqual(len(seen), 9, seen)


if __name__ == "__main__":
    unittest.main()
