"""A service, an agent and a provider for tests of apus-agent, in folders and processes of their own."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOPIC = "com.example.app"
# What `apus init` has made, by its names: a copy, the folder that it made, and what it printed.
INITIALIZED = {}
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def wait_for(what, found, seconds=60):
    """The first true value of `found()`."""
    deadline = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"no {what} in {seconds} s")
        time.sleep(0.05)


class Service:
    """`apus serve` on free ports of one address."""

    def __init__(self, programs, address="127.0.0.1", prefix=(), names=()):
        self.programs = programs
        self.prefix = list(prefix)
        self.address = address
        self.data = tempfile.mkdtemp(prefix="apus-agent-service-")
        hosts = ("localhost", "127.0.0.1", *names)
        if hosts in INITIALIZED:
            # A key takes a quarter of a second. No test has two services.
            shutil.copytree(INITIALIZED[hosts][0].name, self.data, dirs_exist_ok=True)
            self.made = {key: text.replace(INITIALIZED[hosts][1], self.data)
                         for key, text in INITIALIZED[hosts][2].items()}
        else:
            self.made = self.apus("init", "--topic", TOPIC, *sum([["--name", name] for name in hosts], []), "--json")
            folder = tempfile.TemporaryDirectory(prefix="apus-agent-service-")
            shutil.copytree(self.data, folder.name, dirs_exist_ok=True)
            INITIALIZED[hosts] = (folder, self.data, self.made)
        self.authority = self.made["authority_file"]
        self.ports = {"http2": 0, "courier": 0}
        self.process = None

    def apus(self, *arguments):
        done = subprocess.run(
            [*self.prefix, f"{self.programs}/apus", arguments[0], "--data", self.data, *arguments[1:]],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"apus {arguments}: {done.stdout} {done.stderr}")
        said = done.stdout.splitlines()
        return json.loads(said[-1]) if said else None

    def start(self):
        listen = []
        for kind, port in self.ports.items():
            listen += [f"--{kind}-listen", f"{self.address}:{port}"]
        for kind in ["gateway", "feedback", "http2-development", "courier-development", "gateway-development",
                     "feedback-development"]:
            listen += [f"--{kind}-listen", "off"]
        self.process = subprocess.Popen(
            [*self.prefix, f"{self.programs}/apus", "serve", "--data", self.data, "--json", "--log-level", "warning",
             *listen], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ready = json.loads(self.process.stdout.readline())
        for kind in self.ports:
            self.ports[kind] = int(ready[kind][0].rsplit(":", 1)[1])

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait(30)
            self.process.stdout.close()
            self.process = None

    def close(self):
        self.stop()
        shutil.rmtree(self.data, ignore_errors=True)

    def send(self, token, payload, *options, topic=TOPIC):
        """The id of the notification."""
        done = subprocess.run(
            [*self.prefix, f"{self.programs}/apus", "send", "--data", self.data, "--to",
             f"{self.address}:{self.ports['http2']}", "--authority", self.authority, "--topic", topic, "--token", token,
             "--payload", payload if isinstance(payload, str) else json.dumps(payload), "--expiration", "+1h",
             *options, "--json"],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"apus send: {done.stdout} {done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])["apns_id"].upper()


class Agent:
    """`apus-agent run` with a folder of its own."""

    def __init__(self, service, configuration, extra="", code=True, prefix=(), host="127.0.0.1", environment=None,
                 as_nobody=False):
        self.service = service
        self.prefix = list(prefix)
        self.folder = tempfile.mkdtemp(prefix="apus-agent-")
        authority = service.authority
        if as_nobody:
            self.prefix += AS_NOBODY
            authority = shutil.copy(service.authority, self.folder)
            os.chown(self.folder, 65534, 65534)
        # Commands of other users come by.
        os.chmod(self.folder, 0o711)
        self.state = f"{self.folder}/state"
        self.socket = f"{self.folder}/agent.sock"
        self.file = f"{self.folder}/agent.conf"
        self.log = f"{self.folder}/log"
        self.environment = {**os.environ, **(environment or {})}
        if code:
            self.environment["APUS_ENROLMENT_CODE"] = service.apus("code", "--name", "machine", "--json")["code"]
        self.head = (f"service = {host}:{service.ports['courier']}\nauthority = {authority}\n"
                     f"state = {self.state}\nsocket = {self.socket}\n{extra}\n")
        self.configure(configuration)
        self.process = None

    def path(self, name):
        return f"{self.folder}/{name}"

    def configure(self, configuration):
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(self.head + configuration.replace("FOLDER", self.folder))

    def command(self, *arguments):
        return [*self.prefix, f"{self.service.programs}/apus-agent", arguments[0], "--file", self.file, *arguments[1:]]

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command("run", "--log-level", "debug"), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.environment)
        return self

    def connected(self, seconds=60):
        wait_for("connection", lambda: self.status().get("state") == "connected", seconds)
        return self

    def status(self):
        try:
            return self.ask("status")
        except (OSError, AssertionError):
            return {}

    def ask(self, *arguments):
        """The answer of a command, as JSON."""
        done = subprocess.run(
            self.command(*arguments, "--json"), capture_output=True, text=True, timeout=60, check=False,
            env=self.environment)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)

    def token(self, topic=TOPIC):
        def find():
            for entry in self.ask("tokens")["tokens"]:
                if entry["topic"] == topic:
                    return entry["token"]
            return None
        return wait_for("token", find)

    def outcome(self, identifier, seconds=60):
        def find():
            for entry in self.ask("history", "--count", "1000")["notifications"]:
                if entry["id"] == identifier and entry["outcome"] != "open":
                    return entry["outcome"]
            return None
        return wait_for(f"outcome of {identifier}", find, seconds)

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.wait(30)

    def close(self):
        if self.process and self.process.poll() is None:
            self.kill(signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)

    def logged(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


class Program:
    """A local program on the agent's socket."""

    def __init__(self, agent):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(agent.socket)
        self.socket.settimeout(60)
        self.file = self.socket.makefile("rb")

    def send(self, **members):
        self.socket.sendall(json.dumps(members).encode() + b"\n")

    def read(self):
        return json.loads(self.file.readline())

    def ask(self, **members):
        self.send(**members)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


def lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []
