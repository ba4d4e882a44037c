"""Bifrost for Python: calls of objects on a server, recorded as they are made and sent together.

Generated stubs (``bifrost veneer --lang python``) give each type a class and each exception too::

    from bifrost_stubs import DataBase, NotFound, connect

    with connect("unix:///run/bifrost/main") as s:
        db = s.lookup("database", DataBase)
        eve = db.fetch("eve")  # recorded: nothing has crossed
        eve.touch()
        print(eve.visits().claim())  # one crossing

See the README for the rest. :class:`Session` is the type to read first.
"""

from .asession import AsyncSession, Connecting
from .cells import Cell, Rows
from .errors import (
    BadToken,
    BifrostError,
    Closed,
    Conflict,
    ConnectError,
    Failure,
    Missing,
    Misuse,
    NotReached,
    Refused,
    Signal,
    SourcePlace,
    Unhandled,
    Unseen,
    WrongType,
)
from .generated import ConnectOptions
from .kinds import Some
from .live import AsyncLiveBatch, LiveBatch
from .native import VERSION
from .pool import AsyncPool, Pool
from .procedures import Procedure
from .recorder.decode import Cost, Profile, ProfileEntry
from .recorder.explained import Advice
from .recorder.state import Counters
from .recording import BatchName, Recording
from .remote import Remote, remote
from .remote_source import RemoteError
from .runtime import DynamicSession, aconnect, connect
from .session import Session
from .stubs import Iter, Promise, Stub
from .values import (
    AnyArg,
    AnyObject,
    Bool,
    BoolArg,
    Bytes,
    BytesArg,
    Char,
    CharArg,
    Directory,
    Int,
    IntArg,
    Nothing,
    Null,
    NullArg,
    Object,
    Plain,
    Real,
    RealArg,
    Str,
    StrArg,
)

# isort: split
# The stubs of a trader use the names above.
from .importing import (
    AsyncService,
    Imported,
    NotImported,
    Offer,
    Ran,
    ServerLost,
    Service,
    aimport_service,
    import_service,
)

__version__ = VERSION

__all__ = [
    "Advice",
    "AnyArg",
    "AnyObject",
    "AsyncLiveBatch",
    "AsyncPool",
    "AsyncService",
    "AsyncSession",
    "BadToken",
    "BatchName",
    "BifrostError",
    "Bool",
    "BoolArg",
    "Bytes",
    "BytesArg",
    "Cell",
    "Char",
    "CharArg",
    "Closed",
    "Conflict",
    "ConnectError",
    "ConnectOptions",
    "Connecting",
    "Cost",
    "Counters",
    "Directory",
    "DynamicSession",
    "Failure",
    "Imported",
    "Int",
    "IntArg",
    "Iter",
    "LiveBatch",
    "Missing",
    "Misuse",
    "NotImported",
    "NotReached",
    "Nothing",
    "Null",
    "NullArg",
    "Object",
    "Offer",
    "Plain",
    "Pool",
    "Procedure",
    "Profile",
    "ProfileEntry",
    "Promise",
    "Ran",
    "Real",
    "RealArg",
    "Recording",
    "Refused",
    "Remote",
    "RemoteError",
    "Rows",
    "ServerLost",
    "Service",
    "Session",
    "Signal",
    "Some",
    "SourcePlace",
    "Str",
    "StrArg",
    "Stub",
    "Unhandled",
    "Unseen",
    "WrongType",
    "aconnect",
    "aimport_service",
    "connect",
    "import_service",
    "remote",
]
