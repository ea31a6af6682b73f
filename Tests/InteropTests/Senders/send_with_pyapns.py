"""Sends notifications with PyAPNs, unmodified, or reads the feedback service with it, and prints what it reported.

    send_with_pyapns.py PLAN.json

Runs with Python 2.7 and the package apns, which is PyAPNs itself, and with Python 3 and the package tapns3, its port to
Python 3. The plan: host, port, authority, certificate (a file with certificate and key), patience_seconds, command
(0, 1 or 2), and notifications, pairs of a token and the member "n" of its payload; without notifications the port is
the feedback service's. With commands 1 and 2 the last token must be a bad one: its error is the only sign that all
before it were accepted; with command 0 any token may be bad. Printed as one JSON object: failures, pairs of the index
among the notifications and the status; or feedback, pairs of a token and UNIX seconds.
"""

import calendar
import json
import sys
import threading

from environment import give_up_after, give_wrap_socket

with open(sys.argv[1]) as file:
    plan = json.load(file)
give_up_after(plan["patience_seconds"])
give_wrap_socket(plan["authority"], plan["host"])

from apns import APNs, Frame, Payload  # noqa: E402

# Notifications per write.
FRAME_LENGTH = 40
# The largest unsigned value: senders use it for "as long as possible".
EXPIRY = 0xFFFFFFFF
PRIORITY = 10


def payload(n):
    return Payload(alert="Number %d" % n, custom={"n": n})


def at_the_plans_port(connection):
    connection.server, connection.port = plan["host"], plan["port"]
    return connection


def send_simple(notifications):
    gateway = at_the_plans_port(APNs(cert_file=plan["certificate"]).gateway_server)
    for token, n in notifications:
        gateway.send_notification(token, payload(n))
    # Command 0 reports no errors. The service closes the connection, which the client does not check.
    left = gateway.read(1)
    assert len(left) == 0, "received %r" % left
    return {"failures": []}


def send_enhanced(notifications, is_framed):
    gateway = at_the_plans_port(APNs(cert_file=plan["certificate"], enhanced=True).gateway_server)
    failures = []
    is_done = threading.Event()

    def listener(error):
        failures.append([error["identifier"], error["status"]])
        if error["identifier"] == len(notifications) - 1:
            gateway.force_close()
            is_done.set()

    gateway.register_response_listener(listener)
    numbered = list(enumerate(notifications))
    # Frames do not start the thread that reads errors and resends; a single notification does.
    alone = 1 if is_framed else len(numbered)
    for identifier, (token, n) in numbered[:alone]:
        gateway.send_notification(token, payload(n), identifier=identifier, expiry=EXPIRY)
    for start in range(alone, len(numbered), FRAME_LENGTH):
        frame = Frame()
        for identifier, (token, n) in numbered[start : start + FRAME_LENGTH]:
            frame.add_item(token, payload(n), identifier, EXPIRY, PRIORITY)
        # The thread holds this lock while it resends. send_notification takes the lock; for frames the caller must.
        with gateway._send_lock:
            gateway.send_notification_multiple(frame)
    is_done.wait()
    return {"failures": failures}


def feedback():
    rows = at_the_plans_port(APNs(cert_file=plan["certificate"]).feedback_server).items()
    return {"feedback": [[token.decode(), calendar.timegm(when.timetuple())] for token, when in rows]}


if "notifications" not in plan:
    report = feedback()
elif plan["command"] == 0:
    report = send_simple(plan["notifications"])
else:
    report = send_enhanced(plan["notifications"], plan["command"] == 2)
print(json.dumps(report))
