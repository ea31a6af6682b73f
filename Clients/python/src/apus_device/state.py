"""What a device remembers over connections and restarts: its base token, and what it has taken."""

from __future__ import annotations

import collections
import json
import pathlib

from .identity import write_private

#: The service sends again what was not acknowledged, at most 128 KiB of it. Section 6 of the protocol.
REMEMBERED = 512

Key = tuple[int, int | None]


class DeviceState:
    """Without a path it lasts as long as the process: a notification may then be shown twice."""

    def __init__(self, path: pathlib.Path | None) -> None:
        self._path = path
        self._token: bytes | None = None
        #: With the topic and `apns-id` of each: under flag 0x04 they identify it.
        self._taken: collections.OrderedDict[Key, str | None] = collections.OrderedDict()
        if path is not None and path.exists():
            content = json.loads(path.read_text())
            self._token = bytes.fromhex(content["token"]) if content["token"] else None
            for number, time, *identity in content["taken"]:
                self._taken[number, time] = identity[0] if identity else None

    @property
    def token(self) -> bytes | None:
        return self._token

    @token.setter
    def token(self, token: bytes | None) -> None:
        if token != self._token:
            self._token = token
            self._save()

    def has_taken(self, key: Key) -> bool:
        return key in self._taken

    def has_taken_identity(self, identity: str) -> bool:
        return identity in self._taken.values()

    def take(self, key: Key, identity: str | None = None) -> None:
        self._taken[key] = identity
        while len(self._taken) > REMEMBERED:
            self._taken.popitem(last=False)
        self._save()

    def _save(self) -> None:
        if self._path is not None:
            taken = [(*key, identity) for key, identity in self._taken.items()]
            content = {"token": self._token.hex() if self._token else None, "taken": taken}
            # After a power cut a notification may come twice, which is cheaper than a sync for each.
            write_private(self._path, json.dumps(content).encode(), is_durable=False)
