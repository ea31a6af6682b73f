"""Subscriptions to channels, in the encoding of Protocol Buffers. Section 6 of the protocol, "Channels"."""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class Malformed(ValueError):
    """Bytes that are no message of Protocol Buffers."""


class SubscriptionStatus(enum.IntEnum):
    """How a change of subscriptions ended."""

    APPLIED = 0
    #: A topic is unknown, or the device does not list it.
    UNKNOWN_TOPIC = 1
    #: The app has no such channel in this environment.
    UNKNOWN_CHANNEL = 2
    #: The device would have too many subscriptions.
    TOO_MANY = 3
    #: The service could not store the change, and applied nothing.
    UNAVAILABLE = 4


@dataclass(frozen=True)
class Subscription:
    """A channel of an app."""

    #: The app's topic for Live Activities, `BUNDLE.push-type.liveactivity`.
    topic: str
    #: The channel's id in base64, as providers have it.
    channel: str
    #: Of a request: Unix nanoseconds of the newest broadcast that the device has; 0 for none.
    newest_nanoseconds: int = 0


def encode(
    subscribed: Iterable[Subscription] = (), unsubscribed: Iterable[Subscription] = (), replaces: bool = False
) -> bytes:
    """The message `Subscriptions`."""
    topics: dict[str, tuple[list[bytes], list[bytes]]] = {}
    for place, channels in enumerate((subscribed, unsubscribed)):
        for one in channels:
            mark = _bytes(1, base64.b64decode(one.channel, validate=True))
            if one.newest_nanoseconds:
                mark += _number(2, one.newest_nanoseconds)
            topics.setdefault(one.topic, ([], []))[place].append(mark)
    message = _number(1, 1)
    for topic, (marks, gone) in topics.items():
        parts = [_bytes(1, topic.encode()), *(_bytes(2, mark) for mark in marks), *(_bytes(3, mark) for mark in gone)]
        message += _bytes(2, b"".join(parts))
    return message + (_number(3, 1) if replaces else b"")


def decode(message: bytes) -> list[Subscription]:
    """What a message `Subscriptions` subscribes to."""
    found = []
    for topic in _values(message, 2):
        name = (_values(topic, 1) or [b""])[-1].decode("utf-8", "replace")
        found += [Subscription(name, text(channel_id(mark))) for mark in _values(topic, 2)]
        for mark in _values(topic, 3):
            channel_id(mark)
    return found


def channel_id(message: bytes) -> bytes:
    """The id in a message `Channel`; empty for none."""
    return (_values(message, 1) or [b""])[-1]


def text(channel: bytes) -> str:
    """An id as providers have it."""
    return base64.b64encode(channel).decode()


# MARK: Protocol Buffers


def _varint(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _values(message: bytes, field: int) -> list[bytes]:
    """The values of a field that holds bytes. The whole message is checked."""
    return [value for number, value in _fields(message) if number == field and value is not None]


def _fields(message: bytes) -> Iterator[tuple[int, bytes | None]]:
    """The number of each field, and its value if it holds bytes."""
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        kind, value = tag & 7, None
        if tag >> 3 == 0 or kind not in (0, 1, 2, 5):
            raise Malformed
        if kind == 0:
            _, place = _read_varint(message, place)
        else:
            length = {1: 8, 5: 4}.get(kind)
            if length is None:
                length, place = _read_varint(message, place)
            if length > len(message) - place:
                raise Malformed
            if kind == 2:
                value = message[place:place + length]
            place += length
        yield tag >> 3, value


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise Malformed
        byte, place = message[place], place + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                raise Malformed
            return number, place
    raise Malformed
