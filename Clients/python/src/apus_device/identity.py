"""A device's key and certificate. Sections 1 and 10 of the protocol."""

from __future__ import annotations

import datetime
import hashlib
import os
import pathlib
from collections.abc import Iterable

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> Key:
    key = serialization.load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError("the key is neither ECDSA nor RSA")
    return key


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificate_request(key: Key) -> bytes:
    """PKCS#10, DER. The service ignores the subject."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def write_private(path: pathlib.Path, content: bytes, *, is_durable: bool = True) -> None:
    """Replaces a file at once, so that a crash leaves the old content or the new one: durable even over power cuts."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    os.replace(new, path)


class Identity:
    """A PEM file with the key, the device's certificate, and those up to its authority, in this order.

    It is one file, because a renewal replaces all of it at once.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        pem = self.path.read_bytes()
        self.key = load_key(pem)
        self.certificate = x509.load_pem_x509_certificate(pem[pem.index(b"-----BEGIN CERTIFICATE"):])
        key, own = self.key.public_key(), self.certificate.public_key()
        if _spki(key) != _spki(own):
            raise ValueError(f"{path}: the key does not belong to the certificate")

    @classmethod
    def store(cls, path: str | os.PathLike[str], key: Key, chain: Iterable[bytes]) -> Identity:
        """Writes the file, with certificates as DER."""
        certificates = (x509.load_der_x509_certificate(der) for der in chain)
        pem = [one.public_bytes(serialization.Encoding.PEM) for one in certificates]
        write_private(pathlib.Path(path), key_pem(key) + b"".join(pem))
        return cls(path)

    @classmethod
    def join(
        cls, path: str | os.PathLike[str], certificate: str | os.PathLike[str], key: str | os.PathLike[str]
    ) -> Identity:
        """Makes the file of two PEM files, such as those that `apus device add` issues."""
        write_private(
            pathlib.Path(path), pathlib.Path(key).read_bytes() + pathlib.Path(certificate).read_bytes())
        return cls(path)

    @property
    def device(self) -> str:
        """The device's id: 16 hexadecimal digits."""
        return str(self.certificate.subject.get_attributes_for_oid(NameOID.USER_ID)[0].value)

    def renewal_time(self) -> float:
        """When to ask for the next certificate, as Unix time: the same for each call, and spread over the devices."""
        begin, end = (_time(self.certificate, name) for name in ["not_valid_before", "not_valid_after"])
        digest = hashlib.sha256(self.certificate.public_bytes(serialization.Encoding.DER)).digest()
        share = int.from_bytes(digest[:8], "big") / 2**64
        return end - (end - begin) / 3 * (1 - share / 2)


def _time(certificate: x509.Certificate, name: str) -> float:
    # Version 42 of cryptography introduced times with their zone.
    aware = getattr(certificate, f"{name}_utc", None)
    if aware is None:
        aware = getattr(certificate, name).replace(tzinfo=datetime.timezone.utc)
    return float(aware.timestamp())


def _spki(key: object) -> bytes:
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):
        raise ValueError("the certificate's key is neither ECDSA nor RSA")
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
