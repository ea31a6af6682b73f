"""A provider of a steady rate that never sends a request twice, for tests of restarts.

It speaks just the HTTP/2 (RFC 9113) that it needs, because it must know what libraries hide: which request had no
response, and why.
"""

import collections
import json
import select
import socket
import ssl
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 3, 4
BODY = b'{"aps":{"alert":"restart"}}'


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def string(octets):
    """A string without Huffman coding (RFC 7541, sections 5.1 and 5.2)."""
    rest, length = len(octets) - 127, []
    while rest >= 128:
        length.append(rest % 128 + 128)
        rest //= 128
    return bytes([len(octets)] if len(octets) < 127 else [127, *length, rest]) + octets


def header_block(token, path, topic):
    """All fields without indexing, with new names (RFC 7541, section 6.2.2)."""
    fields = {":method": "POST", ":scheme": "https", ":path": path, "apns-topic": topic, "apns-push-type": "alert",
              "apns-expiration": "0", "authorization": f"bearer {token}"}
    return b"".join(b"\0" + string(name.encode()) + string(value.encode()) for name, value in fields.items())


class Connection:
    def __init__(self, address, context):
        self.socket = context.wrap_socket(socket.create_connection(address, timeout=60), server_hostname="localhost")
        self.socket.setblocking(False)
        self.stream, self.limit, self.window, self.stream_window = 1, 0, 65535, 65535
        self.open = {}  # by stream: when the request was due
        self.is_going = self.is_closed = False
        self.input, self.output = bytearray(), bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))

    @property
    def takes_requests(self):
        return not self.is_going and not self.is_closed and len(self.open) < self.limit and self.window >= len(BODY)

    def request(self, block, due):
        self.open[self.stream] = due
        self.output += frame(HEADERS, END_HEADERS, self.stream, block) + frame(DATA, END_STREAM, self.stream, BODY)
        self.window -= len(BODY)
        self.stream += 2

    def exchange(self, results):
        """Writes and reads what can be written and read now."""
        try:
            while self.output:
                del self.output[:self.socket.send(self.output)]
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            # What the service had sent before may still be read.
            self.output.clear()
        try:
            while data := self.socket.recv(65536):
                self.input += data
            self.is_closed = True
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError:
            self.is_closed = True
        while len(self.input) >= 9 and len(self.input) >= (end := 9 + int.from_bytes(self.input[:3], "big")):
            kind, flags, stream = struct.unpack(">BBI", self.input[3:9])
            self.receive(kind, flags, stream, bytes(self.input[9:end]), results)
            del self.input[:end]
        if self.is_closed:
            results.lost += len(self.open)
            self.open.clear()

    def receive(self, kind, flags, stream, payload, results):
        if kind == SETTINGS and not flags & ACK:
            for identifier, value in struct.iter_unpack(">HI", payload):
                if identifier == MAX_CONCURRENT_STREAMS:
                    self.limit = value
                elif identifier == INITIAL_WINDOW_SIZE:
                    assert value >= len(BODY), "a request must not have to wait for its own window"
            self.output += frame(SETTINGS, ACK, 0)
        elif kind == PING and not flags & ACK:
            self.output += frame(PING, ACK, 0, payload)
        elif kind == WINDOW_UPDATE and stream == 0:
            self.window += struct.unpack(">I", payload)[0]
        elif kind == GOAWAY:
            self.is_going = True
            last = struct.unpack(">I", payload[:4])[0]
            for refused in [number for number in self.open if number > last]:
                del self.open[refused]
                results.refused += 1
        elif kind == RST_STREAM:
            results.rejected["reset"] += self.open.pop(stream, None) is not None
        elif kind == HEADERS and stream in self.open:
            # A change of the table's size may precede the status; 0x88 is the 200 of the static table.
            block = payload.lstrip(bytes(range(0x20, 0x40)))
            due = self.open.pop(stream)
            if block[0] == 0x88:
                results.accepted += 1
                results.longest_wait_seconds = max(results.longest_wait_seconds, time.monotonic() - due)
            else:
                results.rejected[block[:4].hex()] += 1


class Results:
    def __init__(self):
        self.sent = self.accepted = self.refused = self.lost = self.refused_connections = self.connections = 0
        self.rejected = collections.Counter()
        self.longest_wait_seconds = 0.0


def run(address, authority, token, device_tokens, topic, rate, seconds):
    """Sends requests that are due at a steady rate, each once, and returns the results when all are answered."""
    context = ssl.create_default_context(cafile=authority)
    context.set_alpn_protocols(["h2"])
    blocks = [header_block(token, f"/3/device/{one}", topic) for one in device_tokens]
    results, connections, start = Results(), [], time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds + 30:
        due = int(min(elapsed, seconds) * rate)
        if due == results.sent and elapsed >= seconds and not any(one.open for one in connections):
            break
        if due > results.sent and all(one.is_going or one.is_closed for one in connections):
            try:
                connections.append(Connection(address, context))
                results.connections += 1
            except OSError:
                results.refused_connections += 1
                time.sleep(0.01)
        for one in connections:
            while results.sent < due and one.takes_requests:
                one.request(blocks[results.sent % len(blocks)], start + results.sent / rate)
                results.sent += 1
            one.exchange(results)
        # One that is going stays open until the next one is: a client with one thread cannot close it meanwhile.
        connections = [one for one in connections if not one.is_closed and (one.open or one is connections[-1])]
        select.select([one.socket for one in connections], [], [], 0.001)
    results.lost += sum(len(one.open) for one in connections)
    return results


def main():
    """Takes the arguments of `run` as JSON, and prints its results as JSON."""
    import sys
    print(json.dumps(vars(run(**json.load(sys.stdin)))), flush=True)


if __name__ == "__main__":
    main()
