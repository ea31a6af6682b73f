#!/usr/bin/env python3
"""Sends bursts to one connected device: it must show every accepted notification once and in order.

    Tests/Crash/burst.py [--notifications N] [--times N]

The device is `apus listen`. Notifications come from `apus send --tokens` (1,000 and 10,000 requests at a time, with
expiration 0 and one hour, from one process and from four) and from `apus-bench send-binary` (one and four
connections). Each burst has its own device token, because 10,000 requests at once are allowed for a token.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
import harness
from harness import ROOT, TOPIC, Process, check, free_port, output_of, say


class Burst(harness.Bench):
    def provision(self):
        super().provision()
        self.certificate = json.loads(
            output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.http2, self.gateway = free_port(), free_port()
        self.serve(2, [0, 1], http2=f"127.0.0.1:{self.http2}", gateway=f"127.0.0.1:{self.gateway}")
        self.devices = 0

    def listen(self):
        """A new device: its process, its token, and the file with the notifications it shows."""
        self.devices += 1
        device = json.loads(output_of(
            self.apus, "device", "--data", self.data, "--name", f"burst-{self.devices}", "--json"))
        token_file = self.scratch / f"token-{self.devices}"
        shown = self.scratch / f"shown-{self.devices}"
        with open(shown, "wb") as output:
            child = subprocess.Popen(
                [self.apus, "listen", "--data", self.data, "--to", f"localhost:{self.courier_port}", "--json",
                 "--certificate", device["certificate_file"], "--key", device["key_file"], "--topic", TOPIC,
                 "--token-file", token_file, "--count", str(self.options.notifications)],
                stdout=output, stderr=subprocess.DEVNULL)
        while not token_file.exists() or not token_file.read_text().strip():
            check(child.poll() is None, "apus listen ended.")
        return child, token_file.read_text().strip(), shown

    def send(self, token, share, senders, expiration, concurrency):
        children = []
        for sender in range(senders):
            rows = self.scratch / f"rows-{sender}.csv"
            rows.write_text("token,n\n" + "".join(f"{token},{sender} {n}\n" for n in range(share)))
            children.append(subprocess.Popen(
                [self.apus, "send", "--data", self.data, "--to", f"localhost:{self.http2}", "--tokens", rows,
                 "--topic", TOPIC, "--alert", "{{n}}", "--expiration", expiration, "--concurrency",
                 str(concurrency // senders), "--json"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        for child in children:
            output, errors = child.communicate(timeout=600)
            check(child.returncode == 0, f"apus send failed: {output[-300:]} {errors[-1000:]}")

    def send_binary(self, token, share, senders):
        tokens = self.scratch / "binary-token"
        tokens.write_text(token + "\n")
        children = [
            subprocess.Popen(
                [self.apus_bench, "send-binary", "--connect", f"127.0.0.1:{self.gateway}", "--authority",
                 self.certificate["authority_file"], "--certificate", self.certificate["certificate_file"], "--key",
                 self.certificate["key_file"], "--tokens", tokens, "--notifications", str(share), "--warm-up", "0"],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(senders)]
        for child in children:
            output, errors = child.communicate(timeout=600)
            check(child.returncode == 0, f"apus-bench send-binary failed: {output[-300:]} {errors[-1000:]}")

    def burst(self, name, send, senders, has_numbers, is_ordered=False):
        count = self.options.notifications
        child, token, shown = self.listen()
        send(token, count // senders, senders)
        try:
            child.wait(timeout=60)
        except subprocess.TimeoutExpired:
            child.kill()
        events = [json.loads(line) for line in shown.read_text().splitlines()]
        came = [event for event in events if event["event"] == "notification"]
        check(len(came) == count, f"{name}: {count:,} were accepted, {len(came):,} were shown.")
        if has_numbers:
            numbers = [tuple(map(int, event["payload"]["aps"]["alert"].split())) for event in came]
            for sender in range(senders):
                own = [n for number, n in numbers if number == sender]
                check(sorted(own) == list(range(count // senders)), f"{name}: not each one was shown once.")
                # Only notifications on the same connection have an order.
                check(not is_ordered or own == sorted(own), f"{name}: not shown in order.")
        else:
            ids = {event["apns_id"] for event in came}
            check(len(ids) == count, f"{name}: some were shown twice.")
        self.rows.append(name)

    def measure(self):
        self.rows = []
        for time in range(self.options.times):
            for senders in (1, 4):
                for expiration in ("0", "+1h"):
                    for concurrency in (1000, 10000):
                        self.burst(
                            f"apus send, {senders} senders, expiration {expiration}, {concurrency} at a time",
                            lambda token, share, senders: self.send(token, share, senders, expiration, concurrency),
                            senders, True, concurrency // senders <= 1000)
                self.burst(f"apus-bench send-binary, {senders} connections", self.send_binary, senders, False)
            say(f"burst: round {time + 1} of {self.options.times} is complete")
        print(json.dumps({"bursts": len(self.rows), "notifications": len(self.rows) * self.options.notifications,
                          "lost": 0, "twice": 0}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notifications", type=int, default=10_000, help="notifications of a burst (10,000)")
    parser.add_argument("--times", type=int, default=5, help="rounds of all bursts (5)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    parser.add_argument("--ledger", default="all", metavar="MODE", help="the service's option --ledger (all)")
    options = parser.parse_args()
    say.stream = sys.stderr
    harness.run(options, Burst, [], Burst.measure)


main()
