"""TLS 1.3 for clients: by a pin, by the authorities of a file, or by those of the system."""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .address import Address

#: The variable that names the file of the authorities.
AUTHORITIES = "BIFROST_CA"

_SEQUENCE = 0x30


@dataclass(frozen=True)
class TlsOptions:
    """The files of the authorities, and of the client's own certificate and key, in PEM."""

    authorities: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None


def make_context(address: Address, options: TlsOptions) -> ssl.SSLContext:
    """Returns the context for an address. Raises ValueError."""
    if address.pin is not None and options.authorities is not None:
        raise ValueError(
            "an address with a pin trusts this key alone: give no authorities, or no pin"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1" if address.is_web else "bifrost/1"])
    if address.pin is not None:
        # Name, dates and issuer do not count: the key is compared after the handshake.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        authorities = options.authorities or os.environ.get(AUTHORITIES)
        if authorities:
            with _read(authorities):
                context.load_verify_locations(authorities)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if options.certificate is not None:
        with _read(options.certificate):
            context.load_cert_chain(options.certificate, options.key)
    return context


@contextmanager
def _read(file: str | os.PathLike[str]) -> Iterator[None]:
    """Turns the failure to read certificates into one of the settings: no server is to blame."""
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"the certificates in `{os.fspath(file)}` cannot be used: {error}"
        ) from error


def check_peer(tls: ssl.SSLSocket | ssl.SSLObject, address: Address) -> None:
    """Checks the server after the handshake: its protocol, and its key if the address has a pin.
    Raises
    :class:`ssl.SSLError`."""
    if tls.selected_alpn_protocol() is None:
        raise ssl.SSLError("the server does not speak this protocol (ALPN)")
    if address.pin is None:
        return
    certificate = tls.getpeercert(binary_form=True)
    digest = hashlib.sha256(public_key(certificate or b"")).digest()
    if not hmac.compare_digest(digest, address.pin):
        raise ssl.SSLError("the server has another key than the pin of the address")


def public_key(certificate: bytes) -> bytes:
    """Returns the ``SubjectPublicKeyInfo`` of a certificate in DER. Raises
    :class:`ssl.SSLError`.
    """
    try:
        outer = _content(certificate, 0)
        at, end = _content(certificate, outer[0])
        # An explicit version, then serial number, algorithm, issuer, validity and subject.
        skipped = 6 if certificate[at] == 0xA0 else 5
        for _ in range(skipped):
            at = _content(certificate, at)[1]
        if certificate[at] != _SEQUENCE or at >= end:
            raise ValueError
        return certificate[at : _content(certificate, at)[1]]
    except (ValueError, IndexError):
        raise ssl.SSLError("the server's certificate cannot be read") from None


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Returns the begin and the end of the content of an element."""
    length = data[at + 1]
    start = at + 2
    if length & 0x80:
        count = length & 0x7F
        if not 1 <= count <= 4:
            raise ValueError
        length = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + length > len(data):
        raise ValueError
    return start, start + length
