#!/usr/bin/env python3
"""A mock of the API of `apus dev`, as far as the page needs it, with made-up pushes. It provides at once what a real
service would need minutes for: ten thousand pushes, a thousand per second, late responses.

    Tests/ConsoleTests/Browser/mock_service.py [--port 8026] [--pushes 10000]    # open it in a browser
"""

import argparse
import json
import pathlib
import queue
import re
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import samples
from world import World

SOURCES = pathlib.Path(__file__).resolve().parents[3] / "Sources" / "ApusConsole"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def policy():
    """The content security policy of the program."""
    text = (SOURCES / "DevAssets.swift").read_text()
    literal = re.search(r"contentSecurityPolicy =\s*((?:\"[^\"]*\"\s*\+?\s*)+)", text).group(1)
    return "".join(re.findall(r'"([^"]*)"', literal))


class Refusal(Exception):
    def __init__(self, status, code, message, **place):
        super().__init__(message)
        self.status = status
        self.body = {"error": {"code": code, "message": message, **place}}


def matches(push, query):
    accepted = push["verdict"]["accepted"]
    verdict = query.get("verdict")
    if verdict == "refused" and accepted or verdict == "accepted" and not accepted:
        return False
    if verdict == "violations" and not push["violations"]:
        return False
    for name, field in (("topic", "topic"), ("type", "pushType"), ("device", "device"), ("token", "token")):
        if name in query and push[field] != query[name]:
            return False
    return "q" not in query or query["q"].lower() in json.dumps(push, ensure_ascii=False).lower()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # A response is written in two parts. The second would wait until the browser has acknowledged the first.
    disable_nagle_algorithm = True

    @property
    def world(self):
        return self.server.world

    def log_message(self, *arguments):
        pass

    def parts(self):
        """The path segments, the query, and the content: text if the content type is text, otherwise JSON."""
        url = urllib.parse.urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        content = self.rfile.read(length)
        is_text = (self.headers.get("content-type") or "").startswith("text/")
        body = content.decode() if is_text else json.loads(content) if content else None
        parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        return parts, dict(urllib.parse.parse_qsl(url.query)), body

    def handle_any(self):
        parts, query, body = self.parts()
        try:
            if parts[:2] != ["api", "v1"]:
                return self.asset("index.html" if parts == [""] else parts[-1])
            wanted = f"Bearer {self.world.password}"
            if self.world.password and parts[2] != "console" and self.headers.get("authorization") != wanted:
                raise Refusal(401, "unauthorized", "the password is wrong")
            if parts[2] == "events":
                return self.events()
            with self.world.lock:
                if self.command != "GET":
                    self.world.calls.append((self.command, "/".join(parts[2:]), body))
                answer = self.answer(parts[2], parts[3:], query, body)
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            self.reply(200, answer.encode() if kind == "text/plain" else json.dumps(answer).encode(), kind)
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else Refusal(500, "failed", repr(error))
            self.reply(refusal.status, json.dumps(refusal.body).encode(), "application/json")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def reply(self, status, content, kind, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header(
            "Content-Security-Policy", policy() if kind.startswith("text/html") else "default-src 'none'"
        )
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def asset(self, name):
        path = SOURCES / "Assets" / pathlib.PurePath(name).name
        if not path.is_file():
            raise Refusal(404, "not-found", f"the file {name} does not exist")
        kept = {} if name == "index.html" else {"Cache_Control": "max-age=3600"}
        self.reply(200, path.read_bytes(), TYPES[path.suffix] + "; charset=utf-8", **kept)

    def events(self):
        reader, world = queue.Queue(), self.world
        with world.lock:
            if not world.streams_allowed:
                raise Refusal(503, "failed", "not now")
            world.readers.append(reader)
            if last := self.headers.get("last-event-id"):
                for text in world.events[int(last) :]:
                    reader.put(text)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            self.wfile.write(b"retry: 200\n\n")
            while True:
                try:
                    text = reader.get(timeout=1)
                except queue.Empty:
                    text = b":\n\n"
                if text is None:
                    break
                self.wfile.write(text)
                self.wfile.flush()
        except OSError:
            pass
        with world.lock:
            world.readers.remove(reader)
        self.close_connection = True

    def answer(self, name, rest, query, body):
        return getattr(self, name)(rest, query, body)

    def pushes(self, rest, query, body):
        world = self.world
        if self.command == "DELETE":
            world.pushes.clear()
            world.tell("cleared", {})
            return {}
        if rest:
            push = world.find(int(rest[0]))
            if not push:
                raise Refusal(404, "not-found", f"the push {rest[0]} does not exist")
            return push
        limit, before = int(query.get("limit", 100)), int(query.get("before", 1 << 60))
        found, kept = [], len(world.pushes)
        if limit == 1:
            world.counted()
        for push in reversed(world.pushes):
            if push["number"] < before and matches(push, query):
                if len(found) == limit:
                    return {"pushes": found, "next": found[-1]["number"], "kept": kept}
                found.append(push)
        return {"pushes": found, "next": None, "kept": kept}

    def console(self, rest, query, body):
        return {"kind": "dev", "locked": self.world.password is not None}

    def strings(self, rest, query, body):
        tables = self.world.strings
        if self.command == "PUT":
            if '"' not in body:
                raise Refusal(400, "invalid", "a text in quotes is expected", line=1, column=1)
            tables[tuple(rest)] = body
        if rest and self.command == "GET":
            return tables[tuple(rest)]
        listed = [
            {"topic": topic, "language": language, "count": text.count("=")}
            for (topic, language), text in tables.items()
        ]
        return {"strings": listed}

    def status(self, rest, query, body):
        return samples.status(self.world)

    def violations(self, rest, query, body):
        return samples.report(self.world.pushes)

    def devices(self, rest, query, body):
        world = self.world
        if rest and rest[-1] == "shown":
            if self.command == "DELETE":
                world.shown[rest[0]].clear()
            return {"shown": world.shown[rest[0]][::-1]}
        if rest and rest[-1] == "activities":
            if self.command == "DELETE":
                for activity in world.activities[rest[0]]:
                    activity.update(state="dismissed", token=None)
            return {"activities": world.activities[rest[0]]}
        if rest and rest[0] not in world.devices:
            raise Refusal(404, "not-found", f'the device "{rest[0]}" does not exist')
        if self.command == "POST":
            if not re.fullmatch("[A-Za-z0-9-]{1,32}", body["id"]):
                raise Refusal(400, "invalid", "must be 1 to 32 letters, digits and hyphens", field="id")
            world.devices[body["id"]] = samples.device(body["id"], body.get("language", "en"))
            world.shown[body["id"]] = []
            world.activities[body["id"]] = []
        elif self.command == "PATCH":
            device = world.devices[rest[0]]
            device["apps"].update(body.pop("apps", {}))
            device.update(body)
        elif self.command == "DELETE":
            del world.devices[rest[0]]
        if self.command != "GET":
            world.tell("device", {})
        return {"devices": list(world.devices.values())}

    def channels(self, rest, query, body):
        world = self.world
        if self.command == "POST":
            world.channels.append(samples.channel(samples.CHANNEL, body["environment"], body["storage"]))
            return world.channels[-1]
        if self.command == "DELETE":
            world.channels = [one for one in world.channels if one["channel"] != rest[0]]
        return {"channels": world.channels}

    def faults(self, rest, query, body):
        world = self.world
        if self.command == "POST":
            if not 0 <= body.get("rate", 0) <= 1:
                raise Refusal(400, "invalid", "must be from 0 to 1", field="rate", line=1, column=9)
            name = body.get("name") or body["effect"]["type"]
            rule = {
                "match": {},
                **body,
                "id": str(world.next_fault),
                "name": name,
                "matched": 0,
                "struck": 0,
                "spent": False,
            }
            world.next_fault += 1
            world.faults.append(rule)
        elif self.command == "DELETE":
            world.faults = [rule for rule in world.faults if rest and rule["id"] != rest[0]]
        if self.command != "GET":
            world.tell("fault", {})
        return {"faults": world.faults}

    def clock(self, rest, query, body):
        world = self.world
        if self.command == "PUT":
            if "set" in body:
                world.offset += body["set"] - world.now()
            world.offset = 0 if body.get("reset") else world.offset + body.get("advanceMilliseconds", 0)
            world.tell("clock", {})
        return {"now": world.now(), "offsetMilliseconds": world.offset}

    def send(self, rest, query, body):
        world = self.world
        if "device" in body and body["device"] not in world.devices:
            raise Refusal(404, "not-found", f'the device "{body["device"]}" does not exist')
        push = world.add({**samples.of(body, world.send_answer), "violations": world.send_violations})
        return {
            "token": push["token"],
            "apnsID": push["apnsID"],
            "number": push["number"],
            "verdict": push["verdict"],
            "violations": push["violations"],
        }

    def tokens(self, rest, query, body):
        now = self.world.now() // 1000
        issued = body.get("issuedAtSeconds", now)
        known = {
            "keyID": "ABC123DEFG",
            "team": "TEAM123456",
            "issuedAtSeconds": issued,
            "expiresAtSeconds": issued + 3600,
        }
        if rest[0] == "provider":
            return {
                "token": "eyJhbGciOiJFUzI1NiJ9.e30.c2lnbmF0dXJl",
                "authorization": "bearer eyJhbGciOiJFUzI1NiJ9",
                **known,
            }
        problems = [] if "." in body["token"] else ["this service did not issue the token"]
        return {
            "kind": "provider" if "." in body["token"] else "device",
            "good": not problems,
            "problems": problems,
            **known,
        }


class Server(ThreadingHTTPServer):
    """The services of a run follow each other at one address, so that a browser may keep the files of the page."""

    running = {}  # by their handlers
    world = None
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass  # Browsers drop connections at any time; errors of handlers are sent as responses.


def serve(handler, world, port=0):
    """Serves on the port, or on a free one if it is 0; returns the address. Ends the service before."""
    if not (server := Server.running.get(handler)):
        server = Server.running[handler] = Server(("127.0.0.1", port), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    server.world = world
    return f"http://127.0.0.1:{server.server_port}/"


def start(pushes=0, port=0):
    """Starts a new service: (its world, its address)."""
    world = World(pushes)
    return world, serve(Handler, world, port)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8026)
    parser.add_argument("--pushes", type=int, default=10_000)
    options = parser.parse_args()
    world, address = start(options.pushes, options.port)
    for sample in samples.bad():
        world.add(sample)
    print(address, flush=True)
    threading.Event().wait()
