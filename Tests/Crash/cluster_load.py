"""The load of a fault run: providers and devices that go on whatever happens to the service."""

import asyncio
import collections
import functools
import json
import random
import ssl
import struct
import time

from cluster_account import payload
from cluster_channels import Channels
from cluster_devices import ALONE, BUSY, HANDSHAKE, Device
from cluster_jobs import Jobs
from cluster_legacy import LocalSender
from cluster_nodes import PATIENCE, TOPIC, Violation
from http2_client import (
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, MAX_CONCURRENT_STREAMS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, string)

PROVIDERS = 3
LIFETIME = 86_400
# Seconds for the answer to a push.
ANSWER = 20
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
            while self.open:
                self.account.error("no answer")
                self.open.popitem()[1][0]("unknown")
            self.writer.transport.abort()
            self.writer = None

    @property
    def takes_requests(self):
        return (self.writer is not None and not self.writer.is_closing() and not self.is_going
                and len(self.open) < self.limit and self.window > 1000)

    def send(self, device, token, is_stored):
        number = self.account.send(device, is_stored)
        self.request(
            f"/3/device/{token}", LIFETIME if is_stored else 0, payload(number), functools.partial(self.answer, number),
            {"apns-topic": TOPIC, "apns-id": self.account.id(number), "apns-push-type": "alert"})
        return number

    def answer(self, number, outcome, reason=None):
        self.account.answer(number, outcome)
        if reason is not None and outcome == "refused":
            self.account.violate(f"{number} was rejected with {reason}: {self.account.entries[number]}")

    def request(self, path, lifetime, body, answer, fields):
        """Calls `answer` once with "accepted", "refused" or "unknown", and with the reason if the service gave one."""
        fields = {
            ":method": "POST", ":scheme": "https", ":path": path, "apns-priority": "10",
            "apns-expiration": str(int(time.time()) + lifetime if lifetime else 0), **fields}
        block = b"".join(b"\0" + string(name.encode()) + string(value.encode()) for name, value in fields.items())
        self.open[self.stream] = answer, time.monotonic()
        self.writer.write(frame(HEADERS, END_HEADERS, self.stream, block)
                          + frame(DATA, END_STREAM, self.stream, body))
        self.window -= len(body)
        self.stream += 2

    async def receive(self, reader):
        """Until the connection ends, or an answer is overdue."""
        while not (self.is_going and not self.open):
            oldest = min((since for _, since in self.open.values()), default=time.monotonic())
            if oldest + ANSWER < time.monotonic():
                raise TimeoutError
            try:
                async with asyncio.timeout(1):
                    head = await reader.readexactly(9)
            except TimeoutError:
                continue
            async with asyncio.timeout(ANSWER):
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
                self.open.pop(refused)[0]("refused")
        elif kind == RST_STREAM and stream in self.open:
            self.account.error("reset")
            self.open.pop(stream)[0]("unknown")
        elif kind == HEADERS and stream in self.open:
            # A change of the table's size may precede the status; 0x88 is the 200 of the static table.
            if body.lstrip(bytes(range(0x20, 0x40)))[0] == 0x88:
                self.open.pop(stream)[0]("accepted")
        elif kind == DATA and stream in self.open:
            answer, reason = self.open.pop(stream)[0], json.loads(body)["reason"]
            self.account.error(reason)
            answer("unknown" if reason in UNCERTAIN else "refused", reason)


class Load:
    def __init__(self, account, cluster, channels, relay, files, identities, seed, rate):
        self.account, self.ports, self.files, self.seed, self.rate = account, cluster.ports, files, seed, rate
        self.random = random.Random(seed)
        self.is_gathering = False
        self.channels = channels
        self.jobs = Jobs(account, cluster, self.random.getrandbits(32))
        #: By topic: what comes to devices' own tokens.
        self.accounts = {one.topic: one for one in [account, self.jobs.account]}
        self.jobs.account.losses, self.jobs.account.frozen = account.losses, account.frozen
        self.jobs.account.interruptions, self.jobs.account.takeovers = account.interruptions, account.takeovers
        self.jobs.account.cuts, self.jobs.account.crosses_links = account.cuts, account.parts > 1
        self.devices = [Device(self, number, identity) for number, identity in enumerate(identities)]
        self.providers = [Provider(self) for _ in range(PROVIDERS)]
        self.relay = relay
        self.legacy = [LocalSender(self, confirms) for confirms in (True, False)]
        #: What goes on by itself until it is told to finish, and is judged in the end.
        self.parts = [*self.legacy, self.jobs, self.channels, relay]
        self.last = {}
        self.tasks = []
        #: The longest time by which this process ran too late.
        self.lag = 0

    async def start(self):
        """Returns once each device has its tokens and subscriptions."""
        self.tasks = [asyncio.create_task(one.run()) for one in [*self.devices, *self.providers]]
        begin = time.monotonic()
        while not all(device.is_ready for device in self.devices):
            await self.pause(0.05)
            if time.monotonic() > begin + PATIENCE:
                raise Violation(f"not all devices have a token: {self.account.device_ends}")
        self.sender = asyncio.create_task(self.send())
        self.working = [asyncio.create_task(part.run(self)) for part in self.parts]
        self.tasks += [self.sender, *self.working]

    async def pause(self, seconds):
        """Raises what ended a part of the load."""
        begin = time.monotonic()
        await asyncio.sleep(seconds)
        self.lag = max(self.lag, time.monotonic() - begin - seconds)
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()

    def standing(self):
        """What tells a service that does nothing from a machine that is too slow for this process."""
        connected = sum(device.is_connected for device in self.devices)
        errors = {what: count for (phase, what), count in self.account.errors.items() if phase == self.account.phase}
        return (f"{connected} devices and {sum(one.writer is not None for one in self.providers)} providers are "
                f"connected, {sum(len(one.open) for one in self.providers)} pushes are open, {errors}, this process "
                f"was late by up to {self.lag:.1f} s")

    async def send(self):
        begin, count = time.monotonic(), 0
        while True:
            await asyncio.sleep(0.005)
            due = int((time.monotonic() - begin) * self.rate) - count
            count += due
            for _ in range(due):
                if provider := self.ready_provider():
                    self.push(provider)

    def ready_provider(self):
        ready = [provider for provider in self.providers if provider.takes_requests]
        return self.random.choice(ready) if ready else None

    def push(self, provider):
        device = self.choose()
        if device is not None:
            self.last[device] = provider.send(device, self.devices[device].tokens[TOPIC], self.is_stored())

    def is_stored(self):
        return self.random.random() < 0.875

    def choose(self):
        """A device that may get something now."""
        if self.random.random() < 0.5:
            return self.random.randrange(ALONE, ALONE + BUSY)
        device = self.random.randrange(ALONE)
        return device if self.is_free(device) else None

    def is_free(self, device):
        """Whether nothing that was accepted, or may have been, is on its way to the device."""
        if device not in self.last:
            return True
        entry = self.account.entries[self.last[device]]
        if entry.outcome == "accepted":
            return entry.taken > 0 or not entry.is_stored
        return entry.outcome is not None

    async def finish(self):
        """Sends nothing more but what the parts need to come to an end. Returns what that waited for longest."""
        self.sender.cancel()
        for part in self.parts:
            part.is_ending = True
        begin = time.monotonic()
        waits = collections.Counter()
        while not all(task.done() for task in self.working):
            waits.update(str(part) for part, task in zip(self.parts, self.working) if not task.done())
            await self.pause(0.05)
            if time.monotonic() > begin + 2 * PATIENCE:
                names = [str(part) for part, task in zip(self.parts, self.working) if not task.done()]
                raise Violation(f"did not come to an end: {', '.join(names)}")
        return max(waits, key=waits.get, default="nothing")

    async def gather(self, seconds):
        """Waits until all devices have what waits for them, or nothing came for so long."""
        await asyncio.sleep(1)
        self.is_gathering = True
        begin = since = time.monotonic()
        last = None
        accounts = [*self.accounts.values(), self.channels]
        while time.monotonic() - since < seconds:
            await asyncio.sleep(0.2)
            now = [[account.events, account.taken_count] for account in accounts]
            if now != last:
                last, since = now, time.monotonic()
            is_quiet = not any(provider.open for provider in self.providers)
            if is_quiet and all(device.is_connected and device.connected > begin for device in self.devices) \
                    and not any(account.missing() for account in accounts) and time.monotonic() - since > 3:
                return
        self.account.violate("some devices or providers did not finish: " + str(
            [device.number for device in self.devices if not device.is_connected]))

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
