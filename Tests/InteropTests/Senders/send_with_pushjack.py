"""Sends notifications with pushjack, unmodified, or reads the feedback service with it, and prints what it reported.

    send_with_pushjack.py PLAN.json

The plan: host, port, authority, certificate (a file with certificate and key), patience_seconds, and notifications,
pairs of a token and the member "n" of its payload, which must be the same for all; without notifications the port is
the feedback service's. The last token must be a bad one, otherwise the client waits for quiet_seconds. Printed as one
JSON object: failures, pairs of the index among the notifications and the status; or feedback, pairs of a token
and UNIX seconds.
"""

import json
import sys

from environment import give_up_after, give_wrap_socket

with open(sys.argv[1]) as file:
    plan = json.load(file)
give_up_after(plan["patience_seconds"])
give_wrap_socket(plan["authority"], plan["host"])

from pushjack import APNSClient  # noqa: E402


def send(client, notifications):
    (n,) = {n for _, n in notifications}
    tokens = [token for token, _ in notifications]
    response = client.send(
        tokens, "Number %d" % n, extra={"n": n}, error_timeout=plan["quiet_seconds"]
    )
    return {"failures": [[error.identifier, error.code] for error in response.errors]}


def feedback(client):
    return {"feedback": [[row.token, row.timestamp] for row in client.get_expired_tokens()]}


client = APNSClient(plan["certificate"])
client.host = client.feedback_host = plan["host"]
client.port = client.feedback_port = plan["port"]
print(json.dumps(send(client, plan["notifications"]) if "notifications" in plan else feedback(client)))
