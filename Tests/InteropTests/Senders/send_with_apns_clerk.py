"""Sends notifications with apns-clerk, unmodified, or reads the feedback service with it, and prints what it reported.

    send_with_apns_clerk.py PLAN.json

The plan: host, port, authority, certificate (a file with certificate and key), patience_seconds, speaks_tls_1_0, and
notifications, pairs of a token and the member "n" of its payload; without notifications the port is the feedback
service's. The last token must be a bad one, otherwise the client waits for quiet_seconds. Printed as one JSON object:
failures, pairs of the index among the notifications and the status; or feedback, pairs of a token and UNIX seconds.
"""

import json
import sys

import OpenSSL

from environment import give_up_after

with open(sys.argv[1]) as file:
    plan = json.load(file)
give_up_after(plan["patience_seconds"])
# The client requests exactly TLS 1.0, which was current when it was written.
if not plan["speaks_tls_1_0"]:
    OpenSSL.SSL.TLSv1_METHOD = OpenSSL.SSL.TLS_CLIENT_METHOD

from apns_clerk import APNs, Message, Session  # noqa: E402
from apns_clerk.backends.stdio import Certificate  # noqa: E402


def certificate():
    made = Certificate(cert_file=plan["certificate"])
    # The client leaves trust and cipher strength to its user.
    context = made.get_context()
    context.load_verify_locations(plan["authority"])
    context.set_verify(OpenSSL.SSL.VERIFY_PEER, lambda *arguments: arguments[-1])
    if plan["speaks_tls_1_0"]:
        context.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    return made


def send(notifications):
    # The client takes silence of this length as success. A connect timeout would be set on the TLS context again, which
    # current pyOpenSSL rejects after the first connection.
    session = Session(read_tail_timeout=plan["quiet_seconds"], connect_timeout=None)
    connection = session.get_connection((plan["host"], plan["port"]), certificate())
    left = [Message([token], alert="Number %d" % n, extra={"n": n}) for token, n in notifications]
    failures = []
    while left:
        # As the documentation shows for a delayed retry: from the state, which drops the old identifiers.
        result = APNs(connection).send([Message(**message.__getstate__()) for message in left])
        if result.errors:
            raise SystemExit("apns-clerk gave up: %s" % result.errors)
        left = result.retry() if result.needs_retry() else []
        for token, (status, _) in result.failed.items():
            # The rest to send again begins after the bad one.
            place = len(notifications) - len(left) - 1
            assert notifications[place][0] == token, "%s is not the one before the rest" % token
            failures.append([place, status])
    return {"failures": failures}


def feedback():
    connection = Session().new_connection((plan["host"], plan["port"]), certificate())
    rows = APNs(connection).feedback()
    return {"feedback": [[token.decode(), int(when.timestamp())] for token, when in rows]}


print(json.dumps(send(plan["notifications"]) if "notifications" in plan else feedback()))
