"""A notification as the application gets it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Awaitable, Callable
from typing import Any

from .channels import text
from .messages import NotificationMessage, PushType, Status
from .state import Key

FROM_STORAGE = 0x01


class Notification:
    """A notification, to be acknowledged once the application has it safely."""

    def __init__(
        self, message: NotificationMessage, topic: str | None,
        acknowledge: Callable[[Notification, Status], Awaitable[None]],
    ) -> None:
        self._message = message
        self._acknowledge = acknowledge
        #: The topic; None if it is none of the client's.
        self.topic = topic
        self.is_acknowledged = False

    @property
    def key(self) -> Key:
        """What tells it from all others, and is the same when it is sent again."""
        return self._message.message_id, self._message.sent_nanoseconds

    @property
    def identity(self) -> str | None:
        """Topic and `apns-id`, which tell it from others if the service does not know whether it was sent."""
        return f"{self._message.topic.hex()} {self.id}" if self.id else None

    @property
    def may_be_repeated(self) -> bool:
        return bool(self._message.storage_flags & 0x04)

    @property
    def message_id(self) -> int:
        return self._message.message_id

    @property
    def payload(self) -> Any:
        """The payload's JSON."""
        return json.loads(self._message.payload)

    @property
    def payload_bytes(self) -> bytes:
        return self._message.payload

    @property
    def token(self) -> str:
        """The device token that the provider used; of a broadcast, the connection's base token."""
        return self._message.token.hex()

    @property
    def id(self) -> str | None:
        """The provider's `apns-id`."""
        return self._message.id

    @property
    def collapse_id(self) -> str | None:
        """A notification replaces the one that is shown with the same id."""
        return self._message.collapse_id

    @property
    def channel(self) -> str | None:
        """The id, in base64, of the channel that it came over; None if it was sent to this device."""
        return None if self._message.channel is None else text(self._message.channel)

    @property
    def priority(self) -> int | None:
        """10, 5 or 1."""
        return self._message.priority

    @property
    def push_type(self) -> PushType | None:
        return None if self._message.push_type is None else PushType(self._message.push_type)

    @property
    def accepted(self) -> datetime.datetime | None:
        """When the service accepted it."""
        nanoseconds = self._message.sent_nanoseconds
        return None if nanoseconds is None else _time(nanoseconds / 1e9)

    @property
    def expiration(self) -> datetime.datetime | None:
        """None: it does not expire."""
        seconds = self._message.expiry_seconds
        return None if seconds is None else _time(seconds)

    @property
    def was_stored(self) -> bool:
        """Whether it waited for the device, or is sent again."""
        return bool(self._message.storage_flags & FROM_STORAGE)

    async def acknowledge(self, status: Status = Status.TAKEN) -> None:
        """Says what happened to it. It does not come again, whatever the status."""
        await self._acknowledge(self, status)

    def __repr__(self) -> str:
        return f"<Notification {self.id or self.message_id} for {self.topic}>"


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
