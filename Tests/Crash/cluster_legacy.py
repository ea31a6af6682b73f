"""Senders over the binary interface in a fault run. What a lost connection left unsure, they send again."""

import asyncio
import dataclasses
import random
import ssl
import time

from cluster_account import payload
from cluster_devices import ALONE, BUSY, HANDSHAKE
from cluster_nodes import TOPIC
from legacy_frames import command_2, packets

# Notifications of a connection, and of each second.
BATCH, RATE = 100, 25
# Seconds for the packets that say that all is accepted.
ANSWER = 20
LIFETIME = 86_400
PROCESSING_ERROR, BAD_TOKEN, SHUTDOWN = 1, 8, 10
# One in so many notifications has a token of no device.
BAD_SHARE = 60
# The identifiers of those, and of checkpoints, begin here.
BAD_FIRST, CHECKPOINT = 0xE000_0000, 0xF000_0000


@dataclasses.dataclass(slots=True)
class Frame:
    identifier: int
    content: bytes
    is_confirmed: bool = False


class LegacySender:
    """Sends batches, each over a connection of its own. At a listener that confirms, a batch ends with its last
    confirmation; elsewhere with a checkpoint, a notification that the service rejects, and by that accepts what was
    sent before it.

    Subclasses make frames, and learn when each one is written, and once whether it was accepted, discarded, named by a
    packet, or is in doubt."""

    #: Seconds after the last confirmation for which packets may come.
    patience = 0

    def __init__(self, errors, files, port, confirms):
        self.errors, self.port, self.confirms = errors, port, confirms
        self.context = ssl.create_default_context(cafile=files["authority_file"])
        self.context.load_cert_chain(files["certificate_file"], files["key_file"])
        #: Comes first on the next connection, in this order.
        self.again, self.is_ending, self.lost_connections = [], False, 0

    async def run(self, load):
        while self.again or not self.is_ending:
            try:
                async with asyncio.timeout(HANDSHAKE):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", self.port, ssl=self.context, server_hostname="localhost")
            except (OSError, TimeoutError) as error:
                self.errors.error(f"legacy: connect: {type(error).__name__}")
                await asyncio.sleep(0.1)
                continue
            self.sent, self.confirmed, self.packet, self.heard = [], 0, None, time.monotonic()
            reading = asyncio.create_task(self.read(reader))
            try:
                await self.write(writer, reading)
            except OSError as error:
                self.errors.error(f"legacy: {type(error).__name__}")
            # What the service had sent before may still be read.
            await asyncio.wait([reading], timeout=0 if self.is_complete else 0.2)
            reading.cancel()
            writer.transport.abort()
            self.settle()

    async def write(self, writer, reading):
        while len(self.sent) < BATCH and not reading.done() and (self.again or not self.is_ending):
            await asyncio.sleep(0.2)
            new, self.again = self.again[:RATE // 5], self.again[RATE // 5:]
            if not self.is_ending:
                new += [self.make_frame() for _ in range(RATE // 5 - len(new))]
            self.sent += new
            for frame in new:
                self.written(frame)
            writer.write(b"".join(frame.content for frame in new))
            await writer.drain()
        if not self.confirms:
            writer.write(command_2(CHECKPOINT, "00" * 32, b"checkpoint", 0))
        end = time.monotonic() + ANSWER
        while not reading.done() and not self.is_complete and time.monotonic() < end:
            await asyncio.sleep(0.02)

    @property
    def is_complete(self):
        return self.confirms and self.confirmed == len(self.sent) and time.monotonic() > self.heard + self.patience

    async def read(self, reader):
        """Until the connection ends, or a packet ends it."""
        data = b""
        try:
            while more := await reader.read(65_536):
                found, data = packets(data + more)
                self.heard = time.monotonic()
                for status, identifier in found:
                    if status != 0:
                        self.packet = status, identifier
                        return
                    self.confirm(identifier)
        except OSError as error:
            self.errors.error(f"legacy: {type(error).__name__}")

    def confirm(self, identifier):
        if not self.confirms or self.confirmed == len(self.sent) \
                or self.sent[self.confirmed].identifier != identifier:
            return self.errors.violate(f"a confirmation of {identifier} came, after {self.confirmed} others")
        self.sent[self.confirmed].is_confirmed = True
        self.accepted(self.sent[self.confirmed])
        self.confirmed += 1

    def settle(self):
        """Decides for each frame that was sent whether it was accepted."""
        if self.packet is None:
            doubtful = [frame for frame in self.sent if not frame.is_confirmed]
            if doubtful:
                self.lost_connections += 1
                self.errors.error("legacy: no packet")
            self.again = [*filter(None, map(self.doubt, doubtful)), *self.again]
            return
        status, identifier = self.packet
        place = next((place for place, frame in enumerate(self.sent) if frame.identifier == identifier), None)
        if place is None and identifier != CHECKPOINT and (status, identifier) != (SHUTDOWN, 0):
            return self.errors.violate(f"a packet names {identifier}, which was not sent: {status}")
        if place is None:
            place = len(self.sent) if identifier == CHECKPOINT else -1
        if status == SHUTDOWN:
            self.errors.error("legacy: shutdown")
            place += 1
        for frame in self.sent[:place]:
            if not frame.is_confirmed:
                self.accepted(frame)
        again = []
        if status != SHUTDOWN and place < len(self.sent):
            again.append(self.named(self.sent[place], status))
            place += 1
        again += [self.discarded(frame, status) for frame in self.sent[place:]]
        self.again = [*filter(None, again), *self.again]


class LocalSender(LegacySender):
    """To the run's own devices. What it sends again has a new number, and is a notification of its own."""

    def __init__(self, load, confirms):
        super().__init__(
            load.account, load.files, load.ports["gateway-confirm" if confirms else "gateway"], confirms)
        self.load, self.account = load, load.account
        self.random = random.Random(load.seed << 8 | confirms)
        self.count = self.bad = self.packets = 0

    def __str__(self):
        return f"the legacy sender {'with' if self.confirms else 'without'} confirmations"

    def make_frame(self):
        if self.random.randrange(BAD_SHARE) == 0:
            self.bad += 1
            return Frame(BAD_FIRST + self.bad, command_2(BAD_FIRST + self.bad, "00" * 32, b'{"aps":{}}', 0))
        device = self.load.choose()
        return self.address(self.random.randrange(ALONE, ALONE + BUSY) if device is None else device)

    def address(self, device):
        is_stored = self.load.is_stored()
        number = self.account.send(device, is_stored, has_id=False)
        self.load.last[device] = number
        self.count += 1
        return Frame(number, command_2(
            number, self.load.devices[device].tokens[TOPIC], payload(number),
            int(time.time()) + LIFETIME if is_stored else 0))

    def written(self, frame):
        if frame.identifier < BAD_FIRST:
            self.account.sent_now(frame.identifier)

    def accepted(self, frame):
        if frame.identifier > BAD_FIRST:
            return self.account.violate("a notification to a token of no device was accepted")
        self.account.answer(frame.identifier, "accepted")

    def doubt(self, frame):
        return self.send_again(frame, "unknown")

    def discarded(self, frame, status):
        if frame.identifier > BAD_FIRST:
            return frame
        # Devices get it before the store fails, also those of a node that goes on after another one took over.
        sent = self.account.entries[frame.identifier].sent_time
        may_arrive = status == PROCESSING_ERROR or any(end > sent for _, end in self.account.frozen)
        return self.send_again(frame, "unknown" if may_arrive else "refused")

    def named(self, frame, status):
        self.packets += 1
        if frame.identifier < BAD_FIRST:
            self.account.error(f"legacy: status {status}")
            if status != PROCESSING_ERROR:
                self.account.violate(f"{frame.identifier} was rejected with the status {status}")
            return self.send_again(frame, "unknown")
        if status != BAD_TOKEN:
            self.account.violate(f"a token of no device was rejected with the status {status}")
        return None

    def send_again(self, frame, outcome):
        if frame.identifier > BAD_FIRST:
            return frame
        self.account.answer(frame.identifier, outcome)
        return self.address(self.account.entries[frame.identifier].device)

    def judge(self):
        """The account has all of them."""

    def totals(self):
        kind = "confirmed" if self.confirms else "unconfirmed"
        return {f"binary_{kind}": self.count, f"binary_{kind}_packets": self.packets,
                f"binary_{kind}_lost_connections": self.lost_connections}
