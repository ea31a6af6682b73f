"""The parts of the client that need no service."""

import asyncio
import pathlib
import random
import ssl
import tempfile
import unittest
from unittest import mock

from cryptography import x509

from apus_device import Client, Ended, Service, connection, identity, messages
from apus_device.backoff import Backoff
from apus_device.connection import Address
from apus_device.rotation import Rotation
from apus_device.session import Session, wait_seconds
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


class RotationTests(unittest.TestCase):
    def path(self, rotation, count):
        """The next address after each of so many failures, and whether it is tried at once."""
        return [(rotation.failed(was_steady=False), rotation.current) for _ in range(count)]

    def test_rounds(self):
        rotation = Rotation(3)
        self.assertEqual(rotation.current, 0)
        self.assertEqual(self.path(rotation, 4), [(True, 1), (True, 2), (False, 0), (True, 1)])
        single = Rotation(1)
        self.assertEqual(self.path(single, 2), [(False, 0), (False, 0)])
        self.assertFalse(single.fell_silent() or single.failed(was_steady=True))

    def test_what_worked_begins_the_next_round(self):
        rotation = Rotation(3)
        self.path(rotation, 1)
        rotation.answered()
        self.assertTrue(rotation.failed(was_steady=True))
        self.assertEqual(rotation.current, 2)
        self.assertEqual(self.path(rotation, 3), [(True, 0), (False, 1), (True, 2)])
        rotation.restart()
        self.assertEqual(rotation.current, 1)

    def test_a_service_that_accepts_and_closes_is_no_success(self):
        rotation = Rotation(2)
        steps = []
        for _ in range(4):
            rotation.answered()
            steps.append(rotation.failed(was_steady=False))
        self.assertEqual(steps, [True, False, True, False])

    def test_after_a_silence_the_same_address_is_first(self):
        rotation = Rotation(2)
        self.path(rotation, 1)
        rotation.answered()
        self.assertTrue(rotation.fell_silent())
        self.assertEqual(rotation.current, 1)
        self.assertEqual(self.path(rotation, 2), [(True, 0), (False, 1)])


    def test_a_hint_is_first_in_the_next_round_and_forgotten_when_it_fails(self):
        rotation = Rotation(2)
        rotation.answered()
        rotation.hinted(True)
        self.assertFalse(rotation.is_at_hint)
        self.assertTrue(rotation.failed(was_steady=True) and rotation.is_at_hint)
        rotation.answered()
        self.assertTrue(rotation.failed(was_steady=True))
        self.assertEqual((rotation.is_at_hint, rotation.current), (False, 0))
        self.assertEqual(self.path(rotation, 4), [(True, 1), (False, 0), (True, 1), (False, 0)])

    def test_a_round_begins_with_the_hint_unless_it_was_forgotten(self):
        rotation = Rotation(1)
        rotation.answered()
        rotation.hinted(True)
        self.assertTrue(rotation.fell_silent() and rotation.is_at_hint)
        rotation.restart()
        self.assertTrue(rotation.is_at_hint)
        rotation.failed(was_steady=False)
        self.assertFalse(rotation.is_at_hint)
        rotation.hinted(True)
        rotation.hinted(False)
        rotation.restart()
        self.assertFalse(rotation.is_at_hint)

    def test_services_that_name_another_one_and_close_are_not_tried_without_a_wait(self):
        rotation = Rotation(2)
        steps = []
        for _ in range(4):
            rotation.answered()
            rotation.hinted(True)
            steps.append(rotation.failed(was_steady=False))
        self.assertEqual(steps, [True, True, True, False])


class AddressTests(unittest.TestCase):
    def test_what_a_service_may_name(self):
        places = {"a.example.com:5223": ("a.example.com", 5223), "192.0.2.1:1": ("192.0.2.1", 1),
                  "[2001:db8::1]:65535": ("2001:db8::1", 65535)}
        for text, place in places.items():
            self.assertEqual(Address.parse(text), Address(*place))
        for text in ["", "a", ":1", "a:", "a:0", "a:65536", "a:-1", "a:x", "a:\u0661", "[]:1"]:
            self.assertIsNone(Address.parse(text), text)


class EndTests(unittest.TestCase):
    """What follows the end of a connection at the second of three addresses."""

    def after(self, **facts):
        """Whether the next attempt waits, and its address."""
        rotation = Rotation(3)
        rotation.failed(was_steady=False)
        session = Session()
        with mock.patch.object(Session, "accepted_seconds", facts.pop("accepted_seconds", None)):
            for name, value in facts.items():
                setattr(session, name, value)
            return wait_seconds(session, rotation, Backoff()) > 0, rotation.current

    def test_each(self):
        self.assertEqual(self.after(), (False, 2))
        self.assertEqual(self.after(accepted_seconds=1), (False, 2))
        self.assertEqual(self.after(accepted_seconds=30, is_silent=True), (False, 1))
        self.assertEqual(self.after(accepted_seconds=1, is_silent=True), (False, 2))
        # Each address would say the same.
        self.assertEqual(self.after(has_goodbye=True), (True, 0))
        self.assertEqual(self.after(has_goodbye=True, accepted_seconds=1, reconnect_milliseconds=500), (True, 1))
        self.assertEqual(self.after(is_refused=True), (True, 1))


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


class RepetitionTests(unittest.IsolatedAsyncioTestCase):
    async def test_one_that_may_be_repeated_is_recognised_by_its_id_and_topic(self):
        client = Client(mock.Mock(addresses=[None]), None, [])

        async def take(message_id, flags, id="a", topic=b"t"):
            await client._take(messages.NotificationMessage(
                token=b"", topic=topic, payload=b"{}", message_id=message_id, sent_nanoseconds=message_id, id=id,
                storage_flags=flags))
            return len(client._waiting)

        with mock.patch.object(client, "_send") as send:
            self.assertEqual(await take(1, 0), 1)
            # The application has not acknowledged the first one yet.
            self.assertEqual(await take(2, 4), 1)
            await client._waiting[0].acknowledge()
            send.reset_mock()
            self.assertEqual(await take(3, 5), 1)
            send.assert_called_once_with(messages.acknowledgement(None, 3, messages.Status.TAKEN))
            # Another topic, another id, and a provider that chose the same id.
            self.assertEqual(await take(4, 4, topic=b"u"), 2)
            self.assertEqual(await take(5, 4, id="b"), 3)
            self.assertEqual(await take(6, 0), 4)


class IdentityTests(unittest.TestCase):
    def test_request(self):
        key = identity.new_key()
        request = x509.load_der_x509_csr(identity.certificate_request(key))
        self.assertTrue(request.is_signature_valid)
        self.assertEqual(request.signature_hash_algorithm.name, "sha256")
        self.assertEqual(request.public_key(), key.public_key())


if __name__ == "__main__":
    unittest.main()
