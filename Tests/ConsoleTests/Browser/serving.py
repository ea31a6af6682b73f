"""`apus serve` as a test runs it: in a folder of its own, on ports that are free, with a device that is connected."""

import json
import pathlib
import subprocess
import tempfile
import time
import urllib.request

TOPIC = "com.example.app"
CLOSED = ["http2-development", "courier-development"] + [
    f"{kind}{environment}" for kind in ("gateway", "feedback") for environment in ("", "-development")
]


class Serving:
    """Runs until `close`. `address` is the console's, `secret` a token that may do everything."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.TemporaryDirectory(prefix="apus-console-")
        self.children = []
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    def start(self):
        self.made = self.say("init", "--topic", TOPIC, "--name", "localhost", "--name", "127.0.0.1")
        self.secret = self.say("admin", "add", "all", "--scopes", "read,send,operate,trust")["token"]
        off = [f"--{door}-listen=off" for door in CLOSED]
        doors = ["--http2-listen=127.0.0.1:0", "--courier-listen=127.0.0.1:0", "--console=0"]
        self.ready = json.loads(self.run("serve", "--json", *doors, *off).stdout.readline())
        self.address = self.ready["console"][0].rstrip("/") + "/"
        self.devices = 0
        self.token, self.device = self.add_device()

    def add_device(self):
        """Connects one more device; returns its token and what runs it."""
        self.devices += 1
        identity = self.say("device", "--name", f"device-{self.devices}")
        tokens = pathlib.Path(self.folder.name, f"token-{self.devices}")
        door = self.ready["courier"][0].rpartition(":")[2]
        keys = ["--certificate", identity["certificate_file"], "--key", identity["key_file"]]
        where = ["--to", f"localhost:{door}", "--topic", TOPIC, "--token-file", tokens]
        device = self.run("listen", "--json", *where, *keys)
        end = time.monotonic() + 60
        while not (tokens.exists() and tokens.read_text().endswith("\n")):
            if time.monotonic() > end or device.poll() is not None:
                raise RuntimeError("the device did not get a token")
            time.sleep(0.02)
        return tokens.read_text().split()[0], device

    def arguments(self, arguments):
        return [self.program, *map(str, arguments), "--data", f"{self.folder.name}/data"]

    def say(self, *arguments):
        """Runs a command to its end, and returns what it says."""
        done = subprocess.run(self.arguments([*arguments, "--json"]), stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def run(self, *arguments):
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(self.arguments(arguments), stdout=subprocess.PIPE, **quiet)
        self.children.append(child)
        return child

    def send(self, token, text):
        """A push as a provider sends it, from the key that the service was made with; returns the exit code."""
        door = self.ready["http2"][0].rpartition(":")[2]
        command = ["send", "--to", f"localhost:{door}", "--topic", TOPIC, "--token", token, "--alert", text]
        return subprocess.run(self.arguments(command), stdin=subprocess.DEVNULL, capture_output=True).returncode

    def call(self, method, path, body=None):
        """Asks the administration."""
        fields = {"Content-Type": "application/json", "Authorization": f"Bearer {self.secret}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}v1/{path}", data, fields, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def close(self):
        for child in reversed(self.children):
            child.terminate()
            child.wait()
            child.stdout.close()
        self.folder.cleanup()
