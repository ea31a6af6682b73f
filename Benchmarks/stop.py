#!/usr/bin/env python3
"""How long a shutdown takes with connected devices, and what providers notice when all devices reconnect.

    make bench ROWS=stop                           all rows, as a table
    Benchmarks/stop.py --devices 5000              after `make release`

The devices of `apus-bench fleet` are connected when the service gets SIGTERM, and the time until it ends is measured.
Those of `crowd` are dormant then. After that the service starts again, and `apus-bench push` sends 200 notifications
per second until all devices have reconnected, each at the time that the service gave it. Responses are timed from the
requests' due times. The service runs on processor 0 with one worker; devices and provider share processor 1.

Rows:
  none, few, crowd  seconds from SIGTERM to the end, with no device, with five, and with --devices. Goal: 2 s.
  request           p99 of the responses to the provider while the devices of `crowd` reconnect, compared with
                    undisturbed ones
  return            seconds from open listeners until all devices of `crowd` have reconnected
"""

import signal
import sys
import time

sys.dont_write_bytecode = True
import harness
import storm
from harness import say
from rows import Row, Suite

GOAL_SECONDS = 2
FEW = 5


class Stop(storm.Storm):
    def stopped(self):
        """Seconds until the service ends."""
        began = time.monotonic()
        self.server.child.send_signal(signal.SIGTERM)
        code = self.server.child.wait(60)
        seconds = time.monotonic() - began
        harness.check(code == 0, f"the service ended with {code}. {self.server.tail()}")
        self.server.stop()
        return seconds

    def measure_none(self):
        figures = []
        for _ in range(self.options.slices):
            self.start()
            figures.append(self.stopped())
        self.results.append(Row("stop.none", "s", figures, goal=GOAL_SECONDS))

    def connect(self):
        self.status_file.unlink(missing_ok=True)
        self.start()
        self.fleet = self.start_fleet("--status", self.status_file)
        self.until_connected()

    def measure_few(self):
        self.options.devices, crowd = FEW, self.options.devices
        figures = []
        for _ in range(self.options.slices):
            self.connect()
            figures.append(self.stopped())
            self.fleet.stop()
        self.options.devices = crowd
        self.results.append(Row("stop.few", "s", figures, goal=GOAL_SECONDS, note=f"{FEW} devices"))

    def measure_crowd(self):
        devices = self.options.devices
        self.connect()
        stops, returns, requests, quiet = [], [], [], []
        for index in range(self.options.slices):
            undisturbed = self.provider(self.options.seconds)
            undisturbed.child.wait(60)
            quiet.append(self.provider_p99(undisturbed)[0] / 1000)
            time.sleep(self.options.settle)
            ended = self.status()["disconnections"] + devices
            stops.append(self.stopped())
            self.start()
            began, provider = time.monotonic(), self.provider(600)
            # The status is written periodically; one from before the shutdown says that all are connected.
            self.fleet.wait_until(lambda: self.status()["disconnections"] >= ended, "ended connections", pause=0.01)
            self.until_connected()
            returns.append(time.monotonic() - began)
            time.sleep(max(0, 1 - returns[-1]))
            requests.append(self.provider_p99(provider)[0] / 1000)
            say(f"  {index + 1:2} {devices:,} devices: stopped in {stops[-1]:.2f} s, back in {returns[-1]:.1f} s, "
                f"answers p99 {requests[-1]:.1f} ms ({quiet[-1]:.1f})")
        self.fleet.stop()
        self.server.stop()
        self.results += [Row("stop.crowd", "s", stops, goal=GOAL_SECONDS, note=f"{devices:,} devices"),
                         Row("stop.request", "ms p99", requests, quiet, "undisturbed"),
                         Row("stop.return", "s", returns)]


def arguments(parser):
    parser.size("--devices", 5_000, 300, "devices")
    parser.size("--settle", 12, 2, "seconds of silence before the service is stopped; after ten, devices are dormant")
    parser.size("--seconds", 5, 2, "seconds for which the undisturbed provider sends")


SUITE = Suite("stop", __doc__, Stop, tools=["openssl", "taskset"], arguments=arguments, slices=3,
              measure=lambda bench: [getattr(bench, f"measure_{row}")() for row in bench.options.rows],
              rows={"none": "a shutdown without devices", "few": "with five", "crowd": "with many, which reconnect"})

if __name__ == "__main__":
    SUITE.main()
