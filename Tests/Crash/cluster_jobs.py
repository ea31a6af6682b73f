"""Pushes to many devices in a fault run: each that was accepted ends, with one outcome for each of its devices."""

import asyncio
import collections
import http.client
import json
import random
import socket
import time
import uuid

from cluster_account import Account, number_in, payload
from cluster_nodes import PATIENCE, TOPIC, Violation

GROUP = f"{TOPIC}.group"
# Devices are tagged with one of so many groups.
GROUPS = 4
# Seconds between two jobs, and for the answer of a node that may be frozen.
PAUSE, ANSWER = (0.5, 2.5), 5
# Jobs that are made before the results of one are read.
LAG = 10


def tag(device):
    return f"group={device % GROUPS}"


class GroupAccount(Account):
    """Notifications of jobs. Their number is that of the job, and each device of it has an entry. A job that continues
    on another node repeats what it cannot know to be accepted, with the same id."""

    def __init__(self, seed):
        super().__init__(seed, GROUP, 0)
        self.places = {}
        #: Whether the node with the job is another one than that of the device may be.
        self.crosses_links = False

    def expect(self, job, devices):
        for device in devices:
            self.places[job, device] = self.send(device, True, has_id=False)

    def find(self, content, device):
        job = number_in(content)
        return self.places.get((job, device)) if job is not None and payload(job) == content else None

    def may_be_sent_again(self, entry):
        return bool(self.losses or self.frozen)

    def decided(self, entry):
        """Whenever it came, it may have been accepted again, and have replaced another one."""
        return entry.last_seen

    def may_end_again(self, entry, states):
        """What a lost node had only in its memory ends with that node, and the job repeats it. What the node of its
        device has not decided about when that node or the link is lost, is sent again."""
        if self.crosses_links and any(entry.sent_time < last for _, last in [*self.losses, *self.cuts]):
            return True
        return states[:-1] == ["Discarded - Not Stored"] * (len(states) - 1) and len(states) <= 1 + len(self.losses)


class AdminConnection(http.client.HTTPConnection):
    """To the socket in a node's data directory."""

    def __init__(self, path):
        super().__init__("localhost", timeout=ANSWER)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Jobs:
    """Makes one job after the other, and repeats each request until it is answered."""

    def __init__(self, account, cluster, seed):
        self.errors, self.cluster, self.random = account, cluster, random.Random(seed)
        self.account = GroupAccount(account.seed)
        #: The ids that the requests for a job were answered with.
        self.ids = collections.defaultdict(set)
        self.devices, self.is_ending = {}, False
        self.states, self.results = {}, {}

    def __str__(self):
        return f"jobs, of which {len(self.devices) - len(self.ids)} have no answer"

    def ask(self, method, path, body=None, **fields):
        """The status and the object of an answer; None if there is none."""
        # One of them may be frozen, and decide about the request when it goes on.
        nodes = self.cluster.in_state("serving")
        if not nodes:
            return None
        connection = AdminConnection(self.random.choice(nodes).data / "admin.sock")
        try:
            connection.request(
                method, f"/v1/{path}", None if body is None else json.dumps(body),
                {"content-type": "application/json", **fields})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    async def run(self, load):
        while not self.is_ending:
            await asyncio.sleep(self.random.uniform(*PAUSE))
            job, selection = len(self.devices), self.random.randrange(GROUPS + 1)
            everyone = range(len(load.devices))
            devices = [device for device in everyone if selection in (device % GROUPS, GROUPS)]
            self.devices[job] = devices
            self.account.expect(job, devices)
            selector = {"all": True} if selection == GROUPS else {"tags": [f"group={selection}"]}
            await self.submit(job, selector)
            # The service keeps only so many jobs that are over.
            if job >= LAG:
                await self.settle(job - LAG)
        for job in sorted(self.ids.keys() - self.states.keys()):
            await self.settle(job)

    async def submit(self, job, selector):
        body = {**selector, "topic": GROUP, "payload": json.loads(payload(job)), "priority": 10,
                "expiration": int(time.time()) + 86_400}
        key, begin = str(uuid.UUID(int=self.account.seed << 64 | job)), time.monotonic()
        while not self.ids[job]:
            answered = await asyncio.to_thread(self.ask, "POST", "notifications", body, **{"idempotency-key": key})
            status, content = answered or (None, {})
            if status == 202:
                self.ids[job].add(content["job"])
                self.accept(job)
            elif status not in (None, 409, 429, 503):
                raise Violation(f"the job {job} is refused with {status}: {content}")
            elif time.monotonic() > begin + PATIENCE:
                raise Violation(f"no answer to the job {job}: {answered}")
            else:
                self.errors.error(f"job: {status or 'no answer'}")
                await asyncio.sleep(0.2)

    def accept(self, job):
        for device in self.devices[job]:
            self.account.answer(self.account.places[job, device], "accepted")

    async def settle(self, job):
        """Waits until a job is over, and reads its results."""
        [id] = self.ids[job]
        self.states[job] = await self.until_over(job, id)
        begin = time.monotonic()
        while (answered := await asyncio.to_thread(self.ask, "GET", f"jobs/{id}/results?limit=1000")) is None \
                or answered[0] != 200:
            if time.monotonic() > begin + PATIENCE:
                raise Violation(f"the job {job} has no results: {answered}")
            await asyncio.sleep(0.1)
        self.results[job] = answered[1]["results"]

    async def until_over(self, job, id):
        begin = time.monotonic()
        while True:
            answered = await asyncio.to_thread(self.ask, "GET", f"jobs/{id}")
            status, content = answered or (None, {})
            # A node that was frozen may not know it.
            if status == 404 and len(self.cluster.in_state("serving")) == self.cluster.parts:
                raise Violation(f"the job {job} was accepted as {id}, and there is none")
            if content.get("state") in ("done", "cancelled"):
                return content["state"]
            if time.monotonic() > begin + PATIENCE:
                raise Violation(f"the job {job} is not over: {answered}")
            await asyncio.sleep(0.1)

    def judge(self):
        """The ids of its notifications; each device must have one, and the outcome that it was accepted for it."""
        for job, state in self.states.items():
            if state != "done":
                self.account.violate(f"the job {job} is {state}")
            rows = {row["device"]: row for row in self.results[job]}
            if len(self.results[job]) != len(rows) or len(rows) != len(self.devices[job]):
                self.account.violate(f"the job {job} has {len(self.results[job])} results for {self.devices[job]}")
            for device in self.devices[job]:
                self.compare(job, device, rows.get(self.account.device_ids[device]))
        known = set().union(*self.ids.values())
        for listed in self.ask("GET", "jobs")[1]["jobs"]:
            if listed["job"] not in known:
                self.account.violate(f"the service has the job {listed['job']}, of which no request was answered")

    def compare(self, job, device, row):
        entry = self.account.entries[self.account.places[job, device]]
        if row is None or row["outcome"] != "accepted" or entry.id not in (None, row["id"].upper()):
            return self.account.violate(f"the job {job} has for device {device} the result {row}: {entry}")
        entry.id = row["id"].upper()

    def totals(self):
        entries = self.account.entries
        return {"jobs": len(self.ids), "job_pushes": len(entries),
                "job_pushes_delivered": sum(entry.taken > 0 for entry in entries),
                "job_pushes_repeated": sum(max(0, entry.seen - 1) for entry in entries),
                "job_pushes_without_line": self.account.lines_lost}
