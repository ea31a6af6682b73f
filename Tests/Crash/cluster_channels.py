"""Broadcasts of a fault run: an accepted one reaches each subscribed device, unless a newer one took its place."""

import asyncio
import collections
import dataclasses
import functools
import json
import random
import time

from cluster_account import UNACKNOWLEDGED_ENDS, number_in
from cluster_nodes import PATIENCE, TOPIC, Violation

# On the first of them a broadcast follows once all devices have seen the one before; on the others when it pleases.
CALM, HASTY = 2, 2
# Seconds between two broadcasts on a channel.
PAUSE = 0.02, 1.5
LIFETIME = 7200


def body(number):
    return json.dumps({"aps": {"timestamp": 1_700_000_000, "event": "update", "content-state": {"score": number}},
                       "n": number}, separators=(",", ":")).encode()


@dataclasses.dataclass(slots=True)
class Broadcast:
    channel: str
    is_stored: bool
    sent_time: float
    outcome: str | None = None
    id: str | None = None
    seen: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    declines: collections.Counter = dataclasses.field(default_factory=collections.Counter)


class Channels:
    def __init__(self, account, seed):
        self.account, self.random = account, random.Random(seed)
        self.is_ending = False
        self.ids, self.subscribers, self.broadcasts = [], {}, []
        #: The newest that a device got, on which connection and when, and the newest that it acknowledged.
        self.newest, self.taken = {}, collections.defaultdict(lambda: -1)
        #: By channel, the newest that was sent, and the devices of each that came late, after a newer one: it waited
        #: at a node, and took the place of that one.
        self.last, self.late = {}, collections.defaultdict(dict)
        self.events = self.taken_count = self.repeated = 0
        #: What each channel waits for.
        self.waits = {}

    def __str__(self):
        return f"the channels, which wait for {', '.join(sorted(self.waits.values())) or 'nothing'}"

    def make(self, node, device_count):
        for _ in range(CALM + HASTY):
            [made] = node.run("channel", "create", "--topic", TOPIC)
            self.ids.append(made["channel"])
        for device in range(device_count):
            # Each calm one has half of the devices, each other one all.
            for place in [device % CALM, *range(CALM, CALM + HASTY)]:
                self.subscribers.setdefault(self.ids[place], set()).add(device)

    def of(self, device):
        return [channel for channel, devices in self.subscribers.items() if device in devices]

    async def run(self, load):
        await asyncio.gather(*(self.publish_all(load, channel) for channel in self.ids))

    async def publish_all(self, load, channel):
        is_calm, is_seen = channel in self.ids[:CALM], True
        while not self.is_ending:
            await asyncio.sleep(self.random.uniform(*PAUSE))
            is_stored = is_calm or self.random.random() < 0.875
            number = await self.publish(load, channel, is_stored)
            if is_calm and self.broadcasts[number].outcome == "accepted":
                is_seen = await self.until_seen(number)
        # The last one is known to be accepted and kept. It may be one for which devices are waited for: they get it
        # when they acknowledge what came before.
        while is_seen and self.broadcasts[await self.publish(load, channel, True)].outcome != "accepted":
            pass

    async def publish(self, load, channel, is_stored):
        self.waits[channel] = "a provider"
        begin = time.monotonic()
        while (provider := load.ready_provider()) is None:
            await asyncio.sleep(0.05)
            if time.monotonic() > begin + PATIENCE:
                raise Violation("no provider can send a broadcast")
        number = len(self.broadcasts)
        self.broadcasts.append(Broadcast(channel, is_stored, time.monotonic()))
        self.last[channel] = number
        provider.request(
            f"/4/broadcasts/apps/{TOPIC}", LIFETIME if is_stored else 0, body(number),
            functools.partial(self.answer, number), {"apns-channel-id": channel, "apns-push-type": "liveactivity"})
        self.waits[channel] = f"an answer to {number}"
        while self.broadcasts[number].outcome is None:
            await asyncio.sleep(0.01)
        del self.waits[channel]
        return number

    def answer(self, number, outcome, reason=None):
        broadcast = self.broadcasts[number]
        broadcast.outcome = outcome
        self.events += 1
        if outcome == "refused" and (broadcast.seen or reason is not None):
            self.account.violate(f"the broadcast {number} was refused, {reason}: {broadcast}")

    async def until_seen(self, number):
        """False if the load ends before."""
        broadcast = self.broadcasts[number]
        begin = time.monotonic()
        while missing := self.lacking(number):
            if self.is_ending:
                return False
            await asyncio.sleep(0.02)
            if time.monotonic() > begin + PATIENCE:
                self.account.violate(f"the broadcast {number} did not reach {missing}: {broadcast}")
                break
        return True

    def lacking(self, number):
        """The devices that should have it by now."""
        broadcast = self.broadcasts[number]
        late = (devices for one, devices in self.late[broadcast.channel].items() if one < number)
        return self.subscribers[broadcast.channel].difference(broadcast.seen, *late)

    # MARK: Devices

    def arrive(self, device, channel, content, id, connection, is_taken):
        """Returns what to call when it is acknowledged later; None if it is not known."""
        number = number_in(content)
        if number is None or number >= len(self.broadcasts) or body(number) != content:
            return self.account.violate(f"device {device} got a broadcast that was never sent: {content!r}")
        broadcast = self.broadcasts[number]
        self.events += 1
        place, faults = (channel, device), []
        if broadcast.channel != channel or device not in self.subscribers[broadcast.channel]:
            faults.append(f"on the channel {channel}")
        if broadcast.outcome == "refused":
            faults.append("and was refused")
        if broadcast.id not in (None, id):
            faults.append(f"as {id}")
        newest, since = self.newest.get(place, (-1, None))
        is_older = number < self.taken[place] or number <= newest and self.account.is_on_one(connection, since)
        if is_older and not self.account.may_come_late(broadcast):
            faults.append(f"after {newest}, and had taken {self.taken[place]}")
        if broadcast.seen[device] and not broadcast.is_stored:
            faults.append("again, and must not be stored")
        if faults:
            self.account.violate(f"the broadcast {number} came to device {device} {', '.join(faults)}: {broadcast}")
        if number < self.last[channel] and self.account.may_come_late(broadcast):
            self.late[channel].setdefault(number, set()).add(device)
        self.repeated += broadcast.seen[device] > 0
        broadcast.id = id
        broadcast.seen[device] += 1
        self.newest[place] = number, (connection, time.monotonic())
        taken = functools.partial(self.take, place, number)
        if is_taken:
            taken()
        else:
            broadcast.declines[device] += 1
        return taken

    def take(self, place, number):
        self.taken[place] = max(self.taken[place], number)
        self.taken_count += 1

    # MARK: The balance

    def missing(self):
        """The channels' last broadcasts with the devices that do not have them."""
        last = {broadcast.channel: number for number, broadcast in enumerate(self.broadcasts)}
        return [(number, device) for channel, number in last.items() for device in self.subscribers[channel]
                if self.taken[channel, device] < number
                and self.broadcasts[number].declines[device] < UNACKNOWLEDGED_ENDS]

    def judge(self):
        for number, device in self.missing():
            self.account.violate(f"the broadcast {number} was accepted, and did not arrive at device {device}: "
                                 f"{self.broadcasts[number]}")

    def totals(self):
        accepted = [broadcast for broadcast in self.broadcasts if broadcast.outcome == "accepted"]
        return {"broadcasts": len(self.broadcasts), "broadcasts_accepted": len(accepted),
                "broadcasts_received": sum(sum(broadcast.seen.values()) for broadcast in self.broadcasts),
                "broadcasts_repeated": self.repeated}
