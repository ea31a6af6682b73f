#!/usr/bin/env python3
"""CPU and allocations per accepted notification, with nghttpd as the yardstick in the same run.

    make bench-ingest                      all rows
    Benchmarks/ingest.py --rows stored     one of them, after `make release`
    Benchmarks/ingest.py --ledger all      with the delivery ledger, which is off else

Both servers get the same work from h2load (8 connections of 100 streams, TLS 1.3, POST of a 256-byte payload), slice by
slice in alternation, on processor 0; the load, and the devices where they are connected, run on processor 1. What
counts is the CPU time of the server's process, user and system, all threads, and not requests per second, which the
load decides. nghttpd, one worker, answers with an empty file: HTTP/2 over TLS and nothing else. Requests go to the
tokens of 1,000 devices in turn, to nghttpd all to one of those paths: with 1,000 it would look through 1,000 open files
each time, which costs it a tenth more and is no part of the comparison.

Rows:
  not-stored  the devices are away, apns-expiration 0: authenticate, validate, decide, discard
  stored      the devices are away, apns-expiration in an hour: durable before it is answered
  delivered   1,000 devices are connected and acknowledge: the same, and a frame out and one in

Lower is better.
"""

import json
import re
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say

CONNECTIONS, STREAMS = 8, 100
# Name, whether the devices are connected, seconds until the notification expires, goal for apus / nghttpd.
ROWS = [("not-stored", False, 0, 1.3), ("stored", False, 3600, 3.0), ("delivered", True, 3600, 5.0)]


class Ingest(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.http2_port, self.yardstick_port = free_port(), free_port()
        self.payload = self.scratch / "payload.json"
        text = '{"aps":{"alert":{"title":"Platform 4","body":"%s"},"sound":"default"},"id":"7c0ffee"}'
        self.payload.write_text(text % ("x" * (256 - len(text) + 2)))

    def provision(self):
        super().provision()
        self.provider_token = output_of(
            self.apus_bench, "jwt", "--key", self.identity["key_file"], "--key-id", self.identity["key_id"],
            "--team", self.identity["team"]).strip()
        self.key, self.certificate = self.scratch / "key.pem", self.scratch / "certificate.pem"
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", "/CN=localhost", "-days", "2", "-keyout", self.key, "-out", self.certificate)
        self.compile("alloc_count.c", "alloc_count.so", "-fPIC", "-shared")

    def start_apus(self, environment=None):
        return self.serve(environment=environment, http2=f"127.0.0.1:{self.http2_port}")

    def start_yardstick(self):
        process = Process(
            ["nghttpd", "-n1", "-a", "127.0.0.1", f"--max-concurrent-streams={STREAMS}", "-d", self.scratch / "htdocs",
             self.yardstick_port, self.key, self.certificate],
            [SERVER_CPU], self.scratch / "nghttpd.log")
        process.wait_until(lambda: accepts(self.yardstick_port), "an open port")
        return process

    def use_tokens(self, tokens):
        """The addresses for h2load, by port, and an empty file for nghttpd at the one that it gets."""
        folder = self.scratch / "htdocs/3/device"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / tokens[0]).touch()
        for port, some in [(self.http2_port, tokens), (self.yardstick_port, tokens[:1])]:
            (self.scratch / f"urls.{port}").write_text("".join(f"https://localhost/3/device/{t}\n" for t in some))

    def load(self, port, expiration_seconds, requests):
        """One slice of work. Every single request must be answered with 200."""
        expiration = int(time.time()) + expiration_seconds if expiration_seconds else 0
        output = output_of(
            "taskset", "-c", LOAD_CPU, "h2load", "-t1", f"-n{requests}", f"-c{CONNECTIONS}", f"-m{STREAMS}",
            "-i", self.scratch / f"urls.{port}", "-B", f"https://localhost:{port}", f"--connect-to=127.0.0.1:{port}",
            "-d", self.payload, "-H", f"authorization: bearer {self.provider_token}", "-H", f"apns-topic: {TOPIC}",
            "-H", "apns-push-type: alert", "-H", "apns-priority: 10", "-H", f"apns-expiration: {expiration}")
        answered = re.search(r"status codes: (\d+) 2xx", output)
        check(answered and int(answered[1]) == requests, f"not every request was answered with 2xx:\n{output}")
        cipher = re.search(r"^Cipher: (\S+)", output, re.M)
        rate = re.search(r"finished in [^,]+, ([\d.]+) req/s", output)
        return cipher[1] if cipher else "?", float(rate[1])

    def timed(self, server, port, expiration_seconds):
        """CPU microseconds for each request of one slice, the cipher suite, and requests per second."""
        before = server.settled_cpu_seconds()
        cipher, rate = self.load(port, expiration_seconds, self.options.requests)
        spent = server.settled_cpu_seconds() - before
        return spent * 1e6 / self.options.requests, cipher, rate

    def allocations(self, expiration_seconds, connected):
        """Allocations and bytes for each request to apus, on a server of its own so that counting distorts no time.

        nghttpd is not counted: Debian links it with jemalloc, which a count of glibc's entry points cannot see.
        """
        counts = self.scratch / "counts"
        counts.write_bytes(bytes(4096))
        server = self.start_apus(
            {"LD_PRELOAD": str(self.scratch / "alloc_count.so"), "APUS_ALLOC_COUNT": str(counts)})
        fleet = self.start_fleet() if connected else None
        requests = self.options.requests // 2
        self.load(self.http2_port, expiration_seconds, requests)
        server.settled_cpu_seconds()
        before = struct.unpack_from("QQ", counts.read_bytes())
        self.load(self.http2_port, expiration_seconds, requests)
        server.settled_cpu_seconds()
        after = struct.unpack_from("QQ", counts.read_bytes())
        for process in filter(None, [fleet, server]):
            process.stop()
        return [(b - a) / requests for a, b in zip(before, after)]

    def row(self, name, connected, expiration_seconds, goal):
        slices, requests = self.options.slices, self.options.requests
        say(f"\n{name}: {slices} slices of {requests:,} requests for each server, goal {goal}")
        apus = self.start_apus()
        fleet = self.start_fleet(*([] if connected else ["--exit-after-registration"]))
        if not connected:
            fleet.stop()
        yardstick = self.start_yardstick()
        contestants = {"apus": (apus, self.http2_port), "nghttpd": (yardstick, self.yardstick_port)}
        for _, port in contestants.values():
            self.load(port, expiration_seconds, max(requests // 10, CONNECTIONS))  # Warms caches up, not counted.
        results = {which: [] for which in contestants}
        for index in range(slices):
            for which, (server, port) in contestants.items():
                results[which].append(self.timed(server, port, expiration_seconds))
                cost, cipher, rate = results[which][-1]
                say(f"  {index + 1:2} {which:8} {cost:7.3f} us {rate:9.0f} requests/s  {cipher}")
        sent = slices * requests + max(requests // 10, CONNECTIONS)
        taken = self.acknowledged(fleet.stop(), sent) if connected else None
        yardstick.stop()
        apus.stop()
        allocations, allocated = self.allocations(expiration_seconds, connected)
        medians = {which: statistics.median(r[0] for r in rows) for which, rows in results.items()}
        ratio = medians["apus"] / medians["nghttpd"]
        say(f"  median: apus {medians['apus']:.3f} us, nghttpd {medians['nghttpd']:.3f} us, ratio {ratio:.2f}"
              f" ({'meets' if ratio <= goal else 'MISSES'} the goal)")
        say(f"  allocations for each request: {allocations:.3f} ({allocated:.0f} bytes)")
        line = {
            "row": name, "apus": round(medians["apus"], 3), "yardstick": round(medians["nghttpd"], 3),
            "ratio": round(ratio, 3), "goal": goal, "better": "lower", "unit": "us CPU/request",
            "requests": slices * requests, "allocations": round(allocations, 3), "allocated_bytes": round(allocated),
            "spread": {which: [round(min(r[0] for r in rows), 3), round(max(r[0] for r in rows), 3)]
                       for which, rows in results.items()},
            "ciphers": {which: rows[0][1] for which, rows in results.items()},
        }
        if connected:
            line["acknowledged"] = taken
        self.results.append(line)

    def table(self):
        say(f"\n{'row':10}  {'apus':>10} {'nghttpd':>10} {'ratio (goal)':>12}  {'allocations':>11}")
        for row in self.results:
            say(f"{row['row']:10}  {row['apus']:7.2f} us {row['yardstick']:7.2f} us {row['ratio']:6.2f} ({row['goal']})"
                f"  {row['allocations']:11.1f}")


def main():
    parser = harness.parser_for(__doc__, "slices for each server (7)")
    names = [row[0] for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names))
    parser.add_argument("--requests", type=int, default=200_000, help="requests of a slice (200,000)")
    parser.add_argument("--devices", type=int, default=1000, help="devices, each with one token (1,000)")
    options = parser.parse_args()

    def measure(bench):
        for row in ROWS:
            if row[0] in options.rows:
                bench.row(*row)

    harness.main(options, Ingest, ["h2load", "nghttpd", "openssl", "clang", "taskset"], measure)


main()
