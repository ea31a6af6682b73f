#!/usr/bin/env python3
"""Hits three nodes of a service, and their database, with faults under load, and accounts for all that was accepted.

    Tests/Crash/cluster.py [--faults N] [--seed N] [--rate N] [--links on|off] [--parts 1|2] [--databases 1|2]

One or two primaries with two standbys each, three nodes with addresses of their own, and HAProxy in front of them, all
on this machine. Faults come one after the other, each once everything is whole again. Meanwhile providers and devices
go on over HTTP/2 and the binary interface, jobs push to many devices, channels have broadcasts, an app's notifications
go to an upstream service, commands change what nodes share, and a webhook's receiver gets the end of each notification.
Run as root, it has a network namespace of its own, in which links between nodes are cut, too. In the end, each
accepted notification must have been delivered, or replaced by a newer one, or discarded with a reason; none may have
come to another device; and all nodes must have each change. Prints the counts as JSON. After a violation the directory
is kept.
"""

import argparse
import asyncio
import collections
import json
import logging
import math
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from cluster_account import Account
from cluster_channels import Channels
from cluster_devices import ALONE, BUSY
from cluster_jobs import GROUP, tag
from cluster_load import Load
from cluster_network import Network, enter
from cluster_nodes import PATIENCE, ROOT, TOPIC, Cluster, Violation, free_ports, until
from cluster_relay import RelayedSender
from cluster_watch import Commands, Receiver

from apus_device import Identity

# Seconds for which a node is frozen, and the database.
FROZEN, DATABASE_FROZEN = 8, 3
# Seconds for which links are cut: longer than pushes wait for one, shorter than clients' links may be silent.
LINKS_CUT = 8
# Seconds between two faults, and before a killed node is started again.
PAUSE, DOWN = (0.5, 2), (0, 4)
# Seconds without any news after which what is missing is lost.
GATHERING = 15


def say(text):
    print(text, file=sys.stderr, flush=True)


class Faults:
    """Each fault returns once it is over; what it hit may not be whole again."""

    def __init__(self, cluster, account, chance, network):
        self.cluster, self.account, self.chance, self.network = cluster, account, chance, network
        self.kinds = {
            "serving node killed": self.kill_serving, "serving node and its successor killed": self.kill_two,
            "serving node frozen": self.freeze, "serving node drained": self.drain,
            "standby node killed": self.kill_standby, "primary lost": self.fail_over,
            "connections ended": self.end_connections, "database frozen": self.freeze_database}
        self.has_links = "link" in cluster.nodes[0].ports
        if self.has_links and network.can_cut:
            self.kinds["links cut"] = self.cut_links

    def interrupt(self):
        """Another node may go on with the connections of devices at edges from now on. Returns the time."""
        begin = time.monotonic()
        if self.has_links:
            self.account.interruptions.append(begin)
        return begin

    def kill(self, node):
        begin, was_serving = self.interrupt(), node.state == "serving"
        node.signal(signal.SIGKILL)
        if was_serving:
            self.account.losses.append((begin, time.monotonic()))

    def any_serving(self):
        return self.cluster.serving_part(self.chance.randrange(self.cluster.parts))

    def kill_serving(self):
        node = self.any_serving()
        self.kill(node)
        time.sleep(self.chance.uniform(*DOWN))
        node.start()

    def kill_two(self):
        first = self.any_serving()
        part = first.part
        self.kill(first)
        second = self.cluster.serving_part(part)
        self.kill(second)
        time.sleep(self.chance.uniform(*DOWN))
        second.start()
        first.start()

    def kill_standby(self):
        node = self.chance.choice(self.cluster.in_state("standby"))
        self.kill(node)
        time.sleep(self.chance.uniform(*DOWN))
        node.start()

    def freeze(self):
        node, begin = self.any_serving(), self.interrupt()
        self.account.frozen.append((begin, math.inf))
        node.signal(signal.SIGSTOP)
        time.sleep(FROZEN)
        node.signal(signal.SIGCONT)
        until(lambda: node.state != "serving", f"{node.name} to step down")
        self.account.frozen[-1] = begin, time.monotonic() + 1
        self.account.losses.append((begin, time.monotonic()))

    def drain(self):
        node = self.any_serving()
        anywhere = self.chance.choice(self.cluster.nodes)
        self.interrupt()
        anywhere.run("cluster", "drain", node.name)
        time.sleep(self.chance.uniform(0, 2))
        anywhere.run("cluster", "resume", node.name)

    def end_connections(self):
        name = self.any_serving().name
        if sum(database.end_connections(name) for database in self.cluster.databases) == 0:
            raise Violation("the node that serves has no connection to the database")

    def any_database(self):
        databases = self.cluster.databases
        return databases[0] if len(databases) == 1 else self.chance.choice(databases)

    def fail_over(self):
        self.any_database().fail_over()

    def freeze_database(self):
        self.any_database().freeze(DATABASE_FROZEN)

    def cut_links(self):
        """Each node still has its lease: nobody takes over."""
        port, begin = self.cluster.nodes[0].ports["link"], self.interrupt()
        self.account.cuts.append((begin, math.inf))
        self.network.cut(port)
        time.sleep(LINKS_CUT)
        self.network.heal(port)
        # What is still on its way is sent once more.
        self.account.cuts[-1] = begin, time.monotonic() + 2


class Run:
    def __init__(self, options, folder, network):
        self.options, self.folder, self.begin = options, folder, time.monotonic()
        self.chance = random.Random(options.seed)
        by_chance = self.chance.choice([(False, 1, 1), (True, 1, 1), (True, 2, 1), (True, 2, 2)])
        parts = options.parts or (1 if options.links == "off" else by_chance[1])
        databases = min(parts, options.databases or by_chance[2])
        self.has_links = parts > 1 or (by_chance[0] if options.links is None else options.links == "on")
        self.account = Account(options.seed, TOPIC, ALONE, parts)
        self.account.has_links = self.has_links
        say(f"  links between nodes: {'on' if self.has_links else 'off'}; nodes that serve: {parts}; "
            f"databases: {databases}")
        releases = [options.bin] + ([options.other_bin] if options.other_bin else [])
        self.cluster = Cluster(
            folder, releases, self.has_links, parts, databases, random.Random(options.seed))
        self.faults = Faults(self.cluster, self.account, self.chance, network)
        #: Kind, begin, and the end of its effects, by the monotonic clock.
        self.history = []
        #: Kinds that come next, the last one first.
        self.deck = []
        self.receiver = Receiver(free_ports(1, ["127.0.0.1"])[0])
        self.channels = Channels(self.account, self.chance.getrandbits(32))
        self.relay = RelayedSender(folder, options.bin, self.account, self.chance.getrandbits(32))

    def provision(self, node):
        node.run("app", "--change", TOPIC, "--broadcast", "on")
        node.run("app", "--add", GROUP)
        self.relay.provision(node)
        [self.files] = node.run("cert", "--topic", TOPIC)
        self.identities = []
        for number in range(ALONE + BUSY):
            [issued] = node.run("device", "add", "--name", f"device-{number}", "--tag", tag(number))
            self.account.device_ids.append(issued["device_id"])
            self.identities.append(Identity.join(
                self.folder / f"device-{number}.pem", issued["certificate_file"], issued["key_file"]))
        node.run("webhook", "add", self.receiver.address, "--event", "notification.finished")

    async def perform(self):
        await asyncio.to_thread(self.cluster.make, self.provision)
        for node in self.cluster.nodes:
            node.served = self.account.takeovers
        await self.receiver.start()
        await asyncio.to_thread(self.channels.make, self.cluster.serving, ALONE + BUSY)
        self.relay.connect(self.cluster)
        load = Load(self.account, self.cluster, self.channels, self.relay, self.files, self.identities,
                    self.options.seed, self.options.rate)
        self.load = load
        load.jobs.account.device_ids = self.account.device_ids
        await load.start()
        say(f"  three nodes have all devices after {time.monotonic() - self.begin:.1f} s")
        commands = Commands(self.cluster, self.chance.getrandbits(32))
        changing = asyncio.create_task(commands.run())
        for number in range(self.options.faults):
            await load.pause(self.chance.uniform(*PAUSE))
            await self.apply(number, load)
        self.account.phase = "end"
        begin = time.monotonic()
        commands.is_ending = True
        await changing
        longest = await load.finish()
        finished = time.monotonic()
        await load.gather(GATHERING)
        gathered = time.monotonic()
        await self.judge(commands)
        say(f"  all came to an end after {finished - begin:.1f} s, longest {longest}; devices had everything "
            f"{gathered - finished:.1f} s later, and it was judged in {time.monotonic() - gathered:.1f} s")
        await load.stop()

    async def apply(self, number, load):
        # Each kind once, in another order each time.
        if not self.deck:
            self.deck = self.chance.sample(list(self.faults.kinds), len(self.faults.kinds))
        kind = self.deck.pop()
        self.account.phase = kind
        begin = time.monotonic()
        await asyncio.to_thread(self.faults.kinds[kind])
        await asyncio.to_thread(until, self.cluster.is_whole, f"three nodes and three servers after \"{kind}\"")
        end = time.monotonic()
        while not all(times and times[-1] >= end for times in self.account.accepted_times):
            await load.pause(0.02)
            if time.monotonic() > end + PATIENCE:
                raise Violation(f"nothing was accepted within {PATIENCE} s after \"{kind}\": {load.standing()}")
        end = max(times[-1] for times in self.account.accepted_times)
        self.history.append((kind, begin, end))
        serving = ", ".join(sorted(node.name for node in self.cluster.in_state("serving")))
        say(f"  {number + 1:3} {kind}: {self.interruption(begin, end):.2f} s without an accepted push; "
            f"{serving} serve; {len(self.account.entries)} sent")

    def interruption(self, begin, end):
        """The longest time without an accepted push to a part of the devices."""
        longest = 0
        for accepted in self.account.accepted_times:
            times = [begin, *(moment for moment in accepted if begin < moment <= end), end]
            longest = max(longest, *(later - earlier for earlier, later in zip(times, times[1:])))
        return longest

    async def judge(self, commands):
        self.commands = commands
        serving = self.cluster.serving
        lines = await asyncio.to_thread(serving.run, "log", "--limit", "100000000")
        counts = await asyncio.to_thread(serving.run, "log", "--counts")
        (self.folder / "ledger").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        await self.receiver.settle()
        await self.relay.close(lines)
        await asyncio.to_thread(self.load.jobs.judge)
        self.channels.judge()
        for account in self.load.accounts.values():
            account.close(lines, counts)
        await asyncio.to_thread(commands.judge, self.account)
        self.receiver.judge(self.load.accounts.values())
        self.account.violations += self.load.jobs.account.violations
        for node in self.cluster.nodes:
            for code in node.ends:
                if code <= 0:
                    self.account.violate(f"{node.name} ended by itself with {code}: see {node.log}")

    def summary(self):
        times = collections.defaultdict(list)
        for kind, begin, end in self.history:
            times[kind].append(self.interruption(begin, end))
        errors = collections.defaultdict(dict)
        for (phase, what), count in sorted(self.account.errors.items()):
            errors[phase][what] = count
        totals = {}
        for part in self.load.parts:
            totals |= part.totals()
        return {
            "seed": self.options.seed, "faults": len(self.history), "seconds": round(time.monotonic() - self.begin),
            "interruption_seconds": {kind: seconds(times[kind]) for kind in sorted(times)},
            "provider_errors": errors, **self.account.totals(), **totals, **self.commands.totals(),
            **self.receiver.totals(),
            "restarts_by_supervisor": sum(len(node.ends) for node in self.cluster.nodes),
        }


def seconds(values):
    values = sorted(values)

    def quantile(share):
        return round(values[min(len(values) - 1, math.ceil(share * len(values)) - 1)], 2)
    return {"count": len(values), "p50": quantile(0.5), "p99": quantile(0.99)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=100, help="number of faults (100)")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000), help="of what happens")
    parser.add_argument("--links", choices=["on", "off"], help="whether every node accepts clients (by the seed)")
    parser.add_argument("--parts", type=int, choices=[1, 2],
                        help="parts of the devices, each with a node that serves; 2 need links (by the seed)")
    parser.add_argument("--databases", type=int, choices=[1, 2], help="with 2, part 1 has its own (by the seed)")
    parser.add_argument("--rate", type=int, default=150, help="pushes that are due per second (150)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    parser.add_argument("--other-bin", type=pathlib.Path,
                        help="of another release: each start of a node takes the one or the other")
    options = parser.parse_args()
    enter()
    network = Network()
    say(f"cluster.py: seed {options.seed}")
    # It warns of each write to a connection that has just ended.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="apus-cluster-", dir="/tmp"))
    # The database's user must reach its servers' directories.
    folder.chmod(0o755)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    violations = []
    run = Run(options, folder, network)
    try:
        asyncio.run(run.perform())
        print(json.dumps(run.summary()), flush=True)
    except Violation as violation:
        violations = [str(violation)]
    except subprocess.CalledProcessError as error:
        violations = [f"apus {' '.join(error.cmd)}: {error.returncode} {error.stderr}"]
    finally:
        run.cluster.stop()
        run.relay.stop()
    violations += run.account.violations
    if violations:
        (folder / "violations").write_text("\n".join(violations) + "\n")
        shown = "\n".join(violations[:30])
        sys.exit(f"cluster.py: seed {options.seed}, {len(violations)} violations\n{shown}\n"
                 f"The directory is kept: {folder}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
