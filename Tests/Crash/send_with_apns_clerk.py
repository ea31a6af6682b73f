"""Sends the notifications of a plan with apns-clerk, unmodified, as an owner does who loses none (legacy_owner.py).

    send_with_apns_clerk.py PLAN.json

The plan: host, port, authority, certificate (a file with certificate and key), tokens (of notification n), batch (its
notifications), pause_seconds. As the library's documentation shows, its caller sends the retry messages of a result.
After an error packet they are all that follows. After a lost connection they are what was not written yet, less two, or
the result is that everything went well.
"""

import json
import logging
import sys
import time

import OpenSSL

import legacy_owner

with open(sys.argv[1]) as file:
    plan = json.load(file)
# The client requests exactly TLS 1.0, which was current when it was written.
OpenSSL.SSL.TLSv1_METHOD = OpenSSL.SSL.TLS_CLIENT_METHOD

from apns_clerk import APNs, Message, Session  # noqa: E402
from apns_clerk.backends.stdio import Certificate  # noqa: E402

# It logs each attempt to connect while the gateway is away.
logging.getLogger("apns_clerk").setLevel(logging.CRITICAL)
EXPIRY = 0x7FFFFFFF
QUIET_SECONDS = 5
# Bad tokens that upstream rejects within this time are reported by packets, on the connection.
TAIL_SECONDS = 0.2
# What the checkpoint is rejected with.
PROCESSING_ERROR = 1


def certificate():
    made = Certificate(cert_file=plan["certificate"])
    # The client leaves trust to its user.
    context = made.get_context()
    context.load_verify_locations(plan["authority"])
    context.set_verify(OpenSSL.SSL.VERIFY_PEER, lambda *arguments: arguments[-1])
    return made


# The client takes silence of this length as success. A connect timeout would be set on the TLS context again, which
# current pyOpenSSL rejects after the first connection.
session = Session(read_tail_timeout=QUIET_SECONDS, connect_timeout=None)
known = certificate()


class Paced(list):
    """Messages that the library gets one after the other, the checkpoint last."""

    is_new = True

    def __iter__(self):
        is_new, self.is_new = self.is_new, False
        for message in list.__iter__(self):
            if is_new:
                time.sleep(TAIL_SECONDS if number_of(message) is None else plan["pause_seconds"])
            yield message


def number_of(message):
    return message.extra.get("n")


def message(number, attempt):
    return Message([plan["tokens"][number]], alert=legacy_owner.alert(number, attempt), expiry=EXPIRY,
                   extra={"n": number})


def deliver(batch):
    left = [message(number, batch.attempt) for number in batch.left]
    left.append(Message([plan["tokens"][0]], expiry=EXPIRY, extra=legacy_owner.CHECKPOINT))
    while True:
        try:
            connection = session.get_connection((plan["host"], plan["port"]), known)
            # From the state, which drops the identifiers of the attempt before.
            sent = Paced(Message(**one.__getstate__()) for one in left)
            result = APNs(connection).send(sent)
        except Exception:  # The network is down, the documentation says.
            return [], []
        retried = (result.retry() or []) if result.needs_retry() else []
        rest = [number_of(one) for one in retried]
        if any(reason == PROCESSING_ERROR for reason, _ in result.errors):
            return None
        if not result.failed:
            # The connection was lost, or silent.
            return batch.left, [number for number in rest if number is not None]
        (_, (status, _)), = result.failed.items()
        # The rest begins after the one that is reported.
        batch.packet(number_of(left[len(left) - len(retried) - 1]), status)
        left = retried
        time.sleep(0.01)


legacy_owner.deliver_all(plan, deliver)
