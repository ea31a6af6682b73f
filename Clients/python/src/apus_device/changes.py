"""Changes of subscriptions, until the service has confirmed them. Section 6 of the protocol, "Channels"."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from . import channels, messages
from .channels import Subscription, SubscriptionStatus


class SubscriptionRefused(Exception):
    """The service did not apply a change of subscriptions, or not all of it."""

    def __init__(self, status: int, subscriptions: list[Subscription]) -> None:
        super().__init__(_REFUSALS.get(status, f"status {status}"))
        self.status = status
        #: All that the device has now.
        self.subscriptions = subscriptions


_REFUSALS = {
    SubscriptionStatus.UNKNOWN_TOPIC: "a topic is unknown to the service, or the device does not list it",
    SubscriptionStatus.UNKNOWN_CHANNEL: "an app has no such channel in this environment",
    SubscriptionStatus.TOO_MANY: "the device would have too many subscriptions",
    SubscriptionStatus.UNAVAILABLE: "the service could not store the change; try again later",
}


class Change:
    """A change of subscriptions that the service has not confirmed. Each connection asks for it again."""

    def __init__(
        self, index: int, subscribed: Sequence[Subscription], unsubscribed: Sequence[Subscription], replaces: bool
    ) -> None:
        self._index = index
        self._subscriptions = channels.encode(subscribed, unsubscribed, replaces)
        self.answer: asyncio.Future[messages.ChannelConfirmation] = asyncio.get_running_loop().create_future()

    def message(self, token: bytes | None) -> bytes:
        return messages.channel_request(token, self._index, self._subscriptions)

    def confirm(self, answer: messages.ChannelConfirmation) -> None:
        if answer.index == self._index and not self.answer.done():
            self.answer.set_result(answer)
