"""A device that stays connected. Sections 4 to 11 of the protocol."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import math
import os
import pathlib
import time
from collections.abc import Awaitable, Iterable, Sequence
from types import TracebackType
from typing import Self, TypeVar

from . import messages
from .backoff import Backoff
from .changes import Change, SubscriptionRefused
from .channels import Subscription, SubscriptionStatus
from .connection import Address, CertificateRejected, Connection, Ended, Service, Silent
from .identity import Identity, Key, certificate_request, new_key
from .messages import State, Status, Topics
from .notification import Notification
from .rotation import Rotation
from .session import Session, wait_seconds
from .state import DeviceState

RESPONSE_SECONDS = 10
#: How long the answer to a keep-alive may take.
ANSWER_SECONDS = 30
LONGEST_KEEP_ALIVE_SECONDS = 15 * 60
#: Between two requests for a certificate, if the service names no time.
RENEWAL_PAUSE_SECONDS = 3600
LONGEST_WAIT_SECONDS = 24 * 3600
_log = logging.getLogger("apus_device")
Value = TypeVar("Value")


class Refused(Exception):
    """The service refuses the device. The text says why and what to do; waiting does not help."""


class TokenRefused(Exception):
    """The service has no app with the topic."""


class Client:
    """Receives notifications for topics, over one connection after the other.

        async with Client(service, identity, ["com.example.app"]) as client:
            async for notification in client:
                show(notification.payload)

    A notification that the loop has done with is acknowledged, unless the loop did that itself. One that raises stays
    unacknowledged, and comes again on the next connection.
    """

    def __init__(
        self, service: Service, identity: Identity, topics: Topics | Iterable[str], *,
        state: str | os.PathLike[str] | None = None, power: State = State.ACTIVE,
        keep_alive_seconds: float = LONGEST_KEEP_ALIVE_SECONDS,
    ) -> None:
        """`state` is a file in which the client remembers what it has taken."""
        self.identity = identity
        self._service = service
        self._address = service.addresses[0]
        self._rotation = Rotation(len(service.addresses))
        #: The address that the service named.
        self._hint: Address | None = None
        self._topics = topics if isinstance(topics, Topics) else Topics(enabled=list(topics))
        self._power = power
        self._keep_alive_seconds = keep_alive_seconds
        self._state = DeviceState(None if state is None else pathlib.Path(state))
        self._connection: Connection | None = None
        self._waiting: collections.deque[Notification] = collections.deque()
        self._arrived = asyncio.Event()
        #: Received and not acknowledged.
        self._open: dict[tuple[int, int | None], Notification] = {}
        self._last: Notification | None = None
        self._tokens: dict[bytes, asyncio.Future[str]] = {}
        self._changing = asyncio.Lock()
        self._change: Change | None = None
        self._change_count = 0
        self._renewal_key: Key | None = None
        self._runner: asyncio.Task[None] | None = None

    # MARK: For the application

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    def __aiter__(self) -> Self:
        # The last loop was left with it.
        if self._last is not None:
            self._open.pop(self._last.key, None)
            self._last = None
        return self

    async def __anext__(self) -> Notification:
        if self._last is not None:
            await self._last.acknowledge()
            self._last = None
        while not self._waiting:
            self._arrived.clear()
            await self._or_end(self._arrived.wait())
        self._last = self._waiting.popleft()
        return self._last

    async def token(self, topic: str) -> str:
        """The device token of an app, for its provider: 64 hexadecimal digits."""
        name = messages.topic_hash(topic)
        if name not in self._tokens:
            self._tokens[name] = asyncio.get_running_loop().create_future()
            await self._send(messages.app_token_request(self._state.token, name))
        return await self._or_end(asyncio.shield(self._tokens[name]))

    async def set_topics(self, topics: Topics | Iterable[str]) -> None:
        """Replaces all topics. One that is in no list any more counts as uninstalled, and its token dies."""
        self._topics = topics if isinstance(topics, Topics) else Topics(enabled=list(topics))
        await self._send(self._filter())

    async def set_power(self, power: State) -> None:
        self._power = power
        await self._send(messages.set_state(power))

    async def subscribe(self, *subscriptions: Subscription) -> list[Subscription]:
        """Subscribes to channels, whose topics the client must list, and returns all subscriptions of the device.

        They stay until it unsubscribes, also while it is offline. Raises `SubscriptionRefused`.
        """
        return await self._request(subscribed=subscriptions)

    async def unsubscribe(self, *subscriptions: Subscription) -> list[Subscription]:
        return await self._request(unsubscribed=subscriptions)

    async def set_subscriptions(self, *subscriptions: Subscription) -> list[Subscription]:
        """Replaces all subscriptions of the device."""
        return await self._request(subscribed=subscriptions, replaces=True)

    async def subscriptions(self) -> list[Subscription]:
        return await self._request()

    async def _request(
        self, subscribed: Sequence[Subscription] = (), unsubscribed: Sequence[Subscription] = (),
        replaces: bool = False,
    ) -> list[Subscription]:
        async with self._changing:
            self._change_count += 1
            change = Change(self._change_count, subscribed, unsubscribed, replaces)
            message = change.message(self._state.token)
            try:
                self._change = change
                await self._send(message)
                answer = await self._or_end(asyncio.shield(change.answer))
            finally:
                self._change = None
        if answer.status != SubscriptionStatus.APPLIED:
            raise SubscriptionRefused(answer.status, answer.subscribed or [])
        return answer.subscribed or []

    async def _or_end(self, wanted: Awaitable[Value]) -> Value:
        """What is wanted, or the error with which the client ended."""
        if self._runner is None:
            raise RuntimeError("use the client in `async with`")
        future = asyncio.ensure_future(wanted)
        try:
            await asyncio.wait([future, self._runner], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not future.done():
                future.cancel()
        if future.done() and not future.cancelled():
            return future.result()
        self._runner.result()
        raise asyncio.CancelledError

    # MARK: Connections

    async def _run(self) -> None:
        backoff = Backoff()
        rotation = self._rotation
        refusals = 0
        while True:
            session = Session()
            self._address = self._next_address()
            try:
                await self._serve(self._address, session)
            except CertificateRejected as end:
                raise Refused(str(end)) from end
            except Ended as end:
                _log.info("%s: %s", self._address, end)
                session.is_silent = isinstance(end, Silent)
            # After a refusal a token may be the cause; without one it is not.
            refusals = refusals + 1 if session.is_refused else 0
            if refusals == 2:
                raise Refused(session.explanation)
            await asyncio.sleep(wait_seconds(session, rotation, backoff))

    def _next_address(self) -> Address:
        if self._rotation.is_at_hint and self._hint is not None:
            return self._hint
        return self._service.addresses[self._rotation.current]

    async def _serve(self, address: Address, session: Session) -> None:
        """One connection, from its begin to its end, which raises."""
        # All addresses of a service have its certificate, the one that it named too.
        name = self._service.addresses[self._rotation.current].host
        connection = await Connection.open(self._service, address, self.identity, name=name)
        try:
            await connection.send(messages.connect(self._state.token))
            message = await connection.receive_first(RESPONSE_SECONDS)
            if isinstance(message, messages.Goodbye):
                session.end(message)
            if not isinstance(message, messages.ConnectResponse):
                raise Ended("the service answered something else than a connect response")
            self._accept(message, session)
            self._connection = connection
            await connection.send(
                self._filter(), messages.set_state(self._power),
                *(messages.app_token_request(self._state.token, topic) for topic in self._missing_tokens()),
                *([] if self._change is None else [self._change.message(self._state.token)]))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._receive(connection, session))
                group.create_task(self._keep_alive(connection))
                group.create_task(self._renew(connection, session))
        except ExceptionGroup as group:
            ends = [error for error in group.exceptions if isinstance(error, Ended)]
            if len(ends) < len(group.exceptions):
                raise
            raise next((end for end in ends if isinstance(end, CertificateRejected)), ends[0]) from None
        finally:
            self._connection = None
            await connection.close()

    def _accept(self, response: messages.ConnectResponse, session: Session) -> None:
        if response.status != 0:
            session.is_refused = True
            session.explanation = response.explanation or "the service refused the device"
            self._state.token = None
            raise Ended(session.explanation)
        if response.token is None and self._state.token is None:
            raise Ended("the service accepted the device without a base token")
        if response.token is not None:
            self._state.token = response.token
        session.accept(response.server_milliseconds)
        self._follow(response.hint)

    def _follow(self, text: str | None) -> None:
        """The next connection begins at the address that the service named."""
        hint = None if text is None else Address.parse(text)
        if hint is not None:
            self._hint = hint
            self._rotation.hinted(True)
        elif not self._rotation.is_at_hint:
            self._rotation.hinted(False)

    def _filter(self) -> bytes:
        return messages.filter_message(self._state.token, self._topics.lists())

    def _missing_tokens(self) -> list[bytes]:
        return [topic for topic, answer in self._tokens.items() if not answer.done()]

    async def _send(self, *parts: bytes) -> None:
        """Sends if there is a connection. If it ends meanwhile, the next one sends what is still valid."""
        if self._connection is not None:
            with contextlib.suppress(Ended):
                await self._connection.send(*parts)

    # MARK: Messages

    async def _receive(self, connection: Connection, session: Session) -> None:
        while True:
            message = await connection.receive()
            match message:
                case messages.NotificationMessage():
                    await self._take(message)
                case messages.AppTokenAnswer():
                    self._answer_token(message)
                case messages.ChannelConfirmation():
                    if self._change is not None:
                        self._change.confirm(message)
                case messages.RenewalAdvice():
                    session.renew_within(message.within_seconds)
                case messages.RenewalAnswer():
                    self._answer_renewal(message, session)
                case messages.Goodbye():
                    session.end(message)
                case messages.ConnectResponse():
                    raise Ended("the service sent a second connect response")
                case _:
                    pass

    async def _take(self, message: messages.NotificationMessage) -> None:
        notification = Notification(message, self._topic(message.topic), self._acknowledge)
        if self._has_taken(notification):
            # Its acknowledgement was lost.
            await self._send(messages.acknowledgement(self._state.token, message.message_id, Status.TAKEN))
        elif not self._is_open(notification):
            self._open[notification.key] = notification
            self._waiting.append(notification)
            self._arrived.set()

    def _is_open(self, notification: Notification) -> bool:
        if notification.may_be_repeated and notification.identity is not None:
            if any(one.identity == notification.identity for one in self._open.values()):
                return True
        return notification.key in self._open

    def _has_taken(self, notification: Notification) -> bool:
        if notification.may_be_repeated and notification.identity is not None:
            if self._state.has_taken_identity(notification.identity):
                return True
        return self._state.has_taken(notification.key)

    async def _acknowledge(self, notification: Notification, status: Status) -> None:
        if notification.is_acknowledged:
            return
        notification.is_acknowledged = True
        self._open.pop(notification.key, None)
        self._state.take(notification.key, notification.identity)
        await self._send(messages.acknowledgement(self._state.token, notification.message_id, status))

    def _topic(self, name: bytes) -> str | None:
        lists = [self._topics.enabled, self._topics.opportunistic, self._topics.paused, self._topics.non_waking]
        return next((topic for topics in lists for topic in topics if messages.topic_hash(topic) == name), None)

    def _answer_token(self, answer: messages.AppTokenAnswer) -> None:
        future = self._tokens.get(answer.topic)
        if future is None or future.done():
            return
        if answer.status == 0 and answer.token is not None:
            future.set_result(answer.token.hex())
        else:
            del self._tokens[answer.topic]
            future.set_exception(TokenRefused("the service has no app with this topic"))

    # MARK: Time

    async def _keep_alive(self, connection: Connection) -> None:
        now = asyncio.get_running_loop().time
        while True:
            quiet = now() - connection.active_time
            if quiet < self._keep_alive_seconds:
                await asyncio.sleep(self._keep_alive_seconds - quiet)
                continue
            await connection.send(messages.keep_alive(max(1, math.ceil(self._keep_alive_seconds / 60))))
            heard = connection.heard_time
            await asyncio.sleep(ANSWER_SECONDS)
            if connection.heard_time == heard:
                raise Silent("the service did not answer a keep-alive")

    async def _renew(self, connection: Connection, session: Session) -> None:
        """Asks for the next certificate when it is time, by the service's clock, or when the service advises it."""
        while True:
            due = min(
                self.identity.renewal_time() - session.service_time(), session.advised_time - time.monotonic())
            due = max(due, session.renewal_time - time.monotonic())
            if due <= 0:
                session.renewal_time = time.monotonic() + RENEWAL_PAUSE_SECONDS
                self._renewal_key = new_key()
                await connection.send(messages.renewal_request(certificate_request(self._renewal_key)))
                continue
            with contextlib.suppress(TimeoutError):
                # The clocks may drift apart in a longer time.
                async with asyncio.timeout(min(due, LONGEST_WAIT_SECONDS)):
                    await session.renewal_changed.wait()
            session.renewal_changed.clear()

    def _answer_renewal(self, answer: messages.RenewalAnswer, session: Session) -> None:
        session.advised_time = math.inf
        session.renewal_changed.set()
        if answer.status == 0 and self._renewal_key is not None:
            # The next connection uses it.
            self.identity = Identity.store(self.identity.path, self._renewal_key, answer.certificates)
            self._renewal_key = None
            _log.info("%s: the device has a new certificate", self._address)
            return
        if answer.retry_seconds is not None:
            session.renewal_time = time.monotonic() + answer.retry_seconds
        _log.warning("%s: no new certificate: %s", self._address, answer.text or f"reason {answer.reason}")
