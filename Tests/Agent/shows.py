"""What apus-agent goes through on a bad day, in minutes: `make agent-shows`. As root, in network namespaces.

    shows.py [suspend|network|nat|kill|rest …]

Each show prints what it did and what it measured, and fails if a notification was lost or a command ran twice.
"""

import concurrent.futures
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from agent import TOPIC, Agent, Service, lines, wait_for  # noqa: E402

PROGRAMS = os.environ.get("APUS_PROGRAMS", ".build/release")
SUSPENDED_SECONDS = int(os.environ.get("SUSPENDED_SECONDS", "180"))
NAT_SECONDS = int(os.environ.get("NAT_SECONDS", "100"))
KILLS = int(os.environ.get("KILLS", "40"))
RULE = f"[topic {TOPIC}]\nrun = FOLDER/command\nuser = nobody\nlimit = 4\n"


def sh(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True, timeout=60).stdout


class Networks:
    """A machine, a router and a service's host, each in a namespace of its own."""

    def __init__(self):
        self.close()
        for name in ["apus-m", "apus-r", "apus-s"]:
            sh("ip", "netns", "add", name)
            self.inside(name, "ip", "link", "set", "lo", "up")
        for near, far, near_address, far_address in [
                ("apus-m", "apus-r", "10.77.1.2", "10.77.1.1"), ("apus-s", "apus-r", "10.77.2.2", "10.77.2.1")]:
            inner = near[-1]
            sh("ip", "link", "add", f"apus{inner}0", "netns", near, "type", "veth", "peer", "name", f"apus{inner}1",
               "netns", far)
            self.inside(near, "ip", "addr", "add", f"{near_address}/24", "dev", f"apus{inner}0")
            self.inside(far, "ip", "addr", "add", f"{far_address}/24", "dev", f"apus{inner}1")
            self.inside(near, "ip", "link", "set", f"apus{inner}0", "up")
            self.inside(far, "ip", "link", "set", f"apus{inner}1", "up")
            self.inside(near, "ip", "route", "add", "default", "via", far_address)
        self.inside("apus-r", "sysctl", "-qw", "net.ipv4.ip_forward=1")

    @staticmethod
    def inside(name, *words, check=True):
        return sh("ip", "netns", "exec", name, *words, check=check)

    @staticmethod
    def close():
        for name in ["apus-m", "apus-r", "apus-s"]:
            sh("ip", "netns", "del", name, check=False)


def make(networks=None, rule=RULE, extra="", command='echo "$APUS_NOTIFICATION_ID" >> FOLDER/out'):
    """A service and an agent that is connected to it, and the file in which its command writes."""
    if networks:
        service = Service(PROGRAMS, address="10.77.2.2", prefix=["ip", "netns", "exec", "apus-s"], names=["10.77.2.2"])
    else:
        service = Service(PROGRAMS)
    service.apus("app", "--change", TOPIC, "--retain", "100", "--json")
    service.start()
    agent = Agent(service, rule, extra=extra, prefix=["ip", "netns", "exec", "apus-m"] if networks else [],
                  host=service.address)
    with open(agent.path("command"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + command.replace("FOLDER", agent.folder) + "\n")
    os.chmod(agent.path("command"), 0o755)
    out = agent.path("out")
    with open(out, "w", encoding="utf-8"):
        pass
    os.chmod(out, 0o666)
    agent.start().connected()
    return service, agent, out


def account(sent, out, seconds=90):
    """Each notification's command ran once."""
    wait_for("all commands", lambda: set(sent) <= set(lines(out)), seconds)
    time.sleep(1)
    ran = lines(out)
    assert sorted(ran) == sorted(sent), f"{len(sent)} sent, {len(ran)} commands ran"


def push(service, token, text):
    return service.send(token, {"aps": {"alert": text}})


def suspend():
    service, agent, out = make()
    token = agent.token()
    sent = [push(service, token, "before")]
    account(sent, out)
    agent.process.send_signal(signal.SIGSTOP)
    for number in range(3):
        time.sleep(SUSPENDED_SECONDS / 3)
        sent.append(push(service, token, f"asleep {number}"))
    agent.process.send_signal(signal.SIGCONT)
    began = time.monotonic()
    account(sent, out)
    connected = agent.connected().status()
    print(f"suspend: {SUSPENDED_SECONDS} s stopped, {len(sent)} sent, each command ran once; all had run "
          f"{time.monotonic() - began - 1:.2f} s after SIGCONT; connections: {connected['connections']}")
    agent.close()
    service.close()


def network():
    networks = Networks()
    service, agent, out = make(networks)
    token = agent.token()
    sent = [push(service, token, "before")]
    account(sent, out)
    waits = []
    for number in range(5):
        networks.inside("apus-m", "ip", "link", "set", "apusm0", "down")
        time.sleep(random.uniform(2, 20))
        sent.append(push(service, token, f"down {number}"))
        networks.inside("apus-m", "ip", "link", "set", "apusm0", "up")
        began = time.monotonic()
        # A link that goes down takes its routes along.
        networks.inside("apus-m", "ip", "route", "replace", "default", "via", "10.77.1.1")
        wait_for("command", lambda: len(lines(out)) == len(sent), 60)
        waits.append(time.monotonic() - began)
    account(sent, out)
    # Another address: the old connection cannot continue.
    networks.inside("apus-m", "ip", "addr", "add", "10.77.1.3/24", "dev", "apusm0")
    networks.inside("apus-m", "ip", "addr", "del", "10.77.1.2/24", "dev", "apusm0")
    networks.inside("apus-m", "ip", "addr", "replace", "10.77.1.3/24", "dev", "apusm0")
    networks.inside("apus-m", "ip", "route", "replace", "default", "via", "10.77.1.1")
    began = time.monotonic()
    sent.append(push(service, token, "moved"))
    wait_for("command", lambda: len(lines(out)) == len(sent), 60)
    moved = time.monotonic() - began
    account(sent, out)
    print(f"network: 5 times down and up; the push that waited had run after "
          f"{', '.join(f'{wait:.2f}' for wait in waits)} s, and with another address after {moved:.2f} s")
    agent.close()
    service.close()
    networks.close()
    assert max(waits + [moved]) < 2, "slower than two seconds"


def nat():
    networks = Networks()
    # Connection tracking with a short memory, and no pick-up of connections that it does not know.
    for line in ["table ip nat {\n chain post {\n type nat hook postrouting priority 100;\n"
                 "oifname \"apuss1\" masquerade;\n }\n }\n",
                 "table ip filter {\n chain forwarded {\n type filter hook forward priority 0;\n"
                 "ct state invalid drop;\n }\n }\n"]:
        subprocess.run(["ip", "netns", "exec", "apus-r", "nft", "-f", "-"], input=line, text=True, check=True)
    for name, value in [("nf_conntrack_tcp_timeout_established", NAT_SECONDS), ("nf_conntrack_tcp_loose", 0)]:
        networks.inside("apus-r", "sysctl", "-qw", f"net.netfilter.{name}={value}")
    began = time.monotonic()
    service, agent, out = make(networks)
    token = agent.token()
    sent = []
    seen = []
    while True:
        status = agent.status()
        if status and status["keep_alive_seconds"] not in seen[-1:]:
            seen.append(status["keep_alive_seconds"])
            print(f"nat: keep-alive {seen[-1]} s after {time.monotonic() - began:.0f} s", flush=True)
        if status and status["keep_alive_settled"]:
            break
        assert time.monotonic() - began < 1800, "not settled in half an hour"
        time.sleep(1)
    # Silent for longer than the router remembers a connection, and then a push.
    quiet = 2 * NAT_SECONDS + 20
    before = agent.status()["connections"]
    time.sleep(quiet)
    began = time.monotonic()
    sent.append(push(service, token, "after the silence"))
    account(sent, out)
    after = agent.status()["connections"]
    with open(f"{agent.state}/networks", encoding="utf-8") as file:
        remembered = file.read().strip()
    print(f"nat: forgets after {NAT_SECONDS} s; keep-alive {' '.join(map(str, seen))}; after {quiet} s of silence a "
          f"push had run after {time.monotonic() - began - 1:.2f} s, connections before and after: {before}, {after}; "
          f"remembered: {remembered}")
    assert before == after, "the connection was lost"
    agent.close()
    service.close()
    networks.close()


def kill():
    seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    service, agent, out = make(command='echo "$APUS_NOTIFICATION_ID" >> FOLDER/out; sleep 0.$(($$ % 4))')
    token = agent.token()
    sent = []
    for _ in range(KILLS):
        # A push is answered when its command has ended, so that the kill must not wait for the answer.
        with concurrent.futures.ThreadPoolExecutor(4) as senders:
            pushes = [senders.submit(push, service, token, "kill") for _ in range(chance.randint(1, 4))]
            time.sleep(chance.uniform(0, 0.2))
            agent.kill()
            agent.start()
        sent += [one.result() for one in pushes]
        if chance.random() < 0.5:
            agent.connected()
    agent.connected()
    account(sent, out, 180)
    outcomes = {}
    for identifier in sent:
        outcome = agent.outcome(identifier)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    print(f"kill: seed {seed}, {KILLS} kills, {len(sent)} sent, each command ran once; {outcomes}")
    agent.close()
    service.close()


def rest():
    service, agent, _ = make(rule=f"[topic {TOPIC}]\nwrite = FOLDER/file\n",
                             extra="keep-alive-from = 60\nkeep-alive-to = 60\n")
    agent.token()
    process = agent.process.pid
    time.sleep(12)
    with open(f"/proc/{process}/smaps_rollup", encoding="utf-8") as file:
        rollup = dict(re.findall(r"(\w+):\s+(\d+) kB", file.read()))
    seconds = 185
    counted = subprocess.run(
        ["timeout", "-s", "INT", str(seconds), "strace", "-f", "-c", "-p", str(process)], capture_output=True,
        text=True, check=False)
    print(f"rest: proportional set size {int(rollup['Pss']) / 1024:.1f} MB ("
          f"{int(rollup['Private_Dirty']) / 1024:.1f} MB of its own), keep-alive 60 s, "
          f"system calls in {seconds} s:\n{counted.stderr}")
    agent.close()
    service.close()
    # The rest is text of the program and of libraries, as much of it as the kernel keeps.
    assert int(rollup["Private_Dirty"]) < 4 * 1024, "4 MB or more of its own"


SHOWS = {"suspend": suspend, "network": network, "nat": nat, "kill": kill, "rest": rest}

if __name__ == "__main__":
    for name in sys.argv[1:] or SHOWS:
        SHOWS[name]()
