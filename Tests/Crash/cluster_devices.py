"""The devices of a fault run: they connect, leave, acknowledge now, later or not at all, and come again."""

import asyncio
import contextlib
import functools
import pathlib
import random
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "Clients/python/src"))
from apus_device import channels, messages
from apus_device.channels import Subscription
from apus_device.connection import Connection, Ended, Service

from cluster_jobs import GROUP
from cluster_nodes import TOPIC

# Those of the first kind get one notification at a time, those of the second as many as come.
ALONE, BUSY = 40, 16
# Seconds for a handshake, and for the answer to a keep-alive.
HANDSHAKE, ALIVE = 3, 3
LIVE = f"{TOPIC}.push-type.liveactivity"
# The indices of requests to subscribe, and for the list of subscriptions.
SUBSCRIBE, LIST = 1, 2


class Device:
    connections = 0

    def __init__(self, load, number, identity):
        self.load, self.account, self.number, self.identity = load, load.account, number, identity
        self.random = random.Random(load.seed << 16 | number)
        self.service = Service("localhost", load.files["authority_file"], load.ports["courier"])
        self.base = None
        #: By topic.
        self.tokens = {}
        self.subscriptions = {Subscription(LIVE, channel) for channel in load.channels.of(number)}
        self.is_subscribed = False
        self.is_connected = False
        #: Acknowledgements that are still to come.
        self.late = set()
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
            topics = [messages.topic_hash(topic) for topic in self.load.accounts]
            await connection.send(
                messages.filter_message(self.base, [(2, [*topics, messages.topic_hash(LIVE)])]),
                messages.set_state(messages.State.ACTIVE),
                *(messages.app_token_request(self.base, topic) for topic in topics), self.channel_request())
            self.is_connected = True
            tasks.append(asyncio.create_task(self.stay_alive(connection)))
            await self.receive(connection, self.random.expovariate(1 / 8))
        finally:
            if self.is_connected:
                for account in self.load.accounts.values():
                    account.disconnect(self.number, self.connection, self.connected)
                # Nothing is acknowledged while it closes.
                self.is_connected = False
            for task in tasks:
                task.cancel()
            await connection.close()

    @property
    def is_ready(self):
        return len(self.tokens) == len(self.load.accounts) and self.is_subscribed

    def channel_request(self):
        """Subscribes once; later it asks what it is subscribed to."""
        if self.is_subscribed:
            return messages.channel_request(self.base, LIST, channels.encode())
        return messages.channel_request(self.base, SUBSCRIBE, channels.encode(self.subscriptions))

    def confirmed(self, message):
        if message.index == SUBSCRIBE and message.status == channels.SubscriptionStatus.APPLIED:
            self.is_subscribed = True
        elif message.status != channels.SubscriptionStatus.UNAVAILABLE and message.status != 0:
            self.account.violate(f"device {self.number} cannot subscribe: {message}")
        if message.status == 0 and set(message.subscribed) != self.subscriptions:
            self.account.violate(f"device {self.number} has other subscriptions: {message}")

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
                self.register(message)
            elif isinstance(message, messages.ChannelConfirmation):
                self.confirmed(message)
            elif isinstance(message, messages.Goodbye):
                raise Ended(message.reason)

    def register(self, message):
        [topic] = [topic for topic in self.load.accounts if messages.topic_hash(topic) == message.topic]
        token = message.token.hex()
        if self.tokens.setdefault(topic, token) != token:
            self.account.violate(f"device {self.number} has another token: {token} and {self.tokens[topic]}")

    async def take(self, connection, message):
        is_taken = self.load.is_gathering or self.manner == "prompt" and self.random.random() < 0.875
        taken = self.note_channel(message, is_taken) if message.channel else self.note(message, is_taken)
        acknowledgement = messages.acknowledgement(self.base, message.message_id, messages.Status.TAKEN)
        if is_taken:
            await connection.send(acknowledgement)
        elif self.manner == "late" and taken is not None:
            late = asyncio.create_task(self.take_late(connection, self.connection, taken, acknowledgement))
            self.late.add(late)
            late.add_done_callback(self.late.discard)

    def note(self, message, is_taken):
        """Returns what to call when it is acknowledged later; None if it is not known."""
        topic = next((topic for topic in self.tokens if messages.topic_hash(topic) == message.topic), None)
        # Jobs address the device, and not an app's token.
        if message.token.hex() != (self.base.hex() if topic == GROUP else self.tokens.get(topic)):
            return self.account.violate(f"device {self.number} got what is for the token {message.token.hex()}")
        account = self.load.accounts[topic]
        number = account.arrive(self.number, message, self.connection, self.connected, is_taken)
        return None if number is None else functools.partial(account.take, number)

    def note_channel(self, message, is_taken):
        return self.load.channels.arrive(
            self.number, channels.text(message.channel), message.payload, message.id, self.connection, is_taken)

    async def take_late(self, connection, place, taken, acknowledgement):
        await asyncio.sleep(self.random.uniform(0.01, 0.5))
        if self.is_connected and self.connection == place:
            taken()
            with contextlib.suppress(Ended):
                await connection.send(acknowledgement)
