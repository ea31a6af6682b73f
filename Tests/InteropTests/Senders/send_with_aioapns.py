"""Sends notifications with aioapns, unmodified, and prints what the library reported.

    send_with_aioapns.py PLAN.json

The plan: host, port, authority, topic, and either key, key_id and team or certificate (a file with certificate and
key); tokens (notification n goes to tokens[n % len(tokens)]); count; and extra, tokens that get one notification each.
The payload of notification n has the member "n". Printed as one JSON object: accepted, and failures with token, status
and reason.
"""

import asyncio
import json
import ssl
import sys

from aioapns import APNs, NotificationRequest, PushType
from aioapns.connection import APNsProductionClientProtocol


def client(plan):
    # The library has no parameters for the address, only class attributes.
    APNsProductionClientProtocol.APNS_SERVER = plan["host"]
    APNsProductionClientProtocol.APNS_PORT = plan["port"]
    context = ssl.create_default_context(cafile=plan["authority"])
    if "certificate" in plan:
        context.load_cert_chain(plan["certificate"])
        return APNs(
            client_cert=plan["certificate"], topic=plan["topic"], ssl_context=context, max_connections=4
        )
    with open(plan["key"]) as file:
        key = file.read()
    return APNs(
        key=key,
        key_id=plan["key_id"],
        team_id=plan["team"],
        topic=plan["topic"],
        ssl_context=context,
        max_connections=4,
    )


async def main(plan):
    apns = client(plan)
    tokens = plan["tokens"]
    jobs = [(tokens[n % len(tokens)], n) for n in range(plan["count"])]
    # In the middle, so that later notifications show that others are unaffected.
    for offset, token in enumerate(plan["extra"]):
        jobs.insert(len(jobs) // 2 + offset, (token, -1 - offset))
    gate = asyncio.Semaphore(400)
    accepted = 0
    failures = []

    async def send(token, n):
        nonlocal accepted
        request = NotificationRequest(
            device_token=token,
            message={"aps": {"alert": f"Number {n}"}, "n": n},
            push_type=PushType.ALERT,
        )
        async with gate:
            result = await apns.send_notification(request)
        if result.is_successful:
            accepted += 1
        else:
            failures.append({"token": token, "status": result.status, "reason": result.description})

    await asyncio.gather(*(send(token, n) for token, n in jobs))
    print(json.dumps({"accepted": accepted, "failures": failures}))


with open(sys.argv[1]) as file:
    asyncio.run(main(json.load(file)))
