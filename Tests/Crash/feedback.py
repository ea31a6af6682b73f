#!/usr/bin/env python3
"""Kills the service while the feedback service is being read: no inactive token may be missing in the end.

    Tests/Crash/feedback.py [--kills N] [--seed N]

Some thousand tokens are inactive, and a push to each made the service list it. Readers then connect one after the
other, and the service is killed with SIGKILL at a random moment: before a reader has anything, in the middle of the
list, after its end, and right after the connection was closed cleanly. A row may be removed once its reader has it, so
every token must have reached some reader. Duplicates are counted, but allowed.
"""

import argparse
import json
import pathlib
import random
import socket
import ssl
import struct
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "Benchmarks"))
import harness
from harness import ROOT, TOPIC, check, free_port, output_of, say

TUPLE = struct.Struct(">IH32s")


class Feedback(harness.Bench):
    def provision(self):
        super().provision()
        issued = json.loads(output_of(self.apus, "cert", "--data", self.data, "--topic", TOPIC, "--json"))
        self.gateway, self.feedback = free_port(), free_port()
        self.context = ssl.create_default_context(cafile=issued["authority_file"])
        self.context.load_cert_chain(issued["certificate_file"], issued["key_file"])
        self.start().stop()
        output_of(self.apus_bench, "register", "--data", self.data, "--devices", self.options.tokens, "--removed",
                  "--print-tokens", self.tokens_file)
        self.dead = set(self.tokens_file.read_text().split())
        service = self.start()
        output_of(
            self.apus_bench, "binary", "--connect", f"127.0.0.1:{self.gateway}", "--certificate",
            issued["certificate_file"], "--key", issued["key_file"], "--authority", issued["authority_file"],
            "--tokens", self.tokens_file, "--frames", self.options.tokens)
        # A clean shutdown puts the list on disk.
        service.stop()

    def start(self):
        return self.serve(2, [0, 1], pause=0.002, gateway=f"127.0.0.1:{self.gateway}",
                          feedback=f"127.0.0.1:{self.feedback}")

    def read(self, limit=None, pause=0.0, closes=True):
        """The tokens that a reader gets, from complete tuples up to about `limit` bytes, and whether it saw the end."""
        plain = socket.create_connection(("127.0.0.1", self.feedback), 10)
        connection = self.context.wrap_socket(plain, server_hostname="localhost")
        data, ended = b"", False
        try:
            while limit is None or len(data) < limit:
                more = connection.recv(65536 if limit is None else min(65536, limit - len(data)))
                if not more:
                    ended = True
                    break
                data += more
                time.sleep(pause)
            if ended and closes:
                connection.unwrap()
        except OSError:
            pass  # The service is gone, or has closed without waiting for close_notify.
        connection.close()
        tuples = [TUPLE.unpack_from(data, at) for at in range(0, len(data) - TUPLE.size + 1, TUPLE.size)]
        check(all(length == 32 for _, length, _ in tuples), "the list has a token of the wrong length.")
        return [token.hex() for _, _, token in tuples], ended

    def measure(self):
        chance = random.Random(self.options.seed)
        seen, total, moments = set(), 0, {}
        for _ in range(self.options.kills):
            service = self.start()
            moment = chance.choice(["at the beginning", "in the middle", "behind the end", "after the close"])
            moments[moment] = moments.get(moment, 0) + 1
            limit = {"at the beginning": 0, "in the middle": chance.randrange(1, 38 * self.options.tokens)}.get(moment)
            rows, _ = self.read(limit, chance.choice([0, 0, 0.002]), closes=moment == "after the close")
            time.sleep(chance.choice([0, 0, 0.001, 0.02]))
            service.child.kill()
            service.child.wait()
            service.stop()
            total += len(rows)
            seen.update(rows)
        service = self.start()
        while True:
            rows, ended = self.read()
            check(ended, "a reader was disconnected although the service was not killed.")
            total += len(rows)
            seen.update(rows)
            if not rows:
                break
        service.stop()
        print(json.dumps({
            "seed": self.options.seed, "kills": self.options.kills, "killed_when": moments, "dead": len(self.dead),
            "rows": total, "again": total - len(seen), "lost": len(self.dead - seen), "foreign": len(seen - self.dead),
        }))
        check(not self.dead - seen, f"never listed: {sorted(self.dead - seen)[:20]}")
        check(not seen - self.dead, f"listed, but not inactive: {sorted(seen - self.dead)[:20]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=25, help="number of kills (25)")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**9), help="seed of the random numbers")
    parser.add_argument("--tokens", type=int, default=5000, help="inactive tokens (5,000)")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / ".build/release", help="folder of the programs")
    parser.add_argument("--ledger", default="all", metavar="MODE", help="the service's option --ledger (all)")
    options = parser.parse_args()
    say.stream = sys.stderr
    say(f"feedback: seed {options.seed}")
    harness.run(options, Feedback, ["openssl"], Feedback.measure)


main()
