#!/usr/bin/env python3
"""CPU per notification of the client library, with h2load as the yardstick in the same run.

    make bench-client                      all rows
    Benchmarks/client.py --rows bulk       one of them, after `make release`

nghttpd is the sink, with one worker on processor 0: HTTP/2 over TLS, an empty file for every notification. h2load and
`apus-bench send` send it the same requests (POST of a 256-byte payload, the same header fields; the client draws an
apns-id for each, h2load repeats one), slice by slice in alternation, on processor 1. What counts is the CPU time of the
sending process, user and system, all threads, handshakes included.

Rows:
  bulk     all in one `send(all:)`, 8 connections of 100 streams, as h2load has
  single   each with an `await send` of its own, from 800 tasks; also beside aioapns (PyPI), once, which sends to Apus
  memory   1,000,000 through one bulk send: the most that was ever in memory, against a twentieth of them
  far      the same sink behind a way of 40 and 150 ms (delay_relay.c): notifications a second on one connection against
           what its 100 streams come to, and on up to 8 connections

Lower is better, but for the rates of the row `far`.
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

CONNECTIONS, STREAMS = 8, 100
BULK_GOAL, SINGLE_GOAL, AIOAPNS_GOAL = 1.0, 10.0, 10.0
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
        """CPU microseconds for each request."""
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
        """What the program says, and the CPU microseconds for each notification, handshakes included."""
        output, seconds = measured(
            self.apus_bench, "send", "--connect", f"127.0.0.1:{port or self.port}", "--authority", self.certificate,
            "--token", TOKEN, "--payload", self.payload, "--notifications", requests, "--warm-up", warm_up, *extra)
        return json.loads(output), seconds * 1e6 / (requests + warm_up)

    def row(self, form, goal):
        slices, requests = self.options.slices, self.options.requests
        if form == "single":
            requests //= 4
        say(f"\n{form}: {slices} slices of {requests:,} notifications each, goal {goal} x h2load")
        results = {"apus": [], "h2load": []}
        for index in range(slices):
            results["apus"].append(self.push(requests, "--form", form)[1])
            results["h2load"].append(self.h2load(requests))
            say(f"  {index + 1:2} apus {results['apus'][-1]:7.3f} us   h2load {results['h2load'][-1]:7.3f} us")
        medians = {which: statistics.median(values) for which, values in results.items()}
        ratio = medians["apus"] / medians["h2load"]
        say(f"  median: apus {medians['apus']:.3f} us, h2load {medians['h2load']:.3f} us, ratio {ratio:.2f}"
            f" ({'meets' if ratio <= goal else 'MISSES'} the goal)")
        self.results.append({
            "row": form, "apus": round(medians["apus"], 3), "yardstick": round(medians["h2load"], 3),
            "ratio": round(ratio, 3), "goal": goal, "better": "lower", "unit": "us CPU/notification",
            "requests": slices * requests,
            "spread": {which: [round(min(v), 3), round(max(v), 3)] for which, v in results.items()}})
        return medians["apus"]

    def aioapns(self, single):
        """What aioapns spends on a notification, and how many times ours that is.

        It needs the `apns-id` of its request in the answer, which nghttpd does not send: so it sends to Apus.
        """
        python = ROOT / ".venv/bin/python"
        if not python.exists():
            return say("  aioapns: there is no .venv; `scripts/setup.sh test` makes it")
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
        # The difference of two runs: Python's own start is no part of it.
        each = (seconds[many] - seconds[few]) * 1e6 / (many - few)
        ratio = each / single
        verdict = "meets" if ratio >= AIOAPNS_GOAL else "MISSES"
        say(f"  aioapns: {each:.0f} us, {ratio:.1f} x ours ({verdict} the goal of {AIOAPNS_GOAL:.0f})")
        self.results.append({"row": "aioapns", "apus": round(single, 3), "yardstick": round(each, 1),
                             "ratio": round(ratio, 1), "goal": AIOAPNS_GOAL, "better": "higher",
                             "unit": "us CPU/notification", "requests": many})

    def memory(self):
        say("\nmemory: the most that was ever in memory")
        small = self.push(50_000)[0]["resident_kilobytes"]
        large = self.push(1_000_000)[0]["resident_kilobytes"]
        say(f"  50,000: {small:,} KB   1,000,000: {large:,} KB   ratio {large / small:.2f} (goal 1.1)")
        self.results.append({"row": "memory", "apus": large, "yardstick": small, "ratio": round(large / small, 3),
                             "goal": 1.1, "better": "lower", "unit": "KB", "requests": 1_000_000})

    def far(self):
        relay = self.compile("delay_relay.c", "delay_relay")
        for delay in DELAYS:
            port = free_port()
            process = Process([relay, port, self.port, delay], [SERVER_CPU], self.scratch / "relay.log")
            process.wait_until(lambda: accepts(port), "an open port")
            limit = STREAMS * 1000 / delay
            say(f"\nfar, {delay} ms: one connection of {STREAMS} streams can do {limit:.0f} a second")
            for connections in [1, CONNECTIONS]:
                requests = int(limit * connections * 4)
                said, _ = self.push(requests, "--connections", connections, port=port, warm_up=requests)
                rate = requests * 1e6 / said["microseconds"]
                share = rate / (limit * connections)
                say(f"  {connections} connections: {rate:8.0f} a second, {share:.2f} of the limit")
                self.results.append({
                    "row": f"far-{delay}-{connections}", "apus": round(rate), "yardstick": round(limit * connections),
                    "ratio": round(share, 3), "goal": 0.9, "better": "higher", "unit": "notifications/s",
                    "requests": requests})
            process.stop()

    def table(self):
        say(f"\n{'row':10}  {'apus':>12} {'yardstick':>12} {'ratio (goal)':>14}  unit")
        for row in self.results:
            say(f"{row['row']:10}  {row['apus']:12,} {row['yardstick']:12,} {row['ratio']:7.2f} ({row['goal']})"
                f"  {row['unit']}")


def main():
    parser = harness.parser_for(__doc__, "slices for each sender (7)")
    names = ["bulk", "single", "memory", "far"]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names))
    parser.add_argument("--requests", type=int, default=400_000, help="notifications of a slice (400,000)")
    options = parser.parse_args()
    options.devices = 1

    def measure(bench):
        if "bulk" in options.rows:
            bench.row("bulk", BULK_GOAL)
        if "single" in options.rows:
            bench.aioapns(bench.row("single", SINGLE_GOAL))
        if "memory" in options.rows:
            bench.memory()
        if "far" in options.rows:
            bench.far()

    harness.main(options, Client, ["h2load", "nghttpd", "openssl", "clang", "taskset"], measure)


main()
