#!/usr/bin/env python3
"""Memory of a connected, idle device, with mosquitto as the yardstick on the same machine.

    make bench ROWS=idle                           all rows
    Benchmarks/idle.py --sizes 5000 10000          other sizes, after `make release`

Each device has a client certificate (TLS 1.3). The figure is the server's memory with the given number plus 200
devices, minus its memory with 200, divided by the number: memory allocated once, or released after the start, cancels
out. Both times all devices have been silent for 25 seconds. Apus was restarted after the devices were registered,
because records written at a first registration stay in the engine's memory for a while, regardless of later
connections.

  user    private memory of the process (Private_Clean and Private_Dirty of /proc/<pid>/smaps_rollup).
  kernel  sockets, files, inodes, dentries and epoll items of /proc/slabinfo (readable by root), and the server's page
          tables. On loopback both ends of a connection are on this machine. The other end is measured with a control:
          as many plain connections between two processes that only watch them with epoll. Half of that is subtracted.
          Buffers of idle sockets are empty; /proc/net/sockstat, which shows this, is exact to a few megabytes only, so
          it is in the JSON but not in the sum.

Rows, for each size (10,000 devices; a process holds 20,000 descriptors here):
  user    Goal: 0.05 of mosquitto with require_certificate, and for the largest size under 1,024 bytes.
  all     user and kernel. Goal: 0.25 of mosquitto.
"""

import collections
import copy
import pathlib
import re
import sys
import time

sys.dont_write_bytecode = True
import harness
import mosquitto
from harness import LOAD_CPU, Process, say
from mosquitto import Mosquitto
from rows import Row, Suite

USER_GOAL, USER_BYTES_GOAL, ALL_GOAL = 0.05, 1024, 0.25
# Kernel caches used by a connection. The kmalloc caches are left out, because everything uses them.
SLABS = ["TCP", "sock_inode_cache", "dentry", "filp", "eventpoll_epi", "eventpoll_pwq"]
PAGE = 4096
FEW = 200

CONTROL_LISTENER = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=4096)
poll, taken = select.epoll(), []
while len(taken) < int(sys.argv[2]):
    taken.append(listener.accept()[0])
    poll.register(taken[-1], select.EPOLLIN)
print("complete", flush=True)
poll.poll()
"""
CONTROL_CONNECTOR = """
import select, socket, sys
poll, taken = select.epoll(), []
while len(taken) < int(sys.argv[2]):
    taken.append(socket.create_connection(("127.0.0.1", int(sys.argv[1]))))
    poll.register(taken[-1], select.EPOLLIN)
print("complete", flush=True)
poll.poll()
"""


def slabs():
    """Bytes of objects in use, by cache. Empty if slabinfo is not readable."""
    try:
        lines = pathlib.Path("/proc/slabinfo").read_text().splitlines()
    except PermissionError:
        return {}
    found = {}
    for line in lines[2:]:
        name, active, _, size = line.split()[:4]
        if name in SLABS:
            found[name] = int(active) * int(size)
    pages = re.search(r"^TCP:.* mem (\d+)", pathlib.Path("/proc/net/sockstat").read_text(), re.M)
    found["buffers"] = int(pages[1]) * PAGE
    return found


def settled_slabs():
    """Waits until memory pending for a kernel grace period is freed."""
    last = slabs()
    for _ in range(20):
        time.sleep(0.5)
        now = slabs()
        if all(abs(now[name] - last[name]) < 64 * 1024 for name in now):
            return now
        last = now
    return last


def user_bytes(process):
    rollup = pathlib.Path(f"/proc/{process.child.pid}/smaps_rollup").read_text()
    return sum(int(kilobytes) for kilobytes in re.findall(r"^Private_(?:Clean|Dirty):\s+(\d+)", rollup, re.M)) * 1024


def page_table_bytes(process):
    status = pathlib.Path(f"/proc/{process.child.pid}/status").read_text()
    return int(re.search(r"VmPTE:\s+(\d+)", status)[1]) * 1024


class Reading:
    """The current memory of a server."""

    def __init__(self, server):
        server.settled_cpu_seconds()
        self.user = user_bytes(server)
        self.tables = page_table_bytes(server)
        self.slabs = settled_slabs()

    def since(self, before, connections):
        """Bytes per connection: the server's user memory, and the kernel's memory of both ends by cache."""
        kernel = {name: (self.slabs[name] - before.slabs[name]) / connections for name in self.slabs}
        return (self.user - before.user) / connections, kernel, (self.tables - before.tables) / connections


class Idle(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.controls = {}

    def control(self, connections):
        """Kernel bytes for one end of a plain connection, by cache."""
        if connections not in self.controls:
            before, port = settled_slabs(), harness.free_port()
            programs = []
            for name, text in [("listener", CONTROL_LISTENER), ("connector", CONTROL_CONNECTOR)]:
                programs.append(Process([sys.executable, "-c", text, port, connections], [LOAD_CPU],
                                        self.scratch / f"{name}.log"))
                if name == "listener":
                    programs[0].wait_until(lambda: listens(port), "an open port")
            for program in programs:
                program.wait_until(lambda: "complete" in program.log.read_text(), "all plain connections")
            after = settled_slabs()
            for program in reversed(programs):
                program.stop()
            self.controls[connections] = {
                name: (after[name] - before[name]) / connections / 2 for name in after}
            say(f"  one end of a plain connection: {describe(self.controls[connections])}")
        return self.controls[connections]

    def measure(self, server, fleet, devices):
        """`fleet` connects so many devices. Returns a device's cost: user, kernel, and kernel by cache."""
        few = fleet(FEW)
        before = self.reading(server)
        few.stop()
        running = fleet(FEW + devices)
        user, both, tables = self.reading(server).since(before, devices)
        running.stop()
        own = self.control(devices)
        # The sockets of both ends are counted, which shows that no other sockets changed meanwhile.
        kernel = {name: both[name] - own[name] for name in both}
        kernel["page tables"] = tables
        say(f"  user {user:,.0f} bytes; kernel {describe(kernel)}")
        return user, total(kernel) if both else None, kernel

    def reading(self, server):
        time.sleep(self.options.settle)
        return Reading(server)

    def service(self, devices):
        """A service in a folder of its own, and what a device costs it."""
        folder = self.scratch / str(devices)
        folder.mkdir()
        service = harness.Bench(copy.copy(self.options), folder)
        service.provision()

        def fleet(size, *extra):
            service.options.devices = size
            return service.start_fleet(*extra)

        server = service.serve()
        fleet(FEW + devices, "--exit-after-registration")
        server.stop()
        server = service.serve()
        figures = self.measure(server, fleet, devices)
        server.stop()
        return service, figures

    def size(self, devices):
        say(f"\nidle, {devices:,} devices")
        service, (user, kernel, detail) = self.service(devices)
        broker = Mosquitto(service)
        server = broker.start()
        other_user, other_kernel, other_detail = self.measure(server, broker.subscribe, devices)
        server.stop()
        more = {"devices": devices, "kernel_bytes": kernel and round(kernel),
                "kernel": {name: round(value) for name, value in detail.items()},
                "mosquitto_kernel": {name: round(value) for name, value in other_detail.items()}}
        self.results.append(Row(f"idle.user-{devices}", "bytes/device", user, other_user, "mosquitto", USER_GOAL,
                                more=more))
        if devices == max(self.options.sizes):
            self.results.append(Row(f"idle.user-bytes-{devices}", "bytes/device", user, goal=USER_BYTES_GOAL))
        if kernel is None:
            return say("  /proc/slabinfo cannot be read: run as root for the rows with the kernel's memory")
        self.results.append(Row(
            f"idle.all-{devices}", "bytes/device", user + kernel, other_user + other_kernel, "mosquitto", ALL_GOAL,
            note=f"kernel {kernel:,.0f}; a million: {(user + kernel) * 1e6 / 2**30:.1f} GiB", more=more))

    def sizes(self):
        for devices in self.options.sizes:
            self.size(devices)


def listens(port):
    """Does not connect: a control must count only its own connections."""
    state = collections.Counter(line.split()[3] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
                                if line.split()[1].endswith(f":{port:04X}"))
    return state["0A"] > 0


def total(kernel):
    return sum(value for name, value in kernel.items() if name != "buffers")


def describe(kernel):
    return f"{total(kernel):,.0f} bytes (" + ", ".join(f"{n} {v:,.0f}" for n, v in kernel.items()) + ")"


def arguments(parser):
    parser.size("--sizes", [10_000], [300, 600], "devices", nargs="+")
    parser.size("--settle", 25, 2, "seconds of silence before memory is read")


SUITE = Suite(
    "idle", __doc__, Idle, tools=["openssl", *mosquitto.TOOLS], arguments=arguments,
    rows={"sizes": "memory of an idle device, by number of devices"})

if __name__ == "__main__":
    SUITE.main()
