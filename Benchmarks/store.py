#!/usr/bin/env python3
"""Notifications stored durably in a second, beside the storage engine driven directly in the same run.

    make bench-store                                     a million stored notifications (about four minutes)
    Benchmarks/store.py --stored 1000000 10000000        ten million as well (about 5 GB in TMPDIR)
    Benchmarks/store.py --json                           JSON, one row a line, after `make release`

Each size begins with a service that knows as many devices, all of them away, none of which has connected:
`apus-bench register` writes their records. `apus-bench binary` then sends one notification to each (frames of 400
bytes, expiration in an hour, four connections), whose last error packet comes when all are on disk. After that each
slice sends to some of the devices again, which replaces what waits for them, so that the number stored stays the same.

The engine has a store of its own, of the same size. `apus-bench engine` writes the same records to it in the same
order, in groups of as many as the service had in a group (a preloaded library counts the syncs of its log), each
group sorted as the service sorts it, the next one made while one is written. What it leaves out is everything that a
service does: TLS, frames, tokens, payloads, decisions, answers, and looking up the device.

Service, engine and load may use both processors; only one of the two stores is at work at any time. What counts is
notifications for each second of time, so the machine should have nothing else to do.

Rows, for each size:
  stored     notifications a second while the store fills up, and with all of them stored: medians of the slices, and
             the service's rate through the engine's. Goal: 0.7. CPU time of the service for each, too.
  accepted   microseconds from a notification to its confirmation (a listener with +confirm, one at a time, expiration
             in an hour): with nothing else to do, and while the four connections flood 200,000 of the devices.
  memory     resident memory of the service; what is not anonymous are pages of files.
  start      seconds from the start of the program to open doors, beside the engine's time to open the same directory:
             after a shutdown, and after SIGKILL in the middle of a flood.
  fetched    microseconds from a device's first packet (its handshake included) to the last notification that is
             stored for it.
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
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say

RATE_GOAL = 0.7
BOTH = [SERVER_CPU, LOAD_CPU]
# Devices that a flood goes to.
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
        """A service of its own for each size, with all devices known, and an empty store for the engine."""
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
        """One for each connection, each to devices of its own."""
        share = frames // self.options.connections
        first = self.next_device["apus"]
        self.next_device["apus"] += frames
        return [Process(self.sender(self.port, share, first + index * share, devices=devices), [LOAD_CPU],
                        self.scratch / f"sender.{index}.log") for index in range(self.options.connections)]

    def start_flood(self):
        """Senders that go on until they are stopped, at work when this returns."""
        senders = self.start_senders(4_000_000_000, min(self.stored, FLOODED_DEVICES))
        before = self.syncs.read_bytes()
        senders[0].wait_until(lambda: self.syncs.read_bytes() != before, "a first group")
        time.sleep(2)
        return senders

    def service_slice(self, apus, frames):
        """Notifications a second, notifications in a group, and what they cost."""
        synced, cpu = struct.unpack_from("QQ", self.syncs.read_bytes()), apus.cpu_seconds()
        senders = self.start_senders(frames)
        said = []
        for sender in senders:
            check(sender.child.wait(1200) == 0, f"a sender failed. {sender.tail()}")
            said.append(json.loads(sender.stop().splitlines()[-1]))
        after = struct.unpack_from("QQ", self.syncs.read_bytes())
        # They begin together, up to the time that their programs need to start.
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
        engine_rate = statistics.median(one["rate"] for one in engine)
        shutil.rmtree(engine_store)
        self.add("stored", filled=round(fill["rate"]), filled_engine=round(engine_fill["rate"]),
                 filled_ratio=round(fill["rate"] / engine_fill["rate"], 2), rate=round(medians["rate"]),
                 engine=round(engine_rate), ratio=round(medians["rate"] / engine_rate, 2), goal=RATE_GOAL,
                 group=round(medians["group"]), sync_us=round(medians["sync_us"]), cpu_us=round(medians["cpu_us"], 2),
                 spread={"apus": [round(f(one["rate"] for one in slices)) for f in (min, max)],
                         "engine": [round(f(one["rate"] for one in engine)) for f in (min, max)]})

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
        self.add("accepted", unit="us", count=self.options.latencies, quiet=quiet, flooded=flooded)

    def memory(self, apus, when):
        apus.settled_cpu_seconds()
        status = pathlib.Path(f"/proc/{apus.child.pid}/status").read_text()
        figures = {key: int(re.search(rf"{name}:\s*(\d+)", status)[1]) / 1024
                   for key, name in [("resident_mb", "VmRSS"), ("anonymous_mb", "RssAnon"), ("peak_mb", "VmHWM")]}
        self.add("memory", when=when, **{key: round(value, 1) for key, value in figures.items()},
                 bytes_each=round(figures["anonymous_mb"] * 2**20 / self.stored, 1))

    def start(self):
        """The last service is still at work on a flood when it comes here; a running one is returned."""
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
        self.add("start", stopped_s=round(statistics.median(stopped), 3),
                 engine_stopped_s=round(statistics.median(opened), 3),
                 **{key: round(value, 3) for key, value in figures.items()})
        return apus

    def fetched(self):
        said = json.loads(output_of(
            "taskset", "-c", LOAD_CPU, self.apus_bench, "fetch", "--connect", f"127.0.0.1:{self.courier_port}",
            "--data", self.data, "--devices", self.options.fetches, "--first", self.stored // 3))
        self.add("fetched", unit="us", devices=said["devices"], **percentiles(said["microseconds"]))

    def add(self, row, **figures):
        self.results.append({"row": row, "stored": self.stored, **figures})
        say(f"  {json.dumps(self.results[-1])}")

    def measure(self, stored):
        self.begin(stored)
        apus = self.start_apus()
        self.rates(apus)
        self.accepted()
        self.memory(apus, "after the slices")
        apus.stop()
        disk = sum(file.stat().st_size for file in (self.data / "store").rglob("*") if file.is_file())
        apus = self.start()
        self.memory(apus, "after a start")
        self.fetched()
        apus.stop()
        self.add("disk", megabytes=round(disk / 2**20), bytes_each=round(disk / stored))

    # What is printed

    def table(self):
        def rows(name):
            return [result for result in self.results if result["row"] == name]

        say(f"\n{'stored':>10}  {'filled':>11} {'engine':>11} {'ratio':>5}  {'replaced':>11} {'engine':>11} "
            f"{'ratio (goal)':>12}  {'group':>6} {'CPU':>8}")
        for row in rows("stored"):
            say(f"{row['stored']:10,}  {row['filled']:9,}/s {row['filled_engine']:9,}/s {row['filled_ratio']:5.2f}  "
                f"{row['rate']:9,}/s {row['engine']:9,}/s {row['ratio']:6.2f} ({row['goal']})  {row['group']:6,} "
                f"{row['cpu_us']:5.2f} us")
        say(f"\n{'stored':>10}  {'accepted p50, p99':>20} {'in a flood p50, p99':>22} {'fetched p50, p99':>20}")
        for row, fetched in zip(rows("accepted"), rows("fetched")):
            say(f"{row['stored']:10,}  {row['quiet']['p50']:8.0f} {row['quiet']['p99']:8.0f} us "
                f"{row['flooded']['p50']:10.0f} {row['flooded']['p99']:8.0f} us {fetched['p50']:8.0f} "
                f"{fetched['p99']:8.0f} us")
        say(f"\n{'stored':>10}  {'start':>8} {'engine':>8}  {'after SIGKILL':>13} {'engine':>8}")
        for row in rows("start"):
            say(f"{row['stored']:10,}  {row['stopped_s']:6.3f} s {row['engine_stopped_s']:6.3f} s  "
                f"{row['killed_s']:11.3f} s {row['engine_killed_s']:6.3f} s")
        say(f"\n{'stored':>10}  {'resident':>9} {'anonymous':>9}  when")
        for row in rows("memory"):
            say(f"{row['stored']:10,}  {row['resident_mb']:6.0f} MB {row['anonymous_mb']:6.0f} MB  {row['when']}")
        for row in rows("disk"):
            say(f"{row['stored']:10,}  {row['megabytes']:,} MB on disk, {row['bytes_each']} bytes each")


def main():
    parser = harness.parser_for(__doc__, "slices for each of the two (7)")
    parser.add_argument("--stored", type=int, nargs="+", default=[1_000_000], help="sizes (1,000,000)")
    parser.add_argument("--frames", type=int, default=500_000, help="notifications of a slice (500,000)")
    parser.add_argument("--frame-bytes", type=int, default=400, help="bytes of a frame (400)")
    parser.add_argument("--connections", type=int, default=4, help="connections that they come by (4)")
    parser.add_argument("--latencies", type=int, default=2000,
                        help="notifications that are waited for (2,000), and a fifth of it in a flood")
    parser.add_argument("--fetches", type=int, default=500, help="devices that come for what is stored (500)")
    options = parser.parse_args()

    def measure(bench):
        for stored in options.stored:
            bench.measure(stored)

    harness.main(options, Store, ["clang", "taskset"], measure)


main()
