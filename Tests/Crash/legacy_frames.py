"""Bytes of the binary interface and its feedback service, as legacy senders have them."""

import struct


def command_2(identifier, token, payload, expiration):
    """A frame of command 2 with priority 10; the token in hexadecimal digits, the expiration in Unix seconds."""
    def item(kind, value):
        return struct.pack("!BH", kind, len(value)) + value

    body = item(1, bytes.fromhex(token)) + item(2, payload) + item(3, struct.pack("!I", identifier))
    body += item(4, struct.pack("!I", expiration)) + item(5, b"\x0a")
    return struct.pack("!BI", 2, len(body)) + body


def packets(data):
    """The packets that are complete, each a status and an identifier, and the bytes behind them."""
    end = len(data) // 6 * 6
    return [(status, identifier) for _, status, identifier in struct.iter_unpack("!BBI", data[:end])], data[end:]


def feedback_rows(data):
    """The tokens of a list with their times, each as often as it is listed."""
    rows = []
    while data:
        seconds, length = struct.unpack("!IH", data[:6])
        rows.append((data[6:6 + length].hex(), seconds))
        data = data[6 + length:]
    return rows
