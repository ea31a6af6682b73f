"""The load of a fault run: providers and devices that go on whatever happens to the service."""

import asyncio
import contextlib
import json
import pathlib
import random
import ssl
import struct
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Clients/python/src"))
from apus_device import messages
from apus_device.connection import Connection, Ended, Service

from cluster_account import payload
from cluster_nodes import PATIENCE, TOPIC, Violation
from http2_client import (
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, MAX_CONCURRENT_STREAMS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, string)

# Those of the first kind get one notification at a time, those of the second as many as come.
ALONE, BUSY = 40, 16
PROVIDERS = 3
LIFETIME = 86_400
# Seconds for a handshake, for the answer to a push, and for that to a keep-alive.
HANDSHAKE, ANSWER, ALIVE = 3, 20, 3
# After these the same notification may still arrive.
UNCERTAIN = ["InternalServerError", "ServiceUnavailable", "Shutdown"]


class Provider:
    """A connection at a time of the HTTP/2 API. No request is sent twice."""

    def __init__(self, load):
        self.load, self.account = load, load.account
        self.context = ssl.create_default_context(cafile=load.files["authority_file"])
        self.context.load_cert_chain(load.files["certificate_file"], load.files["key_file"])
        self.context.set_alpn_protocols(["h2"])
        self.writer, self.open, self.bodies = None, {}, {}

    async def run(self):
        while True:
            try:
                async with asyncio.timeout(HANDSHAKE):
                    reader, self.writer = await asyncio.open_connection(
                        "127.0.0.1", self.load.ports["http2"], ssl=self.context, server_hostname="localhost")
            except (OSError, TimeoutError) as error:
                self.account.error(f"connect: {type(error).__name__}")
                await asyncio.sleep(0.1)
                continue
            self.stream, self.limit, self.window, self.is_going = 1, 0, 65_535, False
            self.writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
            try:
                await self.receive(reader)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                self.account.error(f"connection: {type(error).__name__}")
            for number, _ in self.open.values():
                self.account.error("no answer")
                self.account.answer(number, "unknown")
            self.open.clear()
            self.writer.transport.abort()
            self.writer = None

    @property
    def takes_requests(self):
        return (self.writer is not None and not self.writer.is_closing() and not self.is_going
                and len(self.open) < self.limit and self.window > 1000)

    def send(self, device, token, is_stored):
        number = self.account.send(device, is_stored)
        body = payload(number)
        fields = {
            ":method": "POST", ":scheme": "https", ":path": f"/3/device/{token}", "apns-topic": TOPIC,
            "apns-id": self.account.id(number), "apns-push-type": "alert", "apns-priority": "10",
            "apns-expiration": str(int(time.time()) + LIFETIME if is_stored else 0)}
        block = b"".join(b"\0" + string(name.encode()) + string(value.encode()) for name, value in fields.items())
        self.open[self.stream] = number, time.monotonic()
        self.writer.write(frame(HEADERS, END_HEADERS, self.stream, block)
                          + frame(DATA, END_STREAM, self.stream, body))
        self.window -= len(body)
        self.stream += 2
        return number

    async def receive(self, reader):
        """Until the connection ends, or an answer is overdue."""
        while not (self.is_going and not self.open):
            oldest = min((since for _, since in self.open.values()), default=time.monotonic())
            async with asyncio.timeout(max(0.1, oldest + ANSWER - time.monotonic())):
                try:
                    head = await reader.readexactly(9)
                except TimeoutError:
                    if self.open:
                        raise
                    continue
                body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags, stream = struct.unpack(">BBI", head[3:])
            self.take(kind, flags, stream, body)

    def take(self, kind, flags, stream, body):
        if kind == SETTINGS and not flags & ACK:
            self.limit = dict(struct.iter_unpack(">HI", body)).get(MAX_CONCURRENT_STREAMS, self.limit)
            self.writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self.writer.write(frame(PING, ACK, 0, body))
        elif kind == WINDOW_UPDATE and stream == 0:
            self.window += struct.unpack(">I", body)[0]
        elif kind == GOAWAY:
            self.is_going = True
            last = struct.unpack(">I", body[:4])[0]
            for refused in [number for number in self.open if number > last]:
                self.account.error("not processed (GOAWAY)")
                self.account.answer(self.open.pop(refused)[0], "refused")
        elif kind == RST_STREAM and stream in self.open:
            self.account.error("reset")
            self.account.answer(self.open.pop(stream)[0], "unknown")
        elif kind == HEADERS and stream in self.open:
            # A change of the table's size may precede the status; 0x88 is the 200 of the static table.
            if body.lstrip(bytes(range(0x20, 0x40)))[0] == 0x88:
                self.account.answer(self.open.pop(stream)[0], "accepted")
        elif kind == DATA and stream in self.open:
            self.rejected(self.open.pop(stream)[0], json.loads(body)["reason"])

    def rejected(self, number, reason):
        self.account.error(reason)
        if reason in UNCERTAIN:
            return self.account.answer(number, "unknown")
        self.account.answer(number, "refused")
        self.account.violate(f"{number} was rejected with {reason}: {self.account.entries[number]}")


class Device:
    """A device that connects, leaves, acknowledges now, later or not at all, and comes again."""

    connections = 0

    def __init__(self, load, number, identity):
        self.load, self.account, self.number, self.identity = load, load.account, number, identity
        self.random = random.Random(load.seed << 16 | number)
        self.service = Service("localhost", load.files["authority_file"], load.ports["courier"])
        self.base = self.token = None
        self.is_connected = False
        #: Some devices acknowledge nothing before the end, and some late.
        self.manner = {ALONE: "silent", ALONE + 1: "late", ALONE + 2: "late"}.get(number, "prompt")

    async def run(self):
        while True:
            try:
                await self.connect()
            except (Ended, TimeoutError, OSError) as error:
                self.account.device_ends[str(error) or type(error).__name__] += 1
            self.is_connected = False
            # Ten times as long if it leaves by itself.
            pause = self.random.uniform(0.05, 0.3)
            await asyncio.sleep(pause * (10 if self.has_left and not self.load.is_gathering else 1))

    async def connect(self):
        self.has_left = False
        async with asyncio.timeout(HANDSHAKE):
            connection = await Connection.open(self.service, self.service.addresses[0], self.identity)
        tasks = []
        try:
            await connection.send(messages.connect(self.base))
            response = await connection.receive_first(HANDSHAKE)
            if not isinstance(response, messages.ConnectResponse):
                raise Ended(f"{response}")
            if response.status != 0:
                self.account.violate(f"device {self.number} is refused: {response.explanation}")
                raise Ended("refused")
            self.base = response.token or self.base
            self.connected = time.monotonic()
            Device.connections += 1
            self.connection = Device.connections
            topic = messages.topic_hash(TOPIC)
            await connection.send(
                messages.filter_message(self.base, [(2, [topic])]), messages.set_state(messages.State.ACTIVE),
                messages.app_token_request(self.base, topic))
            self.is_connected = True
            tasks.append(asyncio.create_task(self.stay_alive(connection)))
            await self.receive(connection, self.random.expovariate(1 / 8))
        finally:
            if self.is_connected:
                self.account.disconnected[self.connection] = time.monotonic()
            for task in tasks:
                task.cancel()
            await connection.close()

    async def stay_alive(self, connection):
        """A node that is frozen answers nothing."""
        with contextlib.suppress(Ended):
            while True:
                await asyncio.sleep(ALIVE / 3)
                await connection.send(messages.keep_alive(1))

    async def receive(self, connection, stay):
        clock = asyncio.get_running_loop().time
        leaves, is_last = clock() + stay, self.load.is_gathering
        while True:
            # What it did not acknowledge comes again on its last connection.
            if self.load.is_gathering != is_last or not is_last and clock() > leaves:
                self.has_left = True
                return
            try:
                async with asyncio.timeout(0.5):
                    message = await connection.receive()
            except TimeoutError:
                if clock() - connection.heard_time > ALIVE:
                    raise Ended("silent") from None
                continue
            if isinstance(message, messages.NotificationMessage):
                await self.take(connection, message)
            elif isinstance(message, messages.AppTokenAnswer) and message.token:
                token = message.token.hex()
                if self.token not in (None, token):
                    self.account.violate(f"device {self.number} has another token: {token} and {self.token}")
                self.token = token
            elif isinstance(message, messages.Goodbye):
                raise Ended(message.reason)

    async def take(self, connection, message):
        if message.token.hex() != self.token and self.token is not None:
            self.account.violate(f"device {self.number} got what is for the token {message.token.hex()}")
        is_taken = self.load.is_gathering or self.manner == "prompt" and self.random.random() < 0.875
        number = self.account.arrive(
            message.payload, self.number, (message.message_id, message.sent_nanoseconds), message.id, self.connection,
            self.connected, is_taken)
        acknowledgement = messages.acknowledgement(self.base, message.message_id, messages.Status.TAKEN)
        if is_taken:
            await connection.send(acknowledgement)
        elif self.manner == "late" and number is not None:
            asyncio.get_running_loop().call_later(
                self.random.uniform(0.01, 0.5), self.take_late, connection, self.connection, number, acknowledgement)

    def take_late(self, connection, place, number, acknowledgement):
        if self.is_connected and self.connection == place:
            self.account.take(number)
            asyncio.create_task(self.send_late(connection, acknowledgement))

    @staticmethod
    async def send_late(connection, acknowledgement):
        with contextlib.suppress(Ended):
            await connection.send(acknowledgement)


class Load:
    def __init__(self, account, ports, files, identities, seed, rate):
        self.account, self.ports, self.files, self.seed, self.rate = account, ports, files, seed, rate
        self.random = random.Random(seed)
        self.is_gathering = False
        self.devices = [Device(self, number, identity) for number, identity in enumerate(identities)]
        self.providers = [Provider(self) for _ in range(PROVIDERS)]
        self.last = {}
        self.tasks = []

    async def start(self):
        """Returns once each device has its token."""
        self.tasks = [asyncio.create_task(one.run()) for one in [*self.devices, *self.providers]]
        begin = time.monotonic()
        while not all(device.token for device in self.devices):
            await self.pause(0.05)
            if time.monotonic() > begin + PATIENCE:
                raise Violation(f"not all devices have a token: {self.account.device_ends}")
        self.sender = asyncio.create_task(self.send())
        self.tasks.append(self.sender)

    async def pause(self, seconds):
        """Raises what ended a part of the load."""
        await asyncio.sleep(seconds)
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def send(self):
        begin, count = time.monotonic(), 0
        while True:
            await asyncio.sleep(0.005)
            due = int((time.monotonic() - begin) * self.rate) - count
            count += due
            for _ in range(due):
                ready = [provider for provider in self.providers if provider.takes_requests]
                if ready:
                    self.push(self.random.choice(ready))

    def push(self, provider):
        device = self.random.randrange(ALONE) if self.random.random() < 0.5 else \
            self.random.randrange(ALONE, ALONE + BUSY)
        if device < ALONE and not self.is_free(device):
            return
        is_stored = self.random.random() < 0.875
        self.last[device] = provider.send(device, self.devices[device].token, is_stored)

    def is_free(self, device):
        """Whether nothing that was accepted, or may have been, is on its way to the device."""
        if device not in self.last:
            return True
        entry = self.account.entries[self.last[device]]
        if entry.outcome == "accepted":
            return entry.taken > 0 or not entry.is_stored
        return entry.outcome is not None

    async def gather(self, seconds):
        """Sends nothing more, and waits until all devices have what waits for them, or nothing came for so long."""
        self.sender.cancel()
        await asyncio.sleep(1)
        self.is_gathering = True
        begin = since = time.monotonic()
        last = None
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.2)
            now = [self.account.events, sum(entry.taken for entry in self.account.entries)]
            if now != last:
                last, since = now, time.monotonic()
            is_quiet = not any(provider.open for provider in self.providers)
            if is_quiet and all(device.is_connected and device.connected > begin for device in self.devices) \
                    and not self.account.missing() and time.monotonic() - since > 3:
                return
        self.account.violate("some devices or providers did not finish: " + str(
            [device.number for device in self.devices if not device.is_connected]))

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
