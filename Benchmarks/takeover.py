"""What providers and devices notice when a node joins, or when another one takes over: rows of cluster.py."""

import json
import math
import time

from harness import LOAD_CPU, TOPIC, Process, check, say
from nodes import Cluster, database
from rows import Row

CHANGES = ["join", "drain"]
NODES, NEW = 3, "new"
RATE, BYTES = 500, 400
# So many notifications are kept for a device that connects again, so that none replaces another one.
KEPT = 64
# Seconds without a further end of a connection, after which a change is over.
SETTLED = 3
# What the devices count, to find out how they connected again.
COUNTS = ["disconnections", "handshakes", "resumed", "failures"]


class Moving:
    """Nodes with devices at all of them, and a provider at one that stands by."""

    def __init__(self, bench, server):
        self.options = bench.options
        self.cluster = Cluster(self.options, bench.scratch / "moving", server, NODES)
        self.cluster.nodes[0].command("app", "--change", TOPIC, "--retain", KEPT)
        self.devices = self.options.moving // NODES * NODES
        self.cluster.connect(self.devices, "--reconnect-milliseconds", 1000)
        self.tokens = self.cluster.tokens()
        self.tokens_file = bench.scratch / "moving.tokens"
        self.tokens_file.write_text("".join(f"{token}\n" for token in self.tokens))
        self.slices = {"join": [], "drain": []}

    def provider(self, node, seconds):
        return Process(
            [node.apus_bench, "push", "--data", node.data, "--connect", f"127.0.0.1:{node.http2_port}", "--tokens",
             self.tokens_file, "--rate", RATE, "--seconds", seconds, "--payload-bytes", BYTES, "--expiration", "+1h"],
            [LOAD_CPU], node.scratch / "push.log")

    def ended(self, provider):
        """What a provider says that ended, or is ended here: p99 in milliseconds, and how many were not accepted. All
        that was accepted must come to its device."""
        said = json.loads(provider.stop().splitlines()[-1])
        check(said["accepted"] > 0, f"the provider was not served at all: {said}")
        self.cluster.sent += said["accepted"]
        self.cluster.until_received(said["unknown"], repeats=True)
        return said["request_latency"]["p99_us"] / 1000, said["sent"] - said["accepted"]

    def undisturbed(self, node):
        provider = self.provider(node, self.options.seconds)
        provider.child.wait(60)
        quiet, refused = self.ended(provider)
        check(refused == 0, f"{refused} notifications were not accepted although no node changed")
        return quiet

    def join(self):
        """One slice, with a new node that is removed at its end."""
        cluster = self.cluster
        edge, before = cluster.nodes[1], cluster.told("disconnections")
        figures = {"quiet": self.undisturbed(edge)}
        provider = self.provider(edge, 600)
        time.sleep(1)
        began = time.monotonic()
        node = cluster.add(NEW)
        node.use_tokens(self.tokens[:1])
        node.load(node.http2_port, 0, 1, connections=1, streams=1)
        figures["seconds"] = time.monotonic() - began
        cluster.sent += 1
        time.sleep(1)
        figures["request"], figures["errors"] = self.ended(provider)
        cluster.remove(node)
        check(cluster.told("disconnections") == before, "devices lost their connections when a node joined")
        return figures

    def drain(self):
        """One slice, after which another node serves."""
        cluster, states = self.cluster, self.cluster.states()
        serving = next(node for node in cluster.nodes if states[node.name] == "serving")
        edge = next(node for node in cluster.nodes if node is not serving)
        figures = {"quiet": self.undisturbed(edge)}
        before, provider = cluster.told(*COUNTS), self.provider(edge, 600)
        time.sleep(1)
        began, spent = time.monotonic(), cluster.cpu_seconds()
        successor = edge.command("cluster", "drain", serving.name)[0]["serving"]
        figures["seconds"] = time.monotonic() - began
        figures["connected"] = self.until_connected_again(provider, before) - began
        figures["cpu"] = (cluster.cpu_seconds() - spent) * 1e6 / self.devices
        made = {key: count - before[key] for key, count in cluster.told(*COUNTS).items()}
        figures["kept"] = 100 * (1 - made["disconnections"] / self.devices)
        figures["attempts"] = (made["handshakes"] + made["failures"]) / made["disconnections"]
        figures["resumed"] = 100 * made["resumed"] / made["handshakes"]
        time.sleep(1)
        figures["request"], figures["errors"] = self.ended(provider)
        edge.command("cluster", "resume", serving.name)
        cluster.until_serves(successor)
        return figures

    def until_connected_again(self, provider, before):
        """Waits until connections have ended, all devices are connected, and no connection ends any more. Returns when
        the last device connected."""
        since, ended = math.inf, before["disconnections"]

        def is_over():
            nonlocal since, ended
            said, now = self.cluster.told("disconnections", "connected"), time.monotonic()
            if said["connected"] < self.devices or said["disconnections"] > ended:
                since, ended = math.inf, said["disconnections"]
            elif ended > before["disconnections"]:
                since = min(since, now)
            return now > since + SETTLED

        provider.wait_until(is_over, "connected devices", 180)
        return since

    def measure(self, name):
        slices = []
        for index in range(self.options.changes):
            slices.append(getattr(self, name)())
            say(f"  {index + 1:2} " + ", ".join(f"{key} {value:.2f}" for key, value in slices[-1].items()))
        return {key: [each[key] for each in slices] for key in slices[0]}


def measure(bench):
    with database(bench) as server:
        moving = Moving(bench, server)
        # A node joins while the first one serves; afterwards another one does.
        for name in [name for name in CHANGES if name in bench.options.rows]:
            say(f"\n{name}: {bench.options.changes} slices with {moving.devices:,} connected devices")
            add(bench.results, f"cluster.{name}", moving.measure(name), moving.devices)
        moving.cluster.stop()


def add(results, name, slices, devices):
    results += [
        Row(f"{name}-seconds", "s", slices["seconds"], note=f"{devices:,} devices"),
        Row(f"{name}-errors", "errors", sum(slices["errors"]), goal=0),
        Row(f"{name}-request", "ms p99", slices["request"], slices["quiet"], "undisturbed")]
    if "connected" in slices:
        results += [Row(f"{name}-connected", "s", slices["connected"]),
                    Row(f"{name}-cpu", "us CPU/device", slices["cpu"]),
                    Row(f"{name}-kept", "%", slices["kept"], better="higher"),
                    Row(f"{name}-attempts", "/device", slices["attempts"]),
                    Row(f"{name}-resumed", "%", slices["resumed"], better="higher")]
