"""What else a fault run looks at: changes of what nodes share, and the events that a webhook's receiver gets."""

import asyncio
import json
import random
import subprocess
import time

from cluster_account import TAKEN
from cluster_nodes import Violation, until

# Seconds between two commands.
PAUSE = 0.5, 3


class Commands:
    """Changes what all nodes share, on any node that is not frozen, and remembers what was acknowledged."""

    def __init__(self, cluster, seed):
        self.cluster, self.random = cluster, random.Random(seed)
        self.is_ending = False
        self.teams, self.devices, self.codes = set(), set(), set()
        self.refused = []

    async def run(self):
        count = 0
        while not self.is_ending:
            await asyncio.sleep(self.random.uniform(*PAUSE))
            count += 1
            command = self.random.choice([self.add_team, self.add_device, self.add_code])
            node = self.random.choice(self.cluster.nodes)
            try:
                await asyncio.to_thread(command, node, f"change-{count}")
            except subprocess.CalledProcessError as error:
                # Without the database nothing can be changed. It may have been, if the answer was lost.
                self.refused.append(error.stderr)

    def add_team(self, node, name):
        node.run("team", "--add", name)
        self.teams.add(name)

    def add_device(self, node, name):
        node.run("device", "add", "--name", name)
        self.devices.add(name)

    def add_code(self, node, name):
        [made] = node.run("code", "--name", name)
        self.codes.add(made["sha256"])

    def judge(self, account):
        """Each acknowledged change must be on each node, and all must have the same directory."""
        contents = set()

        def agree():
            contents.clear()
            contents.update((node.data / "directory.conf").read_text() for node in self.cluster.nodes)
            return len(contents) == 1
        try:
            until(agree, "the same directory.conf on all nodes", 5)
        except Violation as violation:
            account.violate(str(violation))
        for node in self.cluster.nodes:
            known = {
                "team": (self.teams, {row["name"] for row in node.run("team")}),
                "device": (self.devices, {row["name"] for row in node.run("device", "list")}),
                "code": (self.codes, {row["sha256"] for row in node.run("code", "--list")})}
            for kind, (made, found) in known.items():
                for name in made - found:
                    account.violate(f"the {kind} {name} was made, and {node.name} does not have it")

    def totals(self):
        return {"changes": len(self.teams | self.devices | self.codes), "changes_refused": len(self.refused)}


class Receiver:
    """The receiver of a webhook for the ends of notifications."""

    def __init__(self, port):
        self.port, self.address = port, f"http://127.0.0.1:{port}/events"
        self.events, self.gaps, self.repeated = {}, [], 0
        #: How many events gaps say are missing, where they know.
        self.missed = 0
        #: Ids that came with different events.
        self.reused = []

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
                for event in json.loads(await reader.readexactly(int(fields["content-length"])))["events"]:
                    self.take(event)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    def take(self, event):
        known = self.events.setdefault(event["id"], event)
        if known is not event:
            self.repeated += 1
            if known != event:
                self.reused.append((known, event))
            return
        if event["event"] == "gap":
            self.gaps.append(time.monotonic())
            self.missed += event.get("missed", 0)

    async def settle(self):
        """Waits until there are no more events."""
        count = None
        while count != len(self.events):
            count = len(self.events)
            await asyncio.sleep(5)

    def judge(self, accounts):
        """Each end is told once. One whose node was lost may be missing, if a gap was told since. It may also be told
        again: by the device, for each time that it got the notification, or because the lost node told it before it
        was written."""
        self.missing, untold = 0, []
        for account in accounts:
            for known, event in self.reused:
                account.violate(f"the webhook got other events with the same id: {known} and {event}")
            ends = account.ends((event["apns_id"], event) for event in self.events.values()
                                if event["event"] == "notification.finished")
            for number, entry in enumerate(account.entries):
                untold += self.compare(account, number, entry, ends.get(entry.id, []))
        # While the database is away events are not written, and counted.
        if len(untold) > self.missed:
            for account, number, entry in untold:
                account.violate(f"the webhook did not get the end of {number}: {entry}")

    def compare(self, account, number, entry, states):
        """What must have been told, and was not."""
        delivered = sum(state in TAKEN for state in states)
        if len(states) > 1 and not account.may_end_again(entry, states) \
                and (delivered > entry.taken or not account.may_lack_line(entry)):
            account.violate(f"the webhook got several ends of {number}, {states}: {entry}")
        if entry.outcome != "accepted" or states:
            return []
        self.missing += 1
        if account.may_lack_line(entry) and any(gap > entry.sent_time for gap in self.gaps):
            return []
        return [(account, number, entry)]

    def totals(self):
        return {"events": len(self.events), "events_repeated": self.repeated, "gaps": len(self.gaps),
                "events_missed": self.missed, "ends_without_event": self.missing}
