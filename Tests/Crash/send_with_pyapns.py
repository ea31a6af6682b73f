"""Sends the notifications of a plan with PyAPNs, unmodified, as an owner does who loses none (legacy_owner.py).

    send_with_pyapns.py PLAN.json

Runs with Python 2.7 and the package apns, which is PyAPNs itself, and with Python 3 and tapns3. The plan: host, port,
authority, certificate (a file with certificate and key), tokens (of notification n), batch (its notifications),
pause_seconds.

The library keeps what it sent, and sends it again after an error packet. It does not tell its owner when a connection
was lost, except in its log: it connects again with the next notification, and what was on its way is gone.
"""

import json
import logging
import sys
import time

import legacy_owner
from environment import give_wrap_socket

with open(sys.argv[1]) as file:
    plan = json.load(file)
give_wrap_socket(plan["authority"], plan["host"])

from apns import APNs, Payload  # noqa: E402

CHECKPOINT_ID = 0x7FFFFFFF
EXPIRY = 0x7FFFFFFF
# Bad tokens that upstream rejects within this time are reported by packets, on the connection.
TAIL_SECONDS = 0.2
PATIENCE_SECONDS = 10


class Watch(logging.Handler):
    """What the library's log says about its connections."""

    def __init__(self):
        logging.Handler.__init__(self)
        self.connections, self.troubles = 0, 0

    def emit(self, record):
        if record.levelno >= logging.WARNING:
            self.troubles += 1
        elif record.getMessage().endswith("connection established"):
            self.connections += 1


watch = Watch()
log = logging.getLogger("apns")
log.setLevel(logging.DEBUG)
log.propagate = False
log.addHandler(watch)


def deliver(batch):
    watch.connections = watch.troubles = 0
    packets, given = [], set()
    gateway = APNs(cert_file=plan["certificate"], enhanced=True).gateway_server
    gateway.server, gateway.port = plan["host"], plan["port"]

    def hear(error):
        packets.append(error["identifier"])
        if error["identifier"] != CHECKPOINT_ID:
            batch.packet(error["identifier"], error["status"])

    def is_doubtful():
        return watch.troubles > 0 or watch.connections > 1 + len(packets)

    gateway.register_response_listener(hear)
    for number in list(batch.left):
        if is_doubtful():
            break
        given.add(number)
        payload = Payload(alert=legacy_owner.alert(number, batch.attempt))
        gateway.send_notification(plan["tokens"][number], payload, identifier=number, expiry=EXPIRY)
        time.sleep(plan["pause_seconds"])
    time.sleep(TAIL_SECONDS)
    if not is_doubtful():
        gateway.send_notification(
            plan["tokens"][0], Payload(custom=legacy_owner.CHECKPOINT), identifier=CHECKPOINT_ID, expiry=EXPIRY)
    end = time.time() + PATIENCE_SECONDS
    while not is_doubtful() and CHECKPOINT_ID not in packets and time.time() < end:
        time.sleep(0.01)
    is_accepted = CHECKPOINT_ID in packets and not is_doubtful()
    gateway.force_close()
    # After a lost connection the library sends nothing again by itself.
    return None if is_accepted else (given, [])


legacy_owner.deliver_all(plan, deliver)
