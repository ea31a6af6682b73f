"""The client against a service. APUS is the program; without it nothing runs here."""

import asyncio
import json
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

from apus_device import (
    Address, Client, EnrolmentRefused, Identity, Refused, Service, Status, Subscription, SubscriptionRefused,
    SubscriptionStatus, TokenRefused, enrol)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from testing import APUS, LIVE_TOPIC, TOPIC, ServiceTests


@unittest.skipUnless(APUS, "APUS names no program")
class LiveTests(ServiceTests, unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        super().setUp()
        self.service = Service("localhost", self.authority, self.courier)

    def identity(self):
        issued = self.apus("device", "add", "--name", "python")
        return Identity.join(self.folder / "device.pem", issued["certificate_file"], issued["key_file"])

    async def send(self, token, text, *options):
        return await asyncio.to_thread(self.push, token, text, *options)

    def client(self, identity, **options):
        return Client(self.service, identity, [TOPIC], state=self.folder / "state.json", **options)

    async def next(self, client):
        async with asyncio.timeout(30):
            return await anext(client)

    async def states(self, token, state):
        """Waits until the ledger has a line with that state."""
        for _ in range(200):
            run = await asyncio.to_thread(
                subprocess.run, [APUS, "log", "--data", self.data, "--token", token, "--json"],
                capture_output=True, text=True)
            if state in run.stdout:
                return
            await asyncio.sleep(0.05)
        self.fail(f"no {state} in {run.stdout}{run.stderr}")

    async def test_a_push_is_received_and_acknowledged(self):
        async with self.client(self.identity()) as client:
            token = await client.token(TOPIC)
            self.assertEqual(token, await client.token(TOPIC))
            sent = await self.send(token, "hello", "--priority", "5", "--collapse-id", "slot")
            notification = await self.next(client)
            self.assertEqual(notification.payload, {"aps": {"alert": "hello"}})
            self.assertEqual((notification.topic, notification.token), (TOPIC, token))
            self.assertEqual((notification.priority, notification.collapse_id), (5, "slot"))
            self.assertIn(notification.id.lower(), json.dumps(sent).lower())
            self.assertFalse(notification.was_stored)
            await notification.acknowledge()
            await self.states(token, "Delivered")
            with self.assertRaises(TokenRefused):
                await client.token("com.example.unknown")

    async def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(self):
        identity = self.identity()
        async with self.client(identity) as client:
            token = await client.token(TOPIC)
            await self.send(token, "first", "--expiration", "+1h")
            first = await self.next(client)
        async with self.client(identity) as client:
            again = await self.next(client)
            self.assertEqual(again.key, first.key)
            self.assertTrue(again.was_stored)
            # Its acknowledgement is lost.
            with mock.patch.object(client, "_send"):
                await again.acknowledge()
        async with self.client(identity) as client:
            await client.token(TOPIC)
            await self.send(token, "second", "--expiration", "+1h")
            self.assertEqual((await self.next(client)).payload["aps"]["alert"], "second")

    async def test_restarts_lose_nothing(self):
        async with self.client(self.identity()) as client:
            token = await client.token(TOPIC)
            for number in range(3):
                self.stop()
                self.start()
                await self.send(token, f"{number}", "--expiration", "+1h")
                notification = await self.next(client)
                self.assertEqual(notification.payload["aps"]["alert"], f"{number}")

    async def test_addresses(self):
        elsewhere = [Address("127.0.0.1", self.courier), Address("127.0.0.3", self.courier)]
        service = Service("127.0.0.2", self.authority, self.courier, elsewhere)
        code = (await asyncio.to_thread(self.apus, "code"))["code"]
        with mock.patch("apus_device.backoff.Backoff.after_end", return_value=0.1) as after_end:
            identity = await enrol(service, self.folder / "own.pem", code=code)
            async with Client(service, identity, [TOPIC], state=self.folder / "state.json") as client:
                token = await client.token(TOPIC)
                self.assertEqual(client._address, elsewhere[0])
                after_end.assert_not_called()
                # The connection breaks, and the service is elsewhere.
                self.stop()
                self.start("127.0.0.3")
                await self.send(token, "again", "--expiration", "+1h")
                self.assertEqual((await self.next(client)).payload["aps"]["alert"], "again")
                self.assertEqual(client._address, elsewhere[1])

    async def test_a_failed_notification_ends(self):
        async with self.client(self.identity()) as client:
            token = await client.token(TOPIC)
            await self.send(token, "bad", "--expiration", "+1h")
            await (await self.next(client)).acknowledge(Status.REJECTED)
            await self.states(token, "Refused by Device")

    async def test_channels(self):
        channel = await asyncio.to_thread(self.create_channel)
        wanted, unknown = Subscription(LIVE_TOPIC, channel), Subscription(LIVE_TOPIC, "AAAAAAAAAAAAAAAAAAAAAA==")
        identity = self.identity()
        topics = [TOPIC, LIVE_TOPIC]
        async with Client(self.service, identity, topics, state=self.folder / "state.json") as client:
            self.assertEqual(await client.subscriptions(), [])
            with self.assertRaises(SubscriptionRefused) as raised:
                await client.subscribe(unknown, wanted)
            self.assertEqual(raised.exception.status, SubscriptionStatus.UNKNOWN_CHANNEL)
            self.assertEqual(raised.exception.subscriptions, [wanted])
            await asyncio.to_thread(self.broadcast, channel, 1)
            notification = await self.next(client)
            self.assertEqual((notification.topic, notification.channel), (LIVE_TOPIC, channel))
            self.assertEqual(notification.payload["aps"]["content-state"], {"number": 1})
            await notification.acknowledge()
        # Offline, it misses all but the newest.
        for number in (2, 3):
            await asyncio.to_thread(self.broadcast, channel, number, "+1h")
        async with Client(self.service, identity, topics, state=self.folder / "state.json") as client:
            notification = await self.next(client)
            self.assertEqual(notification.payload["aps"]["content-state"], {"number": 3})
            self.assertTrue(notification.was_stored)
            await notification.acknowledge()
            self.assertEqual(await client.subscriptions(), [wanted])
            # What is under way when the connection ends is asked for on the next one.
            with mock.patch.object(client, "_send"):
                asked = asyncio.create_task(client.unsubscribe(wanted))
                await asyncio.sleep(0.1)
            self.stop()
            self.start()
            async with asyncio.timeout(30):
                self.assertEqual(await asked, [])
            self.assertEqual(await client.set_subscriptions(wanted), [wanted])
            self.assertEqual(await client.set_subscriptions(), [])

    async def test_keep_alive(self):
        with mock.patch("apus_device.client.ANSWER_SECONDS", 0.3):
            async with self.client(self.identity(), keep_alive_seconds=0.2) as client:
                await client.token(TOPIC)
                connection = client._connection
                heard = connection.heard_time
                await asyncio.sleep(1.5)
                self.assertIs(client._connection, connection)
                self.assertGreater(connection.heard_time, heard)

    async def test_renewal(self):
        identity = self.identity()
        before = identity.certificate
        # The service tells devices when they connect.
        self.stop()
        await asyncio.to_thread(self.apus, "rotate", "device-authority")
        self.start()
        with mock.patch("apus_device.session.random.uniform", return_value=0):
            async with self.client(identity) as client:
                token = await client.token(TOPIC)
                async with asyncio.timeout(60):
                    while client.identity.certificate == before:
                        await asyncio.sleep(0.05)
                # The service closes, and the next connection uses the new certificate.
                await self.send(token, "renewed", "--expiration", "+1h")
                self.assertEqual((await self.next(client)).payload["aps"]["alert"], "renewed")
        self.assertNotEqual(Identity(identity.path).certificate.issuer, before.issuer)
        self.assertEqual(client.identity.device, identity.device)

    async def test_enrolment(self):
        code = (await asyncio.to_thread(self.apus, "code"))["code"]
        identity = await enrol(self.service, self.folder / "own.pem", code=code, name="python")
        async with self.client(identity) as client:
            self.assertEqual(len(await client.token(TOPIC)), 64)
        with self.assertRaises(EnrolmentRefused):
            await enrol(self.service, self.folder / "other.pem", code=code)

    async def test_a_retired_device_learns_why(self):
        identity = self.identity()
        async with self.client(identity) as client:
            await client.token(TOPIC)
            await asyncio.to_thread(self.retire, identity.device)
            with self.assertRaisesRegex(Refused, "retired"):
                await self.next(client)


if __name__ == "__main__":
    unittest.main()
