"""The state of the mocked administration: devices, keys, certificates, and the ledger of notifications."""

import base64
import math
import threading
import time
import uuid

TOPIC = "com.example.app"
TOKENS = {"all": {"read", "operate", "trust", "send"}, "read": {"read"}}
MARKUP = '<img src=x onerror="window.broken=1">\u202e'
DAY = 86_400


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def identity():
    return str(uuid.uuid4()).upper()


def certificate(kind, name, days, seed):
    return {
        "kind": kind,
        "name": name,
        "sha256": f"{seed:02x}" * 32,
        "not_after": stamp(time.time() + days * DAY),
        "seconds_left": int(days * DAY),
    }


def device(number, connected=True):
    one = {
        "environment": "production",
        "connected": connected,
        "stored_notifications": number % 3,
        "last_seen": stamp(time.time() - 60 * number),
        "key_sha256": "cd" * 32,
        "topics": [
            {"topic": TOPIC, "list": "enabled", "since": stamp(time.time() - DAY), "generation": 3},
            {"topic": TOPIC + ".voip", "list": "non_waking", "since": stamp(time.time() - DAY)},
        ],
    }
    if connected:
        one.update(address="192.0.2.7:40112", power="low_power", in_flight=1, waiting=0)
    return {
        "device": f"{number:016X}",
        **({"name": f"reader {number} " + MARKUP} if number % 5 == 0 else {}),
        "tags": [f"floor={number % 4}"],
        "connected": connected,
        "stored_notifications": number % 3,
        "last_seen": one["last_seen"],
        "environments": [one],
    }


class World:
    def __init__(self):
        self.lock = threading.RLock()
        self.calls = []
        self.tokens = dict(TOKENS)
        self.requests = []
        self.accepted, self.ready = 1_234_567, True
        # Those of a cluster.
        self.nodes = []
        self.teams = [{"team": "TEAM123456", "name": "Example Ltd"}]
        upstream = {"service": "apple", "key_id": "ABC123DEFG", "team": "DEF123GHIJ", "spool": False}
        self.apps = [{"topic": TOPIC, "team": "TEAM123456", "id": "1", "retain": "28 d", "dead_token_pushes": 12345,
                      "upstream": upstream}]
        self.keys = [
            {"key": "ABC123DEFG", "team": "TEAM123456", "environments": ["production", "development"], "topics": []}
        ]
        self.certificates = [
            certificate("authority", "Service authority", 3000, 1),
            certificate("server", "push.example.com", 22, 2),
            certificate("provider", "shop", 5, 3),
            certificate("device", MARKUP, -1, 4),
        ]
        self.revoked = []
        self.channels = []
        self.webhooks = [
            {
                "name": "orders",
                "url": "https://backend.example.com/" + MARKUP,
                "events": ["token.died", "device.connected"],
                "rotating": False,
                "delivered": 12345,
                "waiting": 7,
                "failures": 3,
                "error": "the receiver answered 503",
            }
        ]
        self.devices = {one["device"]: one for one in (device(number, number % 4 != 0) for number in range(1, 121))}
        self.enrolments = [
            {
                "key": "ab" * 32,
                "state": "waiting",
                "name": "reader " + MARKUP,
                "address": "192.0.2.9",
                "since": stamp(time.time() - 300),
            }
        ]
        self.codes = []
        self.jobs = {}
        self.lines = []
        self.refused = []
        self.audit = []
        for index in range(30):
            self.push(f"{index % 4 + 1:016X}", minutes=index)
        self.refuse("BadTopic", "The topic com.example.ap is none of the team's: did you mean com.example.app?")

    def channel(self, number, environment="production", storage="newest"):
        start = bytes([0, 1, 2, 255, *range(4, 14)])
        id = base64.b64encode(start + number.to_bytes(2)).decode()
        made = {"topic": TOPIC, "environment": environment, "storage": storage, "created": stamp(time.time())}
        return {"channel": id, **made, "published": 7, "delivered": 1203, "subscriptions": 401}

    def note(self, event, subject):
        self.audit.append(
            {"time": stamp(time.time()), "event": event, "actor": "token all at 127.0.0.1", "subject": subject}
        )

    def refuse(self, reason, explanation, id=None):
        self.refused.append(
            {
                "time": stamp(time.time()),
                "event": "request.refused",
                "actor": "key ABC123DEFG",
                "reason": reason,
                "explanation": explanation,
                "topic": "com.example.ap",
                "id": id or identity(),
            }
        )

    def push(self, to, minutes=0, states=("Received by APNs", "Sent to Device", "Delivered to Device")):
        """Adds a notification and its states to the ledger; returns its apns-id."""
        now = int((time.time() - 60 * minutes) * 1000)
        ids = {"id": identity(), "unique_id": identity()}
        for index, state in enumerate(states):
            self.lines.append(
                {
                    "time": stamp(now / 1000),
                    "milliseconds": now + 7 * index,
                    "state": state,
                    "topic": TOPIC,
                    "environment": "production",
                    "device": to,
                    **({"device_name": "hall"} if to == f"{2:016X}" else {}),
                    "token": "0123abcd…",
                    "push_type": "alert",
                    "priority": 10,
                    "interface": "http2",
                    **ids,
                }
            )
        return ids["id"]

    def overview(self):
        now = time.time()
        marks = [(one, max(0, one["seconds_left"] // DAY)) for one in self.certificates]
        return {
            "time": stamp(now),
            "milliseconds": int(now * 1000),
            "started": stamp(now - 7300),
            "uptime_seconds": 7300,
            "version": "0.1.0",
            "ready": self.ready,
            **({} if self.ready else {"problem": "the disk is full"}),
            "store_available": True,
            "ephemeral": False,
            "devices": {
                "connected": 9041,
                "by_environment": {"production": 9000, "development": 41},
                "by_power": {"active": 8000, "idle": 1000, "low_power": 41},
            },
            "providers": {"http2": 12, "binary": 3, "feedback": 1},
            "stored_notifications": 1812,
            "in_flight": 7,
            "open_requests": 2,
            "totals": {
                "accepted": self.accepted,
                "delivered": self.accepted - 5000,
                "delivered_from_storage": 2100,
                "stored": 4100,
                "pending": 1820,
                "discarded": [{"state": "Discarded - Expired", "notifications": 812}],
                "refused": [{"reason": "BadDeviceToken", "status": 400, "requests": 93}],
            },
            "latencies": {
                "acceptance": {"count": 41_000, "p50": 1, "p90": 3, "p99": 11},
                "delivery": {"count": 0},
            },
            "memory_bytes": 81_000_000,
            "certificates": [
                {
                    **{name: one[name] for name in ("kind", "name", "sha256", "not_after")},
                    "days_left": days,
                    **(
                        {"warning": next(mark for mark in (0, 1, 7, 30) if one["seconds_left"] <= mark * DAY)}
                        if days < 30
                        else {}
                    ),
                }
                for one, days in marks
            ],
        }

    def history(self, since, step):
        now = int(time.time()) // step * step
        samples = []
        for at in range(max(since // 1000 // step * step, now - DAY), now + 1, step):
            wave = 1 + math.sin(at / 400)
            samples.append(
                {
                    "milliseconds": at * 1000,
                    "devices_connected": int(9000 + 40 * wave),
                    "accepted_per_second": round(700 * wave + at % 50, 1),
                    "delivered_per_second": round(650 * wave + at % 40, 1),
                    "refused_per_second": round(3 * wave, 1),
                    "stored_notifications": int(1800 - 100 * wave),
                    "p50": 1,
                    "p99": int(8 + 5 * wave),
                }
            )
        return samples
