"""The client against a service. APUS is the program; without it nothing runs here."""

import asyncio
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest
from unittest import mock

from apus_device import Client, EnrolmentRefused, Identity, Refused, Service, Status, TokenRefused, enrol

APUS = os.environ.get("APUS")
TOPIC = "com.example.app"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@unittest.skipUnless(APUS, "APUS names no program")
class LiveTests(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        created = self.apus("init", "--name", "localhost", "--topic", TOPIC)
        self.http2, self.courier = free_port(), free_port()
        self.service = Service("localhost", created["authority_file"], self.courier)
        self.start()

    def apus(self, *arguments):
        run = subprocess.run(
            [APUS, *arguments, "--data", self.data, "--json"], capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = run.stdout.splitlines()
        return json.loads(lines[-1]) if lines else None

    def start(self, *options):
        others = [f"--{name}-listen=off" for name in ["http2-development", "courier-development", "gateway",
                                                      "gateway-development", "feedback", "feedback-development"]]
        log = open(self.folder / "serve.log", "ab")
        self.addCleanup(log.close)
        self.process = subprocess.Popen(
            [APUS, "serve", "--data", self.data, "--json", "--http2-listen", f"127.0.0.1:{self.http2}",
             "--courier-listen", f"127.0.0.1:{self.courier}", *others, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.stop)
        self.assertIn("ready", self.process.stdout.readline())

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def identity(self):
        issued = self.apus("device", "--name", "python")
        return Identity.join(self.folder / "device.pem", issued["certificate_file"], issued["key_file"])

    async def send(self, token, text, *options):
        return await asyncio.to_thread(
            self.apus, "send", "--to", f"localhost:{self.http2}", "--token", token, "--topic", TOPIC, "--alert", text,
            *options)

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

    async def test_a_failed_notification_ends(self):
        async with self.client(self.identity()) as client:
            token = await client.token(TOPIC)
            await self.send(token, "bad", "--expiration", "+1h")
            await (await self.next(client)).acknowledge(Status.REJECTED)
            await self.states(token, "Refused by Device")

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
        with mock.patch("apus_device.client.random.uniform", return_value=0):
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
            await asyncio.to_thread(
                subprocess.run, [APUS, "device", "--data", self.data, "--retire", identity.device], check=True,
                capture_output=True)
            with self.assertRaisesRegex(Refused, "retired"):
                await self.next(client)


if __name__ == "__main__":
    unittest.main()
