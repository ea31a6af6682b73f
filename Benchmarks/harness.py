"""Shared parts of the benchmarks: pinned processes with their CPU time, a service with its devices, the machine."""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Debian installs mosquitto here, which is not on every user's PATH.
os.environ["PATH"] += ":/usr/sbin"
SERVER_CPU, LOAD_CPU = 0, 1
TOPIC = "com.example.app"


def die(message):
    """Ends the script. A program that crashed is the likely cause of whatever failed, so its output is shown."""
    crashed = [process for process in Process.everyone if process.has_crashed()]
    causes = "".join(f"\n{process.name} crashed with {process.child.returncode}. {process.tail()}"
                     for process in crashed if process.tail() not in message)
    sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {message}{causes}")


def check(condition, message):
    if not condition:
        die(message)


class Process:
    """A child process pinned to processors. Its output goes to a file, whose end is shown if the child fails."""

    everyone = []

    def __init__(self, arguments, cpus, log, environment=None, niceness=0, descriptors=None, idle=False,
                 urgent=False):
        self.name = " ".join([pathlib.Path(arguments[0]).name, *map(str, arguments[1:2])])
        self.log = pathlib.Path(log)
        with open(self.log, "wb") as output:
            self.child = subprocess.Popen(
                [str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                preexec_fn=lambda: self._prepare(cpus, niceness, descriptors, idle, urgent))
        Process.everyone.append(self)

    @staticmethod
    def _prepare(cpus, niceness, descriptors, idle, urgent):
        os.sched_setaffinity(0, cpus)
        os.nice(niceness)
        if idle:
            # Any other process preempts it at once.
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        if urgent and may_be_urgent():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        # The child is killed when this script ends, however it ends.
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)

    def cpu_seconds(self):
        # The process's CPU clock (clock_getcpuclockid): utime + stime of /proc/<pid>/stat in nanoseconds, not in ticks.
        return time.clock_gettime_ns((~self.child.pid << 3) | 2) / 1e9

    def settled_cpu_seconds(self):
        """The CPU time once the server is idle, so that work after its responses (such as compaction) is included."""
        last = self.cpu_seconds()
        for _ in range(100):
            time.sleep(0.1)
            now = self.cpu_seconds()
            if now - last < 0.001:
                return now
            last = now
        return last

    def wait_until(self, condition, what, seconds=120, pause=0.05):
        deadline = time.monotonic() + seconds
        while not condition():
            check(self.child.poll() is None, f"{self.name} ended with {self.child.returncode}. {self.tail()}")
            check(time.monotonic() < deadline, f"{self.name}: {what} not within {seconds} s. {self.tail()}")
            time.sleep(pause)

    def has_crashed(self):
        # Its connections may close a moment before the process has ended.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.child.wait(0.5) < 0
        return False

    def tail(self):
        # A crash prints its reason first, and then a long backtrace.
        lines = self.log.read_text(errors="replace").splitlines()
        return "Its output:\n" + "\n".join(lines if len(lines) <= 40 else [*lines[:25], "...", *lines[-10:]])

    def stop(self):
        Process.everyone.remove(self)
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        return self.log.read_text(errors="replace")


def may_be_urgent():
    """Whether this user may start programs with real-time priority (SCHED_FIFO)."""
    return os.geteuid() == 0


def urgency():
    """What makes a command preempt all other programs of its processor, where this user may do that."""
    return ["chrt", "--fifo", "1"] if may_be_urgent() else []


def free_port():
    """A free port below the range for outgoing connections if possible: with fifty thousand connections, each port of
    that range would be in use on some address before a server can listen on it."""
    lowest = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    below = range(10_000, lowest)
    for port in [*random.sample(below, min(100, len(below))), 0]:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]


def accepts(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def output_of(*arguments, given=""):
    run = subprocess.run([str(a) for a in arguments], input=given, capture_output=True, text=True)
    check(run.returncode == 0, f"{' '.join(map(str, arguments))} failed:\n{run.stdout}{run.stderr}")
    return run.stdout


def shuffled(items):
    """The same order in each run."""
    items = list(items)
    random.Random(1).shuffle(items)
    return items


class Bench:
    """A service in a scratch folder, with its authorities and devices."""

    def __init__(self, options, scratch):
        self.options, self.scratch = options, pathlib.Path(scratch)
        self.apus, self.apus_bench = options.bin / "apus", options.bin / "apus-bench"
        self.data, self.tokens_file = self.scratch / "data", self.scratch / "tokens"
        self.results = []
        self.courier_port = free_port()

    def provision(self):
        self.identity = json.loads(output_of(
            self.apus, "init", "--data", self.data, "--name", "localhost", "--topic", TOPIC, "--json"))

    def compile(self, source, target, *arguments):
        """Builds a C file of this folder with the toolchain's compiler."""
        output_of("clang", "-O2", "-o", self.scratch / target, ROOT / "Benchmarks" / source, *arguments)
        return self.scratch / target

    def serve(self, workers=1, cpus=(SERVER_CPU,), environment=None, pause=0.05, descriptors=None, **addresses):
        """Starts the service for one environment, with listeners such as `http2="127.0.0.1:2197"`. Returns when all of
        them accept connections; checks after each pause (seconds)."""
        addresses = {"courier": f"127.0.0.1:{self.courier_port}", **addresses}
        listen = [f"--{kind}{environment}-listen={addresses.get(kind + environment, 'off')}"
                  for kind in ["http2", "courier", "gateway", "feedback"] for environment in ["", "-development"]]
        process = Process(
            [self.apus, "serve", "--data", self.data, "--workers", workers, "--log-format", "json",
             "--ledger", self.options.ledger, *listen],
            cpus, self.scratch / "apus.log", environment, descriptors=descriptors)
        ports = [int(re.search(r":(\d+)", address)[1]) for address in addresses.values()]
        process.wait_until(lambda: all(map(accepts, ports)), "open listeners", pause=pause)
        return process

    def start_fleet(self, *extra, cpus=(LOAD_CPU,), environment=None, urgent=False):
        """Registers the devices. The file of tokens is complete when it has one line per device."""
        self.tokens_file.unlink(missing_ok=True)
        fleet = Process(
            [self.apus_bench, "fleet", "--data", self.data, "--devices", self.options.devices,
             "--connect", f"127.0.0.1:{self.courier_port}", "--print-tokens", self.tokens_file, *extra],
            cpus, self.scratch / "fleet.log", environment, urgent=urgent)

        def complete():
            return self.tokens_file.exists() and len(self.tokens_file.read_text().split()) == self.options.devices
        if "--exit-after-registration" in extra:
            check(fleet.child.wait(600) == 0 and complete(), f"the devices did not register. {fleet.tail()}")
        else:
            fleet.wait_until(complete, "all devices connected", 600)
        tokens = shuffled(self.tokens_file.read_text().split())
        self.tokens_file.write_text("".join(f"{token}\n" for token in tokens))
        self.use_tokens(tokens)
        return fleet

    def use_tokens(self, tokens):
        """Called with the devices' tokens."""

    def acknowledged(self, fleet_output, sent):
        """The number that the fleet prints when it stops. Fails if nearly all notifications were not delivered."""
        found = re.findall(r'"acknowledged" *: *(\d+)', fleet_output)
        check(found, f"the fleet did not print the number of acknowledged notifications:\n{fleet_output[-2000:]}")
        taken = int(found[-1])
        say(f"  the devices acknowledged {taken:,} of {sent:,} notifications")
        check(taken >= sent * 0.99, "too few notifications were delivered")
        return taken


def say(text):
    """Prints text for people; a benchmark that prints only JSON redirects it."""
    print(text, file=say.stream, flush=True)


say.stream = sys.stdout


WAKEFULNESS = pathlib.Path("/dev/cpu_dma_latency")


@contextlib.contextmanager
def awake():
    """Keeps idle processors from halting, if the kernel allows it for this user.

    Waking a halted processor takes time. A halted virtual processor is given to another guest, so its next packet waits
    for the hypervisor, and its program's CPU time includes the exits. So a latency of 0 us is requested from the kernel
    (PM QoS, `pm_qos_interface` in its documentation), as long as the file is open.
    """
    try:
        file = open(WAKEFULNESS, "wb", buffering=0)
    except OSError as error:
        say(f"Processors may halt: {error}. Latencies include the machine's wake-ups.")
        yield
        return
    with file:
        file.write(struct.pack("i", 0))
        yield


def processor_ticks():
    """Clock ticks of all processors: those stolen by the hypervisor, and the total."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[7], sum(ticks)


@contextlib.contextmanager
def stolen():
    """Prints at its end the share of the processors' time stolen by the hypervisor."""
    taken, all_ticks = processor_ticks()
    yield
    now, all_now = processor_ticks()
    say(f"the hypervisor stole {(now - taken) / max(all_now - all_ticks, 1):.1%} of the processors' time")


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    packages = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package}=${Version} ", "libnghttp2-14", "libssl3", "librocksdb-dev", "libuv1",
         "nghttp2-server", "mosquitto"], capture_output=True, text=True).stdout.split()
    git = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return {
        "day": time.strftime("%Y-%m-%d"),
        "machine": cpu[1] if cpu else platform.machine(), "processors": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": platform.release(),
        "stays_awake": os.access(WAKEFULNESS, os.W_OK),
        "swift": re.search(r"Swift version (\S+)", output_of("swift", "--version"))[1],
        "packages": dict(p.split("=", 1) for p in packages), "commit": git.stdout.strip(),
    }


def parser_for(description, slices="slices of each kind (7)"):
    """The arguments shared by all benchmarks."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=7, help=slices)
    # The yardsticks keep no ledger either.
    parser.add_argument("--ledger", default="off", metavar="MODE", help="the service's option --ledger (off)")
    parser.add_argument("--json", action="store_true", help="print JSON, one row a line, and nothing else")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    return parser


def run(options, bench_class, tools, measure, processors=2):
    """Checks the requirements, and calls `measure` with a bench in a temporary scratch folder."""
    check(processors == 1 or {SERVER_CPU, LOAD_CPU} <= os.sched_getaffinity(0),
          "benchmarks need two processors, one for the load.")
    for tool in tools:
        check(shutil.which(tool), f"{tool} is missing; `scripts/setup.sh bench` installs it.")
    for program in ["apus", "apus-bench"]:
        check((options.bin / program).exists(), f"{options.bin / program} is missing; run `make release` first.")
    # Each device needs a descriptor on both sides.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="apus-bench-") as scratch:
        bench = bench_class(options, scratch)
        try:
            bench.provision()
            with awake(), stolen():
                measure(bench)
        finally:
            for process in list(Process.everyone):
                process.stop()
