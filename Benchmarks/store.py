#!/usr/bin/env python3
"""Notifications stored durably per second, compared with direct use of the storage engine in the same run.

    make bench ROWS=store                                a million stored notifications (about four minutes)
    Benchmarks/store.py --stored 1000000 10000000        ten million as well (about 5 GB in TMPDIR)
    Benchmarks/store.py --json                           JSON, one row a line, after `make release`

Each size begins with a service that knows that many offline devices, none of which has ever connected: `apus-bench
register` writes their records. `apus-bench binary` then sends one notification to each (frames of 400 bytes, expiration
in an hour, four connections); the last error packet arrives when all are on disk. After that each slice sends to some
of the devices again, which replaces their notifications, so the number of stored ones is constant.

The engine has a separate store of the same size. `apus-bench engine` writes the same records to it in the same order,
in groups of the service's size (a preloaded library counts the syncs of its log), each group sorted as in the service,
while the next one is prepared. It leaves out the rest of a service: TLS, frames, tokens, payloads, decisions,
responses, and the lookup of the device.

Service, engine and load may use both processors; only one of the two stores is active at any time. The figure is
notifications per second of real time, so the machine should be otherwise idle.

Rows, for each size:
  stored     notifications per second while the store fills up, and once all are stored: medians of the slices, and the
             service's rate divided by the engine's. Goal: 0.7. Also the service's CPU time per notification.
  accepted   microseconds from a notification to its confirmation (a listener with +confirm, one at a time, expiration
             in an hour): on an idle service, and while the four connections flood 200,000 of the devices.
  memory     resident memory of the service; the part that is not anonymous is pages of files.
  start      seconds from the start of the program to open listeners, compared with the engine's time to open the same
             directory: after a shutdown, and after SIGKILL in the middle of a flood.
  fetched    microseconds from a device's first packet (including its handshake) to its last stored notification.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, check, free_port, output_of, say
from rows import Row, Suite

RATE_GOAL = 0.7
BOTH = [SERVER_CPU, LOAD_CPU]
# Devices that get a flood.
FLOODED_DEVICES = 200_000


def percentiles(times):
    times = sorted(times)
    return {"p50": round(times[len(times) // 2], 1), "p99": round(times[len(times) * 99 // 100], 1)}


class Store(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.port, self.confirm_port = free_port(), free_port()
        self.syncs = self.scratch / "syncs"

    def provision(self):
        self.library = self.compile("sync_count.c", "sync_count.so", "-fPIC", "-shared")

    def begin(self, stored):
        """A separate service for each size, with all devices known, and an empty store for the engine."""
        self.stored = stored
        for old in [self.data, self.scratch / "engine"]:
            shutil.rmtree(old, ignore_errors=True)
        super().provision()
        issued = json.loads(output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.provider = ["--certificate", issued["certificate_file"], "--key", issued["key_file"],
                         "--authority", issued["authority_file"]]
        # The store, as the service makes it.
        self.start_apus().stop()
        made = json.loads(output_of(self.apus_bench, "register", "--data", self.data, "--devices", stored))
        say(f"\n{stored:,} devices registered in {made['seconds']:.1f} s")
        self.next_device = {"apus": 0, "engine": 0}

    def start_apus(self):
        self.syncs.write_bytes(bytes(4096))
        return self.serve(
            workers=0, cpus=BOTH, pause=0.001, gateway=f"127.0.0.1:{self.port},127.0.0.1:{self.confirm_port}+confirm",
            environment={"LD_PRELOAD": str(self.library), "APUS_SYNC_COUNT": str(self.syncs)})

    # Load

    def sender(self, port, frames, first, *extra, devices=None):
        devices = devices or self.stored
        return ["taskset", "-c", LOAD_CPU, self.apus_bench, "binary", "--connect", f"127.0.0.1:{port}", *self.provider,
                "--data", self.data, "--devices", devices, "--first", first % devices, "--frames", frames,
                "--frame-bytes", self.options.frame_bytes, "--expiration", "+1h", *extra]

    def start_senders(self, frames, devices=None):
        """One sender per connection, each with separate devices."""
        share = frames // self.options.connections
        first = self.next_device["apus"]
        self.next_device["apus"] += frames
        return [Process(self.sender(self.port, share, first + index * share, devices=devices), [LOAD_CPU],
                        self.scratch / f"sender.{index}.log") for index in range(self.options.connections)]

    def start_flood(self):
        """Senders that run until they are stopped; they are active when this returns."""
        senders = self.start_senders(4_000_000_000, min(self.stored, FLOODED_DEVICES))
        before = self.syncs.read_bytes()
        senders[0].wait_until(lambda: self.syncs.read_bytes() != before, "a first group")
        time.sleep(2)
        return senders

    def service_slice(self, apus, frames):
        """Notifications per second, notifications per group, and their costs."""
        synced, cpu = struct.unpack_from("QQ", self.syncs.read_bytes()), apus.cpu_seconds()
        senders = self.start_senders(frames)
        said = []
        for sender in senders:
            check(sender.child.wait(1200) == 0, f"a sender failed. {sender.tail()}")
            said.append(json.loads(sender.stop().splitlines()[-1]))
        after = struct.unpack_from("QQ", self.syncs.read_bytes())
        # They begin together, except for the start time of their programs.
        began = min(one["began_milliseconds"] for one in said)
        seconds = max(one["began_milliseconds"] - began + one["seconds"] * 1000 for one in said) / 1000
        count, nanoseconds = [b - a for a, b in zip(synced, after)]
        return {"rate": frames / seconds, "group": frames / max(count, 1), "sync_us": nanoseconds / max(count, 1) / 1e3,
                "cpu_us": (apus.settled_cpu_seconds() - cpu) * 1e6 / frames}

    def engine(self, path, notifications, group=1000):
        first = self.next_device["engine"]
        said = json.loads(output_of(
            self.apus_bench, "engine", "--store", path, "--devices", self.stored, "--first", first % self.stored,
            "--notifications", notifications, "--group", group, "--frame-bytes", self.options.frame_bytes))
        if notifications:
            self.next_device["engine"] += notifications
            said["rate"] = notifications / said["seconds"]
        return said

    # Rows

    def rates(self, apus):
        engine_store = self.scratch / "engine"
        fill = self.service_slice(apus, self.stored)
        self.tell("filled", "apus", fill)
        engine_fill = self.engine(engine_store, self.stored, round(fill["group"]))
        say(f"  filled  engine {engine_fill['rate']:9,.0f} /s")
        self.memory(apus, "filled")
        slices, engine = [], []
        for _ in range(self.options.slices):
            slices.append(self.service_slice(apus, self.options.frames))
            self.tell("stored", "apus", slices[-1])
            engine.append(self.engine(engine_store, self.options.frames, round(slices[-1]["group"])))
            say(f"  stored  engine {engine[-1]['rate']:9,.0f} /s")
        medians = {key: statistics.median(one[key] for one in slices) for key in slices[0]}
        self.add("filled", "/s", fill["rate"], engine_fill["rate"], "engine", better="higher")
        self.add("stored", "/s", [one["rate"] for one in slices], [one["rate"] for one in engine], "engine", RATE_GOAL,
                 better="higher", note=f"{medians['cpu_us']:.1f} us CPU each, {medians['group']:,.0f} in a group",
                 more={"group": round(medians["group"]), "sync_us": round(medians["sync_us"]),
                       "cpu_us": round(medians["cpu_us"], 2)})

    def tell(self, what, who, one):
        say(f"  {what}  {who}   {one['rate']:9,.0f} /s, {one['cpu_us']:5.2f} us CPU, {one['group']:5,.0f} in a group, "
            f"{one['sync_us']:4,.0f} us a sync")

    def latencies(self, count):
        first = self.stored // 2
        said = json.loads(output_of(*self.sender(self.confirm_port, count, first, "--one-at-a-time")))
        return percentiles(said["microseconds"])

    def accepted(self):
        quiet = self.latencies(self.options.latencies)
        senders = self.start_flood()
        # Each takes many times as long.
        flooded = self.latencies(self.options.latencies // 5)
        for sender in senders:
            check(sender.child.poll() is None, f"the flood ended. {sender.tail()}")
            sender.stop()
        for name, times in [("accepted", quiet), ("accepted-flooded", flooded)]:
            self.add(name, "us p99", times["p99"], note=f"p50 {times['p50']:,.0f} us")

    def memory(self, apus, when):
        apus.settled_cpu_seconds()
        status = pathlib.Path(f"/proc/{apus.child.pid}/status").read_text()
        figures = {key: int(re.search(rf"{name}:\s*(\d+)", status)[1]) / 1024
                   for key, name in [("resident_mb", "VmRSS"), ("anonymous_mb", "RssAnon"), ("peak_mb", "VmHWM")]}
        resident, anonymous = figures["resident_mb"], figures["anonymous_mb"]
        self.add(f"memory-{when}", "MB", resident,
                 note=f"{anonymous:,.0f} MB anonymous, {anonymous * 2**20 / self.stored:,.0f} bytes each",
                 more={key: round(value, 1) for key, value in figures.items()})

    def start(self):
        """The previous service is still handling a flood. Returns a running service."""
        figures = {}

        def service():
            begin = time.monotonic()
            apus = self.start_apus()
            return apus, time.monotonic() - begin

        def crash(apus):
            senders = self.start_flood()
            apus.child.kill()
            apus.child.wait()
            apus.stop()
            for sender in senders:
                sender.stop()

        stopped, opened = [], []
        for _ in range(5):
            apus, seconds = service()
            stopped.append(seconds)
            apus.stop()
            opened.append(self.engine(self.data / "store", 0)["open_seconds"])
        apus, _ = service()
        crash(apus)
        figures["engine_killed_s"] = self.engine(self.data / "store", 0)["open_seconds"]
        apus, _ = service()
        crash(apus)
        apus, figures["killed_s"] = service()
        self.add("start", "s", stopped, opened, "engine")
        self.add("start-killed", "s", figures["killed_s"], figures["engine_killed_s"], "engine")
        return apus

    def fetched(self):
        said = json.loads(output_of(
            "taskset", "-c", LOAD_CPU, self.apus_bench, "fetch", "--connect", f"127.0.0.1:{self.courier_port}",
            "--data", self.data, "--devices", self.options.fetches, "--first", self.stored // 3))
        times = percentiles(said["microseconds"])
        self.add("fetched", "us p99", times["p99"], note=f"p50 {times['p50']:,.0f} us",
                 more={"devices": said["devices"]})

    def add(self, name, *figures, **more):
        more["more"] = {"stored": self.stored, **more.get("more", {})}
        size = "" if len(self.options.stored) == 1 else f"-{self.stored}"
        self.results.append(Row(f"store.{name}{size}", *figures, **more))
        say(f"  {json.dumps(self.results[-1].json())}")

    def measure(self, stored):
        self.begin(stored)
        apus = self.start_apus()
        self.rates(apus)
        self.accepted()
        self.memory(apus, "used")
        apus.stop()
        disk = sum(file.stat().st_size for file in (self.data / "store").rglob("*") if file.is_file())
        apus = self.start()
        self.memory(apus, "started")
        self.fetched()
        apus.stop()
        self.add("disk", "bytes each", disk / stored, note=f"{disk / 2**20:,.0f} MB")


def arguments(parser):
    parser.size("--stored", [1_000_000], [20_000], "sizes", nargs="+")
    parser.size("--frames", 500_000, 10_000, "notifications of a slice")
    parser.size("--frame-bytes", 400, 400, "bytes of a frame")
    parser.size("--connections", 4, 4, "connections")
    parser.size("--latencies", 2000, 200, "notifications with a timed confirmation; a fifth of it in a flood")
    parser.size("--fetches", 500, 50, "devices that fetch stored notifications")


SUITE = Suite(
    "store", __doc__, Store, tools=["clang", "taskset"], arguments=arguments, slices=3,
    measure=lambda bench: [bench.measure(stored) for stored in bench.options.stored],
    rows={"all": "filling and replacing, confirmations, memory, start-up and fetching, with a million stored"})

if __name__ == "__main__":
    SUITE.main()
