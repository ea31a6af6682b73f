"""One connection: TLS, frames, and the protocol's time limits. Sections 1, 2, 11 and 12 of the protocol."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from . import frames, messages
from .identity import Identity

DIALECT = "apus-courier/1"
TCP_SECONDS = 10
HANDSHAKE_SECONDS = 10
WRITE_SECONDS = 30
CHUNK_BYTES = 65_536

#: The parts of OpenSSL's names for the alerts 44, 45 and 48: waiting does not help.
_HOPELESS = {
    "CERTIFICATE_REVOKED": "the certificate is revoked",
    "CERTIFICATE_EXPIRED": "the certificate has expired",
    "UNKNOWN_CA": "the service does not know the certificate's authority",
}


class Ended(Exception):
    """The connection ended. The text says why."""


class Silent(Ended):
    """The service did not answer a keep-alive."""


class CertificateRejected(Ended):
    """The service does not accept the device's certificate: enrol again, or ask the operator."""


@dataclass(frozen=True)
class Address:
    """Where a listener for devices is. Its certificate must contain the host."""

    host: str
    port: int = 5223

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """HOST:PORT, with brackets around an IPv6 address; None for anything else."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            return None
        return cls(host, int(port))


@dataclass(frozen=True)
class Service:
    """Where the listener for devices is, and the file (PEM) with the authority that issued its certificate.

    `alternatives` are other addresses of the same service. When an address fails, a device tries the next one at once;
    when all have failed, it waits. It stays with the one that works.
    """

    host: str
    authority: str | os.PathLike[str]
    port: int = 5223
    alternatives: Sequence[Address] = ()

    @property
    def addresses(self) -> list[Address]:
        return [Address(self.host, self.port), *self.alternatives]

    def __str__(self) -> str:
        return ", ".join(map(str, self.addresses))


def explained(error: OSError) -> Ended:
    """A failure of the network or of TLS."""
    reason = getattr(error, "reason", None) or ""
    for name, text in _HOPELESS.items():
        if "ALERT" in reason and name in reason:
            return CertificateRejected(text)
    return Ended(str(error) or type(error).__name__)


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._decoder = frames.Decoder()
        self._received: list[tuple[int, bytes]] = []
        #: When bytes last came, and when they last went either way, by the event loop's clock.
        self.heard_time = self.active_time = asyncio.get_running_loop().time()

    @classmethod
    async def open(
        cls, service: Service, address: Address, identity: Identity | None, *, name: str | None = None
    ) -> Connection:
        """Connects; without an identity a device can only enrol. `name` is what the certificate must contain in place
        of the address's host."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(service.authority)
        context.set_alpn_protocols([DIALECT])
        if identity is not None:
            context.load_cert_chain(identity.path)
        try:
            async with asyncio.timeout(TCP_SECONDS + HANDSHAKE_SECONDS):
                streams = await asyncio.open_connection(
                    address.host, address.port, ssl=context, server_hostname=name or address.host,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS, limit=2 * CHUNK_BYTES)
        except TimeoutError:
            raise Ended(f"{address} did not complete the connection in time") from None
        except OSError as error:
            raise explained(error) from error
        return cls(*streams)

    async def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))
        self.active_time = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            raise Ended("the service does not read") from None
        except OSError as error:
            raise explained(error) from error

    async def receive(self) -> messages.Message:
        """The next message. Those that devices skip are skipped."""
        while True:
            while self._received:
                command, body = self._received.pop(0)
                try:
                    message = messages.decode(command, body)
                except frames.Fault as fault:
                    raise Ended(f"the service sent a malformed frame: {fault}") from fault
                if message is not None:
                    return message
            try:
                data = await self._reader.read(CHUNK_BYTES)
            except OSError as error:
                raise explained(error) from error
            if not data:
                raise Ended("the service closed the connection")
            self.heard_time = self.active_time = asyncio.get_running_loop().time()
            try:
                self._received += self._decoder.feed(data)
            except frames.Fault as fault:
                raise Ended(f"the service sent a malformed frame: {fault}") from fault

    async def receive_first(self, seconds: float) -> messages.Message:
        try:
            async with asyncio.timeout(seconds):
                return await self.receive()
        except TimeoutError:
            raise Ended("the service did not answer in time") from None

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
        except (TimeoutError, OSError):
            pass
