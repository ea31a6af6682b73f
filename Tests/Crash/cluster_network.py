"""A network namespace for a run, in which connections can be cut without their ends hearing of it."""

import os
import shutil
import subprocess
import sys

MARK = "APUS_CLUSTER_NAMESPACE"


def enter():
    """Starts the program again in a namespace of its own, where that is possible and has not happened yet."""
    if MARK in os.environ or os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        return
    os.execvpe(
        "unshare", ["unshare", "--net", sys.executable, *sys.argv], {**os.environ, MARK: "1"})


class Network:
    """The loopback interface of the namespace. Nothing in it may be cut outside of one: it is the machine's own."""

    def __init__(self):
        self.can_cut = MARK in os.environ and self.prepare()

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True).returncode == 0

    def prepare(self):
        # Addresses of this machine are looked up first, and nothing comes before that unless the rule moves.
        return (self.ip("link", "set", "lo", "up") and self.ip("rule", "add", "pref", "10", "lookup", "local")
                and self.ip("rule", "del", "pref", "0", "lookup", "local"))

    def cut(self, port):
        """Drops all packets to and from the port."""
        self.change("add", port)

    def heal(self, port):
        self.change("del", port)

    def change(self, verb, port):
        for end in ["dport", "sport"]:
            if not self.ip("rule", verb, "pref", "5", "ipproto", "tcp", end, str(port), "blackhole"):
                raise RuntimeError(f"ip rule {verb} failed")
