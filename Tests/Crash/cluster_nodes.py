"""What a fault run is about: three nodes of a service, one or two databases with two standbys each, and HAProxy."""

import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
from database import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOPIC = "com.example.app"
# Seconds within which whatever was hit must be whole again.
PATIENCE = 60


class Violation(Exception):
    """The service, or one of its parts, did what it must not do."""


def until(condition, what, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise Violation(f"{what}: not within {seconds} s")
        time.sleep(0.02)
    return found


def free_ports(count, hosts):
    """Ports that are free at all hosts, below those of outgoing connections."""
    found = []
    while len(found) < count:
        port = random.randrange(10_000, 32_000)
        try:
            for host in hosts:
                with socket.socket() as probe:
                    probe.bind((host, port))
        except OSError:
            continue
        if port not in found:
            found.append(port)
    return found


class Database:
    """A primary and two standbys, of which one must have each group before it is acknowledged."""

    NAMES = ["s1", "s2", "s3"]

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        # The servers' user must reach them.
        folder.chmod(0o755)
        self.primary = Server(folder / "s1")
        self.primary.sql(f"ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({', '.join(self.NAMES)})'")
        self.standbys = [Server(folder / name, standby_of=self.primary) for name in self.NAMES[1:]]
        self.primary.sql("SELECT pg_reload_conf()")
        self.primary.sql("CREATE DATABASE apus")

    @property
    def address(self):
        hosts = ",".join(f"{self.folder}/{name}" for name in self.NAMES)
        return f"postgresql:///apus?host={hosts}&user=postgres"

    def is_whole(self):
        return int(self.primary.sql("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'")) == 2

    @staticmethod
    def processes(server):
        """The server's process and all that it started."""
        parent = server.process.pid
        children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text()
        return [parent, *map(int, children.split())]

    def signal_all(self, server, number):
        for process in self.processes(server):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def fail_over(self):
        """Kills the primary, promotes the standby that has most, and makes the others its standbys. The old primary's
        directory is lost, as its machine would be."""
        old = self.primary
        # Stopped first, so that it starts no process meanwhile.
        os.kill(old.process.pid, signal.SIGSTOP)
        self.signal_all(old, signal.SIGKILL)
        old.process.wait()
        self.standbys.sort(key=self.received)
        self.primary = self.standbys.pop()
        self.primary.sql("SELECT pg_promote()")
        for server in self.standbys:
            server.sql(f"ALTER SYSTEM SET primary_conninfo = 'host={self.primary.directory} user=postgres "
                       f"application_name={server.directory.name}'")
            server.sql("SELECT pg_reload_conf()")
        old.stop()
        self.standbys.append(Server(old.directory, standby_of=self.primary))

    @staticmethod
    def received(server):
        return int(server.sql("SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')"))

    def end_connections(self, node):
        """Returns how many there were."""
        return int(self.primary.sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            f"WHERE application_name LIKE 'apus/{node}/%' OR application_name LIKE 'apus-cluster/{node}/%'"))

    def freeze(self, seconds):
        self.signal_all(self.primary, signal.SIGSTOP)
        time.sleep(seconds)
        self.signal_all(self.primary, signal.SIGCONT)

    def stop(self):
        for server in [*self.standbys, self.primary]:
            server.stop()


class Node:
    """A node with its data directory and its own address. It is started again if it ends by itself, as a supervisor
    does."""

    def __init__(self, name, host, folder, releases, ports, chance):
        self.name, self.host, self.data, self.ports = name, host, folder / name, ports
        #: The folders of the programs that it may have, and of those that it has now.
        self.releases, self.programs, self.chance = releases, releases[0], chance
        self.process, self.is_killed, self.state = None, False, "stopped"
        self.log = folder / f"{name}.log"
        #: Why it ended by itself.
        self.ends = []
        #: Which part of the devices it has, if it serves; and when it began to, by the monotonic clock, with the part.
        self.part = None
        self.served = []

    def run(self, *arguments):
        """What a command prints as JSON, one object a line; raises `subprocess.CalledProcessError`."""
        done = subprocess.run(
            [self.programs / "apus", *arguments, "--data", self.data, "--json"], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, arguments, done.stdout, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def start(self):
        options = [f"--{kind}-listen={self.host}:{self.ports[kind]}" for kind in ["http2", "courier", "feedback"]]
        options.append(f"--gateway-listen={self.host}:{self.ports['gateway']},"
                       f"{self.host}:{self.ports['gateway-confirm']}+confirm")
        if "link" in self.ports:
            options.append(f"--link-listen={self.host}:{self.ports['link']}")
        options += [f"--{kind}-development-listen=off" for kind in ["http2", "courier", "gateway", "feedback"]]
        self.is_killed, self.state = False, "starting"
        self.programs = self.chance.choice(self.releases)
        with open(self.log, "ab") as errors:
            self.process = subprocess.Popen(
                [self.programs / "apus", "serve", "--data", self.data, "--json", "--log-format", "json", *options],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        threading.Thread(target=self.watch, args=[self.process], daemon=True).start()

    def watch(self, process):
        """Follows what the node says of itself."""
        for line in process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            event = said.get("event")
            if event == "ready":
                self.part = said["part"]
                self.served.append((self.part, time.monotonic()))
            self.state = {"ready": "serving"}.get(event, event)
        code = process.wait()
        self.state = "stopped"
        if not self.is_killed:
            self.ends.append(code)
            if code > 0:
                time.sleep(0.5)
                self.start()

    def signal(self, number):
        self.is_killed |= number in (signal.SIGKILL, signal.SIGTERM)
        self.process.send_signal(number)
        if self.is_killed:
            self.process.wait()
            self.state = "stopped"

    @property
    def is_alive(self):
        return self.process is not None and self.process.poll() is None


class Balancer:
    """HAProxy, in the way of Documentation/cluster.md, with checks of short intervals."""

    #: A check of the binary interface would need a certificate, so the other listener of the same node is asked.
    PROTOCOLS = {"http2": "check-alpn h2", "courier": "check-alpn apus-courier/1"}
    HEAD = """
        defaults
          mode tcp
          timeout connect 2s
          timeout client 1h
          timeout server 1h
          timeout check 2s
          default-server check check-ssl verify none inter 200ms fall 2 rise 1 on-marked-down shutdown-sessions
          retries 10
          option redispatch 1
        """

    def __init__(self, folder, nodes, ports):
        text = self.HEAD
        other = f"check-alpn h2 port {ports['http2']}"
        for kind, port in ports.items():
            text += f"listen {kind}\n  bind 127.0.0.1:{port}\n"
            text += "".join(
                f"  server {node.name} {node.host}:{port} {self.PROTOCOLS.get(kind, other)}\n" for node in nodes)
        (folder / "haproxy.cfg").write_text(text)
        with open(folder / "haproxy.log", "wb") as log:
            self.process = subprocess.Popen(
                ["/usr/sbin/haproxy", "-db", "-q", "-f", folder / "haproxy.cfg"], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Cluster:
    def __init__(self, folder, releases, has_links, parts, databases, chance):
        """With links each node accepts clients, and the balancer sends some to all of them. With two databases, part 1
        is in the second. Each start of a node takes one of the releases, which are folders of programs."""
        self.folder, self.parts = folder, parts
        hosts = [f"127.0.0.{number}" for number in range(1, 5)]
        kinds = ["http2", "courier", "gateway", "gateway-confirm", "feedback"]
        self.ports = dict(zip(kinds, free_ports(len(kinds), hosts)))
        ports = dict(self.ports)
        if has_links:
            [ports["link"]] = free_ports(1, hosts)
        self.nodes = [Node(name, host, folder, releases, ports, chance) for name, host in zip("abc", hosts[1:])]
        self.databases = [Database(folder / f"database-{number}") for number in range(databases)]
        self.balancer = None

    def make(self, prepare):
        """Makes the first node, of which `prepare` makes what clients need, and the others."""
        first, *others = self.nodes
        first.run("init", "--name", "localhost", "--topic", TOPIC)
        prepare(first)
        [made] = first.run("cluster", "init", "a", "--store", self.databases[0].address, "--address", first.host,
                           "--parts", str(self.parts))
        code = made["code"]
        for node in others:
            node.run("cluster", "join", node.name, "--store", self.databases[0].address, "--address", node.host,
                     "--code", code)
            [invitation] = first.run("cluster", "invite")
            code = invitation["code"]
        for part, database in enumerate(self.databases[1:], start=1):
            first.run("cluster", "move", str(part), "--store", database.address)
        self.balancer = Balancer(self.folder, self.nodes, self.ports)
        for node in self.nodes:
            node.start()
            until(lambda: node.state in ("serving", "standby"), f"the start of {node.name}")

    def in_state(self, state):
        return [node for node in self.nodes if node.state == state]

    @property
    def serving(self):
        """The node that has what exists once; waits until each part has its node."""
        return self.serving_part(0)

    def serving_part(self, part):
        def found():
            nodes = self.in_state("serving")
            return next((node for node in nodes if node.part == part), None) if len(nodes) == self.parts else None
        return until(found, f"a node that serves part {part}")

    def is_whole(self):
        return (len(self.in_state("serving")) == self.parts
                and len(self.in_state("standby")) == len(self.nodes) - self.parts
                and all(database.is_whole() for database in self.databases))

    def stop(self):
        for node in self.nodes:
            if node.is_alive:
                node.signal(signal.SIGCONT)
                node.signal(signal.SIGKILL)
        if self.balancer:
            self.balancer.stop()
        for database in self.databases:
            database.stop()
