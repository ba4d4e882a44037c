"""Imports: sessions with servers that traders know.

:func:`import_service` is the function to read first: it asks the traders of a URL, connects to a
server of the service, and looks the object up. ``connect`` and ``aconnect`` take such URLs too.
:class:`Service` and :class:`AsyncService` keep a session, and go on with another server when their
own is lost.

| module | job |
| --- | --- |
| ``url`` | URLs of services |
| ``offers`` | offers, and the addresses of one that this process can use |
| ``importer`` | a search as a state machine, without input, output and clock |
| ``dial`` | the settings of a search; sessions with traders and with servers |
| ``search``, ``asearch`` | the actions of the importer, on threads and by tasks of asyncio |
| ``watch`` | changes at the traders: servers that are new |
| ``service``, ``aservice`` | runs with a server, and the rule after its loss |

Of an offer's addresses those of this machine come first, then the others as listed. The next one is
tried after 250 ms, and then the next offer; the first that answers counts.

There are two tokens: that for the traders is the option ``trader_token`` or BIFROST_TRADER_TOKEN,
that for the server is ``token``. A server that a trader has named is shown the token only where
nobody can read it on the way.
"""

from .aservice import AsyncService
from .dial import (
    ATTEMPTS_MAX,
    TRADER_TOKEN,
    TRADERS,
    TRADERS_MAX,
    Attempt,
    Imported,
    NotImported,
    aimport_service,
    import_service,
)
from .offers import Offer
from .service import RUNS_MAX, Ran, ServerLost, Service
from .url import is_trader
from .watch import KNOWN_MAX

__all__ = [
    "ATTEMPTS_MAX",
    "KNOWN_MAX",
    "RUNS_MAX",
    "TRADERS",
    "TRADERS_MAX",
    "TRADER_TOKEN",
    "AsyncService",
    "Attempt",
    "Imported",
    "NotImported",
    "Offer",
    "Ran",
    "ServerLost",
    "Service",
    "aimport_service",
    "import_service",
    "is_trader",
]
