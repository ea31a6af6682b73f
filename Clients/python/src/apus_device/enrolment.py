"""Getting a first certificate. Section 10 of the protocol."""

from __future__ import annotations

import asyncio
import enum
import logging
import os
import pathlib
from collections.abc import Sequence

from . import messages
from .backoff import Backoff
from .connection import Address, Connection, Ended, Service
from .identity import Identity, certificate_request, key_pem, load_key, new_key, write_private
from .rotation import Rotation

ANSWER_SECONDS = 40
_log = logging.getLogger("apus_device")


class Reason(enum.IntEnum):
    """Why a request for a certificate was refused."""

    CODE = 1
    REQUEST = 2
    TOO_MANY = 3
    UNAVAILABLE = 4
    NOT_OFFERED = 5
    REJECTED = 6
    TOO_EARLY = 7
    RETIRED = 8

    @property
    def can_change(self) -> bool:
        return self in (Reason.TOO_MANY, Reason.UNAVAILABLE, Reason.TOO_EARLY)


class EnrolmentRefused(Exception):
    """The service refused a certificate, and waiting does not change that."""

    def __init__(self, answer: messages.EnrolmentAnswer) -> None:
        super().__init__(answer.text or f"reason {answer.reason}")
        self.reason = answer.reason


async def enrol(
    service: Service,
    path: str | os.PathLike[str],
    *,
    code: str | None = None,
    name: str | None = None,
    tags: Sequence[str] = (),
) -> Identity:
    """Asks for a certificate until the service issues or refuses one, and stores it with its key at `path`.

    `tags` are up to 16 of the form KEY=VALUE or KEY, which the service keeps if the code or the operator allows it.
    Without a code the operator decides, which may take days; cancelling is safe. The key is kept in a file beside
    `path` until then, because only the same key gets the certificate again if an answer was lost.
    """
    path = pathlib.Path(path)
    key_path = path.with_name(path.name + ".key")
    if key_path.exists():
        key = load_key(key_path.read_bytes())
    else:
        key = new_key()
        write_private(key_path, key_pem(key))
    backoff = Backoff()
    addresses = service.addresses
    rotation = Rotation(len(addresses))
    while True:
        address = addresses[rotation.current]
        wait = 0.0
        try:
            request = messages.enrolment_request(code, certificate_request(key), name, tags)
            answer = await _ask(service, address, request)
        except Ended as end:
            _log.warning("%s: no answer to the enrolment: %s", address, end)
            if rotation.failed(was_steady=False):
                continue
        else:
            rotation.answered()
            rotation.restart()
            if answer.status == 0:
                identity = Identity.store(path, key, answer.certificates)
                key_path.unlink()
                return identity
            if answer.status == 1:
                _log.info("%s: the operator has not approved the device yet", address)
            elif answer.reason not in list(Reason) or not Reason(answer.reason).can_change:
                raise EnrolmentRefused(answer)
            wait = answer.retry_seconds or 0
        await asyncio.sleep(max(wait, backoff.after_end(None)))


async def _ask(service: Service, address: Address, request: bytes) -> messages.EnrolmentAnswer:
    connection = await Connection.open(service, address, None)
    try:
        await connection.send(request)
        message = await connection.receive_first(ANSWER_SECONDS)
    finally:
        await connection.close()
    if isinstance(message, messages.EnrolmentAnswer):
        return message
    raise Ended(message.reason if isinstance(message, messages.Goodbye) else "the service answered something else")
