#!/usr/bin/env python3
"""CPU per notification that reaches a connected device, with mosquitto as the yardstick in the same run.

    make bench ROWS=delivery                       all rows
    Benchmarks/delivery.py --rows http2 tag        some of them, after `make release`

Both services hold the same number of connections with client certificates (TLS 1.3, AES-128-GCM), one per device, and
deliver each message to one of them in turn, which acknowledges it. Apus gets its notifications from h2load
(8 connections of 100 streams, a provider token, expiration in an hour: stored unless acknowledged in time); mosquitto
gets as many bytes from mqtt_fleet.c (8 connections, 100 unacknowledged messages each), at QoS 1 to one topic per
subscriber, with nothing on disk. Slices alternate; servers run on processor 0, load and devices on processor 1. The
figure is the CPU time of the server process, user and system, all threads, per message; all messages must arrive and be
acknowledged.

Rows:
  http2      1,000 devices, payloads of 256 bytes. Goal: 0.4 of mosquitto.
  tag        One push of 400 bytes to a tag that 10,000 connected devices have, each with two tags besides. The
             yardstick is as many requests of a provider to the same service. `tag-accepted` is the time until the job
             is accepted, which is before it is sent. Goals: 1.2 of a request, 50 ms.
  fan-out    The cost of sending, 400 bytes to 1,000 devices with expiration 0: a notification for a connected device
             that acknowledges nothing (`--misbehave slow-reader`), compared with one that is discarded because its
             device is offline. The difference is a frame, a TLS record and a system call. Because a device gets at most
             32 notifications without an acknowledgement, each slice has a new service and sends 24 per device. The
             yardstick is fan_out.c: send() of as many bytes on as many plain connections. Goal: 1.2.
"""

import copy
import http.client
import json
import socket
import statistics
import sys
import time

sys.dont_write_bytecode = True
import harness
import ingest
import mosquitto
from harness import LOAD_CPU, SERVER_CPU, check, output_of, say
from mosquitto import Mosquitto
from rows import Row, Suite

GOAL, FAN_OUT_GOAL, TAG_GOAL, ACCEPTED_GOAL = 0.4, 1.2, 1.2, 50
HOUR, BYTES = 3600, 256
# Bytes on the wire of a notification of 400 bytes, with frame, record and tag.
SENT_BYTES = 400 + 122 + 22
# Notifications per device, fewer than its window.
UNACKNOWLEDGED = 24


def payload_file(bench, size):
    text = '{"aps":{"alert":{"title":"Platform 4","body":"%s"},"sound":"default"}}'
    bench.payload = bench.scratch / f"payload.{size}.json"
    bench.payload.write_text(text % ("x" * (size - len(text) + 2)))
    check(bench.payload.stat().st_size == size, "the payload has a wrong size")


class Part:
    """A service with its devices, in a separate folder."""

    def __init__(self, bench, name, devices, size):
        folder = bench.scratch / name
        folder.mkdir()
        options = copy.copy(bench.options)
        options.devices, options.requests = devices, bench.options.messages
        self.bench = ingest.Ingest(options, folder)
        self.bench.provision()
        payload_file(self.bench, size)
        self.devices, self.sent = devices, 0

    def start(self):
        self.server = self.bench.start_apus()
        self.fleet = self.bench.start_fleet()

    def slice(self, messages, expiration_seconds=HOUR):
        """CPU microseconds per notification."""
        before = self.server.settled_cpu_seconds()
        self.bench.load(self.bench.http2_port, expiration_seconds, messages)
        self.sent += messages
        return (self.server.settled_cpu_seconds() - before) * 1e6 / messages

    def stop(self):
        """The number of acknowledged notifications, which must be all."""
        taken = self.bench.acknowledged(self.fleet.stop(), self.sent)
        self.server.stop()
        return taken


class Administration(http.client.HTTPConnection):
    """The administration API, over the socket in the data directory."""

    def __init__(self, data):
        super().__init__("localhost")
        self.path = data / "admin.sock"

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))

    def ask(self, method, path, body=None):
        self.request(method, path, body and json.dumps(body), {"content-type": "application/json"} if body else {})
        answer = self.getresponse()
        text = answer.read()
        check(answer.status < 300, f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)

    def devices(self):
        after = ""
        while after is not None:
            page = self.ask("GET", f"/v1/devices?limit=1000{after}")
            yield from (device["device"] for device in page["devices"])
            after = f"&after={page['next']}" if "next" in page else None


class Broker:
    """A mosquitto with its subscribers."""

    def __init__(self, part, name, size):
        self.broker = Mosquitto(part.bench, name)
        self.devices, self.size, self.sent = part.devices, size, 0

    def start(self):
        self.server = self.broker.start()
        self.broker.check_load()
        self.fleet = self.broker.subscribe(self.devices)

    def slice(self, messages):
        before = self.server.settled_cpu_seconds()
        self.broker.publish(self.devices, messages, self.size)
        self.sent += messages
        cost = (self.server.settled_cpu_seconds() - before) * 1e6 / messages
        said = mosquitto.told(self.fleet, self.sent)
        check(said["acknowledged"] == self.sent, f"the subscribers acknowledged {said} of {self.sent:,} messages")
        return cost

    def stop(self):
        self.fleet.stop()
        self.server.stop()


class Delivery(harness.Bench):
    def provision(self):
        pass

    # Rows

    def http2(self):
        messages, devices = self.options.messages, self.options.devices
        say(f"\nhttp2: {self.options.slices} slices of {messages:,} messages of {BYTES} bytes to {devices:,} devices")
        part = Part(self, "http2", devices, BYTES)
        broker = Broker(part, "mosquitto", BYTES)
        costs = {"apus": [], "mosquitto": []}
        for one in (part, broker):
            one.start()
            one.slice(max(messages // 10, devices))  # Warms caches up, not counted.
        for index in range(self.options.slices):
            for name, one in [("apus", part), ("mosquitto", broker)]:
                costs[name].append(one.slice(messages))
                say(f"  {index + 1:2} {name:10} {costs[name][-1]:7.2f} us")
        taken = part.stop()
        broker.stop()
        self.results.append(Row(
            "delivery.http2", "us CPU/message", costs["apus"], costs["mosquitto"], "mosquitto", GOAL,
            note=f"{taken:,} of {part.sent:,} acknowledged",
            more={"devices": devices, "payload_bytes": BYTES, "messages": messages, "acknowledged": taken}))

    def tag(self):
        devices = self.options.tagged
        part = Part(self, "tag", devices, 400)
        part.start()
        administration = Administration(part.bench.data)
        known = list(administration.devices())
        check(len(known) == devices, f"the service knows {len(known)} of {devices} devices")
        (part.bench.data / "devices.tsv").write_text("".join(
            f"{device}\tdevice-{index}\tall\tfloor={index % 40}\troom={index % 900}\n"
            for index, device in enumerate(known)))
        push = {"tags": ["all"], "topic": harness.TOPIC, "payload": json.loads(part.bench.payload.read_text())}
        accepted = []

        def one():
            before, begun = part.server.settled_cpu_seconds(), time.monotonic()
            job = administration.ask("POST", "/v1/notifications", push)
            accepted.append((time.monotonic() - begun) * 1000)
            while "ended" not in job:
                time.sleep(0.02)
                job = administration.ask("GET", f"/v1/jobs/{job['job']}")
            seconds = time.monotonic() - begun
            check(job["outcomes"]["accepted"] == devices, f"the job ended as {job}")
            part.sent += devices
            return (part.server.settled_cpu_seconds() - before) * 1e6 / devices, seconds

        say(f"\ntag: {self.options.slices} pushes to {devices:,} devices")
        one(), part.slice(devices)
        accepted.clear()
        costs, requests, rates = [], [], []
        for index in range(self.options.slices):
            cost, seconds = one()
            costs.append(cost)
            rates.append(devices / seconds)
            requests.append(part.slice(devices))
            say(f"  {index + 1:2} {cost:7.2f} us, accepted in {accepted[-1]:5.1f} ms, {rates[-1]:9,.0f}/s; "
                f"requests {requests[-1]:7.2f} us")
        taken = part.stop()
        self.results.append(Row(
            "delivery.tag", "us CPU/message", costs, requests, "requests", TAG_GOAL,
            note=f"{taken:,} of {part.sent:,} acknowledged, {statistics.median(rates):,.0f}/s",
            more={"devices": devices, "acknowledged": taken, "per_second": rates}))
        self.results.append(Row("delivery.tag-accepted", "ms", accepted, goal=ACCEPTED_GOAL))

    def plain(self, devices):
        """CPU microseconds per message of plain connections."""
        program = self.scratch / "fan_out"
        if not program.exists():
            self.compile("fan_out.c", "fan_out")
        said = json.loads(output_of(program, devices, UNACKNOWLEDGED, SENT_BYTES, 0, SERVER_CPU, LOAD_CPU))
        return said["nanoseconds_each"] / 1000

    def fan_out(self):
        costs, plain, devices = [], [], self.options.devices
        say(f"\nfan-out: {self.options.slices} slices, {devices:,} devices")

        def measure(name, *extra):
            part = Part(self, name, devices, 400)
            part.server, part.fleet = part.bench.start_apus(), part.bench.start_fleet(*extra)
            part.slice(devices, 0)
            cost = part.slice(devices * UNACKNOWLEDGED, 0)
            part.fleet.stop()
            part.server.stop()
            return cost

        for index in range(self.options.slices):
            without = measure(f"away.{index}", "--exit-after-registration")
            with_it = measure(f"silent.{index}", "--misbehave", "slow-reader")
            costs.append(with_it - without)
            plain.append(self.plain(devices))
            say(f"  {index + 1:2} discarded {without:6.2f} us, sent {with_it:6.2f} us; plain {plain[-1]:6.2f} us")
        self.results.append(Row("delivery.fan-out", "us CPU/message", costs, plain, "send", FAN_OUT_GOAL))


def arguments(parser):
    parser.size("--messages", 100_000, 4_000, "messages of a slice")
    parser.size("--devices", 1000, 60, "devices of `http2` and `fan-out`")
    parser.size("--tagged", 10_000, 200, "devices of `tag`")


SUITE = Suite(
    "delivery", __doc__, Delivery, tools=["h2load", "openssl", "taskset", *mosquitto.TOOLS], arguments=arguments,
    slices=3,
    rows={"http2": "HTTP/2 in, to one of 1,000 connected devices, acknowledged",
          "tag": "one push to a tag of 10,000 devices", "fan-out": "the cost of sending"})

if __name__ == "__main__":
    SUITE.main()
