#!/usr/bin/env python3
"""What a cluster costs: its database, its links, and a node that comes or is drained.

    make bench ROWS=cluster              all rows
    Benchmarks/cluster.py --rows stored  one of them, after `make release`

Rows about the database, compared with the same groups through libpq alone:
  filled  notifications stored in PostgreSQL a second while the tables grow
  stored  the same once all devices have a notification, which is replaced. Goal: 0.7 of libpq alone

A primary and two standbys of which one must have each group (`ANY 1`), all on this machine. `apus-bench engine` writes
records of stored notifications through the store, in groups; groups.c writes rows of the same size, with the same
statement and as many to a group, to a table of its own in the same server. Both make the next group while the server
works on the last one. Slices alternate, and both processors serve all of them: the figure is rows per second of real
time.

Rows about links, the CPU time of all nodes (not of the database) for each notification of 256 bytes that one of 1,000
connected devices acknowledges. h2load sends them (6 connections of 100 streams) with expiration 0: nothing is stored,
which in a cluster would be the database's work.
  local             provider and devices at the node that serves of two, compared with a service alone and its
                    embedded store. Goal: 1.02.
  link              both at the edge, compared with `local`. Goal: 2.0.
  provider-at-edge  the provider at the edge, the devices at the node that serves. Goal: 2.0 of `local`.
  nodes-1, -2, -3   a cluster of so many nodes, with providers and devices spread over all of them, compared with the
                    first; `-rate` is notifications a second. All nodes share processor 0, so these rows show what
                    nodes cost, and not what machines of their own would add.
  divided-2, -3     the same, and each node serves one part of the devices.
Each notification must be answered with 200 and acknowledged by one device, once. Nodes have one worker.

Rows about changes: three nodes, 5,000 connected devices spread over them, and a provider at an edge that sends 500
notifications of 400 bytes a second.
  join   a fourth node joins. `-seconds` is the time until it has answered a provider, commands included.
  drain  the node that serves is drained. `-seconds` is the time until another one serves, `-connected` until all
         devices are connected again, because their connections end at these two nodes, and `-cpu` what all nodes
         spend meanwhile, for each device. `-kept` are devices that keep their connections. `-attempts` and `-resumed`
         are as in storm.py, for the others.
For both, `-errors` are notifications that were not accepted (goal: none), and `-request` is the p99 of the responses to
the provider meanwhile, compared with undisturbed ones.
"""

import json
import shutil
import sys

sys.dont_write_bytecode = True
import harness
import links
import takeover
from database import Server
from harness import output_of, say
from rows import Row, Suite

GOAL = 0.7
FRAME_BYTES, VALUE_BYTES, GROUP = 400, 438, 1000


class Cluster(harness.Bench):
    def provision(self):
        pass

    def start_servers(self):
        self.groups = self.compile("groups.c", "groups", "-lpq")
        self.place = f"/tmp/apus-bench-database-{self.scratch.name}"
        settings = ["shared_buffers=256MB", "max_wal_size=4GB", "wal_compression=lz4"]
        self.servers = [Server(f"{self.place}/primary", *settings)]
        primary = self.servers[0]
        for name in ["s1", "s2"]:
            self.servers.append(Server(f"{self.place}/{name}", *settings, standby_of=primary))
        primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (s1, s2)'")
        primary.sql("SELECT pg_reload_conf()")
        for name in ["apus", "libpq"]:
            primary.sql(f"CREATE DATABASE {name}")

    def close(self):
        for server in self.servers[::-1]:
            server.stop()
        shutil.rmtree(self.place, ignore_errors=True)

    def write(self, first, count):
        """Rows per second of the store, and of libpq."""
        address = self.servers[0].address("apus")
        apus = json.loads(output_of(
            self.apus_bench, "engine", "--store", address, "--devices", self.options.stored, "--first", first,
            "--notifications", count, "--group", GROUP, "--frame-bytes", FRAME_BYTES))
        libpq = json.loads(output_of(
            self.groups, self.servers[0].address("libpq"), self.options.stored, first, count, GROUP, VALUE_BYTES))
        rates = count / apus["seconds"], count / libpq["seconds"]
        say(f"  store {rates[0]:9,.0f} /s   libpq {rates[1]:9,.0f} /s")
        return rates

    def measure_database(self):
        self.start_servers()
        try:
            part = self.options.stored // 5
            filled = [self.write(place * part, part) for place in range(5)]
            self.add("filled", filled, None)
            stored = [self.write(place * self.options.frames, self.options.frames)
                      for place in range(self.options.slices)]
            self.add("stored", stored, GOAL)
        finally:
            self.close()

    def add(self, name, rates, goal):
        if name in self.options.rows:
            self.results.append(Row(
                f"cluster.{name}", "/s", [rate for rate, _ in rates], [rate for _, rate in rates], "libpq alone",
                goal=goal, better="higher"))

    def measure(self):
        parts = {self.measure_database: ["filled", "stored"], lambda: links.measure_paths(self): links.PATHS,
                 lambda: links.measure_sizes(self): links.SIZES, lambda: takeover.measure(self): takeover.CHANGES}
        for part, rows in parts.items():
            if set(rows) & set(self.options.rows):
                part()


def arguments(parser):
    parser.size("--stored", 500_000, 20_000, "stored notifications")
    parser.size("--frames", 100_000, 5_000, "notifications of a slice of `stored`")
    parser.size("--messages", 36_000, 3_000, "notifications of a slice of `link` and others")
    parser.size("--devices", 1000, 60, "devices of `link` and others")
    parser.size("--moving", 5000, 90, "devices of `join` and `drain`")
    parser.size("--changes", 2, 1, "slices of `join` and `drain`")
    parser.size("--seconds", 3, 2, "seconds for which the undisturbed provider sends")


SUITE = Suite(
    "cluster", __doc__, Cluster, measure=lambda bench: bench.measure(), arguments=arguments, slices=3,
    tools=["clang", "h2load", "openssl", "taskset"], rows={
        "filled": "notifications stored in PostgreSQL while the tables grow", "stored": "the same, replaced",
        "local": "delivered at the node that serves of a cluster", "link": "delivered at an edge",
        "provider-at-edge": "from a provider at an edge to devices at the node that serves",
        "nodes-1": "providers and devices at the node of a cluster of one", "nodes-2": "of two", "nodes-3": "of three",
        "divided-2": "of two that both serve", "divided-3": "of three that all serve",
        "join": "a node joins, with many devices connected", "drain": "the node that serves is drained"})

if __name__ == "__main__":
    SUITE.main()
