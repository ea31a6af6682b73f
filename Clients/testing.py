"""What the tests of all clients share: the protocol's vectors as bytes, and a service to talk to."""

import contextlib
import itertools
import json
import os
import pathlib
import queue
import random
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: The service's program; without it, tests that need a service are skipped.
APUS = os.environ.get("APUS")
TOPIC = "com.example.app"
LIVE_TOPIC = f"{TOPIC}.push-type.liveactivity"
DIALECT = "apus-courier/1"
#: Addresses of this machine, at which a service can be.
HOSTS = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
OTHER_LISTENERS = ["http2-development", "courier-development", "gateway", "gateway-development", "feedback",
                   "feedback-development"]


def vectors(receiver, dialect=DIALECT):
    """The vectors for `device` or `service`, in the clients' dialect, or in each for None."""
    found = json.loads((ROOT / "Documentation/courier-vectors.json").read_text())["vectors"]
    return [one for one in found if one["to"] == receiver and dialect in (None, one.get("dialect", DIALECT))]


def octets(pieces):
    """Digits in pieces; 00*31 is 31 bytes of 00."""
    found = b""
    for word in " ".join(pieces).split():
        digits, _, count = word.partition("*")
        found += bytes.fromhex(digits) * int(count or 1)
    return found


def changes():
    """The vectors of requests that change subscriptions, by name: bytes and facts, with marks as pairs of topic and id.

    Without those that say which broadcast the device has."""
    found = {}
    for vector in vectors("service"):
        facts = vector.get("decoded", {})
        if facts.get("message") != "channelRequest" or not vector.get("canonical", True):
            continue
        marks = {name: [mark.split("/") for mark in "".join(facts.get(name, "")).split()]
                 for name in ("subscribed", "unsubscribed")}
        if not any("@" in digits for _, digits in marks["subscribed"]):
            found[vector["name"]] = octets(vector["hex"]), marks | {
                "index": facts["index"], "token": facts.get("token"), "replaces": "replaces" in facts}
    return found


def free_port():
    """Below the ports of outgoing connections, which take what is free."""
    while True:
        port = random.randrange(10_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class ServiceTests:
    """Starts a service for each test, with a data directory of its own. A base beside `unittest.TestCase`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        names = [word for name in ("localhost", *HOSTS) for word in ("--name", name)]
        self.authority = self.apus("init", *names, "--topic", TOPIC)["authority_file"]
        self.http2, self.courier, self.channels = free_port(), free_port(), free_port()
        self.start()

    def apus(self, *arguments):
        run = subprocess.run(
            [APUS, *arguments, "--data", self.data, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = run.stdout.splitlines()
        return json.loads(lines[-1]) if lines else None

    def start(self, host="127.0.0.1"):
        """`host` is the address of the listener for devices."""
        log = open(self.folder / "serve.log", "ab")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(
            [APUS, "serve", "--data", self.data, "--json", "--http2-listen", f"127.0.0.1:{self.http2}",
             "--courier-listen", f"{host}:{self.courier}", "--channels-listen", f"127.0.0.1:{self.channels}",
             *(f"--{name}-listen=off" for name in OTHER_LISTENERS)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.stop)
        self.assertIn("ready", self.process.stdout.readline())

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def push(self, token, text, *options):
        return self.apus(
            "send", "--to", f"localhost:{self.http2}", "--token", token, "--topic", TOPIC, "--alert", text, *options)

    def create_channel(self):
        """The id of a new channel, in base64, and what else a test of channels needs."""
        self.apus("app", "--change", TOPIC, "--broadcast", "on")
        for _ in range(50):
            run = subprocess.run([APUS, "channel", "create", "--topic", TOPIC, "--data", self.data],
                                 capture_output=True, text=True, timeout=60)
            if run.returncode == 0:
                return run.stdout.strip()
            time.sleep(0.1)  # The service reads the directory within a second.
        self.fail(run.stdout + run.stderr)

    def broadcast(self, channel, number, expiration="0"):
        payload = {"aps": {"timestamp": 1700000000, "event": "update", "content-state": {"number": number}}}
        return self.apus(
            "send", "--to", f"localhost:{self.http2}", "--channel", channel, "--topic", TOPIC, "--payload",
            json.dumps(payload), "--expiration", expiration)

    def retire(self, device):
        subprocess.run(
            [APUS, "device", "retire", "--data", self.data, device], check=True, capture_output=True)


class Listener:
    """A client's program, with the events that it prints."""

    #: How it may end.
    statuses = (0, -signal.SIGTERM)

    def __init__(self, test, folder, command):
        self.test, self.events, self.kept = test, queue.Queue(), []
        self.log = open(folder / "listen.log", "ab")
        test.addCleanup(self.log.close)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        test.addCleanup(self.stop)
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))

    def next(self, event, seconds=30):
        """The next event of that kind. Others stay."""
        for place, found in enumerate(self.kept):
            if found["event"] == event:
                return self.kept.pop(place)
        while True:
            try:
                found = self.events.get(timeout=seconds)
            except queue.Empty:
                self.test.fail(f"no {event}: {pathlib.Path(self.log.name).read_text()}")
            if found["event"] == event:
                return found
            self.kept.append(found)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        status = self.process.wait(30)
        self.thread.join()
        self.process.stdout.close()
        self.test.assertIn(status, self.statuses, pathlib.Path(self.log.name).read_text())


class SessionTests:
    """A listener that plays a session's bytes to a client's program. A base beside `unittest.TestCase`."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", self.folder / "server.key",
             "-out", self.folder / "server.pem"], check=True, capture_output=True)
        (self.folder / "device.pem").write_text(
            (self.folder / "server.key").read_text() + (self.folder / "server.pem").read_text())
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        self.context.set_alpn_protocols([DIALECT])
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listening.close)
        self.listening.settimeout(30)
        self.port = self.listening.getsockname()[1]

    def accept(self):
        stream = self.context.wrap_socket(self.listening.accept()[0], server_side=True)
        self.addCleanup(stream.close)
        stream.settimeout(30)
        return stream

    def session(self):
        """Section 14 of the document: who sends which bytes. A client sends no keep-alive within a test."""
        block = re.search(r"```courier\n(.*?)```", (ROOT / "Documentation/courier.md").read_text(), re.S)[1]
        pairs = [line.split(";")[0].split(maxsplit=1) for line in block.splitlines()]
        return [(side, bytes.fromhex(digits)) for side, digits in pairs if digits[:2] not in ("0c", "0d")]

    def expect_following(self, start):
        """The program that `start` starts goes on at an address that the service names."""
        better = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(better.close)
        better.settimeout(30)
        turns = itertools.groupby(self.session(), key=lambda line: line[0])
        connect, response = (b"".join(part for _, part in lines) for _, lines in itertools.islice(turns, 2))
        place = f"127.0.0.1:{better.getsockname()[1]}".encode()
        body = response[5:] + b"\x41" + len(place).to_bytes(2, "big") + place
        start()
        stream = self.accept()
        self.play(stream, [(">", connect), ("<", response[:1] + len(body).to_bytes(4, "big") + body)])
        # What the device goes on with: it has read the response.
        stream.recv(1)
        stream.close()
        # The certificate there names the first address.
        stream = self.context.wrap_socket(better.accept()[0], server_side=True)
        self.addCleanup(stream.close)
        self.play(stream, [(">", connect)])

    def play(self, stream, lines):
        for side, expected in lines:
            if side == "<":
                stream.sendall(expected)
            else:
                found = b""
                while len(found) < len(expected):
                    found += (more := stream.recv(len(expected) - len(found)))
                    self.assertTrue(more, f"the end instead of {expected.hex()}")
                self.assertEqual(found.hex(), expected.hex())
