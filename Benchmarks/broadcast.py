#!/usr/bin/env python3
"""What a broadcast costs that goes to 10,000 connected devices.

    make bench ROWS=broadcast                    all rows
    Benchmarks/broadcast.py --rows copy          some of them, after `make release`

10,000 connected devices, all in one process, are subscribed to one channel. `apus-bench push --channel` sends it
broadcasts of 400 bytes, one a second (HTTP/2, expiration in an hour, priority 10); every copy must arrive and be
acknowledged. Servers run on processor 0, provider and devices on processor 1.

Rows:
  copy        The service's CPU time per delivered and acknowledged copy, user and system, all threads, in slices of ten
              broadcasts to devices that are awake. Yardsticks, whose slices alternate with these: a mosquitto with as
              many subscribers of one topic, which gets PUBLISHes of as many bytes at QoS 1, one after the other; and a
              notification of `delivery.http2` (`copy-http2`). Goals: 0.3 of mosquitto, 0.6 of a notification.
              `last` is the time from when a broadcast was due until the last device had it, the longest of a slice.
              `quiet` is the cost of a single broadcast to devices that had been quiet until they were dormant,
              including that they become dormant again.
  neighbours  p99 of pushes to 200 other devices of the same service, 1,000 a second, during broadcasts, compared with
              the same without broadcasts. It is measured from the due time to the receipt; these devices and their
              provider preempt the subscribers, who share their processor (as root). Goal: 2.
  memory      The service's user memory for each of 20 subscriptions of every device: devices that have subscribed,
              connected after a restart of the service and quiet for 25 seconds, minus the same where only 200 of them
              have subscribed. Those 200 bring the program's code for channels into memory, which counts as private, and
              what the service allocates once. Goal: 16 bytes.
"""

import copy
import json
import sys
import time

sys.dont_write_bytecode = True
import delivery
import harness
import idle
import latency
import mosquitto
from harness import LOAD_CPU, TOPIC, Process, check, output_of, say
from mosquitto import Mosquitto, told
from rows import Row, Suite

BROKER_GOAL, NOTIFICATION_GOAL, NEIGHBOURS_GOAL, SUBSCRIPTION_GOAL = 0.3, 0.6, 2, 16
BYTES = latency.BYTES
NEIGHBOURS_RATE = 1000
SUBSCRIPTIONS = 20
# Each is waited for: a mosquitto takes longer for one than the pause between broadcasts.
BROKER_MESSAGES = 3


class Devices(latency.Paced):
    """Some devices of a service, with a status file."""

    def __init__(self, options, scratch, devices):
        options = copy.copy(options)
        options.devices = devices
        scratch.mkdir()
        super().__init__(options, scratch)
        self.status_file = self.scratch / "status.json"

    def connect(self, *extra, urgent=False):
        self.fleet = self.start_fleet("--status", self.status_file, *extra, urgent=urgent)

    def received(self, copies):
        """The devices' latencies once they have everything, `copies` of it since the last call."""
        self.sent += copies
        self.fleet.wait_until(lambda: json.loads(self.status_file.read_text())["received"] >= self.sent,
                              f"{self.sent:,} notifications")
        return told(self.fleet, self.sent, copies)["latency"]


class Crowd(Devices):
    """A service whose devices are subscribed to one channel."""

    def __init__(self, bench, name):
        super().__init__(bench.options, bench.scratch / name, bench.options.subscribers)
        self.provision()
        output_of(self.apus, "app", "--data", self.data, "--change", TOPIC, "--broadcast", "on")

    def make_channels(self, count):
        administration = delivery.Administration(self.data)
        return [administration.ask("POST", "/v1/channels", {"topic": TOPIC})["channel"] for _ in range(count)]

    def open(self):
        self.start()
        self.channel, = self.make_channels(1)
        self.connect("--channel", self.channel)

    def provider(self, seconds):
        return [self.apus_bench, "push", "--data", self.data, "--connect", f"127.0.0.1:{self.http2_port}",
                "--channel", self.channel, "--rate", self.options.rate, "--seconds", seconds, "--payload-bytes", BYTES,
                "--expiration", "+1h", "--json"]

    def delivered(self, said):
        """The copies' latencies, from what the provider said; every broadcast must have been accepted."""
        said = json.loads(said)
        check(said["accepted"] == said["sent"] > 0, f"not all broadcasts were accepted: {said}")
        return self.received(said["accepted"] * self.options.devices)

    def slice(self, seconds, quiet_seconds=0):
        """CPU microseconds per copy, with those of the following quiet seconds; and the copies' latencies."""
        before, sent = self.server.settled_cpu_seconds(), self.sent
        latencies = self.delivered(output_of("taskset", "-c", LOAD_CPU, *self.provider(seconds)))
        time.sleep(quiet_seconds)
        return (self.server.settled_cpu_seconds() - before) * 1e6 / (self.sent - sent), latencies

    def stop(self):
        taken = self.acknowledged(self.fleet.stop(), self.sent)
        check(taken == self.sent, "not every copy was acknowledged")
        self.server.stop()
        return taken


class Neighbours(Devices):
    """Other devices of the same service."""

    def __init__(self, crowd):
        super().__init__(crowd.options, crowd.scratch / "neighbours", crowd.options.neighbours)
        self.data, self.courier_port, self.http2_port = crowd.data, crowd.courier_port, crowd.http2_port
        self.connect("--first", crowd.options.subscribers, urgent=True)

    def slice(self):
        said = json.loads(output_of(*harness.urgency(), "taskset", "-c", LOAD_CPU,
                                    *self.push_command(NEIGHBOURS_RATE, self.options.seconds)))
        check(said["accepted"] == said["sent"] > 0, f"not all notifications were accepted: {said}")
        return self.received(said["accepted"])


class Broker:
    """A mosquitto whose subscribers all have one topic."""

    def __init__(self, crowd):
        self.options, self.sent = crowd.options, 0
        self.broker = Mosquitto(crowd)
        self.server = self.broker.start()
        self.broker.check_load()
        self.fleet = self.broker.subscribe(self.options.devices, topic=0)

    def slice(self, messages=BROKER_MESSAGES):
        """CPU microseconds per copy, and milliseconds until the last subscriber had its copy."""
        before, most = self.server.settled_cpu_seconds(), 0
        for _ in range(messages):
            self.broker.publish(1, 1, BYTES, publishers=1)
            self.sent += self.options.devices
            # Asking the fleet resets its latencies.
            now = self.server.settled_cpu_seconds()
            said = told(self.fleet, self.sent, self.options.devices)
            check(said["acknowledged"] == self.sent, f"the subscribers acknowledged {said} of {self.sent:,} copies")
            most = max(most, said["latency"]["max_us"] / 1000)
        return (now - before) * 1e6 / (messages * self.options.devices), most

    def stop(self):
        self.fleet.stop()
        self.server.stop()


class Broadcast(harness.Bench):
    def provision(self):
        self.crowd = None

    def gathered(self):
        """The subscribers of the rows `copy` and `neighbours`."""
        if self.crowd is None:
            self.crowd = Crowd(self, "crowd")
            self.crowd.open()
        return self.crowd

    def measure(self):
        for name in self.options.rows:
            if self.crowd and name == "memory":
                self.crowd.stop()
                self.crowd = None
            getattr(self, name)()
        if self.crowd:
            self.crowd.stop()

    def copy(self):
        options = self.options
        say(f"\ncopy: {options.slices} slices of {options.seconds} s, {options.rate} a second, to "
            f"{options.subscribers:,} devices")
        crowd, notifications = self.gathered(), delivery.Part(self, "http2", options.devices, 256)
        notifications.start()
        broker = Broker(crowd)
        broker.slice(), notifications.slice(max(options.messages // 10, options.devices))
        costs, last = [], []
        others, other_last, http2 = [], [], []
        time.sleep(options.quiet_seconds)
        quiet, _ = crowd.slice(1, options.quiet_seconds)
        for index in range(options.slices):
            # Wakes the devices, which is not counted.
            crowd.slice(1)
            cost, latencies = crowd.slice(options.seconds)
            costs.append(cost)
            last.append(latencies["max_us"] / 1000)
            http2.append(notifications.slice(options.messages))
            cost, most = broker.slice()
            others.append(cost)
            other_last.append(most)
            say(f"  {index + 1:2} {costs[-1]:6.2f} us a copy (quiet {quiet:6.2f}), last after {last[-1]:6.1f} ms; "
                f"http2 {http2[-1]:6.2f} us; mosquitto {others[-1]:6.2f} us, {other_last[-1]:6.1f} ms")
        notifications.stop()
        broker.stop()
        more = {"devices": options.subscribers, "payload_bytes": BYTES, "rate": options.rate}
        self.results += [
            Row("broadcast.copy", "us CPU/copy", costs, others, "mosquitto", BROKER_GOAL,
                note=f"{crowd.sent:,} copies", more=more),
            Row("broadcast.copy-http2", "us CPU/copy", costs, http2, "delivery.http2", NOTIFICATION_GOAL),
            Row("broadcast.last", "ms", last, other_last, "mosquitto"),
            Row("broadcast.quiet", "us CPU/copy", quiet, note="to dormant devices, which become dormant again")]

    def neighbours(self):
        options = self.options
        say(f"\nneighbours: {options.slices} slices of {options.seconds} s, {NEIGHBOURS_RATE:,} pushes a second to "
            f"{options.neighbours} devices beside {options.subscribers:,} subscribers")
        if not harness.may_be_urgent():
            say("  Not as root: the devices wait for the subscribers, who share their processor.")
        crowd = self.gathered()
        others, sent = Neighbours(crowd), crowd.sent
        others.slice(), crowd.slice(1)
        quiet, beside = [], []
        for index in range(options.slices):
            quiet.append(others.slice())
            provider = Process(crowd.provider(options.seconds), [LOAD_CPU], self.scratch / "provider.log")
            beside.append(others.slice())
            check(provider.child.wait(60) == 0, f"the broadcasts failed. {provider.tail()}")
            crowd.delivered(provider.stop().splitlines()[-1])
            say(f"  {index + 1:2} p50 {beside[-1]['p50_us']:7,} us ({quiet[-1]['p50_us']:,}), p99 "
                f"{beside[-1]['p99_us']:7,} us ({quiet[-1]['p99_us']:,}), at most {beside[-1]['max_us']:9,} us")
        self.acknowledged(others.fleet.stop(), others.sent)
        self.results.append(Row(
            "broadcast.neighbours", "us p99", [one["p99_us"] for one in beside], [one["p99_us"] for one in quiet],
            "undisturbed", NEIGHBOURS_GOAL,
            note=f"beside {crowd.sent - sent:,} copies at {options.rate} broadcasts a second",
            more={"devices": options.neighbours, "rate": NEIGHBOURS_RATE, "slices_of": beside}))

    def memory(self):
        options = self.options
        say(f"\nmemory: {options.subscribers:,} devices with {SUBSCRIPTIONS} subscriptions each")
        crowd = Crowd(self, "memory")

        few = min(idle.FEW, options.subscribers // 2)

        def restarted(subscribers):
            """What the service takes after a restart, when the devices that registered before it are back and quiet;
            the first `subscribers` of them are subscribed."""
            crowd.start()
            for first, devices, extra in [(0, subscribers, [f"--channel={channel}" for channel in channels]),
                                          (subscribers, options.subscribers - subscribers, [])]:
                if devices:
                    crowd.options.devices = devices
                    crowd.start_fleet("--first", first, "--exit-after-registration", "--live-activities", *extra)
            crowd.options.devices = options.subscribers
            crowd.server.stop()
            crowd.start()
            crowd.connect("--live-activities")
            time.sleep(options.settle)
            reading = idle.Reading(crowd.server).user
            found = sum(one["subscriptions"] for one in delivery.Administration(crowd.data).ask(
                "GET", "/v1/channels")["channels"])
            check(found == SUBSCRIPTIONS * subscribers, f"{found:,} subscriptions")
            crowd.fleet.stop()
            crowd.server.stop()
            return reading

        crowd.start()
        channels = crowd.make_channels(SUBSCRIPTIONS)
        crowd.server.stop()
        before, after = restarted(few), restarted(options.subscribers)
        each = (after - before) / (options.subscribers - few) / SUBSCRIPTIONS
        say(f"  {before / 2**20:.1f} MB with {few:,} subscribed devices, {after / 2**20:.1f} MB with all: "
            f"{each:.1f} bytes a subscription")
        self.results.append(Row(
            "broadcast.memory", "bytes/subscription", each, goal=SUBSCRIPTION_GOAL,
            note=f"{SUBSCRIPTIONS} of each of {options.subscribers:,} devices: {(after - before) / 2**20:.1f} MB"))


def arguments(parser):
    parser.size("--subscribers", 10_000, 200, "devices that are subscribed")
    parser.size("--rate", 1, 1, "broadcasts a second")
    parser.size("--seconds", 10, 2, "seconds of a slice")
    parser.size("--quiet-seconds", 12, 1, "seconds until devices are dormant")
    parser.size("--devices", 1000, 60, "devices of `delivery.http2`")
    parser.size("--messages", 100_000, 4000, "messages of a slice of `delivery.http2`")
    parser.size("--neighbours", 200, 20, "other devices")
    parser.size("--settle", 25, 2, "seconds of silence before memory is read")


SUITE = Suite(
    "broadcast", __doc__, Broadcast, tools=["h2load", "openssl", "taskset", *mosquitto.TOOLS], arguments=arguments,
    slices=3, measure=lambda bench: bench.measure(),
    rows={"copy": "one broadcast to 10,000 connected devices, acknowledged", "neighbours": "other devices meanwhile",
          "memory": "20 subscriptions of each device"})

if __name__ == "__main__":
    SUITE.main()
