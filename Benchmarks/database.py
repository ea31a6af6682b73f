"""PostgreSQL servers of a benchmark's own: a primary and its standbys, each in a directory of its own."""

import os
import pathlib
import shutil
import subprocess
import time

from harness import check

VERSIONS = pathlib.Path("/usr/lib/postgresql")


class Server:
    """A server on a UNIX socket in its directory, as the user `postgres` if the benchmark runs as root."""

    def __init__(self, directory, *settings, standby_of=None):
        self.directory = pathlib.Path(directory)
        versions = sorted(VERSIONS.iterdir(), key=lambda path: int(path.name)) if VERSIONS.is_dir() else []
        check(versions, "no PostgreSQL server is installed: scripts/setup.sh bench installs it")
        self.programs = versions[-1] / "bin"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(self.directory, self.user)
        data = f"--pgdata={self.directory}/data"
        if standby_of:
            name = f"host={standby_of.directory} user=postgres application_name={self.directory.name}"
            self.run("pg_basebackup", data, "--write-recovery-conf", "--checkpoint=fast", f"--dbname={name}")
        else:
            self.run("initdb", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", data)
        options = ["listen_addresses=", f"unix_socket_directories={self.directory}", *settings]
        with open(self.directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.directory / "data"]
                + [word for option in options for word in ("-c", option)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=self.user, group=self.user, cwd="/")
        self.wait()

    def run(self, program, *arguments):
        done = subprocess.run(
            [self.programs / program, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL,
            user=self.user, group=self.user, cwd="/")
        check(done.returncode == 0, f"{program}: {done.stderr}")
        return done.stdout

    def wait(self):
        for _ in range(600):
            if subprocess.run([self.programs / "pg_isready", "--quiet", f"--host={self.directory}"]).returncode == 0:
                return
            check(self.process.poll() is None, f"PostgreSQL ended: see {self.directory}/log")
            time.sleep(0.05)
        check(False, f"PostgreSQL does not answer: see {self.directory}/log")

    def sql(self, text, database="postgres"):
        return self.run("psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", f"--host={self.directory}",
                        "--username=postgres", f"--dbname={database}", f"--command={text}")

    def address(self, database):
        return f"postgresql:///{database}?host={self.directory}&user=postgres"

    def stop(self):
        self.process.kill()
        self.process.wait()
        # Its children end by themselves, and their directory must not be used before.
        time.sleep(0.5)
        shutil.rmtree(self.directory, ignore_errors=True)
