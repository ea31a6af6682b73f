#!/usr/bin/env python3
"""Restarts the service under load on sockets that outlive it: no request may be refused or lost.

    Tests/Crash/restart.py [--times N] [--rate N] [--clients N]

systemd-socket-activate opens the sockets, as a socket unit does, and gives them to a shell that starts the service
again whenever it has shut down. Meanwhile each client sends requests at its share of the rate; none is sent twice.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
import harness
from harness import ROOT, TOPIC, Process, accepts, check, free_port, output_of, say

CLIENT = pathlib.Path(__file__).resolve().parent / "http2_client.py"
# Seconds between restarts, and before the first and after the last.
PAUSE = 4
# Starts the program, with the sockets, until a file exists.
AGAIN = 'while [ ! -e "$0" ]; do (LISTEN_PID=$BASHPID exec "$@") || exit; done'


class Restart(harness.Bench):
    def serve_activated(self):
        self.http2, self.end = free_port(), self.scratch / "end"
        listeners = {"http2": self.http2, "courier": self.courier_port}
        sockets = [word for port in listeners.values() for word in ["--listen", f"127.0.0.1:{port}"]]
        process = Process(
            ["systemd-socket-activate", *sockets, f"--fdname={':'.join(listeners)}",
             "bash", "-c", AGAIN, self.end, self.apus, "serve", "--data", self.data, "--log-format", "json",
             "--ledger", self.options.ledger],
            os.sched_getaffinity(0), self.scratch / "apus.log")
        # The first connection starts the program.
        process.wait_until(lambda: accepts(self.http2) and self.service_process(), "the service")
        return process

    def service_process(self):
        """The process that has announced its listeners; None while there is none."""
        try:
            found = re.search(r"^process (\d+)", (self.data / "service.addresses").read_text(), re.M)
        except FileNotFoundError:
            return None
        return int(found[1])

    def restart(self, service):
        old = self.service_process()
        os.kill(old, signal.SIGTERM)
        service.wait_until(lambda: self.service_process() not in (None, old), "the next service")

    def start_client(self, number, seconds):
        tokens = self.tokens_file.read_text().split()[number::self.options.clients]
        arguments = {
            "address": ["127.0.0.1", self.http2], "authority": self.identity["authority_file"],
            "token": output_of(self.apus, "token", "make", "--data", self.data).strip(), "device_tokens": tokens,
            "topic": TOPIC, "rate": self.options.rate / self.options.clients, "seconds": seconds}
        client = subprocess.Popen([sys.executable, CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        client.stdin.write(json.dumps(arguments))
        client.stdin.close()
        return client

    def measure(self):
        service = self.serve_activated()
        self.start_fleet("--exit-after-registration")
        start = time.monotonic()
        clients = [self.start_client(n, PAUSE * (self.options.times + 1)) for n in range(self.options.clients)]
        for number in range(self.options.times):
            # A restart takes about a second of the pause.
            time.sleep(max(0, start + PAUSE * (number + 1) - time.monotonic()))
            self.restart(service)
            say(f"restart: {number + 1} of {self.options.times}")
        results = [json.loads(client.stdout.read()) for client in clients]
        check(all(client.wait() == 0 for client in clients), "a client failed")
        self.end.touch()
        os.kill(self.service_process(), signal.SIGTERM)
        check(service.child.wait(60) == 0, f"the service did not shut down. {service.tail()}")
        total = {key: sum(one[key] for one in results)
                 for key in ["sent", "accepted", "refused", "lost", "refused_connections", "connections"]}
        total["rejected"] = [one["rejected"] for one in results if one["rejected"]]
        total["longest_wait_ms"] = round(max(one["longest_wait_seconds"] for one in results) * 1000)
        print(json.dumps(total))
        check(total["sent"] == total["accepted"] and not total["refused_connections"], "not all requests were accepted")
        check(total["sent"] == self.options.rate * PAUSE * (self.options.times + 1), "the clients fell behind")
        check(total["connections"] >= self.options.clients * (self.options.times + 1), "a restart kept connections")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5, help="restarts (5)")
    parser.add_argument("--rate", type=int, default=2000, help="requests per second of all clients (2000)")
    parser.add_argument("--clients", type=int, default=3, help="clients (3)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    parser.add_argument("--ledger", default="all", metavar="MODE", help="the service's option --ledger (all)")
    options = parser.parse_args()
    options.devices = 300
    say.stream = sys.stderr
    harness.run(options, Restart, ["systemd-socket-activate"], Restart.measure, processors=1)


main()
