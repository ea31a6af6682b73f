#!/usr/bin/env python3
"""Kills a service whose store is a PostgreSQL database, and the database's primary too, and accounts for everything.

    Tests/Crash/database.py [--kills N] [--failovers N] [--seed N]

Two servers on this machine, of which the second must have each group before it is acknowledged. While
Tests/Crash/run.sh kills the service under load, the primary is killed now and then, the standby is promoted, and the
old primary becomes its standby. Nothing that a provider was told is accepted may be lost, come twice without a reason,
or lack its final state in the ledger. The primary is killed while the service runs: a service that loses its database
during its start exits, and its supervisor starts it again.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Benchmarks"))
from database import Server

# Seconds between two failovers.
PAUSE = 1, 3
# A service that writes, and has done so for a while.
RUNNING = """
    SELECT count(*) FROM pg_stat_activity
      WHERE application_name LIKE 'apus/%/0' AND backend_start < now() - interval '200 ms'
    """


class Pair:
    def __init__(self, folder):
        self.folder = folder
        self.primary = Server(folder / "s1")
        self.primary.sql("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (s1, s2)'")
        self.standby = Server(folder / "s2", standby_of=self.primary)
        self.primary.sql("SELECT pg_reload_conf()")

    @property
    def address(self):
        return f"postgresql:///apus?host={self.folder}/s1,{self.folder}/s2&user=postgres"

    def fail_over(self):
        """The old primary's directory is lost, as its machine would be."""
        old, self.primary = self.primary, self.standby
        old.stop()
        self.primary.sql("SELECT pg_promote()")
        self.standby = Server(old.directory, standby_of=self.primary)

    @property
    def is_used(self):
        return self.primary.sql(RUNNING).strip() != "0"

    def stop(self):
        for server in [self.standby, self.primary]:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of the service")
    parser.add_argument("--failovers", type=int, default=5, help="of the database")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    options = parser.parse_args()
    print(f"database.py: seed {options.seed}", file=sys.stderr)
    chance = random.Random(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="apus-database-", dir="/tmp"))
    folder.chmod(0o755)
    pair = Pair(folder)
    ended = threading.Event()
    failovers = 0
    try:
        for round, kills in enumerate([(options.kills + 1) // 2, options.kills // 2]):
            if kills == 0:
                continue
            name = f"apus{round}"
            pair.primary.sql(f"CREATE DATABASE {name}")
            environment = {**os.environ, "APUS_STORE": pair.address.replace("/apus?", f"/{name}?")}
            run = subprocess.Popen(
                [ROOT / "Tests/Crash/run.sh", "--kills", str(kills), "--rounds", ["one", "five"][round],
                 "--seed", str(options.seed)], env=environment)
            watch = threading.Thread(target=lambda: (run.wait(), ended.set()))
            watch.start()
            while not ended.wait(chance.uniform(*PAUSE)):
                if failovers == options.failovers:
                    continue
                while not pair.is_used and not ended.wait(0.02):
                    pass
                if not ended.is_set():
                    pair.fail_over()
                    failovers += 1
            watch.join()
            ended.clear()
            if run.returncode:
                sys.exit(run.returncode)
    finally:
        pair.stop()
    print(f"database.py: {failovers} failovers, nothing lost", file=sys.stderr)


if __name__ == "__main__":
    main()
