"""`apus serve` for tests: in a new folder, on free ports, with a connected device."""

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
    """Runs until `close`. `address` is that of the console, `secret` an administration token with all scopes."""

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
        off = [f"--{listener}-listen=off" for listener in CLOSED]
        listeners = ["--http2-listen=127.0.0.1:0", "--courier-listen=127.0.0.1:0", "--console=0"]
        self.ready = json.loads(self.run("serve", "--json", *listeners, *off).stdout.readline())
        self.address = self.ready["console"][0].rstrip("/") + "/"
        self.devices = 0
        self.token, self.device = self.add_device()

    def add_device(self):
        """Connects another device; returns its token and its process."""
        self.devices += 1
        identity = self.say("device", "add", "--name", f"device-{self.devices}")
        tokens = pathlib.Path(self.folder.name, f"token-{self.devices}")
        port = self.ready["courier"][0].rpartition(":")[2]
        keys = ["--certificate", identity["certificate_file"], "--key", identity["key_file"]]
        where = ["--to", f"localhost:{port}", "--topic", TOPIC, "--token-file", tokens]
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
        """Runs a command to its end and returns its output."""
        done = subprocess.run(self.arguments([*arguments, "--json"]), stdin=subprocess.DEVNULL, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def run(self, *arguments):
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        child = subprocess.Popen(self.arguments(arguments), stdout=subprocess.PIPE, **quiet)
        self.children.append(child)
        return child

    def send(self, token, text, key=None):
        """Sends a push as a provider; returns the exit code. Without a key id, `apus send` chooses the key."""
        port = self.ready["http2"][0].rpartition(":")[2]
        command = ["send", "--to", f"localhost:{port}", "--topic", TOPIC, "--token", token, "--alert", text]
        command += ["--key-id", key] if key else []
        return subprocess.run(self.arguments(command), stdin=subprocess.DEVNULL, capture_output=True).returncode

    def call(self, method, path, body=None):
        """Sends a request to the administration API."""
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
