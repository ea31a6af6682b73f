#!/usr/bin/env python3
"""Notifications stored in PostgreSQL per second, compared with the same groups through libpq alone.

    make bench ROWS=cluster              all rows
    Benchmarks/cluster.py --rows stored  one of them, after `make release`

A primary and two standbys of which one must have each group (`ANY 1`), all on this machine. `apus-bench engine` writes
records of stored notifications through the store, in groups; groups.c writes rows of the same size, with the same
statement and as many to a group, to a table of its own in the same server. Both make the next group while the server
works on the last one. Slices alternate, and both processors serve all of them: the figure is rows per second of real
time.

Rows:
  filled  while the tables grow
  stored  once all devices have a notification, which is replaced. Goal: 0.7 of libpq alone
"""

import json
import shutil
import sys

sys.dont_write_bytecode = True
import harness
from database import Server
from harness import output_of, say
from rows import Row, Suite

GOAL = 0.7
FRAME_BYTES, VALUE_BYTES, GROUP = 400, 438, 1000


class Cluster(harness.Bench):
    def provision(self):
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

    def measure(self):
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


def arguments(parser):
    parser.size("--stored", 500_000, 20_000, "stored notifications")
    parser.size("--frames", 100_000, 5_000, "notifications of a slice")


SUITE = Suite(
    "cluster", __doc__, Cluster,
    {"filled": "notifications stored in PostgreSQL while the tables grow", "stored": "the same, replaced"},
    measure=lambda bench: bench.measure(), arguments=arguments, tools=["clang"])

if __name__ == "__main__":
    SUITE.main()
