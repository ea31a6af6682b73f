"""Third-party libraries as legacy senders, unmodified, each in a process of its own (send_with_*.py)."""

import glob
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from upstream import GOOD

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
BATCH = 200


def python2():
    """pyenv puts a python2.7 on the PATH even if that version does not run."""
    kept = glob.glob(os.path.expanduser(os.environ.get("PYENV_ROOT", "~/.pyenv") + "/versions/*/bin/python2.7"))
    for program in filter(None, [shutil.which("python2.7"), *kept]):
        if subprocess.run([program, "-c", "import ssl; ssl.SSLContext"], capture_output=True).returncode == 0:
            return program
    return None


class LibrarySender:
    """A library's process, and what it and its owner said."""

    def __init__(self, name, gateway, tokens, pause):
        self.name, self.gateway, self.tokens, self.pause = name, gateway, tokens, pause
        # The status by number; what was in doubt: numbers, attempt, and what the library sent again by itself.
        self.reported, self.doubts = {}, []

    def command(self, plan):
        """The program with its environment. PyAPNs itself needs Python 2; tapns3 is the same for Python 3."""
        script = ROOT / "Tests" / "Crash" / f"send_with_{self.name.replace('-', '_')}.py"
        old = python2() if self.name == "pyapns" else None
        if old:
            return [old, "-B", script, plan], {**os.environ, "PYTHONPATH": str(VENV / "python2")}
        return [VENV / "bin" / "python", "-B", script, plan], None

    def send(self, scratch, troubles):
        """Sends everything. `troubles` are called at random moments, while a batch is sent."""
        trouble = {}
        for make_trouble in troubles:
            trouble.setdefault(random.randrange(len(self.tokens)) // BATCH, []).append(make_trouble)
        plan = scratch / "plan.json"
        plan.write_text(json.dumps({
            "host": "localhost", "port": self.gateway.port, "authority": str(self.gateway.authority),
            "certificate": str(self.gateway.certificate), "tokens": self.tokens,
            "batch": BATCH, "pause_seconds": self.pause / 20}))
        command, environment = self.command(plan)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        is_done = False
        for line in process.stdout:
            said = json.loads(line)
            if "reported" in said:
                self.reported[said["reported"]] = said["status"]
            elif "doubtful" in said:
                self.doubts.append((said["doubtful"], said["attempt"], said["retried"]))
            for make_trouble in trouble.pop(said.get("begun"), []):
                time.sleep(random.uniform(0, BATCH * self.pause / 20))
                make_trouble()
            is_done = is_done or said.get("done", False)
        if process.wait() != 0 or not is_done:
            sys.exit(f"{self.name} ended with {process.returncode}")

    def arrivals(self, ids):
        """How often each number arrived, over its attempts."""
        sums = {}
        for text, several in ids.items():
            number = int(text[1:].split(".")[0])
            sums[number] = sums.get(number, 0) + len(several)
        return sums

    def unrecognised(self, ids):
        """Numbers that the gateway sent upstream under two ids, although nothing about them was in doubt: the library
        sent them again after an error packet, and they were not recognised."""
        doubted = {(number, attempt) for numbers, attempt, _ in self.doubts for number in numbers}
        several = [tuple(map(int, text[1:].split("."))) for text, each in ids.items() if len(set(each)) > 1]
        return [number for number, attempt in several if (number, attempt) not in doubted]

    def describe(self, ids, of_kind, twice):
        good = set(of_kind[GOOD])
        given = [(number, attempt, number in retried) for numbers, attempt, retried in self.doubts
                 for number in numbers if number in good]
        lost = [retried for number, attempt, retried in given if f"n{number}.{attempt}" not in ids]
        again = {number for number, attempt, _ in given if f"n{number}.{attempt}" in ids}
        owed = len(again & set(twice))
        return (f"{self.name}: reported by packets {len(self.reported)}; lost connections {len(self.doubts)}, with "
                f"{len(given)} good notifications in doubt: {len(lost)} had not arrived, and the library itself would "
                f"have sent {sum(lost)} of these again; arrived twice {len(twice)}: {owed} whose confirmation was "
                f"lost, {len(twice) - owed} whose response from upstream was lost")
