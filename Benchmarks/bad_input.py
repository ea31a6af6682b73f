#!/usr/bin/env python3
"""What peers with bad manners cost the others: latency beside the undisturbed one, and memory.

    make bench ROWS=bad-input                          all rows, as a table
    Benchmarks/bad_input.py --rows slow-reader die     some of them, after `make release`

100 good devices get 500 notifications a second (`apus-bench push`), for some seconds undisturbed, then for as long
while `apus-bench fleet --misbehave` has 500 others, with good certificates, do what no device should. They go, and the
next slice is undisturbed again: a neighbour of the machine that comes in the middle of it all meets both. The service
has one worker on processor 0; all others share processor 1, the bad ones at the lowest priority, so that what the good
ones wait for is the service. Each kind has a service and a fleet of its own.

Rows, each the good devices' p99, undisturbed and disturbed:
  slow-reader        read a byte a second and acknowledge nothing; 500 notifications a second go to them, too
  one-byte-writer    send each byte in a TLS record and a segment of its own
  half-open          connect and say nothing
  handshake-stall    say half a ClientHello
  connection-flood   shake hands, close, and come again at once, from one address
  die                are gone without a FIN, while 500 notifications a second go to them
Each is followed by a row of the service's memory: what it took more at most, for each of the bad peers.
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
    "slow-reader": "devices that read a byte a second", "one-byte-writer": "that write a byte at a time",
    "half-open": "that say nothing", "handshake-stall": "that stop in their first message",
    "connection-flood": "that come and go", "die": "that are gone without a word"}
# Those that have tokens, to which notifications go.
RECEIVERS = ("slow-reader", "die")
# Numbers of devices that no good one has.
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
            # At a byte in two milliseconds this takes its time, in which they are at work.
            time.sleep(2)
        else:
            bad.wait_until(lambda: self.bad_status().get("connected", 0) >= self.options.bad * 0.9
                           or self.bad_status().get("handshakes", 0) >= 100, "bad peers at work", 60)
        return bad

    def bad_status(self):
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}

    def slice(self, fleet, kind=None):
        """The good devices' latencies. With a kind, notifications go to the bad devices as well."""
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
        """The good devices' latencies beside bad ones, what these came to, and the service's memory with them."""
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


def arguments(parser):
    parser.size("--devices", 100, 20, "good devices")
    parser.size("--bad", 500, 50, "bad ones")
    parser.size("--seconds", 5, 1, "seconds of a slice")


SUITE = Suite(
    "bad-input", __doc__, BadInput, tools=["openssl", "taskset"], arguments=arguments, slices=5, rows=KINDS,
    measure=lambda bench: [bench.kind(kind) for kind in bench.options.rows])

if __name__ == "__main__":
    SUITE.main()
