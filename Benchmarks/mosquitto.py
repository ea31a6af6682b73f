"""mosquitto, the yardstick for devices: an MQTT broker that requires client certificates, like Apus."""

import getpass
import json
import secrets
import signal
import time

from harness import LOAD_CPU, SERVER_CPU, Process, accepts, check, free_port, output_of, urgency

TOOLS = ["mosquitto", "mosquitto_pub", "mosquitto_sub", "clang"]
# As for h2load with Apus: connections of publishers, and unacknowledged messages on each.
PUBLISHERS, WINDOW = 8, 100


class Mosquitto:
    """A broker with the authorities, certificates and TLS version of the bench's service. It stores nothing on disk."""

    def __init__(self, bench, name="mosquitto"):
        self.bench, self.port = bench, free_port()
        self.log = bench.scratch / f"{name}.log"
        self.configuration = bench.scratch / f"{name}.conf"
        self.load = bench.scratch / "mqtt_fleet"
        if not self.load.exists():
            bench.compile("mqtt_fleet.c", "mqtt_fleet", "-lssl", "-lcrypto")
        # No two devices have one name, and a suite may start several brokers.
        name = f"mqtt-{secrets.token_hex(4)}"
        issued = json.loads(output_of(bench.apus, "device", "add", "--data", bench.data, "--name", name, "--json"))
        self.client = [bench.data / "authority/service.crt", issued["certificate_file"], issued["key_file"]]

    def start(self, cpus=(SERVER_CPU,), pause=0.005):
        """Returns when the port is open; checks after each pause (seconds)."""
        data = self.bench.data
        self.configuration.write_text(f"""\
listener {self.port} 127.0.0.1
cafile {data}/authority/devices.crt
certfile {data}/server/server.crt
keyfile {data}/server/server.key
require_certificate true
tls_version tlsv1.3
allow_anonymous true
max_connections -1
max_inflight_messages 0
max_queued_messages 0
persistence false
set_tcp_nodelay true
sys_interval 0
log_dest none
user {getpass.getuser()}
""")
        self.process = Process(["mosquitto", "-c", self.configuration], cpus, self.log)
        self.process.wait_until(lambda: accepts(self.port), "an open port", pause=pause)
        return self.process

    def subscribe(self, count, first=0, name="subscribers", topic=None, urgent=False):
        """The given number of clients, each subscribed to a separate topic, or all to the one with this number."""
        fleet = Process(
            [self.load, "subscribe", self.port, *self.client, count, first, *([] if topic is None else [topic])],
            [LOAD_CPU], self.bench.scratch / f"{name}.log", urgent=urgent)
        fleet.wait_until(lambda: '"subscribed"' in fleet.log.read_text(), "all subscriptions", 600)
        return fleet

    def check_load(self):
        """Checks with mosquitto's own clients that mqtt_fleet.c speaks MQTT."""
        fleet = self.subscribe(3, name="checked")
        authority, certificate, key = self.client
        common = ["-h", "localhost", "-p", self.port, "--cafile", authority, "--cert", certificate, "--key", key,
                  "--tls-version", "tlsv1.3", "-q", "1"]
        listener = Process(
            ["stdbuf", "-oL", "mosquitto_sub", *common, "-t", "t/2", "-C", "2", "-F", "%t %l", "-d"], [LOAD_CPU],
            self.bench.scratch / "mosquitto_sub.log")
        listener.wait_until(lambda: "Subscribed" in listener.log.read_text(), "a subscription")
        output_of("mosquitto_pub", *common, "-t", "t/1", "-m", "from another client")
        self.publish(3, 6, 100)
        check(told(fleet, 7)["received"] == 7, "the fleet did not get what was sent")
        check(listener.child.wait(10) == 0 and listener.stop().count("\nt/2 100") == 2,
              f"mosquitto_sub did not get what the fleet published. {listener.tail()}")
        fleet.stop()

    def publish(self, topics, messages, size, rate=0, publishers=PUBLISHERS, urgent=False):
        """Publishes to all topics in turn. Returns when all messages are acknowledged to the publishers."""
        said = json.loads(output_of(
            *(urgency() if urgent else []), "taskset", "-c", LOAD_CPU, self.load, "publish", self.port, *self.client,
            topics, messages, size, publishers, WINDOW, rate))
        check(said["acknowledged"] == messages, f"not all messages were acknowledged: {said}")
        return said


def told(fleet, received, latencies=None):
    """The fleet's output on SIGUSR1, once it has `received` that many messages and counted as many latencies."""
    deadline = time.monotonic() + 60
    time.sleep(0.5)
    while True:
        lines = len(fleet.log.read_text().splitlines())
        fleet.child.send_signal(signal.SIGUSR1)
        fleet.wait_until(lambda: len(fleet.log.read_text().splitlines()) > lines, "a line on SIGUSR1", pause=0.01)
        said = json.loads(fleet.log.read_text().splitlines()[-1])
        if said["received"] >= received:
            counted = said["latency"]["count"]
            check(latencies in (None, counted), f"{counted:,} latencies of {latencies} messages")
            return said
        check(time.monotonic() < deadline, f"only {said['received']:,} of {received:,} messages arrived")
        time.sleep(0.1)
