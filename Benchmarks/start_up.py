#!/usr/bin/env python3
"""Time from the start of the service to open listeners, compared with mosquitto with the same certificates.

    make bench ROWS=start-up       as a table; `store` starts with a million stored, `page` starts `apus dev`
    Benchmarks/start_up.py         after `make release`

The listeners are checked every millisecond, for the first time a millisecond after the start.

Rows:
  empty    nothing is stored
  known    the store knows 100,000 devices, none of which is connected
"""

import sys
import time

sys.dont_write_bytecode = True
import harness
import mosquitto
from harness import free_port, output_of, say
from mosquitto import Mosquitto
from rows import Row, Suite


class StartUp(harness.Bench):
    def compare(self, row):
        port, broker = free_port(), Mosquitto(self)
        times, others = [], []
        # Started once before, because the first start creates files.
        self.serve(pause=0.001, http2=f"127.0.0.1:{port}").stop()
        for _ in range(self.options.slices):
            began = time.monotonic()
            server = self.serve(pause=0.001, http2=f"127.0.0.1:{port}")
            times.append((time.monotonic() - began) * 1000)
            server.stop()
            began = time.monotonic()
            server = broker.start(pause=0.001)
            others.append((time.monotonic() - began) * 1000)
            server.stop()
        say(f"{row}: {', '.join(f'{one:.0f}' for one in times)} ms")
        self.results.append(Row(f"start-up.{row}", "ms", times, others, "mosquitto"))

    def empty(self):
        self.compare("empty")

    def known(self):
        self.serve().stop()
        output_of(self.apus_bench, "register", "--data", self.data, "--devices", self.options.known)
        self.compare("known")


def arguments(parser):
    parser.size("--known", 100_000, 2000, "devices that the store knows")


SUITE = Suite("start-up", __doc__, StartUp, tools=["openssl", *mosquitto.TOOLS], arguments=arguments,
              slices=15,
              rows={"empty": "from the start to open listeners", "known": "with 100,000 devices in the store"})

if __name__ == "__main__":
    SUITE.main()
