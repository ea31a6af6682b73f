"""What a fault run sends to another service's devices: each notification arrives there, or is reported."""

import asyncio
import collections
import json
import random
import subprocess
import time

from cluster_legacy import PROCESSING_ERROR, Frame, LegacySender
from cluster_nodes import PATIENCE, TOPIC, Violation
from legacy_frames import command_2, feedback_rows
from upstream import BAD, DEAD, DEAD_SINCE, GOOD, Upstream, token

RELAYED = f"{TOPIC}.relayed"
DEVICES = 50
# One in so many tokens is bad, and one in so many dead.
OTHERS = 40


class RelayedSender(LegacySender):
    """Sends to tokens of another service, at a listener that confirms, and the same notification until it is."""

    # Upstream rejects a notification some time after it is confirmed.
    patience = 2

    def __init__(self, folder, programs, errors, seed):
        self.account, self.random = errors, random.Random(seed)
        self.upstream = Upstream(folder, programs)
        self.devices = [f"{GOOD}{self.random.getrandbits(248):062x}" for _ in range(DEVICES)]
        #: By number.
        self.kinds, self.tokens, self.outcomes = [], [], {}
        self.doubtful, self.reported = set(), {}
        #: Discarded by a packet; and those whose resend was spread over several connections, which is not recognised.
        self.behind, self.spread = set(), set()

    def __str__(self):
        return "the relay"

    def provision(self, node):
        ready = self.upstream.ready
        node.run("app", "--add", RELAYED)
        node.run("app", "--change", RELAYED, "--upstream", f"https://localhost:{ready['http2']['production']}",
                 "--upstream-key", ready["key_file"], "--upstream-key-id", ready["key_id"],
                 "--upstream-team", ready["team"], "--upstream-authority", ready["authority_file"])
        [self.files] = node.run("cert", "--topic", RELAYED)

    def connect(self, cluster):
        self.cluster = cluster
        super().__init__(self.account, self.files, cluster.ports["gateway-confirm"], True)

    # MARK: Sending

    def make_frame(self):
        number = len(self.kinds)
        kind = {0: BAD, 1: DEAD}.get(self.random.randrange(2 * OTHERS), GOOD)
        self.kinds.append(kind)
        self.tokens.append(token(number, kind, self.devices))
        return self.frame(number)

    def frame(self, number):
        content = json.dumps({"aps": {"alert": f"n{number}"}}).encode()
        return Frame(number, command_2(number, self.tokens[number], content, 0x7FFF_FFFF))

    def written(self, frame):
        """It may be written again, under the same number."""

    def accepted(self, frame):
        self.outcomes[frame.identifier] = "accepted"

    def doubt(self, frame):
        self.doubtful.add(frame.identifier)
        return self.frame(frame.identifier)

    def discarded(self, frame, status):
        if frame.identifier in self.behind:
            self.spread.add(frame.identifier)
        self.behind.add(frame.identifier)
        return self.frame(frame.identifier)

    def settle(self):
        self.spread.update(frame.identifier for frame in self.again)
        super().settle()

    def named(self, frame, status):
        # The node was taken over from, or its store failed, after it may have been sent upstream.
        if status == PROCESSING_ERROR:
            return self.doubt(frame)
        self.outcomes[frame.identifier] = "reported"
        self.reported[frame.identifier] = status

    async def run(self, load):
        await super().run(load)
        begin = time.monotonic()
        while await asyncio.to_thread(self.is_waiting):
            await asyncio.sleep(0.2)
            if time.monotonic() > begin + PATIENCE:
                raise Violation("notifications wait for upstream, which works")

    def is_waiting(self):
        try:
            rows = self.cluster.serving.run("relay")
        except subprocess.CalledProcessError:
            return True  # It began to serve a moment ago.
        return any(row["notifications"] for row in rows)

    # MARK: The balance

    async def read_feedback(self):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.cluster.ports["feedback"], ssl=self.context, server_hostname="localhost")
        async with asyncio.timeout(PATIENCE):
            rows = feedback_rows(await reader.read())
        writer.close()
        return rows

    async def close(self, lines):
        """Compares with what upstream has, with the feedback list, and with the ledger's lines."""
        feedback = await self.read_feedback()
        listed = {name for name, _ in feedback}
        self.arrivals = await asyncio.to_thread(self.upstream.accepted)
        for number, kind in enumerate(self.kinds):
            ids, name = self.arrivals.get(f"n{number}", []), self.tokens[number]
            faults = {
                "has no outcome": number not in self.outcomes,
                "was lost": kind == GOOD and not ids,
                "is good, and reported": number in self.reported and kind != BAD or kind == GOOD and name in listed,
                "is bad, and not reported": kind == BAD and number not in self.reported and name not in listed,
                "is dead, and not in the feedback list once":
                    kind == DEAD and feedback.count((name, DEAD_SINCE)) != 1,
                "arrived under several ids": len(set(ids)) > 1 and number not in self.doubtful | self.spread}
            for fault in [fault for fault, is_true in faults.items() if is_true]:
                self.account.violate(f"the relayed notification {number} {fault}: {kind}, {ids}, "
                                     f"{self.outcomes.get(number)}")
        self.compare(lines)

    def compare(self, lines):
        """Lines of the relay are written with what they are about, so none may be missing."""
        ends = collections.defaultdict(list)
        for line in lines:
            if line["topic"] == RELAYED and line["state"] == "Accepted Upstream":
                ends[line["id"].upper()].append(line["state"])
        for text, ids in self.arrivals.items():
            for id in set(ids):
                if len(ends[id.upper()]) != 1:
                    self.account.violate(f"{text} arrived upstream as {id}, which has {len(ends[id.upper()])} lines")

    def totals(self):
        several = [ids for ids in self.arrivals.values() if len(ids) > 1]
        return {"relayed": len(self.kinds), "relayed_reported": len(self.reported),
                "relayed_in_doubt": len(self.doubtful | self.spread), "relayed_arrived_twice": len(several),
                "relayed_lost_connections": self.lost_connections}

    def stop(self):
        self.upstream.process.terminate()
