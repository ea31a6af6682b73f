"""Accounts for what providers sent, what the service answered, and what devices got.

A notification is known by its number, which its payload has. Events are numbered too, in the order in which this
process learned of them. What came over the binary interface has an id that its provider does not know: its device, the
ledger or the webhook tells it.
"""

import collections
import dataclasses
import datetime
import json
import math
import time
import uuid

import cluster_names

# After this many connections that end without an acknowledgement, the service may discard a notification.
UNACKNOWLEDGED_ENDS = 10
# The flag of what a device may have under another message id.
MAY_BE_REPEATED = 0x04
# Seconds for which a push or a request waits at its node for another one, with a margin.
LINK_WAIT = 6
# Seconds for which what a node has sent may be under way when the node is lost.
UNDER_WAY = 2
# What a node does in these seconds before it is lost may be missing in the ledger, and in this one after it: it is lost
# a moment before or after that is noted here.
LOST_BEFORE, LOST_AFTER = 2.5, 1.0
TAKEN = ["Delivered to Device", "Delivered to Device (From Storage)"]
OPEN_STATES = ["Received by APNs", "Stored - Device Offline", "Stored - Power Considerations", "Sent to Device"]


def payload(number):
    # Of many lengths, to detect payloads that were mixed up.
    return json.dumps({"aps": {"alert": "The 17:42 leaves from platform 4"}, "n": number,
                       "x": "x" * (number * 7919 % 300)}, separators=(",", ":")).encode()


def number_in(content):
    try:
        number = json.loads(content)["n"]
    except (ValueError, KeyError, TypeError):
        return None
    return number if isinstance(number, int) and number >= 0 else None


@dataclasses.dataclass(slots=True)
class Entry:
    device: int
    #: False for expiration 0: it ends at the latest with the node that accepted it.
    is_stored: bool
    sent: int
    sent_time: float
    #: None, "accepted", "refused" (it must never arrive) or "unknown".
    outcome: str | None = None
    #: None until it is known.
    id: str | None = None
    answered: float = math.inf
    answered_time: float = math.inf
    seen: int = 0
    first_seen: float = math.inf
    last_seen: float = math.inf
    taken: int = 0
    taken_time: float = math.inf
    declines: int = 0
    #: The connection on which it came last and when, by message id and time of acceptance. All its deliveries have the
    #: same, unless it was sent to the service again.
    keys: dict = dataclasses.field(default_factory=dict)
    connection: int = -1


class Account:
    def __init__(self, seed, topic, alone, parts=1):
        self.seed, self.topic = seed, topic
        #: Into how many parts the devices are divided, each with a node.
        self.parts = parts
        self.clock_offset = time.time() - time.monotonic()
        #: The times of the ledger's first lines, by id.
        self.received = {}
        #: The ids of the devices, by their numbers.
        self.device_ids = []
        #: Devices below this number never have two pending notifications, so none of theirs may be replaced.
        self.alone = alone
        self.entries, self.entries_by_device = [], collections.defaultdict(list)
        self.violations = []
        self.events = 0
        #: For each part of the devices.
        self.accepted_times = [[] for _ in range(parts)]
        self.errors = collections.Counter()
        #: Why connections of devices ended, other than by themselves.
        self.device_ends = collections.Counter()
        #: What runs now, for the counts of errors.
        self.phase = "start"
        #: When nodes began to serve, with the part of the devices.
        self.takeovers = []
        #: Begin and end of times in which a node was frozen, and of those in which one lost the end of its ledger: from
        #: its kill or freeze until it stopped serving.
        self.frozen, self.losses = [], []
        #: The same of times in which links were cut.
        self.cuts = []
        #: When something began after which another node may have gone on with connections of devices at edges.
        self.interruptions = []
        #: Whether nodes accept pushes for each other.
        self.has_links = False
        #: When each connection ended, and begin and end of those of each device.
        self.disconnected, self.connected = {}, collections.defaultdict(list)

    def next_event(self):
        self.events += 1
        return self.events

    def id(self, number):
        return str(uuid.UUID(int=self.seed << 64 | number)).upper()

    def violate(self, text):
        self.violations.append(text)

    def error(self, what):
        self.errors[self.phase, what] += 1

    def part(self, device):
        """The part that a device is in: SplitMix64's last step over its id, in equal shares of all results."""
        if self.parts == 1:
            return 0
        mixed = int(self.device_ids[device], 16)
        mixed = (mixed ^ mixed >> 30) * 0xbf58_476d_1ce4_e5b9 % 2**64
        mixed = (mixed ^ mixed >> 27) * 0x94d0_49bb_1331_11eb % 2**64
        return (mixed ^ mixed >> 31) * self.parts >> 64

    # MARK: Providers

    def send(self, device, is_stored, has_id=True):
        number = len(self.entries)
        id = self.id(number) if has_id else None
        entry = Entry(device, is_stored, self.next_event(), time.monotonic(), id=id)
        self.entries.append(entry)
        self.entries_by_device[device].append(entry)
        return number

    def sent_now(self, number):
        """It waited, and is sent only now."""
        entry = self.entries[number]
        entry.sent, entry.sent_time = self.next_event(), time.monotonic()

    def answer(self, number, outcome):
        entry = self.entries[number]
        if entry.outcome is not None:
            return
        entry.outcome, entry.answered, entry.answered_time = outcome, self.next_event(), time.monotonic()
        if outcome == "accepted":
            self.accepted_times[self.part(entry.device)].append(entry.answered_time)
        if outcome == "refused" and entry.seen:
            self.violate(f"{number} was refused and arrived: {entry}")

    # MARK: Devices

    def arrive(self, device, message, connection, connected, is_taken):
        """Records that a device got a message on its connection with a number, which it has since the time given."""
        number = self.find(message.payload, device)
        if number is None:
            return self.violate(f"device {device} got a payload that was never sent: {message.payload!r}")
        entry = self.entries[number]
        if entry.device != device:
            self.violate(f"{number} arrived at device {device}: {entry}")
        if entry.outcome == "refused":
            self.violate(f"{number} was refused and arrived: {entry}")
        if not entry.is_stored:
            self.check_life(number, entry, connected)
        self.compare_key(number, entry, message, connection)
        entry.last_seen = self.next_event()
        entry.first_seen = min(entry.first_seen, entry.last_seen)
        entry.seen += 1
        if is_taken:
            self.take(number)
        else:
            entry.declines += 1
        return number

    def compare_key(self, number, entry, message, connection):
        """What comes again under another message id must say so: devices recognise it by that and its `apns-id`."""
        key = message.message_id, message.sent_nanoseconds
        if entry.id not in (None, message.id):
            self.violate(f"{number} arrived with the id {message.id}: {entry}")
        if self.is_on_one(connection, entry.keys.get(key)):
            self.violate(f"{number} arrived twice on one connection as {key}: {entry}")
        if entry.keys and key not in entry.keys:
            if not message.storage_flags & MAY_BE_REPEATED:
                self.violate(f"{number} arrived as {key} too, and is not marked: {entry}")
            if not self.may_be_sent_again(entry):
                self.violate(f"{number} arrived as {key} too, and no link had ended: {entry}")
        entry.id, entry.connection = message.id, connection
        entry.keys[key] = connection, time.monotonic()

    def is_on_one(self, connection, last):
        """Whether one node has served the connection since something came on it, as far as that is known. What it had
        sent may have been under way for a moment. A node that begins to serve a part takes over the connections of
        its edge, also those of devices of other parts."""
        return last is not None and last[0] == connection and not any(
            begin > last[1] - UNDER_WAY
            for begin in [*self.interruptions, *(began for _, began in self.takeovers)])

    def may_be_sent_again(self, entry):
        """Whether the node that serves, or the link to it, was lost while the notification was with another node that
        had sent it there. A node that drains says what it has decided."""
        return self.has_links and any(
            entry.sent_time < last and first < entry.answered_time
            for first, last in [*self.losses, *self.frozen, *self.cuts])

    def may_come_late(self, sent):
        """Whether what was sent, and not answered, may have waited at a node: for another one, or while it was frozen.
        It may then be accepted after its sender has given up, and after what was sent later."""
        return self.has_links and sent.outcome != "accepted" and any(
            first < sent.sent_time + LINK_WAIT and sent.sent_time < last
            for first, last in [*self.losses, *self.frozen, *self.cuts])

    def find(self, content, device):
        """The number of what a device got; None if nobody sent it."""
        number = number_in(content)
        return number if number is not None and number < len(self.entries) and payload(number) == content else None

    def check_life(self, number, entry, connected):
        """What must not be stored does not survive its node. A frozen one can still have it afterwards."""
        if any(entry.sent_time < end and begin < connected for begin, end in self.frozen):
            return
        if self.may_come_late(entry):
            return
        if any(part == self.part(entry.device) and entry.answered_time < began < connected
               for part, began in self.takeovers):
            self.violate(f"{number} must not be stored, and arrived from another node: {entry}")

    def take(self, number):
        entry = self.entries[number]
        entry.taken += 1
        entry.taken_time = min(entry.taken_time, time.monotonic())

    @property
    def taken_count(self):
        return sum(entry.taken for entry in self.entries)

    def disconnect(self, device, connection, connected):
        self.disconnected[connection] = time.monotonic()
        self.connected[device].append((connected, time.monotonic()))

    # MARK: The balance

    def decided(self, entry):
        """An event by which the service must have decided about it, if it did at all, also for the last time."""
        if self.may_be_sent_again(entry):
            return entry.answered if entry.outcome == "accepted" else entry.last_seen
        return min(entry.answered if entry.outcome == "accepted" else math.inf, entry.first_seen)

    def missing(self):
        """Accepted notifications that neither arrived nor were replaced, as far as is known.

        The newest one of a device is retained. A missing one counts as replaced if another one arrived about which the
        service may have decided after the missing one was sent. To a device with one at a time, that can only be one
        whose answer was lost."""
        newest = collections.defaultdict(int)
        for entry in self.entries:
            if entry.is_stored and entry.taken and self.decided(entry) < math.inf \
                    and (entry.device >= self.alone or entry.outcome != "accepted"):
                newest[entry.device] = max(newest[entry.device], self.decided(entry))
        return [number for number, entry in enumerate(self.entries)
                if entry.outcome == "accepted" and entry.is_stored and not entry.taken
                and entry.declines < UNACKNOWLEDGED_ENDS
                and newest[entry.device] <= entry.sent]

    def close(self, lines, counts):
        """Compares with the ledger's lines and the counters, once all devices have what waited for them."""
        for number in self.missing():
            self.violate(f"{number} was accepted, and neither arrived nor was replaced: {self.entries[number]}")
        self.received = {line["id"].upper(): line["time"] for line in lines if line["state"] == OPEN_STATES[0]}
        ends = self.ends((line["id"], line) for line in lines if line["state"] not in OPEN_STATES)
        self.lines_lost = 0
        for number, entry in enumerate(self.entries):
            self.compare(number, entry, ends.get(entry.id, []))
        accepted = sum(entry.outcome == "accepted" for entry in self.entries)
        counts = [row for row in counts if row["topic"] == self.topic]
        self.uncounted = max(0, accepted - sum(row["accepted"] for row in counts))
        if self.uncounted > self.lines_lost:
            self.violate(f"the counters lack {self.uncounted} of {accepted} accepted notifications")
        for row in counts:
            if row["accepted"] != row["ended"] + row["pending"] or row["pending"]:
                self.violate(f"the counters do not add up: {row}")

    def ends(self, rows):
        """The states by id, of rows with an id, and an object with topic, device and state."""
        ends, rows_by_id = collections.defaultdict(list), {}
        for id, row in rows:
            if row["topic"] == self.topic:
                ends[id.upper()].append(row["state"])
                rows_by_id[id.upper()] = row
        self.identify(ends, rows_by_id)
        return ends

    def identify(self, ends, rows):
        """Gives each id that no provider chose, and no device told, to a notification of its device, by when the id was
        received; an id whose line of that is lost, by when it ended."""
        known = {entry.id for entry in self.entries}
        ids = collections.defaultdict(list)
        for id, row in rows.items():
            if id not in known:
                received = self.monotonic(self.received.get(id, row["time"]))
                ids[row["device"]].append((received, id, ends[id]))
        places = {device: place for place, device in enumerate(self.device_ids)}
        for device, found in ids.items():
            nameless = [entry for entry in self.entries_by_device[places.get(device)]
                        if entry.id is None and entry.outcome != "refused"]
            for id, entry in cluster_names.assign(found, nameless, self.may_lack_line):
                if entry is None:
                    self.violate(f"{id} of the device {device} is {ends[id]}, and nobody sent it")
                else:
                    entry.id = id

    def monotonic(self, text):
        """A time of the ledger or the webhook by this process's clock."""
        return datetime.datetime.fromisoformat(text).timestamp() - self.clock_offset

    def compare(self, number, entry, states):
        if len(states) > 1 and not self.may_end_again(entry, states):
            self.violate(f"{number} has several final states, {states}: {entry}")
        for state in states:
            if state in TAKEN and not entry.taken:
                self.violate(f"{number} is {state}, and its device did not acknowledge it: {entry}")
            elif state == "Discarded - Never Acknowledged" and entry.declines < UNACKNOWLEDGED_ENDS:
                self.violate(f"{number} is {state} after {entry.declines} connections: {entry}")
            elif state == "Discarded - Not Stored" and entry.is_stored and not self.may_lack_line(entry) \
                    and not (len(states) > 1 and self.may_end_again(entry, states)):
                # The next node finds neither the end nor the notification.
                self.violate(f"{number} is {state}, and must be stored: {entry}")
            elif state == "Discarded - Store Failed" and entry.outcome == "accepted":
                self.violate(f"{number} is {state}, and was accepted: {entry}")
            elif state not in [*TAKEN, "Discarded - Replaced", "Discarded - Never Acknowledged",
                               "Discarded - Not Stored", "Discarded - Store Failed"]:
                self.violate(f"{number} is {state}: {entry}")
        if entry.outcome == "accepted" and not states:
            self.lines_lost += 1
            if not self.may_lack_line(entry):
                self.violate(f"{number} was accepted and has no final state: {entry}")

    def may_end_again(self, entry, states):
        """With links, what a lost node had and had not decided is sent to the next one, which has noted its end."""
        return self.has_links and any(
            entry.sent_time < last and first < entry.answered_time + LOST_BEFORE
            for first, last in [*self.losses, *self.cuts])

    def may_lack_line(self, entry):
        """Whether a node was lost while it could have the line of the notification's end in its own journal."""
        begin = entry.sent_time if entry.taken_time == math.inf else entry.taken_time
        end = entry.answered_time if begin == entry.sent_time and entry.answered_time < math.inf else begin
        if entry.is_stored and entry.taken_time == math.inf:
            end = self.replaced_time(entry)
        # What a device does not acknowledge, has no room for, or does not read any more, ends with its connection.
        end = max(end, self.disconnected.get(entry.connection, 0))
        if not entry.seen:
            end = max([end, *(last for first, last in self.connected[entry.device] if first - 1 < end < last + 1)])
        return any(begin - LOST_AFTER < last and first < end + LOST_BEFORE for first, last in self.losses)

    def replaced_time(self, entry):
        """When a newer notification must have taken the place of one that waited. One that was answered later may have
        been decided before; what must not be stored replaces nothing."""
        return min((one.answered_time for one in self.entries_by_device[entry.device]
                    if one.is_stored and one.outcome == "accepted" and one.sent > entry.answered), default=math.inf)

    def totals(self):
        entries = self.entries
        accepted = [entry for entry in entries if entry.outcome == "accepted"]
        unknown = [entry for entry in entries if entry.outcome in (None, "unknown")]
        return {
            "sent": len(entries), "accepted": len(accepted), "delivered": sum(entry.taken > 0 for entry in accepted),
            "replaced": sum(entry.is_stored and not entry.taken for entry in accepted),
            "not_stored": sum(not entry.is_stored and not entry.taken for entry in accepted),
            "with_two_message_ids": sum(len(entry.keys) > 1 for entry in entries),
            "redelivered": sum(max(0, entry.seen - 1) for entry in entries),
            "refused": sum(entry.outcome == "refused" for entry in entries), "unanswered": len(unknown),
            "unanswered_delivered": sum(entry.seen > 0 for entry in unknown),
            "without_line": self.lines_lost, "uncounted": self.uncounted, "violations": len(self.violations),
        }
