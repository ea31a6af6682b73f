#!/usr/bin/env python3
"""The cost of authentication: handshakes with certificates on both sides, device tokens, provider tokens.

    make bench ROWS=trust                     all rows, as a table
    Benchmarks/trust.py --rows full --json    some of them as JSON, after `make release`

`apus-bench handshake` connects devices to the service's listener (TLS 1.3, P-256 on both sides, AES-128-GCM); each
closes once its handshake is complete. tls_accept.c accepts the same connections with the same certificates, using only
OpenSSL. Servers run on processor 0, devices on processor 1, in alternating slices. The figure is based on the CPU time
of the server process, user and system, all threads, per handshake including its socket; the rows show the resulting
handshakes per second of a processor.

Rows:
  full      each device is new to the service: its chain is built and its signatures are checked. Goal: 0.9.
  known     devices that connected before: Apus recognizes the certificate by its digest, OpenSSL checks it again. Apus
            must be cheaper than in the first row.
  resumed   with session tickets. Goal: 0.9, and 1.5 times the first row, if that was measured.
  revoked   as `known`, with 10,000 serial numbers on a revocation list of the device authority, compared with none.
            Both must cost the same, except for noise.
  tokens    `apus-bench credentials`: nanoseconds to unseal a device token, one by one and 32 together, and to check a
            provider token, with its signature and seen before on its connection. No goal.
"""

import json
import re
import statistics
import sys
import time

sys.dont_write_bytecode = True
import harness
from harness import LOAD_CPU, SERVER_CPU, Process, accepts, check, free_port, output_of, say
from rows import Row, Suite

GOAL = 0.9
RESUMED_GOAL = 1.5
REVOKED = 10_000


class Trust(harness.Bench):
    def __init__(self, options, scratch):
        super().__init__(options, scratch)
        self.sink_port = free_port()
        self.full_rates = None

    def start_apus(self):
        return self.serve(environment={"APUS_LOG_LEVEL": "warning"})

    def start_sink(self):
        program = self.compile("tls_accept.c", "tls_accept", "-lssl", "-lcrypto")
        server = self.data / "server"
        sink = Process(
            [program, self.sink_port, server / "server.crt", server / "server.key",
             self.data / "authority/devices.crt"],
            [SERVER_CPU], self.scratch / "accept.log")
        sink.wait_until(lambda: accepts(self.sink_port), "an open port")
        return sink

    def shake(self, port, handshakes, devices, *extra):
        said = json.loads(output_of(
            "taskset", "-c", LOAD_CPU, self.apus_bench, "handshake", "--data", self.data, "--connect",
            f"127.0.0.1:{port}", "--handshakes", handshakes, "--devices", devices, *extra))
        check(said["handshakes"] == handshakes, f"not all handshakes: {said}")
        return said

    def timed(self, server, port, devices, *extra):
        """CPU microseconds per handshake of one slice."""
        handshakes = self.options.handshakes
        before = server.settled_cpu_seconds()
        said = self.shake(port, handshakes, devices, *extra)
        cost = (server.settled_cpu_seconds() - before) * 1e6 / handshakes
        least = handshakes - devices if "--resume" in extra else 0
        check(said["resumed"] >= least and (least or said["resumed"] == 0), f"unexpected handshakes: {said}")
        return cost, said["cipher"]

    def compare(self, row, contestants, devices, *extra, goal=None):
        """Alternating slices of all contestants (name, server, port). Returns the handshakes per second of each."""
        say(f"\n{row}: {self.options.slices} slices of {self.options.handshakes:,} handshakes, {devices:,} devices")
        costs, ciphers = {}, set()
        for _, _, port in contestants:
            self.shake(port, 200, 8, *extra)  # Warms caches up, not counted.
        for index in range(self.options.slices):
            for name, server, port in contestants:
                cost, cipher = self.timed(server, port, devices, *extra)
                costs.setdefault(name, []).append(cost)
                ciphers.add(cipher)
                say(f"  {index + 1:2} {name:8} {cost:7.1f} us {1e6 / cost:8.0f} /s  {cipher}")
        check(len(ciphers) == 1, f"the ciphers differ: {ciphers}")
        rates = {name: [1e6 / cost for cost in slices] for name, slices in costs.items()}
        self.results.append(Row(
            f"trust.{row}", "/s/processor", rates["apus"], rates["openssl"], "OpenSSL", goal, better="higher",
            note=f"{statistics.median(costs['apus']):.0f} us CPU each",
            more={"handshakes": self.options.handshakes, "cipher": ciphers.pop()}))
        return rates["apus"]

    def against_openssl(self, row, devices, *extra, goal=None):
        apus, sink = self.start_apus(), self.start_sink()
        rates = self.compare(row, [("apus", apus, self.courier_port), ("openssl", sink, self.sink_port)], devices,
                             *extra, goal=goal)
        apus.stop()
        sink.stop()
        return rates

    # Rows

    def full(self):
        # As many devices as handshakes: `handshake` gives them new certificates each time.
        self.full_rates = self.against_openssl("full", self.options.handshakes, goal=GOAL)

    def known(self):
        self.against_openssl("known", 8)

    def resumed(self):
        rates = self.against_openssl("resumed", 8, "--resume", goal=GOAL)
        if self.full_rates:
            self.results.append(Row("trust.resumed-over-full", "/s/processor", rates, self.full_rates, "Apus, full",
                                    RESUMED_GOAL, better="higher"))

    def revoked(self):
        listed = self.data / "crls/devices.crl"
        listed.parent.mkdir(exist_ok=True)
        made = self.revocation_list()
        apus = self.start_apus()
        costs = {"none": [], "listed": []}
        say(f"\nrevoked: {self.options.slices} slices with {REVOKED:,} serial numbers revoked, and with none")
        self.shake(self.courier_port, 200, 8)
        for index in range(self.options.slices):
            for name in costs:
                listed.unlink(missing_ok=True)
                if name == "listed":
                    temporary = listed.with_suffix(".new")
                    temporary.write_bytes(made)
                    temporary.rename(listed)
                time.sleep(1)  # A running service knows within a second.
                cost, _ = self.timed(apus, self.courier_port, 8)
                costs[name].append(cost)
                say(f"  {index + 1:2} {name:8} {cost:7.1f} us")
        reloads = re.findall(r'"event":"trust.reloaded".*"revoked":(\d+)', (self.data / "audit.jsonl").read_text())
        check(str(REVOKED) in reloads, f"the list was not loaded: {reloads}")
        apus.stop()
        listed.unlink()
        self.results.append(Row("trust.revoked", "us CPU/handshake", costs["listed"], costs["none"],
                                "Apus, none listed", more={"revoked": REVOKED}))

    def revocation_list(self):
        """A revocation list of the device authority with unused serial numbers."""
        folder = self.scratch / "ca"
        folder.mkdir()
        (folder / "index.txt").write_text("".join(
            f"R\t351231235959Z\t250101000000Z\t{0x10000000 + 2 * number:X}\tunknown\t/CN={number}\n"
            for number in range(REVOKED)))
        (folder / "number").write_text("01\n")
        (folder / "ca.conf").write_text(
            f"[ca]\ndefault_ca = own\n[own]\ndatabase = {folder}/index.txt\ncrlnumber = {folder}/number\n"
            f"certificate = {self.data}/authority/devices.crt\nprivate_key = {self.data}/authority/devices.key\n"
            "default_md = sha256\ndefault_crl_days = 30\n")
        output_of("openssl", "ca", "-config", folder / "ca.conf", "-gencrl", "-out", folder / "list.pem")
        return (folder / "list.pem").read_bytes()

    def tokens(self):
        say("\ntokens: unsealing and checking, in one thread")
        runs = [json.loads(output_of("taskset", "-c", SERVER_CPU, self.apus_bench, "credentials", "--seconds",
                                     self.options.seconds)) for _ in range(self.options.slices)]
        for name in runs[0]:
            if name.endswith("_ns"):
                self.results.append(Row(f"trust.tokens-{name[:-3].replace('_', '-')}", "ns CPU",
                                        [run[name] for run in runs]))


def arguments(parser):
    parser.size("--handshakes", 1000, 300, "handshakes of a slice")
    parser.size("--seconds", 1, 1, "seconds for each kind of token and slice")


SUITE = Suite(
    "trust", __doc__, Trust, tools=["openssl", "clang", "taskset"], arguments=arguments, slices=3,
    rows={"full": "handshakes with new devices", "known": "with devices that connected before",
    "resumed": "with session tickets", "revoked": "with a long revocation list",
          "tokens": "device tokens and provider tokens"})

if __name__ == "__main__":
    SUITE.main()
