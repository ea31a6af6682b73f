#!/usr/bin/env python3
"""The administration of `apus serve` as far as the page needs it, in the shapes of its description.

    Tests/ConsoleTests/Browser/mock_admin.py [--port 8027]    # and open it; the token is "all", or "read"
"""

import argparse
import json
import math
import threading
import time
import uuid

import mock_service
from mock_service import Refusal

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
        self.teams = [{"team": "TEAM123456", "name": "Example Ltd"}]
        self.apps = [{"topic": TOPIC, "team": "TEAM123456", "id": "1", "retain": "28 d"}]
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
        self.lines = []
        self.refused = []
        self.audit = []
        for index in range(30):
            self.push(f"{index % 4 + 1:016X}", minutes=index)
        self.refuse("BadTopic", "The topic com.example.ap is none of the team's: did you mean com.example.app?")

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
        """A notification with what became of it, in the ledger; returns its apns-id."""
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


class Handler(mock_service.Handler):
    def handle_any(self):
        parts, query, body = self.parts()
        try:
            if parts[0] != "v1":
                return self.asset("index.html" if parts == [""] else parts[-1])
            with self.world.lock:
                self.world.requests.append("/".join(parts[1:]))
                if self.command != "GET":
                    self.world.calls.append((self.command, "/".join(parts[1:]), body))
                answer = (
                    {"kind": "service", "version": "0.1.0"} if parts[1] == "console" else self.act(parts[1:], query, body)
                )
            self.reply(200, json.dumps(answer).encode(), "application/json")
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else Refusal(500, "failed", repr(error))
            said = refusal.body["error"]
            answer = {"reason": said["code"], "detail": said["message"]}
            self.reply(refusal.status, json.dumps(answer).encode(), "application/json")

    def reply(self, status, content, kind):
        if kind.startswith("text/html"):
            content = content.replace(b"<html ", b'<html data-kind="service" ', 1)
        super().reply(status, content, kind)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def need(self, scope):
        secret = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if secret not in self.world.tokens:
            raise Refusal(401, "unauthorized", "the token is unknown, was removed, or its time is over")
        scopes = self.world.tokens[secret]
        if scope not in scopes:
            raise Refusal(403, "scope-missing", f"token x has the scopes {', '.join(scopes)}; this needs {scope}")

    def act(self, parts, query, body):
        world, name, rest = self.world, parts[0], parts[1:]
        if self.command == "GET":
            self.need("read")
            return self.read(name, rest, query)
        if name == "ledger":
            self.need("read")
            return {"lines": self.found(body)}
        self.need("send" if name == "notifications" else "operate" if name in ("devices", "codes", "enrolments") else "trust")
        return self.change(world, name, rest, body)

    def read(self, name, rest, query):
        world = self.world
        if name == "devices" and rest:
            if rest[0] not in world.devices:
                raise Refusal(404, "not-found", f"there is no device {rest[0]}")
            return world.devices[rest[0]]
        if name == "devices":
            after, text, limit = query.get("after", ""), query.get("query", ""), int(query.get("limit", 100))
            found = [
                one
                for id, one in sorted(world.devices.items())
                if id > after
                and (id.startswith(text.upper()) or text in str(one["environments"][0]["topics"]))
            ]
            more = {"next": found[limit - 1]["device"]} if len(found) > limit else {}
            return {"devices": found[:limit], **more}
        if name == "history":
            step = int(query.get("step_seconds", 10))
            return {"step_seconds": step, "samples": world.history(int(query["since_milliseconds"]), step)}
        if name == "certificates":
            return {"certificates": world.certificates, "revoked": world.revoked}
        if name in ("audit", "refusals"):
            entries = world.audit if name == "audit" else world.refused
            entries = [
                entry
                for entry in entries[::-1]
                if all(query.get(field, entry.get(field)) == entry.get(field) for field in ("event", "id", "topic"))
            ]
            return {"entries": entries[: int(query["limit"])]}
        if name in ("overview", "status"):
            return world.overview()
        return {name: getattr(world, name)}

    def found(self, body):
        unknown = set(body) - {"id", "unique_id", "token", "device", "topic", "states", "limit"}
        unknown -= {"since_milliseconds", "until_milliseconds", "environment"}
        if unknown:
            raise Refusal(400, "invalid", f"unknown: {unknown}")
        if body.get("topic", TOPIC) != TOPIC:
            raise Refusal(404, "not-found", f'the service has no app "{body["topic"]}"')
        lines = self.world.lines
        for name in ("id", "unique_id", "device"):
            lines = [line for line in lines if name not in body or line[name] == body[name].upper()]
        if "states" in body:
            lines = [line for line in lines if line["state"] in body["states"]]
        if "since_milliseconds" in body:
            lines = [line for line in lines if line["milliseconds"] >= body["since_milliseconds"]]
        return sorted(lines, key=lambda line: line["milliseconds"])[-body["limit"] :]

    def change(self, world, name, rest, body):
        world.note(f"{name}.{self.command.lower()}", rest[0] if rest else "")
        if name == "notifications":
            if body["token"] == "0" * 64:
                return {
                    "status": 400,
                    "reason": "BadDeviceToken",
                    "explanation": "This service did not make <b>it</b>.",
                    "apns_id": identity(),
                }
            id = world.push(f"{1:016X}", states=("Received by APNs", "Sent to Device"))
            return {"status": 200, "apns_id": id, "apns_unique_id": world.lines[-1]["unique_id"]}
        if name == "teams":
            world.teams.append({"team": "NEWTEAM001", "name": body["name"]})
        elif name == "apps" and rest:
            world.apps = [app for app in world.apps if app["topic"] != rest[0]]
        elif name == "apps":
            if any(app["topic"] == body["topic"] for app in world.apps):
                raise Refusal(409, "conflict", f'there is an app "{body["topic"]}" already')
            world.apps.append({"topic": body["topic"], "team": body.get("team", world.teams[0]["team"])})
        elif name == "keys" and rest:
            next(key for key in world.keys if key["key"] == rest[0])["revoked"] = stamp(time.time())
        elif name == "keys":
            key = {"key": "NEWKEY0001", "team": "TEAM123456", "environments": [body["environments"]]}
            world.keys.append({**key, "topics": body.get("topics", [])})
            secret = {} if "public_key" in body else {"private_key": "-----BEGIN PRIVATE KEY-----\nMIG\n"}
            return {**key, **secret}
        elif name == "certificates":
            world.revoked.append(rest[0])
        elif name == "devices":
            world.devices[rest[0]].update(retired=stamp(time.time()), connected=False)
        elif name == "enrolments":
            world.enrolments[0]["state"] = rest[1].removesuffix("e") + "ed" if rest[1] == "approve" else "rejected"
        elif name == "codes" and rest:
            world.codes = []
        elif name == "codes":
            made = {"sha256": "ee" * 32, "expires": stamp(time.time() + 3600 * body["hours"]), "uses": body["uses"]}
            more = {"made": stamp(time.time()), "used": 0, "state": "good", "name": body.get("name", "")}
            world.codes.append({**made, **more})
            return {**made, "code": "K7QX-2MNP"}
        return {}


def start(port=0):
    """A service of its own: (its world, its address)."""
    world = World()
    return world, mock_service.serve(Handler, world, port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8027)
    print(start(parser.parse_args().port)[1], flush=True)
    threading.Event().wait()
