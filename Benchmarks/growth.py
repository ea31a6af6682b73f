#!/usr/bin/env python3
"""How cost and latency change with the number of devices and workers.

    make bench ROWS=growth                 all rows, and a curve
    Benchmarks/growth.py --rows devices    after `make release`

At each point, connected devices get and acknowledge 400-byte notifications: from h2load at full speed, which gives the
service's CPU time per notification and the notifications per second, and from `apus-bench push` at a
constant 1,000 per second, which gives the latency from due time to receipt. Devices and providers are always on
processor 1.

Rows:
  devices     1,000, 5,000 and 10,000 devices, one worker on processor 0
  workers     two workers, 1,000 devices. The service may then use both processors, which it shares with the load: on a
              machine with two processors this shows the cost of a second worker, not its speedup.
"""

import copy
import sys

sys.dont_write_bytecode = True
import delivery
import harness
import latency
from harness import LOAD_CPU, SERVER_CPU, say
from mosquitto import told
from rows import Row, Suite, figure

RATE = 1000
BYTES = latency.BYTES


class Service(latency.Paced):
    """A service with its devices, in a separate folder."""

    def __init__(self, bench, name, devices, workers=1, cpus=(SERVER_CPU,)):
        folder = bench.scratch / name
        folder.mkdir()
        options = copy.copy(bench.options)
        options.devices = devices
        super().__init__(options, folder)
        self.provision()
        self.start(workers, cpus)
        self.fleet = self.start_fleet()
        # The load at full speed has its own settings; both use the same listeners.
        self.load = delivery.ingest.Ingest(options, folder)
        self.load.http2_port = self.http2_port
        self.load.provision_load(self.identity)
        delivery.payload_file(self.load, BYTES)
        self.load.use_tokens(self.tokens_file.read_text().split())

    def fast(self, messages):
        """CPU microseconds per notification, and notifications per second."""
        before = self.server.settled_cpu_seconds()
        _, rate = self.load.load(self.http2_port, delivery.HOUR, messages)
        self.sent += messages
        told(self.fleet, self.sent)
        return (self.server.settled_cpu_seconds() - before) * 1e6 / messages, rate

    def stop(self):
        self.acknowledged(self.fleet.stop(), self.sent)
        self.server.stop()


class Growth(harness.Bench):
    def provision(self):
        self.points = {}

    def point(self, row, label, service):
        options = self.options
        costs, rates, times = [], [], []
        service.fast(max(options.messages // 10, service.options.devices))
        for _ in range(options.slices):
            cost, rate = service.fast(options.messages)
            costs.append(cost)
            rates.append(rate)
            times.append(service.timed(service.fleet, RATE, options.seconds)[0]["p99_us"])
        service.stop()
        name = f"growth.{row}-{label}"
        self.results += [Row(name, "us CPU/message", costs, more={"per_second": rates}),
                         Row(f"{name}-latency", "us p99", times, note=f"at {RATE:,}/s")]
        cost, time = self.results[-2].value, self.results[-1].value
        self.points.setdefault(row, []).append((label, cost, time))
        say(f"  {row} {label:>7}: {cost:6.2f} us CPU, p99 {time:8,.0f} us, {max(rates):8,.0f} per second")

    def curve(self, row):
        points = self.points[row]
        most = max(cost for _, cost, _ in points)
        for label, cost, time in points:
            say(f"  {label:>7} {'#' * round(40 * cost / most):40} {figure(cost)} us CPU, p99 {figure(time / 1000)} ms")

    # Rows

    def devices(self):
        say("\ndevices in one process:")
        for count in self.options.sizes:
            self.point("devices", str(count), Service(self, f"devices.{count}", count))
        self.curve("devices")

    def workers(self):
        say("\nworkers:")
        self.point("workers", "2", Service(self, "workers.2", self.options.devices, 2, (SERVER_CPU, LOAD_CPU)))


def arguments(parser):
    parser.size("--sizes", [1000, 5000, 10_000], [50, 100], "numbers of devices", nargs="+")
    parser.size("--devices", 1000, 50, "devices of `workers`")
    parser.size("--messages", 100_000, 4000, "notifications of a slice")
    parser.size("--seconds", 3, 1, "seconds of the steady part of a slice")
    parser.set_defaults(requests=0)


SUITE = Suite(
    "growth", __doc__, Growth, tools=["h2load", "openssl", "taskset"], arguments=arguments, slices=3,
    rows={"devices": "cost and latency by number of devices", "workers": "with two workers"})

if __name__ == "__main__":
    SUITE.main()
