#!/usr/bin/env python3
"""Heap allocations per message on the hot paths, checked against ceilings.

    make allocations                             fails where a path allocates more than its ceiling
    Benchmarks/allocations.py --rows client      some of them; --json prints them as JSON
    Benchmarks/allocations.py --set              updates the ceilings from the counts

alloc_count.c is preloaded into the program and counts calls of malloc and similar functions. Each figure is the
difference of two runs, a large and a small one, divided by the difference of their messages, so allocations of a
connection, a handshake or the start of a program cancel out. Counts do not depend on the machine's load, with two
exceptions. Allocations of other threads only increase a count, so the minimum of several pairs is used. And batches (a
turn of the loop, a commit group, a TLS record) vary with the load: `room` in allocation-ceilings.json allows for that.

Rows:
  http2-not-stored, http2-stored, http2-delivered    as those of ingest.py, in the service, for each request
  binary-admitted, binary-delivered                  as those of binary.py, in the service, for each frame
  device-received                                    the device library, for each notification: the fleet of delivered
  http2-delivered-alone, device-received-alone       the same with one notification at a time, each in a turn, a record
                                                     and a system call of its own: the most that one can cost, and the
                                                     same number on any machine
  client-bulk, client-single                         as those of client.py, in the client library, for each notification
"""

import json
import os
import pathlib
import struct
import sys
import time

sys.dont_write_bytecode = True
import client
import harness
import ingest
from harness import ROOT, Process, check, free_port, output_of, say

CEILINGS = ROOT / "Benchmarks/allocation-ceilings.json"
PATHS = ["http2-not-stored", "http2-stored", "http2-delivered", "http2-delivered-alone", "binary-admitted",
         "binary-delivered", "device-received", "device-received-alone", "client-bulk", "client-single"]
SMALL, LARGE = 4_000, 24_000
# Of the rows that send one notification at a time.
FEW = 1_000, 6_000
PAIRS = 3
# A ceiling above the figure by more than its room and this should be lowered.
WORTH_LOWERING = 0.3


def counted(pairs, small=SMALL, large=LARGE):
    """The minimum of the pairs: calls per message. `pairs` runs a number of messages and returns the count."""
    return min((pairs(large) - pairs(small)) / (large - small) for _ in range(PAIRS))


class Counter:
    """A file with a program's counts."""

    def __init__(self, library, file):
        self.file = pathlib.Path(file)
        self.file.write_bytes(bytes(4096))
        self.environment = {"LD_PRELOAD": str(library), "APUS_ALLOC_COUNT": str(self.file)}

    @property
    def calls(self):
        return struct.unpack_from("Q", self.file.read_bytes())[0]


class Service(ingest.Ingest):
    """The counted service, with its devices offline or connected."""

    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.processors = sorted(os.sched_getaffinity(0))
        self.load_cpus = ",".join(map(str, self.processors))
        self.port = free_port()
        self.figures = {}

    def provision(self):
        super().provision()
        self.library = self.compile("alloc_count.c", "alloc_count.so", "-fPIC", "-shared")
        issued = json.loads(output_of(self.apus, "cert", "--data", self.data, "--topic", harness.TOPIC, "--json"))
        self.provider = ["--certificate", issued["certificate_file"], "--key", issued["key_file"],
                         "--authority", issued["authority_file"]]

    def measure(self):
        groups = {"service": self.service_rows, "client": self.client_rows}
        for name, rows in groups.items():
            if name in self.options.rows:
                rows()

    def service_rows(self):
        counter = Counter(self.library, self.scratch / "service.counts")
        # One worker: with two, the number of messages that cross over would be random.
        self.server = self.serve(1, self.processors, counter.environment, http2=f"127.0.0.1:{self.http2_port}",
                                 gateway=f"127.0.0.1:{self.port}")
        self.counter = counter
        self.start_fleet("--exit-after-registration", cpus=self.processors).stop()
        self.figures["http2-not-stored"] = self.pairs(self.http2, 0)
        self.figures["http2-stored"] = self.pairs(self.http2, 3600)
        self.figures["binary-admitted"] = self.pairs(self.frames, "+0")
        devices = Counter(self.library, self.scratch / "fleet.counts")
        fleet = self.start_fleet(cpus=self.processors, environment=devices.environment)
        # Stored notifications are delivered first.
        stored = self.options.devices
        self.http2(stored, 3600)
        for name, load, sizes in [("", self.http2, (SMALL, LARGE)), ("-alone", self.one_by_one, FEW)]:
            received = []
            self.figures[f"http2-delivered{name}"] = self.pairs(load, 3600, devices, received, sizes)
            self.figures[f"device-received{name}"] = min(received)
        self.figures["binary-delivered"] = self.pairs(self.frames, "+1h")
        # Each way with its warm-up; what was stored, and this first round.
        self.acknowledged(fleet.stop(), 2 * (PAIRS * (SMALL + LARGE) + SMALL) + PAIRS * sum(FEW) + FEW[0] + 2 * stored)
        self.server.stop()

    def pairs(self, load, expiration, other=None, others=None, sizes=None):
        """Counts of the service; counts of another program per message are added to `others`."""
        small, large = sizes or (SMALL, LARGE)
        load(small, expiration)
        self.server.settled_cpu_seconds()

        def run(messages):
            before = self.counter.calls
            load(messages, expiration)
            self.server.settled_cpu_seconds()
            return self.counter.calls - before

        if other is None:
            return counted(run)
        least = []
        for _ in range(PAIRS):
            counts = {}
            for messages in (large, small):
                before = other.calls
                counts[messages] = run(messages), other.calls - before
            pair = [(a - b) / (large - small) for a, b in zip(counts[large], counts[small])]
            least.append(pair[0])
            others.append(pair[1])
        return min(least)

    def http2(self, requests, expiration_seconds):
        self.load(self.http2_port, expiration_seconds, requests)

    def one_by_one(self, requests, expiration_seconds):
        self.load(self.http2_port, expiration_seconds, requests, 1, 1)

    def frames(self, frames, expiration):
        output_of(self.apus_bench, "binary", "--connect", f"127.0.0.1:{self.port}", *self.provider,
                  "--tokens", self.tokens_file, "--frames", frames, *(
                      [] if expiration == "+0" else ["--expiration", expiration]))

    def client_rows(self):
        folder = self.scratch / "htdocs/3/device"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / client.TOKEN).touch()
        sink = self.start_yardstick(self.processors)
        for form in ("bulk", "single"):
            self.figures[f"client-{form}"] = counted(lambda messages: self.push(messages, form))
        sink.stop()

    def push(self, notifications, form):
        counter = Counter(self.library, self.scratch / "client.counts")
        # One connection: where more are allowed, one that lasts a quarter of a second opens another, which takes as
        # much as many notifications.
        process = Process(
            [self.apus_bench, "send", "--connect", f"127.0.0.1:{self.yardstick_port}", "--authority", self.certificate,
             "--token", client.TOKEN, "--payload", self.payload, "--notifications", notifications,
             "--warm-up", SMALL, "--form", form, "--connections", 1],
            self.processors, self.scratch / "send.log", counter.environment)
        check(process.child.wait(120) == 0, f"the client failed. {process.tail()}")
        process.stop()
        return counter.calls


def verdicts(figures, ceilings):
    """A line per path, and whether one exceeds its ceiling."""
    lines, bad = [], False
    for name, figure in figures.items():
        known = ceilings.get(name)
        if known is None:
            lines.append(f"{name:22} {figure:8.3f}  has no ceiling: set one with `Benchmarks/allocations.py --set`")
            bad = True
            continue
        limit = known["ceiling"]
        if figure > limit:
            lines.append(
                f"{name:22} {figure:8.3f}  MORE than its ceiling of {limit}: a change allocates on this path. Remove "
                f"the allocation, or raise the ceiling in {CEILINGS.relative_to(ROOT)} and explain why")
            bad = True
        elif figure < limit - known["room"] - WORTH_LOWERING:
            lines.append(f"{name:22} {figure:8.3f}  its ceiling of {limit} can be lowered to "
                         f"{figure + known['room']:.2f}")
        else:
            lines.append(f"{name:22} {figure:8.3f}  ceiling {limit}")
    return lines, bad


def main():
    parser = harness.parser_for(__doc__)
    parser.add_argument("--rows", nargs="+", choices=["service", "client"], default=["service", "client"])
    parser.add_argument("--set", action="store_true", help="update the ceilings")
    options = parser.parse_args()
    options.devices = 100
    if options.json:
        say.stream = sys.stderr
    bench = []

    def measure(made):
        bench.append(made)
        made.measure()

    began = time.monotonic()
    harness.run(options, Service, ["h2load", "nghttpd", "openssl", "clang", "taskset"], measure, processors=1)
    figures = {name: bench[0].figures[name] for name in PATHS if name in bench[0].figures}
    ceilings = json.loads(CEILINGS.read_text()) if CEILINGS.exists() else {}
    if options.json:
        print(json.dumps({name: round(figure, 3) for name, figure in figures.items()}))
    if options.set:
        for name, figure in figures.items():
            known = ceilings.setdefault(name, {"ceiling": 0, "room": 0.1})
            known["ceiling"] = round(figure + known["room"], 2)
        lines = (f'  "{name}": {json.dumps(known)}' for name, known in ceilings.items())
        CEILINGS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    lines, bad = verdicts(figures, ceilings)
    say("Heap allocations per message:")
    for line in lines:
        say("  " + line)
    say(f"({time.monotonic() - began:.0f} s)")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
