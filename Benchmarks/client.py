#!/usr/bin/env python3
"""CPU per notification of the client library, with h2load as the yardstick in the same run.

    make bench ROWS=client                 all rows
    Benchmarks/client.py --rows bulk       one of them, after `make release`

nghttpd is the sink, with one worker on processor 0: HTTP/2 over TLS, an empty file for every notification. h2load and
`apus-bench send` send it the same requests (POST of a 256-byte payload, the same header fields; the client draws an
apns-id for each, h2load repeats one), in alternating slices, on processor 1. The figure is the CPU time of the sending
process, user and system, all threads, including handshakes.

Rows:
  bulk     all in one `send(all:)`, 8 connections of 100 streams, like h2load
  single   each with a separate `await send`, from 800 tasks; compared once with aioapns (PyPI), which sends to Apus
  memory   1,000,000 in one bulk send: peak memory, compared with a twentieth of them
  far      the same sink with delays of 40 and 150 ms (delay_relay.c): notifications per second on one connection,
           compared with the limit of its 100 streams, and on up to 8 connections

Lower is better, except for the rates of the row `far`.
"""

import json
import os
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, ROOT, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say
from rows import Row, Suite

CONNECTIONS, STREAMS = 8, 100
BULK_GOAL, SINGLE_GOAL, AIOAPNS_GOAL = 0.85, 1.5, 0.1
DELAYS = [40, 150]
TOKEN = "ab" * 32


def measured(*arguments):
    """Runs a program on the load's processor. Its output, and its CPU seconds."""
    read, write = os.pipe()
    child = subprocess.Popen(["taskset", "-c", str(LOAD_CPU), *map(str, arguments)], stdin=subprocess.DEVNULL,
                             stdout=write, stderr=subprocess.STDOUT)
    os.close(write)
    with os.fdopen(read) as output:
        text = output.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    check(child.returncode == 0, f"{' '.join(map(str, arguments))} failed:\n{text}")
    return text, usage.ru_utime + usage.ru_stime


class Client(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.port = free_port()
        self.payload = self.scratch / "payload.json"
        text = '{"aps":{"alert":{"title":"Platform 4","body":"%s"},"sound":"default"},"id":"7c0ffee"}'
        self.payload.write_text(text % ("x" * (256 - len(text) + 2)))

    def provision(self):
        self.key, self.certificate = self.scratch / "key.pem", self.scratch / "certificate.pem"
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2",
                  "-keyout", self.key, "-out", self.certificate)
        folder = self.scratch / "htdocs/3/device"
        folder.mkdir(parents=True)
        (folder / TOKEN).touch()
        process = Process(
            ["nghttpd", "-n1", "-a", "127.0.0.1", f"--max-concurrent-streams={STREAMS}", "-d", self.scratch / "htdocs",
             self.port, self.key, self.certificate],
            [SERVER_CPU], self.scratch / "nghttpd.log")
        process.wait_until(lambda: accepts(self.port), "an open port")

    def h2load(self, requests):
        """CPU microseconds per request."""
        token = ".".join(["e" * 60, "f" * 60, "g" * 86])
        output, seconds = measured(
            "h2load", "-t1", f"-n{requests}", f"-c{CONNECTIONS}", f"-m{STREAMS}",
            f"https://127.0.0.1:{self.port}/3/device/{TOKEN}", "-d", self.payload,
            "-H", f"authorization: bearer {token}", "-H", f"apns-topic: {TOPIC}", "-H", "apns-push-type: alert",
            "-H", "apns-priority: 10", "-H", "apns-expiration: 0",
            "-H", "apns-id: 01234567-89ab-cdef-0000-000000000001")
        answered = re.search(r"status codes: (\d+) 2xx", output)
        check(answered and int(answered[1]) == requests, f"not every request was answered with 2xx:\n{output}")
        return seconds * 1e6 / requests

    def push(self, requests, *extra, port=None, warm_up=0):
        """The program's output, and the CPU microseconds per notification, including handshakes."""
        output, seconds = measured(
            self.apus_bench, "send", "--connect", f"127.0.0.1:{port or self.port}", "--authority", self.certificate,
            "--token", TOKEN, "--payload", self.payload, "--notifications", requests, "--warm-up", warm_up, *extra)
        return json.loads(output), seconds * 1e6 / (requests + warm_up)

    def bulk(self):
        self.compare("bulk", BULK_GOAL)

    def single(self):
        self.aioapns(self.compare("single", SINGLE_GOAL))

    def compare(self, form, goal):
        slices, requests = self.options.slices, self.options.requests
        if form == "single":
            requests //= 4
        say(f"\n{form}: {slices} slices of {requests:,} notifications each, goal {goal} x h2load")
        results = {"apus": [], "h2load": []}
        for index in range(slices):
            results["apus"].append(self.push(requests, "--form", form)[1])
            results["h2load"].append(self.h2load(requests))
            say(f"  {index + 1:2} apus {results['apus'][-1]:7.3f} us   h2load {results['h2load'][-1]:7.3f} us")
        self.results.append(Row(
            f"client.{form}", "us CPU/notification", results["apus"], results["h2load"], "h2load", goal,
            more={"requests": slices * requests}))
        return self.results[-1].value

    def aioapns(self, single):
        """CPU time of aioapns per notification, compared with ours.

        It sends to Apus, because it needs the `apns-id` of its request in the response, which nghttpd does not send.
        """
        python = ROOT / ".venv/bin/python"
        if not python.exists():
            return say("  aioapns: .venv is missing; `scripts/setup.sh test` makes it")
        super().provision()
        port = free_port()
        service = self.serve(http2=f"127.0.0.1:{port}")
        self.start_fleet("--exit-after-registration").stop()
        token = self.tokens_file.read_text().split()[0]
        few, many = 1000, 5000
        seconds = {}
        for count in [few, many]:
            plan = self.scratch / "plan.json"
            plan.write_text(json.dumps({
                "host": "localhost", "port": port, "authority": self.identity["authority_file"], "topic": TOPIC,
                "key": self.identity["key_file"], "key_id": self.identity["key_id"], "team": self.identity["team"],
                "tokens": [token], "count": count, "extra": []}))
            output, seconds[count] = measured(python, ROOT / "Tests/InteropTests/Senders/send_with_aioapns.py", plan)
            check(json.loads(output.splitlines()[-1])["accepted"] == count, f"aioapns: {output[-2000:]}")
        service.stop()
        # The difference of two runs excludes Python's start.
        each = (seconds[many] - seconds[few]) * 1e6 / (many - few)
        self.results.append(Row("client.aioapns", "us CPU/notification", single, each, "aioapns", AIOAPNS_GOAL,
                                more={"requests": many}))

    def memory(self):
        say("\nmemory: peak resident memory")
        many = self.options.requests * 5 // 2
        small = self.push(many // 20)[0]["resident_kilobytes"]
        large = self.push(many)[0]["resident_kilobytes"]
        self.results.append(Row("client.memory", "KB", large, small, "a twentieth of them", 1.1,
                                more={"requests": many}))

    def far(self):
        relay = self.compile("delay_relay.c", "delay_relay")
        for delay in DELAYS:
            port = free_port()
            process = Process([relay, port, self.port, delay], [SERVER_CPU], self.scratch / "relay.log")
            process.wait_until(lambda: accepts(port), "an open port")
            limit = STREAMS * 1000 / delay
            say(f"\nfar, {delay} ms: one connection of {STREAMS} streams can send {limit:.0f} per second")
            for connections in [1, CONNECTIONS]:
                requests = int(limit * connections * (1 if self.options.quick else 4))
                said, _ = self.push(requests, "--connections", connections, port=port, warm_up=requests)
                rate = requests * 1e6 / said["microseconds"]
                say(f"  {connections} connections: {rate:8.0f} a second")
                self.results.append(Row(f"client.far-{delay}-{connections}", "/s", rate, limit * connections,
                                        "what streams come to", 0.9, better="higher", more={"requests": requests}))
            process.stop()


def arguments(parser):
    parser.size("--requests", 400_000, 20_000, "notifications of a slice; 2.5 times as many where memory is measured")
    parser.set_defaults(devices=1)


SUITE = Suite(
    "client", __doc__, Client, tools=["h2load", "nghttpd", "openssl", "clang", "taskset"], arguments=arguments,
    slices=3, rows={"bulk": "all in one bulk send", "single": "each with a separate await; compared with aioapns",
    "memory": "memory of a bulk send", "far": "with a long round trip"})

if __name__ == "__main__":
    SUITE.main()
