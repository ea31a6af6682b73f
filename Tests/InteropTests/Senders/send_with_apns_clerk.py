"""Sends notifications with apns-clerk, unmodified, or reads the feedback service with it, and prints what it reported.

    send_with_apns_clerk.py PLAN.json

The plan: host, port, authority, certificate (a file with certificate and key), patience_seconds, speaks_tls_1_0, and
notifications, pairs of a token and the member "n" of its payload; without notifications the port is the feedback
service's. The last token has to be a bad one where quiet_seconds are not to be waited for. Printed as one JSON object:
failures, pairs of the place among the notifications and the status; or feedback, pairs of a token and UNIX seconds.
"""

import json
import sys

import OpenSSL

from environment import give_up_after

with open(sys.argv[1]) as file:
    plan = json.load(file)
give_up_after(plan["patience_seconds"])
# The client asks for TLS 1.0 and nothing newer: right when it was written.
if not plan["speaks_tls_1_0"]:
    OpenSSL.SSL.TLSv1_METHOD = OpenSSL.SSL.TLS_CLIENT_METHOD

from apns_clerk import APNs, Message, Session  # noqa: E402
from apns_clerk.backends.stdio import Certificate  # noqa: E402


def certificate():
    made = Certificate(cert_file=plan["certificate"])
    # The client leaves it to its user what to trust, and so does it with the strength of the ciphers.
    context = made.get_context()
    context.load_verify_locations(plan["authority"])
    context.set_verify(OpenSSL.SSL.VERIFY_PEER, lambda *arguments: arguments[-1])
    if plan["speaks_tls_1_0"]:
        context.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    return made


def send(notifications):
    # The client takes silence of this length for success. A limit on connecting would be put into the TLS context anew,
    # which today's pyOpenSSL refuses after the first connection.
    session = Session(read_tail_timeout=plan["quiet_seconds"], connect_timeout=None)
    connection = session.get_connection((plan["host"], plan["port"]), certificate())
    left = [Message([token], alert="Number %d" % n, extra={"n": n}) for token, n in notifications]
    failures = []
    while left:
        # As its documentation has a retry that is put off: from the state, which leaves the old identifiers behind.
        result = APNs(connection).send([Message(**message.__getstate__()) for message in left])
        if result.errors:
            raise SystemExit("apns-clerk gave up: %s" % result.errors)
        left = result.retry() if result.needs_retry() else []
        for token, (status, _) in result.failed.items():
            # What is to be sent again begins behind the bad one.
            place = len(notifications) - len(left) - 1
            assert notifications[place][0] == token, "%s is not the one before the rest" % token
            failures.append([place, status])
    return {"failures": failures}


def feedback():
    connection = Session().new_connection((plan["host"], plan["port"]), certificate())
    rows = APNs(connection).feedback()
    return {"feedback": [[token.decode(), int(when.timestamp())] for token, when in rows]}


print(json.dumps(send(plan["notifications"]) if "notifications" in plan else feedback()))
