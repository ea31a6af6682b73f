#!/usr/bin/env python3
"""Shows notifications until it is stopped.

    examples/listen.py HOST AUTHORITY IDENTITY TOPIC [CODE]

AUTHORITY is the file with the service's authority (authority/service.crt), and IDENTITY the device's own file. If that
does not exist, the device enrols, with the code of `apus code` or by the operator's approval.
"""

import asyncio
import pathlib
import sys

from apus_device import Client, Identity, Service, enrol


async def main(host: str, authority: str, path: str, topic: str, code: str | None = None) -> None:
    service = Service(host, authority)
    known = pathlib.Path(path).exists()
    identity = Identity(path) if known else await enrol(service, path, code=code, name=host)
    async with Client(service, identity, [topic], state=f"{path}.state") as client:
        print("device token:", await client.token(topic))
        async for notification in client:
            print(notification.accepted, notification.payload)


asyncio.run(main(*sys.argv[1:]))
