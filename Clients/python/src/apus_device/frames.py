"""Frames of the courier protocol: a command and fields. Section 2 of the protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import TypeVar

from .channels import Malformed

MOST_BYTES = 65_536
HEADER_BYTES = 5
FIELD_HEADER_BYTES = 3
Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Fault(Exception):
    """A malformed frame, by the names of section 12."""

    kind: str
    command: int | None = None
    field: int | None = None
    #: Of the frame or the field.
    length: int | None = None
    #: Where a truncated field starts.
    offset: int | None = None

    def __str__(self) -> str:
        facts = [
            f"{field.name} {getattr(self, field.name)}"
            for field in dataclasses.fields(self)
            if field.name != "kind" and getattr(self, field.name) is not None
        ]
        return ", ".join([self.kind, *facts])


def encode(command: int, fields: Iterable[tuple[int, bytes]] = ()) -> bytes:
    """A frame. Values have at most 65,535 bytes, and the whole at most 65,536 after its header."""
    body = b"".join(bytes([number]) + len(value).to_bytes(2, "big") + value for number, value in fields)
    if len(body) > MOST_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes is too long")
    return bytes([command]) + len(body).to_bytes(4, "big") + body


class Decoder:
    """Takes bytes as they arrive, and yields frames: their commands, and their fields as bytes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._bytes += data
        while self._bytes:
            command = self._bytes[0]
            if command == 0:
                raise Fault("commandZero")
            if len(self._bytes) < HEADER_BYTES:
                return
            length = int.from_bytes(self._bytes[1:HEADER_BYTES], "big")
            if length > MOST_BYTES:
                raise Fault("frameTooLong", command, length=length)
            end = HEADER_BYTES + length
            if len(self._bytes) < end:
                return
            body = bytes(self._bytes[HEADER_BYTES:end])
            del self._bytes[:end]
            yield command, body


class Fields:
    """The fields of one frame. Of a field that repeats, the last one counts, unless all are asked for.

    `lengths` are those that a field can have; others can have any.
    """

    def __init__(self, command: int, body: bytes, lengths: Mapping[int, Container[int]]) -> None:
        self._command = command
        self._all: list[tuple[int, bytes]] = []
        offset = 0
        while offset < len(body):
            start = offset + FIELD_HEADER_BYTES
            end = start + int.from_bytes(body[offset + 1:start], "big")
            if start > len(body) or end > len(body):
                raise Fault("truncatedField", command, offset=offset)
            number = body[offset]
            if number in lengths and end - start not in lengths[number]:
                raise Fault("badField", command, number, length=end - start)
            self._all.append((number, body[start:end]))
            offset = end

    def every(self, number: int) -> list[bytes]:
        return [value for field, value in self._all if field == number]

    def get(self, number: int) -> bytes | None:
        """The value; None if it is absent."""
        values = self.every(number)
        return values[-1] if values else None

    def must(self, number: int) -> bytes:
        value = self.get(number)
        if value is None:
            raise Fault("missingField", self._command, number)
        return value

    def number(self, number: int) -> int | None:
        value = self.get(number)
        return None if value is None else int.from_bytes(value, "big")

    def must_number(self, number: int) -> int:
        return int.from_bytes(self.must(number), "big")

    def read(self, number: int, reader: Callable[[bytes], Value]) -> Value | None:
        """What `reader` makes of the value; None if it is absent. For `Malformed` the frame is malformed."""
        value = self.get(number)
        try:
            return None if value is None else reader(value)
        except Malformed:
            raise Fault("badField", self._command, number, length=len(value or b"")) from None

    def text(self, number: int) -> str | None:
        value = self.get(number)
        return None if value is None else value.decode("utf-8", "replace")
