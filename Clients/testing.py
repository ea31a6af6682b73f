"""What the tests of all clients share: the protocol's vectors as bytes, and a service to talk to."""

import json
import os
import pathlib
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
#: The service's program; without it, tests that need a service are skipped.
APUS = os.environ.get("APUS")
TOPIC = "com.example.app"
DIALECT = "apus-courier/1"
OTHER_LISTENERS = ["http2-development", "courier-development", "gateway", "gateway-development", "feedback",
                   "feedback-development"]


def vectors(receiver, dialect=DIALECT):
    """The vectors for `device` or `service`, in the clients' dialect, or in each for None."""
    found = json.loads((ROOT / "Documentation/courier-vectors.json").read_text())["vectors"]
    return [one for one in found if one["to"] == receiver and dialect in (None, one.get("dialect", DIALECT))]


def octets(pieces):
    """Digits in pieces; 00*31 is 31 bytes of 00."""
    found = b""
    for word in " ".join(pieces).split():
        digits, _, count = word.partition("*")
        found += bytes.fromhex(digits) * int(count or 1)
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class ServiceTests:
    """Starts a service for each test, with a data directory of its own. A base beside `unittest.TestCase`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.authority = self.apus("init", "--name", "localhost", "--topic", TOPIC)["authority_file"]
        self.http2, self.courier = free_port(), free_port()
        self.start()

    def apus(self, *arguments):
        run = subprocess.run(
            [APUS, *arguments, "--data", self.data, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = run.stdout.splitlines()
        return json.loads(lines[-1]) if lines else None

    def start(self):
        log = open(self.folder / "serve.log", "ab")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(
            [APUS, "serve", "--data", self.data, "--json", "--http2-listen", f"127.0.0.1:{self.http2}",
             "--courier-listen", f"127.0.0.1:{self.courier}", *(f"--{name}-listen=off" for name in OTHER_LISTENERS)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.stop)
        self.assertIn("ready", self.process.stdout.readline())

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def push(self, token, text, *options):
        return self.apus(
            "send", "--to", f"localhost:{self.http2}", "--token", token, "--topic", TOPIC, "--alert", text, *options)

    def retire(self, device):
        subprocess.run(
            [APUS, "device", "retire", "--data", self.data, device], check=True, capture_output=True)
