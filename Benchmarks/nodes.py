"""Services that each have a folder, ports and devices of their own: alone, or as the nodes of a cluster with links."""

import concurrent.futures
import contextlib
import copy
import json
import shutil
import time

import ingest
from database import Server
from harness import check, free_port, output_of


class Node(ingest.Ingest):
    """A service with one worker, alone until `found` or `join` makes it a node of a cluster."""

    def __init__(self, options, folder):
        folder.mkdir()
        options = copy.copy(options)
        options.requests = 0
        super().__init__(options, folder)
        self.name, self.link_port, self.store = folder.name, free_port(), None
        self.status_file = self.scratch / "status.json"

    def command(self, *arguments):
        """What a command of `apus` prints as JSON, an object for each line."""
        lines = output_of(self.apus, *arguments, "--data", self.data, "--json").splitlines()
        return [json.loads(line) for line in lines]

    def found(self, store, parts=1):
        """Makes the service the first node of a cluster in this database, whose devices are in so many parts."""
        self.provision()
        self.store = store
        self.command("cluster", "init", self.name, "--store", store, "--single-database", "--parts", parts)

    def join(self, other):
        self.store, self.provider_token = other.store, other.provider_token
        code = other.command("cluster", "invite")[0]["code"]
        self.command("cluster", "join", self.name, "--store", self.store, "--code", code)

    def start(self, pause=0.05):
        """Returns when the listeners accept connections; checks after each pause (seconds)."""
        links = {"APUS_SINGLE_DATABASE": "on", "APUS_LINK_LISTEN": f"127.0.0.1:{self.link_port}"}
        self.server = self.serve(environment=links if self.store else None, pause=pause,
                                 http2=f"127.0.0.1:{self.http2_port}")

    def connect(self, devices, first, *more):
        """Connects devices with the numbers from `first` on to this node."""
        self.options.devices = devices
        self.fleet = self.start_fleet("--first", first, "--status", self.status_file, *more)
        self.tokens = self.tokens_file.read_text().split()

    def status(self):
        return json.loads(self.status_file.read_text()) if self.status_file.exists() else {}


class Group:
    """Services that are measured together."""

    def __init__(self, nodes):
        self.nodes, self.sent = nodes, 0

    def connect(self, devices, *more):
        """Spreads devices evenly over the nodes."""
        share = devices // len(self.nodes)
        for index, node in enumerate(self.nodes):
            node.connect(share, index * share, *more)

    def tokens(self, nodes=None):
        """Of the devices at these nodes, or at all, in turn."""
        return [token for each in zip(*(node.tokens for node in nodes or self.nodes)) for token in each]

    def cpu_seconds(self):
        return sum(node.server.cpu_seconds() for node in self.nodes)

    def settled_cpu_seconds(self):
        """Of all nodes together, once they do no more than look after the lease."""
        last = self.cpu_seconds()
        for _ in range(50):
            time.sleep(0.1)
            now = self.cpu_seconds()
            if now - last < 0.001 * len(self.nodes):
                return now
            last = now
        return last

    def push(self, providers, receivers, messages, connections):
        """CPU microseconds of all nodes for each notification until it is acknowledged, and notifications a second.
        As many go to each of the nodes `providers`, over its share of the connections, and all in all as many to each
        device at the nodes `receivers`. They expire at once, so that no store is involved."""
        for node in providers:
            node.use_tokens(self.tokens(receivers))
        share, before = messages // len(providers), self.settled_cpu_seconds()
        with concurrent.futures.ThreadPoolExecutor(len(providers)) as pool:
            began = time.monotonic()
            loads = [pool.submit(node.load, node.http2_port, 0, share, connections // len(providers))
                     for node in providers]
            for load in loads:
                load.result()
            seconds = time.monotonic() - began
        self.sent += share * len(providers)
        self.until_received()
        return (self.settled_cpu_seconds() - before) * 1e6 / (share * len(providers)), share * len(providers) / seconds

    def told(self, *keys):
        """Sums of what the fleets say of their devices."""
        said = [node.status() for node in self.nodes]
        return {key: sum(each.get(key, 0) for each in said) for key in keys}

    def until_received(self, unanswered=0, repeats=False, seconds=60):
        """Waits until the devices have all notifications that were accepted.

        They may have no others, except for those whose sender got no answer. A connection that ended may have repeated
        some; devices count these apart.
        """
        deadline = time.monotonic() + seconds
        while (found := self.told("received", "acknowledged", "duplicates"))["received"] < self.sent:
            check(time.monotonic() < deadline, f"{self.sent:,} were accepted, and the devices say {found}")
            time.sleep(0.05)
        check(found["received"] <= self.sent + unanswered, f"only {self.sent:,} were accepted, but devices say {found}")
        check(found["acknowledged"] == found["received"] and (repeats or not found["duplicates"]),
              f"the devices did not acknowledge each notification, once: {found}")
        self.sent = found["received"]

    def stop(self):
        for node in self.nodes[::-1]:
            node.fleet.stop()
            node.server.stop()


class Cluster(Group):
    """Nodes over one PostgreSQL server. The first ones serve at first, each one part of the devices, and the others are
    edges."""

    def __init__(self, options, folder, server, count, parts=1):
        folder.mkdir()
        self.options, self.folder, self.parts = options, folder, parts
        database = folder.name.replace("-", "_")
        server.sql(f"CREATE DATABASE {database}")
        super().__init__([Node(options, folder / "a")])
        self.nodes[0].found(server.address(database), parts)
        self.nodes[0].start()
        for name in "bcdef"[:count - 1]:
            self.until_serve()
            self.nodes.append(self.add(name))
        self.until_serve()

    def states(self):
        return {each["node"]: each["state"] for each in self.nodes[0].command("cluster", "nodes")}

    def until_serve(self, seconds=30):
        """Waits until the first nodes serve, and all others are edges."""
        self.until_states({node.name for node in self.nodes[:self.parts]}, seconds)

    def until_serves(self, name, seconds=30):
        """Waits until this node serves, and all others are edges."""
        self.until_states({name}, seconds)

    def until_states(self, serving, seconds):
        deadline = time.monotonic() + seconds
        wanted = {node.name: "serving" if node.name in serving else "standby" for node in self.nodes}
        while (found := self.states()) != wanted:
            check(time.monotonic() < deadline, f"the nodes are {found} instead of {wanted}")
            time.sleep(0.05)

    def add(self, name):
        """A further node, whose listeners are open."""
        node = Node(self.options, self.folder / name)
        node.join(self.nodes[0])
        node.start(pause=0.005)
        return node

    def remove(self, node):
        node.server.stop()
        self.nodes[0].command("cluster", "remove", node.name)
        shutil.rmtree(node.scratch)


@contextlib.contextmanager
def database(bench):
    """A PostgreSQL server without standbys: nodes differ in what they cost, not in what their database does."""
    place = f"/tmp/apus-bench-nodes-{bench.scratch.name}"
    server = Server(place)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(place, ignore_errors=True)
