#!/usr/bin/env python3
"""All devices reconnect at once, after a restart of the service or a network failure.

    make bench ROWS=storm                          all rows, as a table
    Benchmarks/storm.py --devices 19000            after `make release`

The devices of `apus-bench fleet` are connected, and then all their connections end. Each device reconnects after a
random wait of up to a second, which for the service is all at once. Meanwhile `apus-bench push` sends 200 notifications
per second, whose responses are timed from the requests' due times. The service runs on processor 0 with one worker;
devices and provider share processor 1. A slice has a storm of each kind.

Rows:
  restart   the service is stopped (SIGTERM) and started again; devices use their session tickets
  network   the devices' connections break while the service runs; devices use their session tickets
  full      as `network`, with half as many devices, which resume no session
Each prints, after its name (the last is of `network` alone):
  -seconds      from open listeners, or from the break, until all devices are connected
  -connections  connections per second of the server's total CPU time. For `network`, compared with `full`; goal: 1.5
                times as many.
  -resumed      percent of the handshakes that resumed a session
  -attempts     handshakes and failed attempts per device: far above 1 would be a livelock, except for `restart`, where
                attempts fail while the service is down
  -request      p99 of the responses to the provider during the storm, compared with undisturbed ones
  -memory       of the server when all devices have reconnected and been silent for 25 seconds, compared with before
                the first storm, after the same silence. Goal: 1.1.
"""

import json
import signal
import sys
import time

sys.dont_write_bytecode = True
import harness
import idle
import latency
from harness import LOAD_CPU, Process, check, say
from rows import Row, Suite

RESUMED_GOAL, MEMORY_GOAL = 1.5, 1.1
RATE = 200


class Storm(latency.Paced):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.status_file = self.scratch / "status.json"
        self.rates = {}

    def status(self):
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}

    def until_connected(self, seconds=300):
        began, devices = time.monotonic(), self.options.devices
        while self.status().get("connected") != devices:
            check(time.monotonic() - began < seconds,
                  f"not all devices reconnected within {seconds} s: {json.dumps(self.status())}. {self.server.tail()}")
            time.sleep(0.05)

    def provider(self, seconds):
        return Process(["taskset", "-c", LOAD_CPU, *self.push_command(RATE, seconds, expiration="0")], [LOAD_CPU],
                       self.scratch / "push.log")

    def provider_p99(self, provider):
        """The output of a provider that ended or is ended here. Requests rejected in the storm are counted."""
        said = json.loads(provider.stop().splitlines()[-1])
        check(said["accepted"] > 0, f"the provider was not served at all: {said}")
        return said["request_latency"]["p99_us"], said

    def settled_memory(self):
        time.sleep(self.options.settle)
        self.server.settled_cpu_seconds()
        return idle.user_bytes(self.server)

    def storm(self, how):
        """One slice."""
        undisturbed = self.provider(self.options.seconds)
        undisturbed.child.wait(60)
        quiet, _ = self.provider_p99(undisturbed)
        before = self.status()
        if how == "restart":
            self.server.stop()
            self.start()
            spent, provider, began = 0, self.provider(600), time.monotonic()
        else:
            # The provider is already sending, as in a real network failure of devices.
            spent, provider, began = self.server.cpu_seconds(), self.provider(600), None
            self.fleet.child.send_signal(signal.SIGHUP)
        # The status is written periodically; an earlier one says that all are connected.
        self.fleet.wait_until(lambda: self.status()["disconnections"] >= before["disconnections"]
                              + self.options.devices, "broken connections", pause=0.01)
        began = began or time.monotonic()
        self.until_connected()
        seconds = time.monotonic() - began
        # As long as the storm, and at least a second: a percentile of a few responses would mean nothing.
        time.sleep(max(0, 1 - (time.monotonic() - began)))
        request, said = self.provider_p99(provider)
        cpu, after = self.server.settled_cpu_seconds() - spent, self.status()
        counts = {key: after[key] - before[key] for key in ("handshakes", "resumed", "failures", "disconnections")}
        devices = self.options.devices
        return {"seconds": seconds, "connections": devices / cpu,
                "share": 100 * counts["resumed"] / counts["handshakes"], "peak": peak_megabytes(self.server),
                "attempts": (counts["handshakes"] + counts["failures"]) / devices, "request": request / 1000,
                "request_quiet": quiet / 1000, **counts, "refused": said["rejected"] + said["unknown"]}

    def measure_storms(self, kinds, resumes):
        if not kinds:
            return
        slices, devices = self.options.slices, self.options.devices
        self.options.devices = devices = devices if resumes else devices // 2
        say(f"\n{', '.join(kinds)}: {slices} storms of {devices:,} devices")
        self.status_file.unlink(missing_ok=True)
        self.start()
        self.fleet = self.start_fleet("--status", self.status_file, "--reconnect-milliseconds", 1000,
                                      "--resume", "on" if resumes else "off")
        self.until_connected()
        figures, memory = {how: [] for how in kinds}, []
        before = self.settled_memory() if "network" in kinds else 0
        for index in range(slices):
            for how in kinds:
                one = self.storm(how)
                figures[how].append(one)
                say(f"  {index + 1:2} {how:7} {one['seconds']:6.1f} s, {one['connections']:6,.0f} /s of CPU, "
                    f"{one['share']:.0f} % resumed, peak {one['peak']:.0f} MB, {one['attempts']:.2f} attempts, "
                    f"answers p99 {one['request']:.1f} ms ({one['request_quiet']:.1f})")
                if how == "network":
                    memory.append(self.settled_memory() / 2**20)
        self.fleet.stop()
        self.server.stop()
        for how, ones in figures.items():
            self.add(how, {key: [one[key] for one in ones] for key in ones[0]})
        if memory:
            self.results.append(Row("storm.network-memory", "MB", memory, before / 2**20, "before", MEMORY_GOAL))

    def measure(self):
        for kinds, resumes in [(["network", "restart"], True), (["full"], False)]:
            self.measure_storms([how for how in kinds if how in self.options.rows], resumes)

    def add(self, how, slices):
        name, more = f"storm.{how}", {"devices": self.options.devices, "slices_of": slices}
        self.rates[how] = slices["connections"]
        self.results += [
            Row(f"{name}-seconds", "s", slices["seconds"], more=more,
                note=f"{self.options.devices:,} devices, peak {max(slices['peak']):.0f} MB"),
            Row(f"{name}-connections", "/s/processor", slices["connections"], better="higher"),
            Row(f"{name}-resumed", "%", slices["share"], better="higher"),
            Row(f"{name}-attempts", "/device", slices["attempts"]),
            Row(f"{name}-request", "ms p99", slices["request"], slices["request_quiet"], "undisturbed",
                note=f"{sum(slices['refused'])} not accepted")]
        if how == "full" and "network" in self.rates:
            self.results.append(Row("storm.resumed-over-full", "/s/processor", self.rates["network"],
                                    self.rates["full"], "full", RESUMED_GOAL, better="higher"))


def peak_megabytes(server):
    status = harness.pathlib.Path(f"/proc/{server.child.pid}/status").read_text()
    return int(harness.re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def arguments(parser):
    parser.size("--devices", 10_000, 300, "devices")
    parser.size("--settle", 25, 2, "seconds of silence before memory is read")
    parser.size("--seconds", 3, 2, "seconds for which the undisturbed provider sends")


SUITE = Suite("storm", __doc__, Storm, tools=["openssl", "taskset"], arguments=arguments, slices=3,
              measure=lambda bench: bench.measure(),
              rows={"restart": "all devices reconnect after a restart", "network": "after a network failure",
                    "full": "the same with full handshakes"})

if __name__ == "__main__":
    SUITE.main()
