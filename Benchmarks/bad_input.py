#!/usr/bin/env python3
"""What misbehaving peers cost the others: latency compared with an undisturbed run, and memory.

    make bench ROWS=bad-input                          all rows, as a table
    Benchmarks/bad_input.py --rows slow-reader die     some of them, after `make release`

100 good devices get 500 notifications per second (`apus-bench push`), first undisturbed, then for the same time while
`apus-bench fleet --misbehave` runs 500 misbehaving devices with valid certificates. Undisturbed and disturbed slices
alternate, so that other load on the machine affects both. The service has one worker on processor 0; everything else
shares processor 1, misbehaving devices at the lowest priority, so that good devices wait only for the service. Next to
peers without credentials, good devices have real-time priority (SCHED_FIFO, which needs root), because otherwise they
would sometimes wait up to 4 ms for the attackers' threads. Each kind has a separate service and fleet.

Rows, each with the good devices' p99, undisturbed and disturbed:
  slow-reader        read one byte per second and acknowledge nothing; they also get 500 notifications per second
  one-byte-writer    send each byte in a separate TLS record and segment
  half-open          connect and send nothing
  handshake-stall    send half a ClientHello
  connection-flood   complete the handshake, close, and connect again at once, from one address
  die                disappear without a FIN, while they get 500 notifications per second
Each is followed by a row with the service's peak of additional memory per misbehaving peer.

Rows of peers without credentials on the listener for providers (untrusted.c), each from the address of the good
provider (-1, where that can matter), and from 200 other addresses (-200). The provider reconnects for each slice.
Goal: twice the undisturbed p99, and no good request rejected:
  streams      40 or 200 connections, each opening 1,000 requests without acknowledging SETTINGS
  trailers     as many with trailers that expand to 480,000 bytes each
  settings     as many with 1,000 open requests and SETTINGS of 2,730 entries
  handshakes   5,000 that never answer the service's part of the handshake
  connections  5,000 that send nothing, to a service with at most 4,096 descriptors
Each prints, after its name:
  -devices   the good devices' p99
  -provider  p99 of the responses to the good provider
  -refused   its requests that were not accepted, of all slices
  -memory    of the service within a minute after the last slice, compared with before. Goal: 1.1.
"""

import json
import signal
import statistics
import sys
import time

sys.dont_write_bytecode = True
import harness
import idle
import latency
from harness import LOAD_CPU, Process, check, say
from rows import Row, Suite

RATE = 500
KINDS = {
    "slow-reader": "devices that read one byte per second", "one-byte-writer": "that write one byte at a time",
    "half-open": "that send nothing", "handshake-stall": "that stop in their first message",
    "connection-flood": "that reconnect all the time", "die": "that disappear silently"}
ADDRESSES = (1, 200)
UNTRUSTED = {
    "streams": "connections that open requests before they acknowledge SETTINGS",
    "trailers": "with trailers that expand", "settings": "that send long SETTINGS",
    "handshakes": "handshakes that never complete", "connections": "connections that send nothing"}
MANY = {"handshakes", "connections"}
# What they cost has nothing to do with their addresses.
ALIKE = {"trailers", "settings"}
DESCRIPTORS = 4096
P99_GOAL, MEMORY_GOAL, MEMORY_SECONDS = 2, 1.1, 60
# The kinds with tokens, which get notifications.
RECEIVERS = ("slow-reader", "die")
# Device numbers that no good device has.
FIRST_BAD = 1_000_000


class BadInput(latency.Paced):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.bad_tokens, self.status_file = self.scratch / "bad.tokens", self.scratch / "bad.status"

    def start_bad(self, kind):
        for file in (self.bad_tokens, self.status_file):
            file.unlink(missing_ok=True)
        bad = Process(
            [self.apus_bench, "fleet", "--data", self.data, "--devices", self.options.bad, "--first", FIRST_BAD,
             "--connect", f"127.0.0.1:{self.courier_port}", "--misbehave", kind, "--print-tokens", self.bad_tokens,
             "--status", self.status_file], [LOAD_CPU], self.scratch / "bad.log", niceness=19)
        if kind in RECEIVERS:
            bad.wait_until(self.bad_tokens.exists, "the tokens of bad devices", 600)
        elif kind == "one-byte-writer":
            # One byte per two milliseconds makes this slow, and meanwhile they are active.
            time.sleep(2)
        else:
            bad.wait_until(lambda: self.bad_status().get("connected", 0) >= self.options.bad * 0.9
                           or self.bad_status().get("handshakes", 0) >= 100, "bad peers at work", 60)
        return bad

    def bad_status(self):
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}

    def slice(self, fleet, kind=None):
        """The good devices' latencies. With a kind, the bad devices get notifications too."""
        other = None
        if kind in RECEIVERS:
            other = Process(["taskset", "-c", LOAD_CPU, *self.push_command(
                RATE, self.options.seconds, self.bad_tokens)], [LOAD_CPU], self.scratch / "other.log")
        figures, _ = self.timed(fleet, RATE, self.options.seconds)
        if other:
            check(other.child.wait(120) == 0, f"the other provider failed. {other.tail()}")
            other.stop()
        return figures

    def disturbed(self, fleet, kind):
        """The good devices' latencies next to bad ones, the status of the bad ones, and the service's memory."""
        bad = self.start_bad(kind)
        if kind == "die":
            bad.child.send_signal(signal.SIGUSR2)
        figures = self.slice(fleet, kind)
        memory, state = idle.user_bytes(self.server), self.bad_status()
        bad.stop()
        self.server.settled_cpu_seconds()
        state.pop("latency", None)
        return figures, state, memory

    def kind(self, kind):
        slices = self.options.slices
        say(f"\n{kind}: {slices} slices of {self.options.seconds} s, undisturbed and with {self.options.bad:,} of them")
        self.sent = 0
        self.start()
        fleet = self.start_fleet()
        self.slice(fleet)
        self.server.settled_cpu_seconds()
        before = most = idle.user_bytes(self.server)
        quiet, beside = [], []
        for index in range(slices):
            quiet.append(self.slice(fleet))
            figures, state, memory = self.disturbed(fleet, kind)
            beside.append(figures)
            most = max(most, memory)
            say(f"  {index + 1:2} p99 {figures['p99_us']:7,} us, undisturbed {quiet[-1]['p99_us']:7,} us; "
                f"{(most - before) / 1024:,.0f} KB more")
        self.acknowledged(fleet.stop(), self.sent)
        self.server.stop()
        self.results += [
            Row(f"bad-input.{kind}", "us p99", [one["p99_us"] for one in beside], [one["p99_us"] for one in quiet],
                "undisturbed", note=f"p50 {statistics.median(one['p50_us'] for one in beside):,.0f} us, "
                f"undisturbed {statistics.median(one['p50_us'] for one in quiet):,.0f} us",
                more={"bad": self.options.bad, "state": state}),
            Row(f"bad-input.{kind}-memory", "KB/peer", (most - before) / 1024 / self.options.bad)]


    def paced(self, fleet):
        """One slice whose requests may be rejected: latencies to devices and provider, and the number of rejections."""
        said = json.loads(harness.output_of(
            *harness.urgency(), "taskset", "-c", LOAD_CPU, *self.push_command(RATE, self.options.seconds)))
        self.sent += said["accepted"]
        refused = said["sent"] - said["accepted"]
        figures = latency.told(fleet, self.sent, said["accepted"])["latency"] if said["accepted"] else {"p99_us": 0}
        return figures["p99_us"], said["request_latency"]["p99_us"], refused

    def attacked(self, fleet, program, kind, addresses):
        """The same next to untrusted peers, with their counts and the service's memory."""
        count = 5000 if kind in MANY else max(40, addresses)
        attackers = Process([program, kind, self.http2_port, count, addresses], [LOAD_CPU],
                            self.scratch / "untrusted.log", idle=True)
        time.sleep(1)
        spent, served, began = attackers.cpu_seconds(), self.server.cpu_seconds(), time.monotonic()
        figures = self.paced(fleet)
        seconds = time.monotonic() - began
        state = {"attacker_cpu": (attackers.cpu_seconds() - spent) / seconds,
                 "server_cpu": (self.server.cpu_seconds() - served) / seconds}
        memory = idle.user_bytes(self.server)
        state.update(json.loads(attackers.stop().splitlines()[-1]))
        self.server.settled_cpu_seconds()
        return figures, state, memory

    def memory_afterwards(self, goal):
        """The service's memory once it has fallen to the goal, or after a minute; and the seconds until then."""
        began = time.monotonic()
        while (memory := idle.user_bytes(self.server)) > goal and time.monotonic() - began < MEMORY_SECONDS:
            time.sleep(1)
        return memory, time.monotonic() - began

    def untrusted(self, name):
        kind, addresses = name.rsplit("-", 1)
        program = self.compile("untrusted.c", "untrusted", "-lssl", "-lcrypto")
        say(f"\n{name}: {self.options.slices} slices of {self.options.seconds} s, undisturbed and attacked")
        self.sent = 0
        self.server = self.serve(http2=f"127.0.0.1:{self.http2_port}",
                                 descriptors=DESCRIPTORS if kind == "connections" else None)
        fleet = self.start_fleet(urgent=True)
        self.paced(fleet)
        # At once: memory that pushes use until the store is compacted is not caused by the attack.
        before = most = idle.user_bytes(self.server)
        self.server.settled_cpu_seconds()
        quiet, beside, states = [], [], []
        for index in range(self.options.slices):
            quiet.append(self.paced(fleet))
            figures, state, memory = self.attacked(fleet, program, kind, int(addresses))
            beside.append(figures)
            states.append(state)
            most = max(most, memory)
            say(f"  {index + 1:2} p99 of devices {figures[0]:7,} us ({quiet[-1][0]:,}), of answers {figures[1]:7,} us "
                f"({quiet[-1][1]:,}), {figures[2]} rejected; CPU of attackers {state['attacker_cpu']:.0%}, of the "
                f"service {state['server_cpu']:.0%}; {state['made']:,} connections, {state['handshakes']:,} handshakes,"
                f" {state['sent'] / 2**20:,.1f} MB; {memory / 2**20:.0f} MB")
        after, seconds = self.memory_afterwards(before * MEMORY_GOAL)
        self.acknowledged(fleet.stop(), self.sent)
        self.server.stop()
        row = f"bad-input.{name}"
        cpu = statistics.median(one["attacker_cpu"] for one in states)
        for column, what in enumerate(["devices", "provider"]):
            self.results.append(Row(
                f"{row}-{what}", "us p99", [one[column] for one in beside], [one[column] for one in quiet],
                "undisturbed", P99_GOAL, note=f"attacker {cpu:.0%} of a processor", more={"slices_of": states}))
        self.results += [
            Row(f"{row}-refused", "requests", sum(one[2] for one in beside), goal=0),
            Row(f"{row}-memory", "MB", after / 2**20, before / 2**20, "before", MEMORY_GOAL,
                note=f"peak {most / 2**20:.0f} MB, after {seconds:.0f} s")]


def arguments(parser):
    parser.size("--devices", 100, 20, "good devices")
    parser.size("--bad", 500, 50, "bad ones")
    parser.size("--seconds", 3, 1, "seconds of a slice")


ROWS = KINDS | {f"{kind}-{addresses}": f"{what}, of {addresses}" for kind, what in UNTRUSTED.items()
                for addresses in ADDRESSES if addresses > 1 or kind not in ALIKE}
SUITE = Suite(
    "bad-input", __doc__, BadInput, tools=["clang", "openssl", "taskset"], arguments=arguments, slices=3,
    rows=ROWS,
    measure=lambda bench: [
        bench.kind(row) if row in KINDS else bench.untrusted(row) for row in bench.options.rows])

if __name__ == "__main__":
    SUITE.main()
