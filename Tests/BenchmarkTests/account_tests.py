#!/usr/bin/env python3
"""What the account of a fault run finds, and what it allows."""

import datetime
import pathlib
import sys
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Crash"))
import cluster_account
from cluster_account import LOST_BEFORE, MAY_BE_REPEATED, Account, payload
from cluster_channels import Broadcast, Channels, body
from cluster_jobs import GroupAccount
from cluster_legacy import BAD_TOKEN, PROCESSING_ERROR, Frame
from cluster_relay import RelayedSender

DEVICE = 3


class AccountTests(unittest.TestCase):
    def setUp(self):
        self.now = 100.0
        patch = mock.patch.object(cluster_account.time, "monotonic", lambda: self.now)
        patch.start()
        self.addCleanup(patch.stop)
        self.account = Account(1, "com.example.app", 0)
        self.account.has_links = True

    def send(self, is_stored=True):
        self.now += 1
        return self.account.send(DEVICE, is_stored)

    def answer(self, number, outcome="accepted"):
        self.now += 1
        self.account.answer(number, outcome)

    def lose(self):
        self.now += 1
        self.account.losses.append((self.now, self.now + 0.1))

    def arrive(self, number, message_id, flags=0, connection=1, is_taken=True, id=None):
        """The violations that came with it."""
        self.now += 1
        before = len(self.account.violations)
        message = types.SimpleNamespace(
            payload=payload(number), message_id=message_id, sent_nanoseconds=message_id, storage_flags=flags,
            id=id or self.account.id(number))
        self.account.arrive(DEVICE, message, connection, self.now, is_taken)
        return [text.split(":")[0] for text in self.account.violations[before:]]

    # MARK: Late

    def test_what_is_not_to_be_stored_does_not_survive_its_node(self):
        for outcome, is_lost, violations in [
                ("accepted", True, ["0 must not be stored, and arrived from another node"]),
                ("unknown", False, ["1 must not be stored, and arrived from another node"]),
                # It waited at an edge.
                ("unknown", True, [])]:
            self.account.losses.clear()
            number = self.send(is_stored=False)
            self.answer(number, outcome)
            if is_lost:
                self.lose()
            self.now += 1
            self.account.takeovers.append((0, self.now))
            self.assertEqual(self.arrive(number, number + 1), violations)

    def test_a_device_knows_only_the_nodes_of_its_part(self):
        self.account.parts, self.account.device_ids = 2, ["0" * 16] * DEVICE + ["4ebd62ea625c4677"]
        self.account.accepted_times = [[], []]
        self.assertEqual(self.account.part(DEVICE), 1)
        number = self.send(is_stored=False)
        self.answer(number)
        self.account.takeovers.append((0, self.now))
        self.assertEqual(self.arrive(number, 1), [])
        self.now += 1
        self.account.takeovers.append((1, self.now))
        self.assertEqual(self.arrive(number, 1, connection=2), ["0 must not be stored, and arrived from another node"])
        self.assertEqual([len(times) for times in self.account.accepted_times], [0, 1])

    # MARK: Twice

    def test_what_came_may_come_again_on_a_connection_that_another_node_may_have_gone_on_with(self):
        number = self.send()
        self.account.interruptions.append(self.now - 10)
        self.assertEqual(self.arrive(number, 7), [])
        self.assertEqual(self.arrive(number, 7, 1), ["0 arrived twice on one connection as (7, 7)"])
        self.account.interruptions.append(self.now + 1)
        self.now += 5
        self.assertEqual(self.arrive(number, 7, 1), [])
        self.assertEqual(self.arrive(number, 7, 1), ["0 arrived twice on one connection as (7, 7)"])

    def test_what_an_edge_sends_again_has_the_same_id_and_says_so(self):
        number = self.send()
        self.assertEqual(self.arrive(number, 7), [])
        self.lose()
        self.assertEqual(self.arrive(number, 9, MAY_BE_REPEATED, connection=2), [])
        # From the store, both as before.
        self.assertEqual(self.arrive(number, 7, 1, connection=2), [])
        self.assertEqual(self.arrive(number, 9, MAY_BE_REPEATED | 1, connection=3), [])
        self.assertEqual(self.arrive(number, 11, 1, connection=3), ["0 arrived as (11, 11) too, and is not marked"])
        self.assertEqual(self.arrive(number, 9, MAY_BE_REPEATED, connection=4, id="X"), ["0 arrived with the id X"])
        self.assertEqual(
            self.arrive(number, 7, connection=2), ["0 arrived with the id " + self.account.id(0),
                                                   "0 arrived twice on one connection as (7, 7)"])

    def test_nothing_is_sent_again_while_no_link_has_ended(self):
        # Sent after the loss.
        self.lose()
        self.now += 1
        number = self.send()
        self.arrive(number, 7)
        self.assertEqual(
            self.arrive(number, 9, MAY_BE_REPEATED), ["0 arrived as (9, 9) too, and no link had ended"])
        # Answered before it.
        self.answer(number)
        self.lose()
        self.assertEqual(self.arrive(number, 8, MAY_BE_REPEATED), ["0 arrived as (8, 8) too, and no link had ended"])

    def test_nothing_is_sent_again_without_links(self):
        self.account.has_links = False
        number = self.send()
        self.arrive(number, 7)
        self.lose()
        self.assertEqual(
            self.arrive(number, 9, MAY_BE_REPEATED), ["0 arrived as (9, 9) too, and no link had ended"])

    def test_a_job_that_continues_elsewhere_says_so(self):
        self.account = GroupAccount(1)
        self.account.expect(5, [DEVICE])
        self.assertEqual(self.arrive(5, 7), [])
        self.assertEqual(self.arrive(5, 9, MAY_BE_REPEATED), ["0 arrived as (9, 9) too, and no link had ended"])
        self.lose()
        self.assertEqual(self.arrive(5, 11, MAY_BE_REPEATED), [])
        self.assertEqual(self.arrive(5, 13), ["0 arrived as (13, 13) too, and is not marked"])

    def test_a_job_sends_again_what_another_node_was_lost_with(self):
        self.account = GroupAccount(1)
        self.account.expect(5, [DEVICE])
        [entry] = self.account.entries
        states = ["Discarded - Replaced", "Delivered to Device"]
        self.lose()
        self.assertFalse(self.account.may_end_again(entry, states))
        self.account.crosses_links = True
        self.assertTrue(self.account.may_end_again(entry, states))
        self.account.losses.clear()
        self.assertFalse(self.account.may_end_again(entry, states))

    def test_what_is_sent_again_can_replace_what_came_between(self):
        again = self.send()
        self.arrive(again, 7)
        between = self.send()
        self.answer(between)
        self.lose()
        self.assertEqual(self.account.missing(), [between])
        self.answer(again)
        self.assertEqual(self.account.missing(), [])

    # MARK: Lines that may be missing

    def test_what_waited_ends_when_what_is_newer_for_sure_and_stored_is_accepted(self):
        # A database that does not answer delays what must be stored, and nothing else.
        waiting, passing, older = self.send(), self.send(is_stored=False), self.send()
        self.answer(passing)
        self.arrive(passing, 1)
        self.answer(older)
        self.arrive(older, 2)
        self.now += 10
        self.answer(waiting)
        newer = self.send()
        self.now += 10
        self.answer(newer)
        entry = self.account.entries[waiting]
        self.now += LOST_BEFORE - 2
        self.lose()
        self.assertTrue(self.account.may_lack_line(entry))
        self.account.losses.clear()
        self.now += 2
        self.lose()
        self.assertFalse(self.account.may_lack_line(entry))

    def test_what_was_not_read_ends_with_its_connection(self):
        connected = self.now
        waiting = self.send()
        self.answer(waiting)
        self.answer(self.send())
        self.now += 20
        self.account.disconnect(DEVICE, 1, connected)
        self.lose()
        entry = self.account.entries[waiting]
        self.assertTrue(self.account.may_lack_line(entry))
        # To a device without a connection nothing is on its way.
        self.account.connected.clear()
        self.assertFalse(self.account.may_lack_line(entry))

    # MARK: Names

    def rows(self, *received):
        """Rows of the ledger for ids that nobody chose, with seconds from now and states."""
        self.account.device_ids = [None] * DEVICE + ["d"]
        self.account.clock_offset = 0
        for place, (seconds, state) in enumerate(received):
            time = datetime.datetime.fromtimestamp(self.start + seconds, datetime.timezone.utc).isoformat()
            yield str(place), {"topic": self.account.topic, "device": "d", "state": state, "time": time}

    def send_at(self, seconds, outcome="accepted", is_stored=True):
        self.now = self.start + seconds
        number = self.account.send(DEVICE, is_stored, has_id=False)
        self.account.answer(number, outcome)
        return self.account.entries[number]

    def test_ids_go_to_what_was_sent_before_they_were_received(self):
        self.start = self.now
        # Each is received only after the next was sent.
        entries = [self.send_at(place) for place in range(5)]
        self.account.ends(self.rows(*((place + 1.2, "Discarded - Replaced") for place in range(5))))
        self.assertEqual([entry.id for entry in entries], ["0", "1", "2", "3", "4"])
        self.assertEqual(self.account.violations, [])

    def test_what_did_not_reach_the_service_or_lost_its_line_has_no_id(self):
        self.start = self.now
        entries = [self.send_at(0), self.send_at(1, "unknown"), self.send_at(2, "unknown"), self.send_at(3),
                   self.send_at(3.5, is_stored=False), self.send_at(20), self.send_at(50)]
        self.account.losses.append((self.start + 21, self.start + 22))
        self.account.ends(self.rows(
            (0.1, "Discarded - Replaced"), (2.4, "Discarded - Replaced"), (3.6, "Discarded - Replaced"),
            (3.7, "Discarded - Not Stored"), (50.1, "Discarded - Replaced")))
        self.assertEqual([entry.id for entry in entries], ["0", None, "1", "2", "3", None, "4"])
        self.assertEqual(self.account.violations, [])

    def test_what_waited_on_its_way_is_received_after_what_was_sent_later(self):
        self.start = self.now
        waited, overtook = self.send_at(0, is_stored=False), self.send_at(2)
        self.account.ends(self.rows((2.1, "Discarded - Replaced"), (4, "Discarded - Not Stored")))
        self.assertEqual([waited.id, overtook.id], ["1", "0"])

    def test_what_a_frozen_node_could_not_store_has_no_other_end(self):
        self.start = self.now
        stored = self.send_at(0)
        self.account.ends(self.rows((0.1, "Discarded - Not Stored")))
        self.assertEqual(stored.id, "0")
        self.assertEqual(self.account.violations, [])

    def test_what_a_killed_node_had_not_stored_yet_takes_no_id_of_what_must_not_be_stored(self):
        self.start = self.now
        entries = [self.send_at(0, "unknown", is_stored=False), self.send_at(10, is_stored=False),
                   self.send_at(18, is_stored=False), self.send_at(24, is_stored=False), self.send_at(43)]
        self.account.losses.append((self.start + 44, self.start + 45))
        self.account.ends(self.rows(*((seconds, "Discarded - Not Stored") for seconds in (10, 18, 24, 43.5))))
        self.assertEqual([entry.id for entry in entries], [None, "0", "1", "2", "3"])
        self.assertEqual(self.account.violations, [])

    def test_what_waited_and_was_not_answered_has_its_late_id(self):
        self.start = self.now
        waited = self.send_at(0, "unknown", is_stored=False)
        self.account.ends(self.rows((7, "Discarded - Not Stored")))
        self.assertEqual(waited.id, "0")
        self.assertEqual(self.account.violations, [])

    def test_an_id_that_nobody_sent_is_found(self):
        self.start = self.now
        self.send_at(0)
        self.account.ends(self.rows((0.1, "Discarded - Replaced"), (0.2, "Discarded - Replaced")))
        self.assertEqual(len(self.account.violations), 1)
        self.assertIn("and nobody sent it", self.account.violations[0])


class ChannelsTests(unittest.TestCase):
    CHANNEL = "channel"

    def setUp(self):
        self.account = types.SimpleNamespace(
            violations=[], may_come_late=lambda one: one.outcome == "unknown", is_on_one=lambda *_: False)
        self.account.violate = self.account.violations.append
        self.channels = Channels(self.account, 1)
        self.channels.subscribers = {self.CHANNEL: {1, 2, 3}}

    def publish(self, outcome):
        number = len(self.channels.broadcasts)
        self.channels.broadcasts.append(Broadcast(self.CHANNEL, True, 0, outcome))
        self.channels.last[self.CHANNEL] = number
        return number

    def arrive(self, device, number):
        self.channels.arrive(device, self.CHANNEL, body(number), f"id {number}", 1, True)

    def test_a_late_broadcast_takes_the_place_of_a_newer_one(self):
        waiting = self.publish("unknown")
        self.arrive(3, waiting)
        newer = self.publish("accepted")
        self.arrive(1, newer)
        self.assertEqual(self.channels.lacking(newer), {2, 3})
        self.arrive(2, waiting)
        # The third had it before.
        self.assertEqual(self.channels.lacking(newer), {3})
        self.assertEqual(self.account.violations, [])

    def test_an_accepted_broadcast_takes_no_newer_ones_place(self):
        accepted, newer = self.publish("accepted"), self.publish("accepted")
        self.arrive(2, accepted)
        self.assertEqual(self.channels.lacking(newer), {1, 2, 3})


class RelayedSenderTests(unittest.TestCase):
    def settle(self, status):
        """What follows an error packet that names the second of three notifications."""
        sender = RelayedSender.__new__(RelayedSender)
        sender.tokens, sender.outcomes, sender.reported = ["00" * 32] * 3, {}, {}
        sender.doubtful, sender.behind, sender.spread, sender.again = set(), set(), set(), []
        sender.sent = [Frame(number, b"") for number in range(3)]
        sender.packet = status, 1
        sender.settle()
        return sender

    def test_a_bad_token_is_reported_and_what_followed_is_sent_again(self):
        sender = self.settle(BAD_TOKEN)
        self.assertEqual(sender.reported, {1: BAD_TOKEN})
        self.assertEqual([frame.identifier for frame in sender.again], [2])

    def test_a_failure_of_the_service_leaves_it_unknown_and_it_is_sent_again(self):
        sender = self.settle(PROCESSING_ERROR)
        self.assertEqual((sender.reported, sender.doubtful), ({}, {1}))
        self.assertEqual([frame.identifier for frame in sender.again], [1, 2])


if __name__ == "__main__":
    unittest.main()
