"""Messages of the courier protocol, under `apus-courier/1`. Sections 3 to 11 of the protocol."""

from __future__ import annotations

import enum
import hashlib
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from . import channels
from .channels import Subscription
from .frames import Fields, encode

TOKEN_BYTES = 32
TOPIC_BYTES = 20
MOST_TOPICS = 2_048
NO_EXPIRATION = 0xFFFFFFFF


def topic_hash(topic: str) -> bytes:
    """How the protocol names a topic. Section 5."""
    return hashlib.sha1(topic.encode()).digest()


class State(enum.IntEnum):
    """How the device is used, which decides when pushes come. Section 7."""

    IDLE = 0
    ACTIVE = 1
    LOW_POWER = 2


class Status(enum.IntEnum):
    """What happened to a notification. Section 6."""

    TAKEN = 0
    FAILED = 2
    REJECTED = 3


class PushType(enum.IntEnum):
    ALERT = 0
    BACKGROUND = 1
    COMPLICATION = 2
    CONTROLS = 3
    FILEPROVIDER = 4
    LIVEACTIVITY = 5
    LOCATION = 6
    MDM = 7
    PUSHTOTALK = 8
    VOIP = 9
    WIDGETS = 10


# MARK: To the service


def connect(token: bytes | None) -> bytes:
    return encode(0x07, [*_token(token), (2, b"\x01"), (5, (0x41).to_bytes(4, "big"))])


@dataclass(frozen=True)
class Topics:
    """What the device wants to receive, at most 2,048 topics in all. Section 5."""

    #: Delivered at once; may wake the device.
    enabled: Sequence[str] = ()
    #: Discarded: the app's user turned notifications off.
    ignored: Sequence[str] = ()
    #: Delivered when the device is active or uses its radio.
    opportunistic: Sequence[str] = ()
    #: Stored, and delivered once the topic is in another list.
    paused: Sequence[str] = ()
    #: As `opportunistic`; must not wake the device.
    non_waking: Sequence[str] = ()

    def lists(self) -> list[tuple[int, list[bytes]]]:
        lists = [self.enabled, self.ignored, self.opportunistic, self.paused, self.non_waking]
        return [(number, [topic_hash(topic) for topic in topics]) for number, topics in enumerate(lists, 2)]


def filter_message(token: bytes | None, lists: Iterable[tuple[int, Iterable[bytes]]]) -> bytes:
    fields = [(number, topic) for number, topics in lists for topic in topics]
    if len(fields) > MOST_TOPICS:
        raise ValueError(f"{len(fields)} topics are more than {MOST_TOPICS}")
    return encode(0x09, [*_token(token), *fields])


def acknowledgement(token: bytes | None, message_id: int, status: int) -> bytes:
    return encode(0x0B, [*_token(token), (4, message_id.to_bytes(4, "big")), (8, bytes([status]))])


def keep_alive(minutes: int) -> bytes:
    return encode(0x0C, [(5, minutes.to_bytes(2, "big"))])


def app_token_request(token: bytes | None, topic: bytes) -> bytes:
    return encode(0x11, [*_token(token), (2, topic), (3, bytes(2))])


def set_state(state: int) -> bytes:
    return encode(0x14, [(1, bytes([state])), (2, (0x7FFFFFFF).to_bytes(4, "big"))])


def channel_request(token: bytes | None, index: int, subscriptions: bytes) -> bytes:
    fields = [(1, index.to_bytes(4, "big")), (2, subscriptions)]
    return encode(0x1D, fields if token is None else [*fields, (3, token)])


def enrolment_request(code: str | None, request: bytes, name: str | None, tags: Sequence[str] = ()) -> bytes:
    fields = [] if code is None else [(0x40, code.encode())]
    fields.append((0x41, request))
    if name is not None:
        fields.append((0x42, name.encode()))
    fields += [(0x43, tag.encode()) for tag in tags]
    return encode(0x81, fields)


def renewal_request(request: bytes) -> bytes:
    return encode(0x83, [(0x41, request)])


def _token(token: bytes | None) -> list[tuple[int, bytes]]:
    return [] if token is None else [(1, token)]


# MARK: From the service


@dataclass(frozen=True)
class ConnectResponse:
    status: int
    maximum_message_bytes: int
    protocol_version: int
    capabilities: int
    large_message_bytes: int
    server_milliseconds: int
    token: bytes | None = None
    bad_nonce_server_milliseconds: int | None = None
    explanation: str | None = None
    #: HOST:PORT of a better address for the next connection.
    hint: str | None = None


@dataclass(frozen=True)
class NotificationMessage:
    token: bytes
    topic: bytes
    payload: bytes
    message_id: int
    #: None: it does not expire.
    expiry_seconds: int | None = None
    sent_nanoseconds: int | None = None
    storage_flags: int = 0
    priority: int | None = None
    id: str | None = None
    push_type: int | None = None
    collapse_id: str | None = None
    #: The id of the channel that it came over.
    channel: bytes | None = None


@dataclass(frozen=True)
class Acknowledgement:
    message_id: int
    status: int
    token: bytes | None = None


@dataclass(frozen=True)
class KeepAliveAnswer:
    pass


@dataclass(frozen=True)
class NoStorage:
    token: bytes | None = None


@dataclass(frozen=True)
class FlushAnswer:
    padding_bytes: int


@dataclass(frozen=True)
class AppTokenAnswer:
    status: int
    topic: bytes
    token: bytes | None = None
    app_id: int | None = None


@dataclass(frozen=True)
class ChannelConfirmation:
    index: int
    status: int
    token: bytes | None = None
    #: All subscriptions of the device.
    subscribed: list[Subscription] | None = None


@dataclass(frozen=True)
class Goodbye:
    reason: str
    reconnect_milliseconds: int | None = None


@dataclass(frozen=True)
class EnrolmentAnswer:
    """The answer to a request for a certificate."""

    status: int
    certificates: list[bytes] = field(default_factory=list)
    retry_seconds: int | None = None
    reason: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class RenewalAnswer(EnrolmentAnswer):
    pass


@dataclass(frozen=True)
class RenewalAdvice:
    within_seconds: int


Message = (
    ConnectResponse | NotificationMessage | Acknowledgement | KeepAliveAnswer | NoStorage | FlushAnswer
    | AppTokenAnswer | ChannelConfirmation | Goodbye | EnrolmentAnswer | RenewalAnswer | RenewalAdvice
)


def decode(command: int, body: bytes) -> Message | None:
    """A message to a device; None if devices skip the command."""
    if command not in _DECODERS:
        return None
    decoder, lengths = _DECODERS[command]
    return decoder(Fields(command, body, lengths))


def _connect_response(fields: Fields) -> ConnectResponse:
    return ConnectResponse(
        status=fields.must_number(1), token=fields.get(3),
        maximum_message_bytes=fields.must_number(4), protocol_version=fields.must_number(5),
        capabilities=fields.must_number(6), bad_nonce_server_milliseconds=fields.number(7),
        large_message_bytes=fields.must_number(8), server_milliseconds=fields.must_number(10),
        explanation=fields.text(0x40), hint=fields.text(0x41))


def _notification(fields: Fields) -> NotificationMessage:
    expiry = fields.number(5)
    priority, push_type = fields.number(13), fields.number(0x41)
    unique, collapse = fields.get(0x40), fields.get(0x42)
    return NotificationMessage(
        token=fields.must(1), topic=fields.must(2), payload=fields.must(3),
        message_id=fields.must_number(4), expiry_seconds=None if expiry == NO_EXPIRATION else expiry,
        sent_nanoseconds=fields.number(6), storage_flags=fields.number(7) or 0,
        priority=priority if priority in (1, 5, 10) else None,
        id=None if unique is None else str(uuid.UUID(bytes=unique)).upper(),
        push_type=push_type if push_type in PushType.__members__.values() else None,
        collapse_id=None if collapse is None else collapse.decode("utf-8", "replace"),
        channel=fields.read(29, channels.channel_id) or None)


def _acknowledgement(fields: Fields) -> Acknowledgement:
    return Acknowledgement(
        token=fields.get(1), message_id=fields.must_number(4), status=fields.must_number(8))


def _app_token_answer(fields: Fields) -> AppTokenAnswer:
    return AppTokenAnswer(
        status=fields.must_number(1), token=fields.get(2) or None,
        topic=fields.must(3), app_id=fields.number(4))


def _channel_confirmation(fields: Fields) -> ChannelConfirmation:
    return ChannelConfirmation(
        index=fields.must_number(1), token=fields.get(3), status=fields.must_number(4),
        subscribed=fields.read(2, channels.decode))


def _goodbye(fields: Fields) -> Goodbye:
    return Goodbye(reason=fields.text(0x40) or "", reconnect_milliseconds=fields.number(0x41))


def _enrolment_answer(fields: Fields) -> EnrolmentAnswer:
    status = fields.must_number(0x40)
    if status == 0:
        fields.must(0x43)
    return EnrolmentAnswer(
        status=status, certificates=fields.every(0x43), reason=fields.number(0x41), text=fields.text(0x42),
        retry_seconds=fields.number(0x44))


def _renewal_answer(fields: Fields) -> RenewalAnswer:
    return RenewalAnswer(**vars(_enrolment_answer(fields)))


_TOKEN, _TOPIC = (TOKEN_BYTES,), (TOPIC_BYTES,)
_ANSWER_LENGTHS: dict[int, Container[int]] = {0x40: (1,), 0x41: (1,), 0x44: (4,)}

#: By command: the message, and the lengths that its fields can have.
_DECODERS: dict[int, tuple[Callable[[Fields], Message], dict[int, Container[int]]]] = {
    0x08: (
        _connect_response,
        {1: (1,), 3: _TOKEN, 4: (2,), 5: (2,), 6: (4,), 7: (8,), 8: (2,), 10: (8,)}),
    0x0A: (
        _notification,
        {1: _TOKEN, 2: _TOPIC, 4: (4,), 5: (4,), 6: (8,), 7: (1,), 13: (1,), 0x40: (16,), 0x41: (1,),
         0x42: range(1, 65)}),
    0x0B: (_acknowledgement, {1: _TOKEN, 4: (4,), 8: (1,)}),
    0x0D: (lambda fields: KeepAliveAnswer(), {}),
    0x0E: (lambda fields: NoStorage(token=fields.get(1)), {1: _TOKEN}),
    0x10: (lambda fields: FlushAnswer(padding_bytes=len(fields.get(2) or b"")), {}),
    0x12: (_app_token_answer, {1: (1,), 2: (0, TOKEN_BYTES), 3: _TOPIC, 4: (2,)}),
    0x1D: (_channel_confirmation, {1: (4,), 3: _TOKEN, 4: (1,)}),
    0x80: (_goodbye, {0x41: (4,)}),
    0x82: (_enrolment_answer, _ANSWER_LENGTHS),
    0x84: (_renewal_answer, _ANSWER_LENGTHS),
    0x85: (lambda fields: RenewalAdvice(within_seconds=fields.must_number(0x44)), {0x44: (4,)}),
}
