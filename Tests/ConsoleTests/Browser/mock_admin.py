#!/usr/bin/env python3
"""A mock of the administration API of `apus serve`, as far as the page needs it.

    Tests/ConsoleTests/Browser/mock_admin.py [--port 8027]    # open it in a browser; tokens are "all" and "read"
"""

import argparse
import collections
import json
import threading
import time

import mock_service
from admin_world import TOPIC, World, identity, stamp
from mock_service import Refusal


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
                answer = self.act(parts[1:], query, body)
            self.reply(200, json.dumps(answer).encode(), "application/json")
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else Refusal(500, "failed", repr(error))
            said = refusal.body["error"]
            answer = {"reason": said["code"], "detail": said["message"]}
            self.reply(refusal.status, json.dumps(answer).encode(), "application/json")

    def reply(self, status, content, kind, **fields):
        if kind.startswith("text/html"):
            content = content.replace(b"<html ", b'<html data-kind="service" ', 1)
        super().reply(status, content, kind, **fields)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def scopes(self):
        secret = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if secret not in self.world.tokens:
            raise Refusal(401, "unauthorized", "the token is unknown, removed or expired")
        return self.world.tokens[secret]

    def need(self, scope):
        scopes = self.scopes()
        if scope not in scopes:
            has = f"token x has the scopes {', '.join(scopes)}"
            raise Refusal(403, "scope-missing", f"{has}; this operation needs {scope}")

    def act(self, parts, query, body):
        world, name, rest = self.world, parts[0], parts[1:]
        if name == "console":
            return {"kind": "service", "version": "0.1.0"}
        if self.command == "GET":
            self.need("read")
            return self.read(name, rest, query)
        if name == "ledger":
            self.need("read")
            return {"lines": self.found(body)}
        operate = dict.fromkeys(["devices", "codes", "enrolments", "channels"], "operate")
        scopes = {"notifications": "send", **operate}
        self.need(scopes.get(name, "trust"))
        return self.change(world, name, rest, body)

    def read(self, name, rest, query):
        world = self.world
        if name == "devices" and rest:
            if rest[0] not in world.devices:
                raise Refusal(404, "not-found", f"the device {rest[0]} does not exist")
            return world.devices[rest[0]]
        if name == "devices":
            after, text, limit = query.get("after", ""), query.get("query", ""), int(query.get("limit", 100))
            found = [
                one
                for id, one in sorted(world.devices.items())
                if id > after
                and query.get("tag", one["tags"][0]) in one["tags"]
                and (id.startswith(text.upper()) or text in one.get("name", "") + str(one["environments"][0]["topics"]))
            ]
            more = {"next": found[limit - 1]["device"]} if len(found) > limit else {}
            return {"devices": found[:limit], **more}
        if name == "channels":
            found, limit = world.channels, int(query["limit"])
            if "after" in query:
                found = found[[one["channel"] for one in found].index(query["after"]) + 1 :]
            return {"channels": found[:limit], **({"next": found[limit - 1]["channel"]} if len(found) > limit else {})}
        if name == "tags":
            tags = collections.Counter(tag for one in world.devices.values() for tag in one["tags"])
            return {"tags": [{"tag": tag, "devices": number} for tag, number in sorted(tags.items())]}
        if name == "jobs":
            # The first look finds it running.
            job = world.jobs[rest[0]]
            world.jobs[rest[0]] = {**job, "ended": stamp(time.time()), "outcomes": {"accepted": 1, "no_app": 0}}
            return job
        if name == "history":
            step = int(query.get("step_seconds", 10))
            return {"step_seconds": step, "samples": world.history(int(query["since_milliseconds"]), step)}
        if name == "certificates":
            return {"certificates": world.certificates, "revoked": world.revoked}
        if name in ("audit", "refusals"):
            entries = world.audit if name == "audit" else world.refused
            fields = ("event", "id", "topic", "device")
            entries = [
                entry
                for entry in entries[::-1]
                if all(query.get(field, entry.get(field)) == entry.get(field) for field in fields)
            ]
            return {"entries": entries[: int(query["limit"])]}
        if name == "overview":
            return world.overview()
        if name == "status":
            return {"service": "apus", "version": "0.1.0", "scopes": sorted(self.scopes())}
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
        if name == "notifications" and "device" in body:
            job = {"job": identity(), "outcomes": {"accepted": 0, "no_app": 0}}
            world.jobs[job["job"]] = job
            world.push(body["device"], states=("Received by APNs", "Stored - Device Offline"))
            return job
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
        elif name == "apps" and self.command == "PATCH":
            app = next(app for app in world.apps if app["topic"] == rest[0])
            app["broadcast"] = "on" if body["broadcast"] else "off"
        elif name == "channels" and rest:
            world.channels = [one for one in world.channels if one["channel"] != rest[0]]
        elif name == "channels":
            world.channels.append(world.channel(0x0E01, body["environment"], body["storage"]))
            return world.channels[-1]
        elif name == "apps" and rest:
            world.apps = [app for app in world.apps if app["topic"] != rest[0]]
        elif name == "apps":
            if any(app["topic"] == body["topic"] for app in world.apps):
                raise Refusal(409, "conflict", f'the app {body["topic"]} already exists')
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
        elif name == "webhooks":
            return self.change_webhook(rest, body)
        elif name == "devices" and self.command == "PATCH":
            if body["name"] == "taken":
                raise Refusal(409, "conflict", 'the device 0000000000000001 has the name "taken"')
            one = world.devices[rest[0]]
            kept = [tag for tag in one["tags"] if tag.split("=")[0] not in body["remove_tags"]]
            one.update(name=body["name"], tags=sorted({*kept, *body["add_tags"]}))
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


    def change_webhook(self, rest, body):
        world = self.world
        if not rest:
            numbers = {"rotating": False, "delivered": 0, "waiting": 0, "failures": 0}
            world.webhooks.append({**numbers, "name": body.get("name", "default"), **body})
            return {**world.webhooks[-1], "secret": "apuswh_0123"}
        hook = next(hook for hook in world.webhooks if hook["name"] == rest[0])
        if self.command == "DELETE":
            world.webhooks.remove(hook)
            return {"removed": rest[0]}
        if rest[1] == "test":
            return {"delivered": False, "error": hook["error"]} if "error" in hook else {"delivered": True}
        hook["rotating"] = not (body or {}).get("finish", False)
        return {"name": rest[0], **({"secret": "apuswh_4567"} if hook["rotating"] else {})}


def start(port=0):
    """Starts a new service: (its world, its address)."""
    world = World()
    return world, mock_service.serve(Handler, world, port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8027)
    print(start(parser.parse_args().port)[1], flush=True)
    threading.Event().wait()
