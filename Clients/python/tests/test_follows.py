"""The client's program goes where the service says that it is better off."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from testing import TOPIC, Listener, SessionTests

PROGRAM = """
import asyncio, sys
from apus_device import Client, Identity, Service

async def main(port, authority, identity, topic):
    service = Service("localhost", authority, int(port))
    async with Client(service, Identity(identity), [topic], state=f"{identity}.state") as client:
        async for _ in client:
            pass

asyncio.run(main(*sys.argv[1:]))
"""


class FollowTests(SessionTests, unittest.TestCase):
    def test_follows_the_service(self):
        state = {"token": bytes(range(0x10, 0x30)).hex(), "taken": []}
        (self.folder / "device.pem.state").write_text(json.dumps(state))
        self.expect_following(lambda: Listener(self, self.folder, [
            sys.executable, "-c", PROGRAM, str(self.port), self.folder / "server.pem", self.folder / "device.pem",
            TOPIC]))


if __name__ == "__main__":
    unittest.main()
