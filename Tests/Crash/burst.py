#!/usr/bin/env python3
"""Sends bursts to one connected device: it must show every accepted notification once and in order.

    Tests/Crash/burst.py [--notifications N] [--times N]

The device is `apus listen`. Notifications come from `apus send --tokens`, with its usual number of requests at a time
and with 10,000, and from `apus-bench send-binary`; with expiration 0 and one hour; over one connection and over four.
Each burst has its own device token, because 10,000 requests at once are allowed for a token.

All must be accepted, and be shown in the order of their acceptance, which is in the ledger. What one connection
carries is accepted in the order of its sending, so the numbers of each sender must ascend as well. `apus send` opens
more connections when 1,000 requests, the limit of one, do not suffice. For the bursts over one or four connections
each of its processes sends through a relay that takes a single connection.
"""

import argparse
import json
import os
import pathlib
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
import harness
from harness import ROOT, TOPIC, Process, check, free_port, output_of, say

# The distance between the numbers of two senders.
SHARE = 1_000_000
USUAL, MOST = None, 10_000


class Relay:
    """Forwards one connection to a port. Further ones are refused."""

    def __init__(self, target):
        self.target = target
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with self.listener:
            near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.target))
        threading.Thread(target=self.forward, args=(far, near), daemon=True).start()
        self.forward(near, far)

    @staticmethod
    def forward(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # The other end is gone: the programs on both sides report what that means for them.
            pass


class Burst(harness.Bench):
    def provision(self):
        super().provision()
        self.certificate = json.loads(
            output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.http2, self.gateway = free_port(), free_port()
        self.cpus = sorted(os.sched_getaffinity(0))
        self.serve(2, self.cpus, http2=f"127.0.0.1:{self.http2}", gateway=f"127.0.0.1:{self.gateway}")
        self.bursts = 0

    def listen(self):
        """A new device: its process, and its token."""
        device = json.loads(output_of(
            self.apus, "device", "add", "--data", self.data, "--name", f"burst-{self.bursts}", "--json"))
        token_file = self.scratch / f"token-{self.bursts}"
        process = Process(
            [self.apus, "listen", "--data", self.data, "--to", f"localhost:{self.courier_port}", "--json",
             "--certificate", device["certificate_file"], "--key", device["key_file"], "--topic", TOPIC,
             "--token-file", token_file],
            self.cpus, self.scratch / f"shown-{self.bursts}")
        process.wait_until(lambda: token_file.exists() and token_file.read_text().strip(), "a token")
        return process, token_file.read_text().strip()

    def shown(self, device):
        """What the device shows, once all were shown, and a second later, so that any shown twice is among it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.shown_count(device) < self.options.notifications:
            time.sleep(0.1)
        time.sleep(1)
        lines = device.stop().splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if event["event"] == "notification"]

    @staticmethod
    def shown_count(device):
        return device.log.read_bytes().count(b'"apns_id"')

    def accepted(self, token):
        """The ids of the notifications to the token, in the order of their acceptance."""
        count = self.options.notifications
        deadline = time.monotonic() + 20
        while True:
            lines = output_of(
                self.apus, "log", "--data", self.data, "--token", token, "--state", "Received by APNs", "--limit",
                2 * count, "--json").splitlines()
            # The last lines are written within a second.
            if len(lines) >= count or time.monotonic() > deadline:
                return [json.loads(line)["id"].lower() for line in lines]
            time.sleep(0.5)

    # Each of these starts one sender and returns its process.

    def send(self, sender, token, share, expiration, port, concurrency):
        rows = self.scratch / f"rows-{sender}.csv"
        first = sender * SHARE
        rows.write_text("token,n\n" + "".join(f"{token},{n}\n" for n in range(first, first + share)))
        extra = ["--concurrency", concurrency] if concurrency else []
        return Process(
            [self.apus, "send", "--data", self.data, "--to", f"localhost:{port}", "--tokens", rows, "--topic", TOPIC,
             "--alert", "{{n}}", "--expiration", expiration, "--json", *extra],
            self.cpus, self.scratch / f"sender-{sender}.log")

    def send_binary(self, sender, token, share, expiration):
        tokens = self.scratch / f"tokens-{sender}"
        tokens.write_text(token + "\n")
        return Process(
            [self.apus_bench, "send-binary", "--connect", f"127.0.0.1:{self.gateway}", "--authority",
             self.certificate["authority_file"], "--certificate", self.certificate["certificate_file"], "--key",
             self.certificate["key_file"], "--tokens", tokens, "--notifications", share, "--warm-up", "0",
             "--expiration", expiration, "--number-from", sender * SHARE],
            self.cpus, self.scratch / f"sender-{sender}.log")

    def burst(self, name, senders, start, ascends=True):
        """`start` is called with a sender's number, the token, and how many notifications the sender has."""
        self.bursts += 1
        share = self.options.notifications // senders
        device, token = self.listen()
        for process in [start(sender, token, share) for sender in range(senders)]:
            status = process.child.wait(600)
            check(status == 0, f"{name}: {process.name} ended with {status}. {process.tail()}")
            process.stop()
        events = self.shown(device)
        expected = [sender * SHARE + n for sender in range(senders) for n in range(share)]
        numbers = [int(event["payload"]["aps"]["alert"].split()[0]) for event in events]
        missing, distinct = set(expected) - set(numbers), set(numbers)
        check(not missing, f"{name}: all {len(expected):,} were accepted, and {len(missing):,} were not shown: "
                           f"{sorted(missing)[:10]}")
        check(len(numbers) == len(distinct), f"{name}: {len(numbers) - len(distinct):,} were shown twice.")
        check(distinct == set(expected), f"{name}: something was shown that was not sent.")
        for sender in range(senders if ascends else 0):
            own = [number for number in numbers if number // SHARE == sender]
            check(own == sorted(own), f"{name}: not shown in the order in which sender {sender} sent them.")
        accepted = self.accepted(token)
        check(len(accepted) == len(expected), f"{name}: the ledger has {len(accepted):,} of {len(expected):,}.")
        check([event["apns_id"].lower() for event in events] == accepted,
              f"{name}: not shown in the order of acceptance.")

    def round(self):
        for expiration in ("0", "+1h"):
            for senders in (1, 4):
                for concurrency in (USUAL, MOST):
                    self.burst(
                        f"apus send, {senders} connections, expiration {expiration}, "
                        f"{concurrency or 'the usual number'} at a time", senders,
                        lambda sender, token, share: self.send(
                            sender, token, share, expiration, Relay(self.http2).port, concurrency))
                self.burst(
                    f"apus-bench send-binary, {senders} connections, expiration {expiration}", senders,
                    lambda sender, token, share: self.send_binary(sender, token, share, expiration))
            self.burst(
                f"apus send, as many connections as it opens, expiration {expiration}, {MOST} at a time", 1,
                lambda sender, token, share: self.send(sender, token, share, expiration, self.http2, MOST),
                ascends=False)

    def measure(self):
        for number in range(self.options.times):
            self.round()
            say(f"burst: round {number + 1} of {self.options.times} is complete")
        print(json.dumps({"bursts": self.bursts, "notifications": self.bursts * self.options.notifications,
                          "lost": 0, "twice": 0, "out_of_order": 0}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notifications", type=int, default=10_000,
                        help="notifications of a burst, a multiple of four (10,000)")
    parser.add_argument("--times", type=int, default=5, help="rounds of all bursts (5)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    parser.add_argument("--ledger", default="all", metavar="MODE", help="the service's option --ledger (all)")
    options = parser.parse_args()
    check(options.notifications % 4 == 0, "--notifications: four senders share them, so it must be a multiple of 4.")
    say.stream = sys.stderr
    harness.run(options, Burst, [], Burst.measure, processors=1)


main()
