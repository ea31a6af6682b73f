"""`apus dev` for tests: on free ports, with the texts of an app in two languages."""

import asyncio
import json
import pathlib
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

TEXTS = {
    "en": '"BOARDING_TITLE" = "Boarding begins";\n"BOARDING" = "%1$@ leaves from gate %2$@.";\n',
    "de": '"BOARDING_TITLE" = "Das Boarding beginnt";\n"BOARDING" = "Flugsteig %2$@: %1$@ ist bereit.";\n',
}
BOARDING = {
    "aps": {
        "alert": {"title-loc-key": "BOARDING_TITLE", "loc-key": "BOARDING", "loc-args": ["LX 318", "B42"]},
        "sound": "default",
        "badge": 2,
        "interruption-level": "time-sensitive",
    },
    "flight": "LX 318",
}


class DevService:
    """Runs until `close`. `ready` is the JSON object that it printed when it was ready."""

    def __init__(self, program, *arguments):
        self.folder = tempfile.TemporaryDirectory(prefix="apus-console-")
        for language, text in TEXTS.items():
            path = pathlib.Path(self.folder.name, f"{language}.lproj")
            path.mkdir()
            (path / "Localizable.strings").write_text(text)
        self.process = subprocess.Popen(
            [program, "dev", "--free-ports", "--json", "--strings", self.folder.name, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{program} dev ended with {self.process.wait()}")
        self.ready = json.loads(line)
        self.address = self.ready["console"]
        self.topic = self.ready["topics"][0]

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()

    def call(self, method, path, body=None):
        """Sends a request to the API and returns the response; an error status raises an error with the text."""
        data = None if body is None else json.dumps(body).encode()
        fields = {"Content-Type": "application/json"}
        if password := self.ready.get("password"):
            fields["Authorization"] = f"Bearer {password}"
        request = urllib.request.Request(f"{self.ready['api']}/{path}", data, fields, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def token(self, device, topic=None):
        """The device's token in the production environment."""
        devices = {one["id"]: one for one in self.call("GET", "devices")["devices"]}
        return next(
            one["token"]
            for one in devices[device]["tokens"]
            if one["environment"] == "production" and one["topic"] == (topic or self.topic)
        )

    def send(self, *pushes):
        """Sends (token, payload) with aioapns, unmodified, over one connection; returns (status, reason) of each."""
        return asyncio.run(self.send_all(pushes))

    async def send_all(self, pushes):
        from aioapns import APNs, NotificationRequest, PushType
        from aioapns.connection import APNsProductionClientProtocol

        APNsProductionClientProtocol.APNS_SERVER = self.ready["host"]
        APNsProductionClientProtocol.APNS_PORT = self.ready["http2"]["production"]
        client = APNs(
            key=pathlib.Path(self.ready["key_file"]).read_text(),
            key_id=self.ready["key_id"],
            team_id=self.ready["team"],
            topic=self.topic,
            ssl_context=ssl.create_default_context(cafile=self.ready["authority_file"]),
            max_connections=1,
        )
        answers = []
        for token, payload in pushes:
            request = NotificationRequest(device_token=token, message=payload, push_type=PushType.ALERT)
            result = await client.send_notification(request)
            answers.append((int(result.status), result.description or ""))
        return answers
