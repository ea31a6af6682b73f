#!/usr/bin/env python3
"""Latency of a notification from provider to device, at half of the service's highest rate.

    make bench ROWS=latency                all rows, as a table
    Benchmarks/latency.py --devices 100    after `make release`

1,000 devices are connected; http2_provider.c sends them 400 bytes each in turn (HTTP/2, expiration in an hour), first
at full speed, then at half of that rate. The latency is measured from a notification's due time to its receipt, so one
that was sent late because the service held the provider up counts as late (no coordinated omission). The yardstick is
mosquitto at half of its own rate, with mqtt_fleet.c, which measures alike. Servers run on processor 0; provider and
devices share processor 1, where they preempt everything else; the figures include their waiting for each other.

Rows:
  half     p99 at half of the highest rate. Goal: 10 ms.
  request  p99 of the responses to the provider, in the same runs
"""

import json
import sys
import time

sys.dont_write_bytecode = True
import harness
import mosquitto
from harness import LOAD_CPU, TOPIC, check, free_port, output_of, say
from mosquitto import Mosquitto, told
from rows import Row, Suite

GOAL_MICROSECONDS = 10_000
BYTES = 400


class Paced(harness.Bench):
    """A service with connected devices, and a provider with a constant rate."""

    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.http2_port = free_port()
        self.sent = 0

    def start(self, workers=1, cpus=(harness.SERVER_CPU,)):
        self.server = self.serve(workers, cpus, http2=f"127.0.0.1:{self.http2_port}")
        return self.server

    def push_command(self, rate, seconds, tokens=None, expiration="+1h"):
        return [self.apus_bench, "push", "--data", self.data, "--connect", f"127.0.0.1:{self.http2_port}",
                "--tokens", tokens or self.tokens_file, "--rate", round(rate), "--seconds", seconds,
                "--payload-bytes", BYTES, "--expiration", expiration, "--json"]

    def push(self, rate, seconds, expiration="+1h"):
        """The provider's output; every notification must have been accepted."""
        said = json.loads(output_of("taskset", "-c", LOAD_CPU,
                                    *self.push_command(rate, seconds, expiration=expiration)))
        check(said["accepted"] == said["sent"] > 0, f"not all notifications were accepted: {said}")
        self.sent += said["accepted"]
        return said

    def timed(self, fleet, rate, seconds):
        """Latencies of one slice: to the devices and to the provider."""
        said = self.push(rate, seconds)
        return told(fleet, self.sent, said["accepted"])["latency"], said["request_latency"]


class Latency(Paced):
    """With a provider and devices that need so little of their processor that the service's own lateness is seen."""

    def provision(self):
        super().provision()
        self.provider = self.compile("http2_provider.c", "http2_provider", "-lssl", "-lcrypto")
        self.bearer = output_of(
            self.apus_bench, "jwt", "--key", self.identity["key_file"], "--key-id", self.identity["key_id"],
            "--team", self.identity["team"])

    def push(self, rate, seconds):
        """The provider fails if a notification is not accepted."""
        said = json.loads(output_of(
            *harness.urgency(), "taskset", "-c", LOAD_CPU, self.provider, self.http2_port,
            f"{self.data}/authority/service.crt", self.tokens_file, TOPIC, round(time.time()) + 3600, BYTES,
            mosquitto.PUBLISHERS, round(rate), seconds, given=self.bearer))
        self.sent += said["accepted"]
        return said

    def half(self):
        seconds, devices = self.options.seconds, self.options.devices
        self.start()
        fleet = self.start_fleet(urgent=True)
        fastest = self.push(0, seconds)["rate"]
        told(fleet, self.sent)
        broker = Mosquitto(self)
        other = broker.start()
        subscribers = broker.subscribe(devices, urgent=True)
        warm = broker.publish(devices, self.options.messages, BYTES, urgent=True)
        published, other_fastest = self.options.messages, self.options.messages / warm["seconds"]
        told(subscribers, published)
        say(f"\nhalf: {self.options.slices} slices of {seconds} s; Apus can send {fastest:,.0f} per second, mosquitto "
            f"{other_fastest:,.0f}")
        figures, others, requests = [], [], []
        for index in range(self.options.slices):
            latency, request = self.timed(fleet, fastest / 2, seconds)
            figures.append(latency)
            requests.append(request)
            messages = round(other_fastest / 2 * seconds)
            broker.publish(devices, messages, BYTES, round(other_fastest / 2), urgent=True)
            published += messages
            others.append(told(subscribers, published, messages)["latency"])
            for name, one in [("apus", figures[-1]), ("answers", request), ("mosquitto", others[-1])]:
                say(f"  {index + 1:2} {name:10} p50 {one['p50_us']:7,} us, p99 {one['p99_us']:7,} us, "
                    f"at most {one['max_us']:9,} us")
        self.acknowledged(fleet.stop(), self.sent)
        subscribers.stop()
        other.stop()
        self.server.stop()
        more = {"devices": devices, "rate": round(fastest / 2), "mosquitto_rate": round(other_fastest / 2),
                "slices_of": figures}
        note = f"at {fastest / 2:,.0f}/s; mosquitto at {other_fastest / 2:,.0f}/s"
        self.results.append(Row(
            "latency.half", "us p99", [one["p99_us"] for one in figures], [one["p99_us"] for one in others],
            "mosquitto", GOAL_MICROSECONDS, "value", note=note, more=more))
        self.results.append(Row("latency.request", "us p99", [one["p99_us"] for one in requests], note=note))


def arguments(parser):
    parser.size("--seconds", 10, 2, "seconds of a slice")
    parser.size("--devices", 1000, 60, "devices")
    parser.size("--messages", 100_000, 4000, "messages by which mosquitto's rate is found")


SUITE = Suite("latency", __doc__, Latency, tools=["openssl", "taskset", *mosquitto.TOOLS], arguments=arguments,
              slices=7, rows={"half": "from provider to device, at half of the highest rate"})

if __name__ == "__main__":
    SUITE.main()
