#!/usr/bin/env python3
"""Kills a gateway and disturbs its upstream while a legacy sender pushes through it, and accounts for every one.

    Tests/Crash/relay.py [--sender own|pyapns|apns-clerk] [--count N] [--kills N] [--outages N] [--seed N]
                         [--pause SECONDS]

The upstream is `apus dev`, which rejects 50 tokens as bad and 50 as dead. The sender uses a listener with `+confirm`:
it sends again what was not confirmed when its connection was lost, and everything behind a notification that an error
packet names. Every good notification must arrive; twice only if its confirmation or upstream's response was lost. Every
bad token must be reported by a packet or the feedback list, and every dead one be in the list once.

With a third-party library as the sender, unmodified, the listener is one as Apple's, without confirmations. The library
sends again by itself what it does after error packets, and must not cause duplicates by that; the rest is up to its
owner (legacy_owner.py). How much was lost with connections that broke is counted.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
from harness import free_port
from legacy_frames import command_2, feedback_rows, packets
from library_sender import LibrarySender
from upstream import BAD, DEAD, DEAD_SINCE, GOOD, Upstream, token

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAMS = pathlib.Path(os.environ.get("PROGRAMS", ROOT / ".build" / "release"))
APUS = PROGRAMS / "apus"
TOPIC = "com.example.app"
# Notifications in one write, and the most that wait for their confirmation.
BATCH, WINDOW = 20, 3000
# Seconds for which error packets are awaited when everything is confirmed.
PATIENCE = 2


def apus(*arguments):
    return subprocess.run([APUS, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


class Gateway:
    """The service under test."""

    def __init__(self, scratch, upstream, modifiers):
        self.data, self.log, self.modifiers = scratch / "data", open(scratch / "gateway.log", "a"), modifiers
        self.port, self.feedback_port = free_port(), free_port()
        ready = upstream.ready
        apus("init", "--data", self.data, "--topic", TOPIC, "--name", "localhost")
        apus("app", "--data", self.data, "--change", TOPIC,
             "--upstream", f"https://localhost:{ready['http2']['production']}", "--upstream-key", ready["key_file"],
             "--upstream-key-id", ready["key_id"], "--upstream-team", ready["team"],
             "--upstream-authority", ready["authority_file"])
        apus("cert", "--data", self.data, "--topic", TOPIC)
        self.authority = self.data / "authority" / "service.crt"
        self.certificate = next((self.data / "certificates").glob("*.pem"))
        self.context = ssl.create_default_context(cafile=self.authority)
        self.context.load_cert_chain(self.certificate)
        self.start()

    def start(self):
        off = [word for name in ("http2", "courier") for kind in ("", "-development")
               for word in (f"--{name}{kind}-listen", "off")]
        off += ["--gateway-development-listen", "off", "--feedback-development-listen", "off"]
        self.process = subprocess.Popen(
            [APUS, "serve", "--data", self.data, "--gateway-listen", f"127.0.0.1:{self.port}{self.modifiers}",
             "--feedback-listen", f"127.0.0.1:{self.feedback_port}", *off], stdout=subprocess.DEVNULL, stderr=self.log)
        for _ in range(1000):
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
        sys.exit("the gateway did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        time.sleep(random.uniform(0, 0.3))
        self.start()

    def connect(self, port):
        plain = socket.create_connection(("127.0.0.1", port), timeout=5)
        return self.context.wrap_socket(plain, server_hostname="localhost")

    def waiting(self):
        try:
            rows = apus("relay", "--data", self.data, "--json").splitlines()
        except subprocess.CalledProcessError:
            return True  # It was started a moment ago.
        return any(json.loads(row)["notifications"] for row in rows)

    def feedback(self):
        """The list's tokens with their times, each as often as it is listed."""
        with self.connect(self.feedback_port) as reader:
            return feedback_rows(b"".join(iter(lambda: reader.recv(65536), b"")))


class Sender:
    """A legacy sender that knows the interface."""

    def __init__(self, gateway, tokens, pause):
        self.gateway, self.tokens, self.pause = gateway, tokens, pause
        self.reported, self.doubtful, self.connections = {}, set(), 0

    def frame(self, number):
        payload = json.dumps({"aps": {"alert": f"n{number}"}}).encode()
        return command_2(number, self.tokens[number], payload, 0x7FFF_FFFF)

    def send(self, numbers):
        """Sends on one connection, and returns what is to be sent on the next one."""
        confirmed, sent, packet = set(), 0, None
        try:
            with self.gateway.connect(self.gateway.port) as connection:
                self.connections += 1
                for sent, status, identifier in self.exchange(connection, numbers, confirmed):
                    if status == 0:
                        confirmed.add(identifier)
                    elif status is not None:
                        packet = (status, identifier)
                        break
        except OSError:
            pass
        if packet:
            status, identifier = packet
            if status != 10:
                self.reported[identifier] = status
            return numbers[numbers.index(identifier) + 1:]
        left = [number for number in numbers if number not in confirmed]
        self.doubtful.update(number for number in numbers[:sent] if number not in confirmed)
        return left

    def exchange(self, connection, numbers, confirmed):
        """Yields how many were written, and the packets that come: (written, status, identifier)."""
        sent, data, quiet, limit = 0, b"", time.monotonic(), WINDOW
        while sent < len(numbers) or len(confirmed) < len(numbers) or time.monotonic() - quiet < PATIENCE:
            if sent < len(numbers) and sent - len(confirmed) < limit:
                time.sleep(self.pause)
                connection.settimeout(10)
                batch = numbers[sent:sent + BATCH]
                sent += len(batch)
                yield sent, None, None
                try:
                    connection.sendall(b"".join(map(self.frame, batch)))
                except OSError:
                    # What came before the end of the connection can still be read.
                    limit = 0
            connection.settimeout(0.0005)
            try:
                more = connection.recv(65536)
            except (TimeoutError, ssl.SSLWantReadError):
                continue
            if not more:
                return
            data, quiet = data + more, time.monotonic()
            found, data = packets(data)
            for status, identifier in found:
                yield sent, status, identifier

    def arrivals(self, ids):
        """How often each number arrived."""
        return {int(text[1:]): len(several) for text, several in ids.items()}

    def unrecognised(self, _):
        """Not known here: what it sends again has the same text, whether it was in doubt or not."""
        return []

    def describe(self, ids, of_kind, twice):
        doubtful = len([n for n in twice if n in self.doubtful])
        return (f"connections {self.connections}, reported by packets {len(self.reported)}, arrived twice "
                f"{len(twice)}: {doubtful} whose confirmation was lost, {len(twice) - doubtful} whose response from "
                "upstream was lost")


def disturb(gateway, upstream, kills, outages):
    while kills or outages:
        time.sleep(random.uniform(0.3, 1.2))
        if kills and (not outages or random.random() < 0.5):
            gateway.kill()
            kills -= 1
        else:
            upstream.disturb()
            outages -= 1


def account(kinds, tokens, sender, upstream, listed):
    """What is wrong, in words."""
    ids, faults = upstream.accepted(), []
    counts = sender.arrivals(ids)
    names = [token for token, _ in listed]

    def check(what, numbers):
        if numbers:
            faults.append(f"{what}: {len(numbers)}, such as {sorted(numbers)[:5]}")

    of_kind = {kind: [n for n in range(len(kinds)) if kinds[n] == kind] for kind in (GOOD, BAD, DEAD)}
    check("lost", [n for n in of_kind[GOOD] if not counts.get(n)])
    check("good, but reported", [n for n in sender.reported if kinds[n] != BAD])
    check("good, but in the feedback list", [n for n in of_kind[GOOD] if tokens[n] in names])
    check("bad, and not reported", [n for n in of_kind[BAD] if n not in sender.reported and tokens[n] not in names])
    check("dead, and not in the feedback list once", [
        n for n in of_kind[DEAD] if listed.count((tokens[n], DEAD_SINCE)) != 1])
    check("sent again after a packet, and not recognised", sender.unrecognised(ids))
    print(sender.describe(ids, of_kind, [n for n in of_kind[GOOD] if counts.get(n, 0) > 1]))
    return faults


def send(options, scratch, gateway, upstream, tokens):
    """Sends everything, with all the trouble; returns the sender."""
    if options.sender == "own":
        sender = Sender(gateway, tokens, options.pause)
        trouble = threading.Thread(
            target=disturb, args=(gateway, upstream, options.kills, options.outages), daemon=True)
        trouble.start()
        left = list(range(options.count))
        while left:
            left = sender.send(left)
        trouble.join()
        return sender
    sender = LibrarySender(options.sender, gateway, tokens, options.pause)
    sender.send(scratch, options.kills * [gateway.kill] + options.outages * [upstream.disturb])
    return sender


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sender", choices=["own", "pyapns", "apns-clerk"], default="own", help="who sends (own)")
    parser.add_argument("--count", type=int, default=10_000, help="notifications (10,000)")
    parser.add_argument("--kills", type=int, default=20, help="kills of the gateway (20)")
    parser.add_argument("--outages", type=int, default=20, help="outages of upstream (20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between writes of 20 (0.05)")
    options = parser.parse_args()
    random.seed(options.seed)
    kinds = [GOOD] * options.count
    for place, number in enumerate(random.sample(range(options.count), 100)):
        kinds[number] = BAD if place % 2 else DEAD
    devices = [f"{GOOD}{random.getrandbits(248):062x}" for _ in range(50)]
    tokens = [token(number, kind, devices) for number, kind in enumerate(kinds)]
    with tempfile.TemporaryDirectory(prefix="apus-relay-") as folder:
        upstream = Upstream(pathlib.Path(folder), PROGRAMS)
        gateway = Gateway(pathlib.Path(folder), upstream, "+confirm" if options.sender == "own" else "")
        try:
            sender = send(options, pathlib.Path(folder), gateway, upstream, tokens)
            end = time.monotonic() + 300
            while gateway.waiting():
                if time.monotonic() > end:
                    sys.exit("the spool did not become empty")
                time.sleep(0.2)
            faults = account(kinds, tokens, sender, upstream, gateway.feedback())
        finally:
            gateway.process.terminate()
            upstream.process.terminate()
    for fault in faults:
        print(fault)
    print("failed" if faults else "Every notification is accounted for.")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
