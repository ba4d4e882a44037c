"""Offers: exported objects as a trader lists them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: A value of a property.
Property = int | float | bool | str

#: The most characters of an int.
_INT_DIGITS = len(str(-(1 << 63)))
#: The schemes of addresses that have a meaning on one machine only.
_LOCAL = ("shm", "unix")
_INT = re.compile(r"-?(0|[1-9][0-9]*)", re.ASCII)
_REAL = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)


@dataclass(frozen=True)
class Offer:
    """An exported object."""

    id: int
    #: The type under which it is exported.
    service: str
    #: The digest of its server's interface, 64 hexadecimal digits.
    digest: str
    #: Its name at its server.
    name: str
    #: The addresses of its server, the best one first.
    addresses: tuple[str, ...]
    properties: Mapping[str, Property] = field(default_factory=lambda: MappingProxyType({}))
    #: The load of its server at the last renewal; None if it is not known.
    load: float | None = None
    #: True if the trader may have missed its renewals.
    doubtful: bool = False

    @property
    def host(self) -> str | None:
        """The machine of the server, until its next boot."""
        return self._text("host")

    @property
    def store(self) -> str | None:
        """The identity of the server's store."""
        return self._text("store")

    def _text(self, name: str) -> str | None:
        value = self.properties.get(name)
        return value if isinstance(value, str) else None

    def is_same(self, other: Offer) -> bool:
        """True if both are of the same object of the same server."""
        return (self.name, self.service, self.addresses) == (
            other.name,
            other.service,
            other.addresses,
        )


def is_among(offer: Offer, offers: Iterable[Offer]) -> bool:
    """True if an offer of the same object of the same server is among others."""
    return any(offer.is_same(other) for other in offers)


def parse_property(text: str) -> Property:
    """Reads the value of a property. A text that is no value of this version is as it is."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    # Minus nothing is a real, but no int. Python refuses to read very long ones.
    is_int = len(text) <= _INT_DIGITS and _INT.fullmatch(text) and text != "-0"
    if is_int and -(1 << 63) <= int(text) < 1 << 63:
        return int(text)
    if _REAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def usable_addresses(offer: Offer, host: str, schemes: Iterable[str]) -> list[str]:
    """Returns the addresses of an offer that this process can use, in the order in which it tries
    them: those of its own machine first, then the others as listed.
    """
    schemes = tuple(schemes)
    known = [one for one in offer.addresses if one.partition("://")[0] in schemes]
    local = [one for one in known if one.partition("://")[0] in _LOCAL]
    here = local if host and offer.host == host else []
    return here + [one for one in known if one not in local]


def host() -> str:
    """Returns the identity of this machine until its next boot, if the system has one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
