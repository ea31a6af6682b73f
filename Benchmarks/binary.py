#!/usr/bin/env python3
"""CPU per notification on the binary interface, with a plain TLS sink as the yardstick in the same run.

    make bench ROWS=binary                     all rows, as a table
    Benchmarks/binary.py --rows flood --json   one of them as JSON, after `make release`

`apus-bench binary` sends command 2 frames of 300 bytes on one connection (TLS 1.3, AES-128-GCM, a provider's
certificate) to the tokens of 1,000 devices in turn, either packed into TLS records of 16 KB or each frame in a separate
record, as legacy sender libraries do. After them it sends a frame that every service rejects; its error packet confirms
that all others were processed. tls_sink.c gets the same bytes, decrypts and discards them; like Apus, it reads 64 KB at
a time from its socket. Servers run on processor 0, load and devices on processor 1, in alternating slices. The figure
is the CPU time of the server process, user and system, all threads, per frame.

Rows:
  admitted   the devices are offline, expiration 0: parse, check the token, validate the payload, decide, discard.
             Goal: at most 2.5 times the sink's cost for packed records, and at most the sink's cost for one frame per
             record. Payloads come from one template, as in a campaign, and differ in their last member; "unlike" ones
             differ in the first, so that nothing can be reused from the previous one. With two workers (on the same
             processor) half of the frames cross over to the worker of their device.
  delivered  1,000 devices are connected and acknowledge, expiration in an hour: the same, a frame out and one in.
  client     The other side: BinaryClient of the client library sends to the sink. Its rate in bytes per second is
             compared with that of `apus-bench binary`, which only copies prepared frames, to the same sink in
             alternation; also the CPU time of client and sink per notification. Silence of 100 ms counts as
             acceptance. Goal: 0.5 of the sink's rate.
  flood      A good connection to a listener that confirms (+confirm) sends one notification at a time, expiration 0, to
             offline devices of its own worker: the time to the confirmation, undisturbed and while connections flood
             the OTHER worker, each with a handshake, a provider's certificate, one bad notification, its error packet
             and a close. Goal: p99 at most twice the undisturbed one.

How the flood is limited to one worker: the system assigns connections to workers by a hash of both sides' addresses and
ports. The script first connects from many ports and checks in /proc which worker's thread woke up; in the same way it
finds out which devices belong to which worker. Each worker has its own processor. The good client shares the first with
the good worker (one waits while the other works). The flooding client shares the second with the flooded worker, at the
lowest priority: the worker serves the flood as fast as it can, and the two fill the processor. Two processors cannot
show a flood that leaves its worker no time at all. The remaining difference comes from locks and queues that workers
share, and from caches, memory and hyper-threads. The second line, devices of the flooded worker, has no goal: it waits
for that worker, and that worker for its processor.

Lower is better, except for the rate.
"""

import json
import os
import pathlib
import socket
import ssl
import statistics
import struct
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, SERVER_CPU, TOPIC, Process, accepts, check, free_port, output_of, say
from rows import Row, Suite

FLOOD_GOAL, CLIENT_GOAL = 2.0, 0.5
RECORDS = {"full": "16 KB", "frame": "one a frame"}
COST_GOALS = {"full": 2.5, "frame": 1.0}
FLOODING_CONNECTIONS = 64


class Binary(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.port, self.sink_port = free_port(), free_port()

    def provision(self):
        super().provision()
        issued = json.loads(output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.certificate, self.key = issued["certificate_file"], issued["key_file"]
        self.authority = issued["authority_file"]
        self.provider = ["--certificate", self.certificate, "--key", self.key, "--authority", self.authority]

    def start_apus(self, workers=1, cpus=(SERVER_CPU,), modifiers=""):
        return self.serve(workers, cpus, gateway=f"127.0.0.1:{self.port}{modifiers}")

    def start_sink(self):
        program = self.compile("tls_sink.c", "tls_sink", "-lssl", "-lcrypto")
        server = self.data / "server"
        sink = Process(
            [program, self.sink_port, server / "server.crt", server / "server.key", self.authority],
            [SERVER_CPU], self.scratch / "sink.log")
        sink.wait_until(lambda: accepts(self.sink_port), "an open port")
        return sink

    def send(self, port, frames, *extra, cpu=LOAD_CPU, tokens=None):
        """The frames of one connection; the sender fails unless the peer accepted all of them."""
        return json.loads(output_of(
            "taskset", "-c", cpu, self.apus_bench, "binary", "--connect", f"127.0.0.1:{port}", *self.provider,
            "--tokens", tokens or self.tokens_file, "--frames", frames, *extra))

    def timed(self, server, port, frames, *extra):
        """CPU microseconds per frame of one slice, and the sender's output."""
        before = server.settled_cpu_seconds()
        sent = self.send(port, frames, *extra)
        return (server.settled_cpu_seconds() - before) * 1e6 / frames, sent

    def compare(self, contestants, frames, records):
        """Alternating slices of all contestants (name, server, port, options). Returns their costs and ciphers."""
        costs, ciphers = {}, {}
        for _, _, port, extra in contestants:
            self.send(port, frames // 10, "--records", records, *extra)  # Warms caches up, not counted.
        for index in range(self.options.slices):
            for name, server, port, extra in contestants:
                cost, sent = self.timed(server, port, frames, "--records", records, *extra)
                costs.setdefault(name, []).append(cost)
                ciphers[name] = sent["cipher"]
                rate = frames / sent["seconds"]
                say(f"  {index + 1:2} {name:15} {cost:7.3f} us {rate:9.0f} frames/s  {sent['cipher']}")
        return costs, ciphers

    # Rows

    def admitted(self):
        frames = self.options.frames
        registering = self.start_apus()
        self.start_fleet("--exit-after-registration").stop()
        registering.stop()
        sink = self.start_sink()
        for records in RECORDS:
            say(f"\nadmitted, records: {RECORDS[records]}; {self.options.slices} slices of {frames:,} frames each")
            apus = self.start_apus()
            costs, ciphers = self.compare(
                [("apus", apus, self.port, []), ("apus_unlike", apus, self.port, ["--unlike"]),
                 ("sink", sink, self.sink_port, ["--half-close"])], frames, records)
            apus.stop()
            check(len(set(ciphers.values())) == 1, f"the ciphers differ: {ciphers}")
            apus = self.start_apus(workers=2)
            more, _ = self.compare([("apus, 2 workers", apus, self.port, [])], frames, records)
            apus.stop()
            costs["apus_2_workers"] = more["apus, 2 workers"]
            for name, cost, other, against, goal in [
                    ("", "apus", "sink", "TLS sink", COST_GOALS[records]),
                    ("-unlike", "apus_unlike", "sink", "TLS sink", None),
                    ("-2-workers", "apus_2_workers", "apus", "Apus, one", None)]:
                self.results.append(Row(
                    f"binary.admitted-{records}{name}", "us CPU/frame", costs[cost], costs[other], against, goal,
                    more={"frames": frames * self.options.slices, "cipher": ciphers["apus"]}))
        sink.stop()

    def delivered(self):
        frames = self.options.frames // 5
        for records in RECORDS:
            say(f"\ndelivered, records: {RECORDS[records]}; {self.options.slices} slices of {frames:,} frames")
            apus = self.start_apus()
            fleet = self.start_fleet()
            costs, ciphers = self.compare([("apus", apus, self.port, ["--expiration", "+1h"])], frames, records)
            taken = self.acknowledged(fleet.stop(), frames * self.options.slices + frames // 10)
            apus.stop()
            self.results.append(Row(
                f"binary.delivered-{records}", "us CPU/frame", costs["apus"],
                more={"frames": frames * self.options.slices, "cipher": ciphers["apus"], "acknowledged": taken}))

    def client(self):
        frames = 10 * self.options.frames
        registering = self.start_apus()
        self.start_fleet("--exit-after-registration").stop()
        registering.stop()
        sink = self.start_sink()
        for payload in (239, 1963):  # Frames of 300 and of 2,024 bytes.
            count = frames * 300 // (payload + 61)
            # Allocates the memory of the window, once per connection.
            warm_up = count // 5
            say(f"\nclient, frames of {payload + 61} bytes; {self.options.slices} slices of {count:,} each")
            rates, costs = {"client": [], "load": []}, {"client": [], "sink": []}
            for index in range(self.options.slices):
                before = sink.settled_cpu_seconds()
                sent = json.loads(output_of(
                    "taskset", "-c", LOAD_CPU, self.apus_bench, "send-binary",
                    "--connect", f"127.0.0.1:{self.sink_port}", *self.provider, "--tokens", self.tokens_file,
                    "--notifications", count, "--warm-up", warm_up, "--payload-bytes", payload))
                costs["sink"].append((sink.settled_cpu_seconds() - before) * 1e6 / (count + warm_up))
                costs["client"].append(sent["cpu_nanoseconds_each"] / 1000)
                rates["client"].append(count * sent["frame_bytes"] / sent["microseconds"])
                load = self.send(self.sink_port, count, "--half-close", "--frame-bytes", payload + 61)
                rates["load"].append(load["bytes"] / load["seconds"] / 1e6)
                say(f"  {index + 1:2} client {rates['client'][-1]:7.0f} MB/s, {costs['client'][-1]:.3f} us; "
                    f"load {rates['load'][-1]:7.0f} MB/s; the sink spends {costs['sink'][-1]:.3f} us")
            self.results.append(Row(
                f"binary.client-{payload + 61}", "MB/s", rates["client"], rates["load"], "copies alone", CLIENT_GOAL,
                better="higher", note=f"{statistics.median(costs['client']):.2f} us CPU each",
                more={"frames": count * self.options.slices,
                      "client_cpu_us": round(statistics.median(costs["client"]), 3),
                      "sink_cpu_us": round(statistics.median(costs["sink"]), 3),
                      "resident_megabytes": round(sent["resident_kilobytes"] / 1024)}))
        sink.stop()

    def flood(self):
        say(f"\nflood: {self.options.slices} times {self.options.latencies:,} confirmations, undisturbed and flooded")
        # Devices get their tokens, and the service forgets the connections.
        registering = self.start_apus()
        self.start_fleet("--exit-after-registration").stop()
        registering.stop()
        apus = self.start_apus(2, [SERVER_CPU, LOAD_CPU], "+confirm")
        workers = Workers(apus, 2)
        good, other = workers.names
        workers.pin(good, SERVER_CPU)
        workers.pin(other, LOAD_CPU)
        probe = Probe(self, workers)
        sources = probe.sources({good: 1, other: FLOODING_CONNECTIONS})
        own, foreign = probe.devices(sources[good][0], other, self.tokens_file.read_text().split())
        say(f"  {len(own)} devices of the good worker, {len(foreign)} of the flooded one")
        for name, tokens, goal in [("flood", own, FLOOD_GOAL), ("flood-foreign", foreign, None)]:
            figures, more = self.latencies(workers, other, sources[good][0], sources[other], tokens)
            quiet, flooded = figures["undisturbed"], figures["flooded"]
            more["p50"] = {which: statistics.median(one[0] for one in slices) for which, slices in figures.items()}
            self.results.append(Row(
                f"binary.{name}", "us p99", [one[1] for one in flooded], [one[1] for one in quiet], "undisturbed", goal,
                note=f"{more['flood_connections_per_second']:,} connections/s",
                more={"confirmations": self.options.latencies * self.options.slices, **more}))
        apus.stop()

    def latencies(self, workers, flooded, source, flood_sources, tokens):
        """p50 and p99 of each slice, undisturbed and flooded, and the density of the flood."""
        file = self.scratch / "flood.tokens"
        file.write_text("".join(f"{token}\n" for token in tokens))
        figures, connections, busy = {"undisturbed": [], "flooded": []}, [], []
        for index in range(self.options.slices):
            for name, slices in figures.items():
                flood = self.start_flood(flood_sources) if name == "flooded" else None
                began, cpu = time.monotonic(), workers.cpu_seconds(flooded)
                sent = self.send(self.port, self.options.latencies, "--one-at-a-time", "--source", source,
                                 cpu=SERVER_CPU, tokens=file)
                share = (workers.cpu_seconds(flooded) - cpu) / (time.monotonic() - began)
                times = sorted(sent["microseconds"])
                slices.append((times[len(times) // 2], times[len(times) * 99 // 100]))
                say(f"  {index + 1:2} {name:11} p50 {slices[-1][0]:6.0f} us, p99 {slices[-1][1]:6.0f} us; the other "
                    f"worker {share:4.0%} busy")
                if flood:
                    seconds = time.monotonic() - flood.began
                    said = json.loads(flood.stop().splitlines()[-1])
                    check(said["answered"] >= 0.9 * said["connections"] > 0, f"the flood got no responses: {said}")
                    connections.append(said["connections"] / seconds)
                    busy.append(share)
        return figures, {"flood_connections_per_second": round(statistics.median(connections)),
                         "flooded_worker_busy": round(statistics.median(busy), 2)}

    def start_flood(self, sources):
        flood = Process(
            [self.apus_bench, "flood", "--connect", f"127.0.0.1:{self.port}", *self.provider,
             *(f"--source={source}" for source in sources)], [LOAD_CPU], self.scratch / "flood.log", niceness=19)
        flood.began = time.monotonic()
        time.sleep(0.5)
        check(flood.child.poll() is None, f"the flood ended. {flood.tail()}")
        return flood


class Workers:
    """The threads of a service's workers and of their acceptors, and what /proc says about them."""

    def __init__(self, server, count):
        # A thread sets its own name, possibly after the listeners are open.
        server.wait_until(lambda: len(self.find(server, "worker")) == len(self.find(server, "accept")) == count,
                          f"{count} threads of workers and of acceptors")
        self.tasks = self.find(server, "worker")
        self.acceptors = dict(zip(self.tasks, self.find(server, "accept").values()))
        self.names = list(self.tasks)

    @staticmethod
    def find(server, kind):
        tasks = pathlib.Path(f"/proc/{server.child.pid}/task").iterdir()
        named = {(task / "comm").read_text().strip(): task for task in tasks}
        return {name: task for name, task in sorted(named.items()) if name.startswith(f"apus-{kind}-")}

    def pin(self, name, cpu):
        for task in self.tasks[name], self.acceptors[name]:
            os.sched_setaffinity(int(task.name), {cpu})

    def wakeups(self):
        """How often each thread has slept so far."""
        return {name: int((task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0])
                for name, task in self.tasks.items()}

    def cpu_seconds(self, name):
        """Of the worker and its acceptor together."""
        times = [(task / "stat").read_text().rpartition(")")[2].split()[11:13]
                 for task in (self.tasks[name], self.acceptors[name])]
        return sum(int(ticks) for each in times for ticks in each) / os.sysconf("SC_CLK_TCK")


class Probe:
    """Finds the worker of a connection or a device by checking which thread wakes up."""

    FIRST_PORT = 20_001  # Below the ports that the system gives out.

    def __init__(self, bench, workers):
        self.bench, self.workers = bench, workers
        self.context = ssl.create_default_context(cafile=bench.authority)
        self.context.load_cert_chain(bench.certificate, bench.key)

    def connect(self, source):
        host, port = source.split(":")
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        plain.bind((host, int(port)))
        plain.settimeout(10)
        plain.connect(("127.0.0.1", self.bench.port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(plain, server_hostname="localhost")

    @staticmethod
    def frame(token, payload, identifier, expiration=0):
        items = [(1, token), (2, payload), (3, struct.pack(">I", identifier)), (4, struct.pack(">I", expiration)),
                 (5, b"\n")]
        body = b"".join(struct.pack(">BH", number, len(data)) + data for number, data in items)
        return struct.pack(">BI", 2, len(body)) + body

    @staticmethod
    def answer(connection):
        packet = b""
        while len(packet) < 6 and (more := connection.recv(6 - len(packet))):
            packet += more
        check(len(packet) == 6, "the service closed a connection instead of answering.")
        return packet[1]

    def end(self, connection):
        """Sends the frame that every service rejects, and waits for its error packet and the end of the connection."""
        connection.sendall(self.frame(b"", b"", 7))
        check(self.answer(connection) == 2, "a bad notification was not answered with status 2.")
        check(connection.recv(1) == b"", "the service sent more after an error packet.")
        connection.close()

    def sources(self, wanted):
        """The wanted number of ports for each worker, from which connections reach it."""
        found = {name: [] for name in wanted}
        for port in range(self.FIRST_PORT, self.FIRST_PORT + 1000):
            source = f"127.0.0.2:{port}"
            before = self.workers.wakeups()
            self.end(self.connect(source))
            woken = {name: count - before[name] for name, count in self.workers.wakeups().items()}
            name = max(woken, key=woken.get)
            # A handed-over connection, a notification and a close; other threads have at most a timer meanwhile.
            if woken[name] >= 2 and sum(woken.values()) - woken[name] <= 1 and len(found[name]) < wanted[name]:
                found[name].append(source)
            if all(len(found[name]) == count for name, count in wanted.items()):
                return found
        harness.die(f"connections do not spread over the workers: {found}")

    def devices(self, source, other, tokens, wanted=32, times=10):
        """Tokens of devices of the connection's worker, and of devices of the other worker."""
        connection, own, foreign = self.connect(source), [], []
        for token in tokens:
            before = self.workers.wakeups()[other]
            for _ in range(times):
                connection.sendall(self.frame(bytes.fromhex(token), b'{"aps":{"alert":"?"}}', 1))
                check(self.answer(connection) == 0, "a listener with +confirm does not confirm.")
            woken = self.workers.wakeups()[other] - before
            if woken >= times and len(foreign) < wanted:
                foreign.append(token)
            elif woken <= 1 and len(own) < wanted:
                own.append(token)
            if len(own) == len(foreign) == wanted:
                break
        self.end(connection)
        check(own and foreign, "all devices belong to one worker.")
        return own, foreign


def arguments(parser):
    parser.size("--frames", 500_000, 20_000, "frames of a slice, a fifth where they are delivered")
    parser.size("--devices", 1000, 100, "devices, each with one token")
    parser.size("--latencies", 20_000, 1000, "confirmations of a slice of `flood`")


SUITE = Suite(
    "binary", __doc__, Binary, tools=["openssl", "clang", "taskset"], arguments=arguments, slices=3,
    rows={"admitted": "binary frames in, decided, discarded", "delivered": "to connected devices, acknowledged",
          "client": "the client library's binary interface", "flood": "good connections during a flood of bad ones"})

if __name__ == "__main__":
    SUITE.main()
