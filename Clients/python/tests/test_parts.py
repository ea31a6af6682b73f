"""The parts of the client that need no service."""

import asyncio
import pathlib
import random
import ssl
import tempfile
import unittest
from unittest import mock

from cryptography import x509

from apus_device import Client, Ended, Service, connection, identity
from apus_device.backoff import Backoff
from apus_device.state import REMEMBERED, DeviceState


class BackoffTests(unittest.TestCase):
    """Section 11 of the protocol."""

    def test_doubles_up_to_five_minutes(self):
        backoff = Backoff(random.Random(1))
        for most in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]:
            wait = backoff.after_end(None)
            self.assertTrue(most / 2 <= wait <= most, (wait, most))

    def test_a_steady_connection_begins_anew(self):
        backoff = Backoff(random.Random(1))
        for _ in range(5):
            backoff.after_end(29.9)
        self.assertGreater(backoff.after_end(29.9), 15)
        self.assertLessEqual(backoff.after_end(30), 1)
        self.assertGreaterEqual(backoff.after_end(None), 1)

    def test_goodbye(self):
        backoff = Backoff(random.Random(1))
        for _ in range(5):
            backoff.after_end(None)
        self.assertEqual(backoff.after_goodbye(1500), 1.5)
        self.assertEqual(backoff.after_goodbye(900_000), 300)
        self.assertLessEqual(backoff.after_end(None), 1)


class StateTests(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "state.json"

    def test_outlives_the_process(self):
        state = DeviceState(self.path)
        self.assertIsNone(state.token)
        state.token = bytes(32)
        for number in range(REMEMBERED + 1):
            state.take((number, 1_700_000_000_123_000_000))
        state.take((7, None), "topic id")
        again = DeviceState(self.path)
        self.assertEqual(again.token, bytes(32))
        # The oldest two made room.
        self.assertFalse(again.has_taken((1, 1_700_000_000_123_000_000)))
        self.assertTrue(again.has_taken((2, 1_700_000_000_123_000_000)))
        self.assertTrue(again.has_taken((7, None)))
        self.assertTrue(again.has_taken_identity("topic id"))
        self.assertFalse(again.has_taken_identity("topic other"))
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)


class ConnectionTests(unittest.TestCase):
    def test_alerts_for_which_waiting_does_not_help(self):
        for reason, is_hopeless in [
            ("SSLV3_ALERT_CERTIFICATE_REVOKED", True), ("SSLV3_ALERT_CERTIFICATE_EXPIRED", True),
            ("TLSV1_ALERT_UNKNOWN_CA", True), ("CERTIFICATE_VERIFY_FAILED", False),
            ("TLSV1_ALERT_NO_APPLICATION_PROTOCOL", False),
        ]:
            error = ssl.SSLError()
            error.reason = reason
            found = connection.explained(error)
            self.assertEqual(isinstance(found, connection.CertificateRejected), is_hopeless, reason)


class KeepAliveTests(unittest.IsolatedAsyncioTestCase):
    async def test_only_the_service_shows_that_the_connection_lives(self):
        class Quiet:
            heard_time = active_time = 0.0

            async def send(self, *parts):
                self.active_time = asyncio.get_running_loop().time()

        connection = Quiet()
        client = Client(Service("localhost", "service.crt"), None, [], keep_alive_seconds=0.01)
        with mock.patch("apus_device.client.ANSWER_SECONDS", 0.05):
            watch = asyncio.create_task(client._keep_alive(connection))
            while not watch.done():
                await asyncio.sleep(0.01)
                await connection.send()
        with self.assertRaisesRegex(Ended, "keep-alive"):
            watch.result()


class IdentityTests(unittest.TestCase):
    def test_request(self):
        key = identity.new_key()
        request = x509.load_der_x509_csr(identity.certificate_request(key))
        self.assertTrue(request.is_signature_valid)
        self.assertEqual(request.signature_hash_algorithm.name, "sha256")
        self.assertEqual(request.public_key(), key.public_key())


if __name__ == "__main__":
    unittest.main()
