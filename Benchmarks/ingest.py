#!/usr/bin/env python3
"""CPU per accepted notification, with nghttpd as the yardstick in the same run.

    make bench ROWS=ingest                 all rows
    Benchmarks/ingest.py --rows stored     one of them, after `make release`
    Benchmarks/ingest.py --ledger all      with the delivery ledger, which is off by default

Both servers get the same work from h2load (8 connections of 100 streams, TLS 1.3, POST of a 256-byte payload), in
alternating slices, on processor 0; the load, and any connected devices, run on processor 1. The figure is the CPU time
of the server process, user and system, all threads, not requests per second, which depend on the load. nghttpd, one
worker, responds with an empty file: HTTP/2 over TLS and nothing else. Requests go to the tokens of 1,000 devices in
turn, to nghttpd all to one path: with 1,000 paths it would search 1,000 open files each time, which would cost a tenth
more and is not part of the comparison.

Rows:
  not-stored  the devices are offline, apns-expiration 0: authenticate, validate, decide, discard
  stored      the devices are offline, apns-expiration in an hour: durable before the response
  delivered   1,000 devices are connected and acknowledge: the same, and a frame out and one in (delivery.py has a
              yardstick that delivers too)

Lower is better. allocations.py counts the allocations.
"""

import re
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say
from rows import Row, Suite

CONNECTIONS, STREAMS = 8, 100
# For each row: whether the devices are connected, seconds until expiration, goal for apus / nghttpd.
SETTINGS = {"not-stored": (False, 0, 1.0), "stored": (False, 3600, 2.5), "delivered": (True, 3600, None)}


class Ingest(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.http2_port, self.yardstick_port = free_port(), free_port()
        self.payload = self.scratch / "payload.json"
        text = '{"aps":{"alert":{"title":"Platform 4","body":"%s"},"sound":"default"},"id":"7c0ffee"}'
        self.payload.write_text(text % ("x" * (256 - len(text) + 2)))
        self.load_cpus = str(LOAD_CPU)

    def provision(self):
        super().provision()
        self.provision_load(self.identity)
        self.key, self.certificate = self.scratch / "key.pem", self.scratch / "certificate.pem"
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", "/CN=localhost", "-days", "2", "-keyout", self.key, "-out", self.certificate)

    def provision_load(self, identity):
        """The header fields that h2load sends."""
        self.provider_token = output_of(
            self.apus_bench, "jwt", "--key", identity["key_file"], "--key-id", identity["key_id"],
            "--team", identity["team"]).strip()

    def start_apus(self, environment=None):
        return self.serve(environment=environment, http2=f"127.0.0.1:{self.http2_port}")

    def start_yardstick(self, cpus=(SERVER_CPU,)):
        process = Process(
            ["nghttpd", "-n1", "-a", "127.0.0.1", f"--max-concurrent-streams={STREAMS}", "-d", self.scratch / "htdocs",
             self.yardstick_port, self.key, self.certificate],
            cpus, self.scratch / "nghttpd.log")
        process.wait_until(lambda: accepts(self.yardstick_port), "an open port")
        return process

    def use_tokens(self, tokens):
        """The URLs for h2load, by port, and the empty file that nghttpd serves."""
        folder = self.scratch / "htdocs/3/device"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / tokens[0]).touch()
        for port, some in [(self.http2_port, tokens), (self.yardstick_port, tokens[:1])]:
            (self.scratch / f"urls.{port}").write_text("".join(f"https://localhost/3/device/{t}\n" for t in some))

    def load(self, port, expiration_seconds, requests, connections=CONNECTIONS, streams=STREAMS):
        """One slice of work. Every request must get a 200."""
        expiration = int(time.time()) + expiration_seconds if expiration_seconds else 0
        output = output_of(
            "taskset", "-c", self.load_cpus, "h2load", "-t1", f"-n{requests}", f"-c{connections}", f"-m{streams}",
            "-i", self.scratch / f"urls.{port}", "-B", f"https://localhost:{port}", f"--connect-to=127.0.0.1:{port}",
            "-d", self.payload, "-H", f"authorization: bearer {self.provider_token}", "-H", f"apns-topic: {TOPIC}",
            "-H", "apns-push-type: alert", "-H", "apns-priority: 10", "-H", f"apns-expiration: {expiration}")
        answered = re.search(r"status codes: (\d+) 2xx", output)
        check(answered and int(answered[1]) == requests, f"not every request was answered with 2xx:\n{output}")
        cipher = re.search(r"^Cipher: (\S+)", output, re.M)
        rate = re.search(r"finished in [^,]+, ([\d.]+) req/s", output)
        return cipher[1] if cipher else "?", float(rate[1])

    def timed(self, server, port, expiration_seconds):
        """CPU microseconds per request of one slice, the cipher suite, and requests per second."""
        before = server.settled_cpu_seconds()
        cipher, rate = self.load(port, expiration_seconds, self.options.requests)
        spent = server.settled_cpu_seconds() - before
        return spent * 1e6 / self.options.requests, cipher, rate

    def measure(self, name):
        connected, expiration_seconds, goal = SETTINGS[name]
        slices, requests = self.options.slices, self.options.requests
        say(f"\n{name}: {slices} slices of {requests:,} requests for each server")
        apus = self.start_apus()
        fleet = self.start_fleet(*([] if connected else ["--exit-after-registration"]))
        if not connected:
            fleet.stop()
        yardstick = self.start_yardstick()
        contestants = {"apus": (apus, self.http2_port), "nghttpd": (yardstick, self.yardstick_port)}
        warm_up = max(requests // 10, CONNECTIONS)
        for _, port in contestants.values():
            self.load(port, expiration_seconds, warm_up)
        results, ciphers = {which: [] for which in contestants}, {}
        for index in range(slices):
            for which, (server, port) in contestants.items():
                cost, ciphers[which], rate = self.timed(server, port, expiration_seconds)
                results[which].append(cost)
                say(f"  {index + 1:2} {which:8} {cost:7.3f} us {rate:9.0f} requests/s  {ciphers[which]}")
        more = {"requests": slices * requests, "ciphers": ciphers}
        if connected:
            more["acknowledged"] = self.acknowledged(fleet.stop(), slices * requests + warm_up)
        yardstick.stop()
        apus.stop()
        self.results.append(Row(
            f"ingest.{name}", "us CPU/request", results["apus"], results["nghttpd"], "nghttpd", goal, more=more))


def arguments(parser):
    parser.size("--requests", 200_000, 10_000, "requests of a slice")
    parser.size("--devices", 1000, 50, "devices, each with one token")


SUITE = Suite(
    "ingest", __doc__, Ingest, tools=["h2load", "nghttpd", "openssl", "taskset"], arguments=arguments,
    slices=3,
    measure=lambda bench: [bench.measure(name) for name in bench.options.rows],
    rows={"not-stored": "HTTP/2 in, decided, discarded", "stored": "HTTP/2 in, durable before the response",
          "delivered": "HTTP/2 in, delivered to connected devices, acknowledged"})

if __name__ == "__main__":
    SUITE.main()
