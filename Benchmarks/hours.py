#!/usr/bin/env python3
"""Whether the service's memory stays level under a steady load.

    make bench ROWS=hours                          two and a half hours; only if it is named
    Benchmarks/hours.py --seconds 900              after `make release`

`apus-bench push` sends 200 notifications of 400 bytes per second, which expire after an hour, to 500 devices in random
order. 200 of them are connected all the time. The other 300 connect for 20 seconds and are away for the next 20: what
is sent to them meanwhile is stored, replaced by newer ones, and delivered when they return. The private memory of the
process (smaps_rollup) is read twelve times a minute. Its low points, one for each minute, are what the service keeps.

Rows:
  memory   MB at the lowest point of the last minute.
  level    the mean of the low points in the last sixth of the run, against the mean in the sixth before. Goal: 1.05.
"""

import statistics
import sys
import time

sys.dont_write_bytecode = True
import harness
import idle
import latency
from harness import LOAD_CPU, Process, say
from rows import Row, Suite

RATE, AWAY_SECONDS, SAMPLES = 200, 20, 12
GOAL = 1.05


class Hours(latency.Paced):
    def fleet(self, name, count, first):
        """Connects devices, and returns their process and tokens."""
        tokens = self.scratch / f"tokens-{name}"
        tokens.unlink(missing_ok=True)
        fleet = Process(
            [self.apus_bench, "fleet", "--data", self.data, "--devices", count, "--first", first,
             "--connect", f"127.0.0.1:{self.courier_port}", "--print-tokens", tokens],
            [LOAD_CPU], self.scratch / f"fleet-{name}.log")
        fleet.wait_until(lambda: tokens.exists() and len(tokens.read_text().split()) == count, "the devices")
        return fleet, tokens.read_text().split()

    def measure(self):
        steady, changing = self.options.devices, self.options.changing
        self.start()
        staying, tokens = self.fleet("staying", steady, 0)
        visiting, others = self.fleet("visiting", changing, 100_000)
        self.tokens_file.write_text("".join(f"{token}\n" for token in harness.shuffled(tokens + others)))
        provider = Process(
            self.push_command(RATE, self.options.seconds + 60), [LOAD_CPU], self.scratch / "push.log")
        began = moved = time.monotonic()
        minutes = []
        while (now := time.monotonic()) - began < self.options.seconds:
            time.sleep(self.options.minute / SAMPLES)
            megabytes = idle.user_bytes(self.server) / 1e6
            if int((now - began) / self.options.minute) >= len(minutes):
                minutes.append(megabytes)
                say(f"  minute {len(minutes):3}: {megabytes:.1f} MB")
            minutes[-1] = min(minutes[-1], megabytes)
            if now - moved >= AWAY_SECONDS:
                moved = now
                if visiting:
                    visiting.stop()
                    visiting = None
                else:
                    visiting, _ = self.fleet("visiting", changing, 100_000)
        for process in [provider, staying, visiting]:
            if process:
                process.stop()
        self.server.stop()
        self.add(minutes)

    def add(self, minutes):
        part = max(1, len(minutes) // 6)
        late, earlier = minutes[-part:], minutes[-2 * part:-part]
        note = f"low points: {minutes[0]:.1f} MB at first, {min(late):.1f} to {max(late):.1f} MB in the last part"
        self.results += [
            Row("hours.memory", "MB", minutes[-1], note=f"after {len(minutes)} minutes"),
            Row("hours.level", "MB", statistics.mean(late), statistics.mean(earlier), "before", goal=GOAL, note=note)]


def arguments(parser):
    parser.size("--devices", 200, 20, "devices that stay connected")
    parser.size("--changing", 300, 30, "devices that come and go")
    parser.size("--seconds", 9000, 12, "duration")
    parser.size("--minute", 60, 2, "seconds for each low point")


SUITE = Suite("hours", __doc__, Hours, tools=["taskset"], arguments=arguments,
              measure=lambda bench: bench.measure(),
              rows={"memory": "private memory under a steady load, and whether it stays level"})

if __name__ == "__main__":
    SUITE.main()
