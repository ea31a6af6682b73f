#!/usr/bin/env python3
"""CPU and allocations per accepted notification, with nghttpd as the yardstick in the same run.

    make bench-ingest                      all rows
    Benchmarks/ingest.py --rows stored     one of them, after `make release`

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

Each row ends with one line of JSON; the first line of all describes the machine. Lower is better.
"""

import argparse
import ctypes
import json
import os
import pathlib
import platform
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVER_CPU, LOAD_CPU = 0, 1
CONNECTIONS, STREAMS = 8, 100
TOPIC = "com.example.app"
# Name, whether the devices are connected, seconds until the notification expires, goal for apus / nghttpd.
ROWS = [("not-stored", False, 0, 1.3), ("stored", False, 3600, 3.0), ("delivered", True, 3600, 5.0)]


def die(message):
    sys.exit(f"ingest: {message}")


def check(condition, message):
    if not condition:
        die(message)


class Process:
    """A child on one processor. Its output goes to a file whose end is shown when the child fails."""

    everyone = []

    def __init__(self, arguments, cpu, log, environment=None):
        self.name = pathlib.Path(arguments[0]).name + " " + (arguments[1] if len(arguments) > 1 else "")
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as output:
            self.child = subprocess.Popen(
                [str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})}, preexec_fn=lambda: self._prepare(cpu))
        Process.everyone.append(self)

    @staticmethod
    def _prepare(cpu):
        os.sched_setaffinity(0, {cpu})
        # The child ends with this script, however the script ends.
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)

    def cpu_seconds(self):
        # The process's CPU clock (clock_getcpuclockid): utime + stime of /proc/<pid>/stat in nanoseconds, not in ticks.
        return time.clock_gettime_ns((~self.child.pid << 3) | 2) / 1e9

    def settled_cpu_seconds(self):
        """The CPU time once the server rests: what it does after its answers (compaction, say) belongs to them."""
        last = self.cpu_seconds()
        for _ in range(100):
            time.sleep(0.1)
            now = self.cpu_seconds()
            if now - last < 0.001:
                return now
            last = now
        return last

    def wait_until(self, condition, what, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition():
            check(self.child.poll() is None, f"{self.name} ended with {self.child.returncode}. {self.tail()}")
            check(time.monotonic() < deadline, f"{self.name}: {what} not within {seconds} s. {self.tail()}")
            time.sleep(0.05)

    def tail(self):
        return "Its last output:\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self):
        Process.everyone.remove(self)
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        return self.log.read_text(errors="replace")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def output_of(*arguments):
    run = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    check(run.returncode == 0, f"{' '.join(map(str, arguments))} failed:\n{run.stdout}{run.stderr}")
    return run.stdout


class Bench:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, pathlib.Path(scratch)
        self.apus, self.apus_bench = options.bin / "apus", options.bin / "apus-bench"
        self.data = self.scratch / "data"
        self.http2_port, self.courier_port, self.yardstick_port = free_port(), free_port(), free_port()
        self.payload = self.scratch / "payload.json"
        text = '{"aps":{"alert":{"title":"Platform 4","body":"%s"},"sound":"default"},"id":"7c0ffee"}'
        self.payload.write_text(text % ("x" * (256 - len(text) + 2)))

    def provision(self):
        self.identity = json.loads(output_of(
            self.apus, "init", "--data", self.data, "--name", "localhost", "--topic", TOPIC, "--json"))
        self.provider_token = output_of(
            self.apus_bench, "jwt", "--key", self.identity["key_file"], "--key-id", self.identity["key_id"],
            "--team", self.identity["team"]).strip()
        self.key, self.certificate = self.scratch / "key.pem", self.scratch / "certificate.pem"
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", "/CN=localhost", "-days", "2", "-keyout", self.key, "-out", self.certificate)
        output_of("clang", "-O2", "-fPIC", "-shared", "-o", self.scratch / "alloc_count.so",
                  ROOT / "Benchmarks/alloc_count.c")

    def start_apus(self, environment=None):
        process = Process(
            [self.apus, "serve", "--data", self.data, "--workers", "1", "--log-format", "json",
             "--http2-listen", f"127.0.0.1:{self.http2_port}", "--courier-listen", f"127.0.0.1:{self.courier_port}",
             "--http2-development-listen", "off", "--courier-development-listen", "off", "--gateway-listen", "off",
             "--gateway-development-listen", "off", "--feedback-listen", "off", "--feedback-development-listen", "off"],
            SERVER_CPU, self.scratch / "apus.log", environment)
        process.wait_until(lambda: accepts(self.http2_port) and accepts(self.courier_port), "open doors")
        return process

    def start_yardstick(self):
        process = Process(
            ["nghttpd", "-n1", "-a", "127.0.0.1", f"--max-concurrent-streams={STREAMS}", "-d", self.scratch / "htdocs",
             self.yardstick_port, self.key, self.certificate],
            SERVER_CPU, self.scratch / "nghttpd.log")
        process.wait_until(lambda: accepts(self.yardstick_port), "an open port")
        return process

    def start_fleet(self, *extra):
        """Registers the devices. Their tokens, one a line, are complete when there are as many as devices."""
        tokens = self.scratch / "tokens"
        tokens.unlink(missing_ok=True)
        fleet = Process(
            [self.apus_bench, "fleet", "--data", self.data, "--devices", self.options.devices,
             "--connect", f"127.0.0.1:{self.courier_port}", "--print-tokens", tokens, *extra],
            LOAD_CPU, self.scratch / "fleet.log")

        def complete():
            return tokens.exists() and len(tokens.read_text().split()) == self.options.devices
        if extra:
            check(fleet.child.wait(600) == 0 and complete(), f"the devices did not register. {fleet.tail()}")
        else:
            fleet.wait_until(complete, "all devices connected", 600)
        self.use_tokens(tokens.read_text().split())
        return fleet

    def use_tokens(self, tokens):
        """The addresses for h2load, by port, and an empty file for nghttpd at the one that it gets."""
        random.Random(1).shuffle(tokens)
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
        print(f"\n{name}: {slices} slices of {requests:,} requests for each server, goal {goal}", flush=True)
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
                print(f"  {index + 1:2} {which:8} {cost:7.3f} us {rate:9.0f} requests/s  {cipher}", flush=True)
        taken = self.acknowledged(fleet.stop()) if connected else None
        yardstick.stop()
        apus.stop()
        allocations, allocated = self.allocations(expiration_seconds, connected)
        medians = {which: statistics.median(r[0] for r in rows) for which, rows in results.items()}
        ratio = medians["apus"] / medians["nghttpd"]
        print(f"  median: apus {medians['apus']:.3f} us, nghttpd {medians['nghttpd']:.3f} us, ratio {ratio:.2f}"
              f" ({'meets' if ratio <= goal else 'MISSES'} the goal)")
        print(f"  allocations for each request: {allocations:.3f} ({allocated:.0f} bytes)")
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
        print(json.dumps(line), flush=True)

    def acknowledged(self, fleet_output):
        """The number that the fleet prints when it is stopped; a delivered row without deliveries would be a lie."""
        found = re.findall(r'"acknowledged" *: *(\d+)', fleet_output)
        check(found, f"the fleet did not say how many notifications it acknowledged:\n{fleet_output[-2000:]}")
        taken = int(found[-1])
        sent = self.options.slices * self.options.requests + max(self.options.requests // 10, CONNECTIONS)
        print(f"  the devices acknowledged {taken:,} of {sent:,} notifications")
        check(taken >= sent * 0.99, "that is not delivered")
        return taken


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    packages = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package}=${Version} ", "libnghttp2-14", "libssl3", "librocksdb-dev", "libuv1",
         "nghttp2-server"], capture_output=True, text=True).stdout.split()
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "machine": cpu[1] if cpu else platform.machine(), "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "swift": re.search(r"Swift version (\S+)", output_of("swift", "--version"))[1],
        "packages": dict(p.split("=", 1) for p in packages), "commit": git.stdout.strip(),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row[0] for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW", help=", ".join(names))
    parser.add_argument("--slices", type=int, default=7, help="slices for each server (7)")
    parser.add_argument("--requests", type=int, default=200_000, help="requests of a slice (200,000)")
    parser.add_argument("--devices", type=int, default=1000, help="devices, each with one token (1,000)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    options = parser.parse_args()
    check({SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0), "it takes two processors, one for the load.")
    for tool in ["h2load", "nghttpd", "openssl", "clang", "taskset"]:
        check(shutil.which(tool), f"{tool} is missing; `make bench-ingest` installs what it needs.")
    for program in ["apus", "apus-bench"]:
        check((options.bin / program).exists(), f"{options.bin / program} is missing; run `make release` first.")
    # A device is a descriptor on either side.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    print(json.dumps(machine()), flush=True)
    with tempfile.TemporaryDirectory(prefix="apus-bench-") as scratch:
        bench = Bench(options, scratch)
        try:
            bench.provision()
            for row in ROWS:
                if row[0] in options.rows:
                    bench.row(*row)
        finally:
            for process in list(Process.everyone):
                process.stop()


main()
