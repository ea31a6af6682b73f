#!/usr/bin/env python3
"""What it costs to relay a notification of a legacy sender, how many a long round trip lets through, and how long it
takes.

    make bench ROWS=relay                all rows
    Benchmarks/relay.py --rows cost      one of them, after `make release`

Binary frames of 300 bytes come in (`apus-bench binary`, one connection), are written to the store, and leave as HTTP/2
requests to nghttpd, over the client's usual 8 connections of 100 streams. The gateway runs on processor 0, sender and
nghttpd on processor 1.

Rows:
  cost   CPU time of the gateway per notification, all threads. The yardstick is the sum of what it consists of,
         measured in alternating slices of the same run: binary frames in (the row `binary.admitted-full`), durable
         before the response (`ingest.stored`), and HTTP/2 out (`client.bulk`). Goal: 1.1 of the sum
  far    notifications per second with a round trip of 40 ms to upstream (delay_relay.c), compared with what the
         streams of all connections come to. Goal: 0.9 of it
  delay  from a frame's last byte to the first byte that reaches upstream, one notification at a time, less the sync of
         the store that it waits for (sync_count.c measures each). Goal: 1 ms at the median

Lower is better, except for the rate.
"""

import json
import mmap
import os
import select
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
import harness
from binary import Binary, Probe
from client import Client
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say
from ingest import Ingest
from rows import Row, Suite

COST_GOAL, FAR_GOAL, DELAY_GOAL_MICROSECONDS = 1.1, 0.9, 1000
CONNECTIONS, STREAMS, ROUND_TRIP_MILLISECONDS = 8, 100, 40
TOKEN = "ab" * 32
WINDOW_SECONDS = 3
# Until the row of an answered notification is deleted, and that is synced.
PAUSE_SECONDS = 0.06


class Relay(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.port, self.nghttpd_port = free_port(), free_port()

    def provision(self):
        super().provision()
        issued = json.loads(output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.certificate, self.key, self.authority = (
            issued["certificate_file"], issued["key_file"], issued["authority_file"])
        self.tokens_file.write_text(TOKEN + "\n")
        self.upstream_key = self.scratch / "upstream.p8"
        output_of("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                  "-out", self.upstream_key)
        key, self.upstream_certificate = self.scratch / "upstream.key", self.scratch / "upstream.crt"
        output_of("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                  "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2",
                  "-keyout", key, "-out", self.upstream_certificate)
        folder = self.scratch / "htdocs/3/device"
        folder.mkdir(parents=True)
        (folder / TOKEN).touch()
        nghttpd = Process(
            ["nghttpd", "-n1", "-a", "127.0.0.1", f"--max-concurrent-streams={STREAMS}", "-d", self.scratch / "htdocs",
             self.nghttpd_port, key, self.upstream_certificate], [LOAD_CPU], self.scratch / "nghttpd.log")
        nghttpd.wait_until(lambda: accepts(self.nghttpd_port), "an open port")

    def start_gateway(self, upstream_port, environment=None):
        output_of(self.apus, "app", "--data", self.data, "--change", TOPIC,
                  "--upstream", f"https://127.0.0.1:{upstream_port}", "--upstream-key", self.upstream_key,
                  "--upstream-key-id", "ABC123DEFG", "--upstream-team", "DEF123GHIJ",
                  "--upstream-authority", self.upstream_certificate)
        return self.serve(environment=environment, gateway=f"127.0.0.1:{self.port}")

    def send_command(self, frames):
        return [str(word) for word in [
            "taskset", "-c", LOAD_CPU, self.apus_bench, "binary", "--connect", f"127.0.0.1:{self.port}",
            "--certificate", self.certificate, "--key", self.key, "--authority", self.authority,
            "--tokens", self.tokens_file, "--frames", frames, "--records", "full", "--expiration", "+1h"]]

    def ended(self):
        """Notifications that upstream has accepted; there must be no others."""
        rows = [json.loads(row) for row in output_of(self.apus, "relay", "--data", self.data, "--json").splitlines()]
        check(all(row[name] == 0 for row in rows for name in ("rejected", "dead", "expired", "doubted")),
              f"not all notifications were accepted: {rows}")
        return sum(row["accepted"] for row in rows)

    # Rows

    def cost(self):
        frames, slices = self.options.frames, self.options.slices
        parts = Parts(self)
        gateway = self.start_gateway(self.nghttpd_port)

        def relayed(count):
            before, sent = gateway.settled_cpu_seconds(), self.ended()
            output_of(*self.send_command(count))
            spent = gateway.settled_cpu_seconds() - before
            check(self.ended() - sent == count, "not all notifications were relayed")
            return spent * 1e6 / count
        say(f"\ncost: {slices} slices of {frames:,} notifications each, goal {COST_GOAL} x the sum of the parts")
        relayed(frames // 10)
        costs, sums, each = [], [], []
        for index in range(slices):
            costs.append(relayed(frames))
            each.append(parts.measure())
            sums.append(sum(each[-1].values()))
            listed = ", ".join(f"{name} {cost:.2f}" for name, cost in each[-1].items())
            say(f"  {index + 1:2} relayed {costs[-1]:6.2f} us; parts {sums[-1]:6.2f} us: {listed}")
        parts.stop()
        gateway.stop()
        self.results.append(Row(
            "relay.cost", "us CPU/notification", costs, sums, "its parts", COST_GOAL,
            more={"notifications": frames * slices,
                  "parts": {name: round(statistics.median(one[name] for one in each), 2) for name in each[0]}}))

    def far(self):
        slices, port = self.options.slices, free_port()
        limit = CONNECTIONS * STREAMS * 1000 / ROUND_TRIP_MILLISECONDS
        delay = Process([self.compile("delay_relay.c", "delay_relay"), port, self.nghttpd_port,
                         ROUND_TRIP_MILLISECONDS], [LOAD_CPU], self.scratch / "delay.log")
        delay.wait_until(lambda: accepts(port), "an open port")
        gateway = self.start_gateway(port)
        say(f"\nfar, {ROUND_TRIP_MILLISECONDS} ms: {CONNECTIONS} connections of {STREAMS} streams can send {limit:.0f} "
            "per second")
        frames = int(limit * WINDOW_SECONDS * (slices + 3))
        sender = subprocess.Popen(self.send_command(frames), stdout=subprocess.DEVNULL)
        time.sleep(WINDOW_SECONDS)
        marks, rates = [(time.monotonic(), self.ended())], []
        for index in range(slices):
            time.sleep(WINDOW_SECONDS)
            marks.append((time.monotonic(), self.ended()))
            check(sender.poll() is None, "the sender ended too early")
            (began, first), (ended, last) = marks[-2:]
            rates.append((last - first) / (ended - began))
            say(f"  {index + 1:2} {rates[-1]:8.0f} a second")
        sender.terminate()
        sender.wait()
        gateway.stop()
        delay.stop()
        self.results.append(Row(
            f"relay.far-{ROUND_TRIP_MILLISECONDS}", "/s", rates, [limit] * slices, "what streams come to", FAR_GOAL,
            better="higher", more={"connections": CONNECTIONS}))

    def delay(self):
        syncs = self.scratch / "syncs"
        syncs.write_bytes(bytes(4096))
        library = self.compile("sync_count.c", "sync_count.so", "-fPIC", "-shared")
        os.sched_setaffinity(0, {LOAD_CPU})
        tap = Tap(self.nghttpd_port)
        gateway = self.start_gateway(tap.port, {"LD_PRELOAD": str(library), "APUS_SYNC_COUNT": str(syncs)})
        say(f"\ndelay: {self.options.slices} slices of {self.options.latencies:,} notifications, one at a time")
        figures = []
        with open(syncs, "r+b") as file, mmap.mmap(file.fileno(), 4096) as counts, self.connect() as sender:
            self.times(sender, tap, counts, 10)
            for index in range(self.options.slices):
                times = self.times(sender, tap, counts, self.options.latencies)
                figures.append([statistics.median(column) for column in zip(*times)])
                say("  {:2} p50 {:6.0f} us, sync {:6.0f} us, beyond it {:6.0f} us".format(index + 1, *figures[-1]))
        gateway.stop()
        os.sched_setaffinity(0, {SERVER_CPU, LOAD_CPU})
        whole, sync, beyond = zip(*figures)
        self.results.append(Row(
            "relay.delay", "us p50", beyond, goal=DELAY_GOAL_MICROSECONDS,
            note=f"beyond a sync of {statistics.median(sync):.0f} us; in all {statistics.median(whole):.0f} us",
            more={"notifications": self.options.latencies * self.options.slices}))

    def connect(self):
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(plain, server_hostname="localhost")

    def times(self, sender, tap, counts, wanted):
        """Microseconds of each notification: to upstream, of the sync in between, and the rest."""
        times = []
        for _ in range(4 * wanted):
            frame = Probe.frame(bytes.fromhex(TOKEN), b'{"aps":{"alert":"?"}}', 1, int(time.time()) + 3600)
            count, nanoseconds = struct.unpack("QQ", counts[:16])
            began = time.monotonic_ns()
            sender.sendall(frame)
            arrived = tap.wait_for_bytes(10)
            now, later = struct.unpack("QQ", counts[:16])
            tap.forward(PAUSE_SECONDS)
            # The deletion of an earlier row may have been synced in between.
            if now - count == 1:
                whole, sync = (arrived - began) / 1000, (later - nanoseconds) / 1000
                times.append((whole, sync, whole - sync))
            if len(times) == wanted:
                return times
        harness.die(f"only {len(times)} of {4 * wanted} notifications waited for one sync")


class Parts:
    """What relaying consists of: the settings of other suites, each in a folder of its own."""

    def __init__(self, bench):
        self.options = bench.options
        made = []
        for kind in (Binary, Ingest, Client):
            folder = bench.scratch / kind.__name__.lower()
            folder.mkdir()
            made.append(kind(bench.options, folder))
            made[-1].provision()
        self.binary, self.ingest, self.client = made
        registering = self.binary.start_apus()
        self.binary.start_fleet("--exit-after-registration").stop()
        registering.stop()
        self.binary_server, self.ingest_server = self.binary.start_apus(), self.ingest.start_apus()
        self.ingest.start_fleet("--exit-after-registration").stop()
        self.binary.send(self.binary.port, self.options.frames // 10, "--records", "full")
        self.ingest.load(self.ingest.http2_port, 3600, self.options.frames // 10)

    def measure(self):
        """CPU microseconds of each."""
        frames = self.options.frames
        return {
            "binary.admitted-full":
                self.binary.timed(self.binary_server, self.binary.port, frames, "--records", "full")[0],
            "ingest.stored": self.ingest.timed(self.ingest_server, self.ingest.http2_port, 3600)[0],
            "client.bulk": self.client.push(self.options.requests, "--form", "bulk")[1]}

    def stop(self):
        self.binary_server.stop()
        self.ingest_server.stop()


class Tap:
    """Forwards connections to upstream, and knows when the gateway's bytes arrive."""

    def __init__(self, target):
        self.target, self.peers = target, {}
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.gateways = set()

    def wait_for_bytes(self, seconds):
        """Forwards until the gateway sends something; returns when that was, in nanoseconds of the monotonic clock."""
        arrived = self.forward(seconds, stops=True)
        check(arrived, f"nothing reached upstream within {seconds} s")
        return arrived

    def forward(self, seconds, stops=False):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self.listener, *self.peers], [], [], left)
            now, is_there = time.monotonic_ns(), False
            for one in readable:
                if one is self.listener:
                    self.take_in()
                else:
                    is_there = self.move(one) and one in self.gateways or is_there
            if stops and is_there:
                return now
        return None

    def take_in(self):
        gateway, _ = self.listener.accept()
        upstream = socket.create_connection(("127.0.0.1", self.target))
        for one in (gateway, upstream):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.peers[gateway], self.peers[upstream] = upstream, gateway
        self.gateways.add(gateway)

    def move(self, one):
        data = one.recv(65536)
        if data:
            self.peers[one].sendall(data)
            return True
        for each in (one, self.peers.pop(one)):
            self.peers.pop(each, None)
            each.close()
        return False


def arguments(parser):
    parser.size("--frames", 200_000, 10_000, "notifications of a slice of `cost`, and of its parts that are servers")
    parser.size("--requests", 200_000, 10_000, "requests of the parts that speak HTTP/2")
    parser.size("--devices", 1000, 50, "devices of these parts")
    parser.size("--latencies", 200, 20, "notifications of a slice of `delay`")


SUITE = Suite(
    "relay", __doc__, Relay, tools=["h2load", "nghttpd", "openssl", "clang", "taskset"], arguments=arguments, slices=3,
    rows={"cost": "binary in, stored, HTTP/2 out; compared with its parts", "far": "with a long round trip to upstream",
          "delay": "from a frame's last byte to upstream"})

if __name__ == "__main__":
    SUITE.main()
