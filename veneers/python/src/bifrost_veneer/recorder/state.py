"""The state that recording changes: the batch, its futures, the handles, the slots of stubs.

:class:`Slot` is the type to read first: the knowledge about one stub. It is one of these:

| kind | ``_ref`` | ``_known`` |
| --- | --- | --- |
| a future of the recorded batch | the negative position | perhaps not set |
| an object | its handle | a :class:`Holder` |
| a result of a batch under way | 0 | ``(UNDER_WAY, batch, position)`` |
| a value | 0 | ``(tag, payload)``, of a compound and a table with a list of holders |
| a failure | 0 | ``(FAILED, failure, holders)`` |

The batch holds its stubs in a list until it is flushed. The flush wants those that somebody else
holds too: CPython counts references, so this costs nothing while calls are recorded. Other
implementations want all that were not released.

A handle is given back when its last holder is gone. A finalizer only notes the number.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import weakref
from array import array
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from .. import _tables as t
from .. import native
from .decode import Handle, each_reference
from .errors import CallName, Closed, Failure, HistoryEntry, Misused, NotSent
from .numbers import Heading, Numbers
from .wire import Value, new_words

_new: Any = object.__new__

#: Frames that are shorter are compared with each call.
_FRAME_BYTES_MIN: Final = 4096

FAILED: Final = -1
UNDER_WAY: Final = -2

# Makers of futures, for messages: a method is its number, the others have a kind above it.
KIND_BITS: Final = 32
ROUTINE: Final = 1 << KIND_BITS
PROCEDURE: Final = 2 << KIND_BITS
COMMIT: Final = 3 << KIND_BITS
ABORT: Final = 4 << KIND_BITS
LOOKUP: Final = 5 << KIND_BITS
CONSTANT: Final = 6 << KIND_BITS
CELL: Final = 7 << KIND_BITS
ROWS: Final = 8 << KIND_BITS
EMIT: Final = 9 << KIND_BITS
AS: Final = 10 << KIND_BITS
IS: Final = 11 << KIND_BITS
GET: Final = 12 << KIND_BITS
VARIABLE: Final = 13 << KIND_BITS
TRANSACTION: Final = 14 << KIND_BITS
WAIT: Final = 15 << KIND_BITS
REFUSED: Final = 16 << KIND_BITS

_MAKER_NAMES: Final = {
    LOOKUP: "lookup",
    CONSTANT: "constant",
    CELL: "cell",
    ROWS: "rows",
    EMIT: "emit",
    AS: "as",
    IS: "is",
    GET: "get",
    VARIABLE: "variable",
    TRANSACTION: "transaction",
    WAIT: "wait",
    REFUSED: "refused",
}

#: The outcome of recording a call: the maker of its results, or the failure of its stubs.
Recorded = int | Failure
#: The permission to record a command: None, or the failure with which it is refused.
Admission = Failure | None


#: A call: the maker of its futures, and its place: one object, or a code and an offset in it.
Info = tuple[Any, ...]


def place_of(info: Info) -> object:
    """Returns the place of a call."""
    return info[1] if len(info) == 2 else info[1:]


if TYPE_CHECKING or native.module is None:

    class Slot:
        """The knowledge about a stub. Stubs of generated code are slots themselves."""

        __slots__ = ("__weakref__", "_core", "_known", "_ref")

        _core: Any
        _ref: int
        _known: Any

else:
    # It has the same fields, and for a session that the native library records none of them.
    Slot = native.module.Slot


class Holder:
    """Holds a handle; when the last holder is gone, the handle is given back with the next
    batch.
    """

    __slots__ = ("_dropped", "number")

    _dropped: list[int]
    number: int

    def __del__(self) -> None:
        self._dropped.append(self.number)


class Held:
    """A handle of the session: the number of its holders, and the call that made it."""

    __slots__ = ("holders", "made", "type")

    def __init__(self, made: Info | None) -> None:
        self.holders = 0
        #: The server's number of its type, if it came as a result.
        self.type = t.NO_NUMBER
        self.made = made


class _FailedRef(weakref.ref[Slot]):
    __slots__ = ("key",)
    key: int


def _count_of_one() -> int:
    """Returns the count of references to an object that only a list and a loop over it hold."""
    for slot in [Slot()]:
        return sys.getrefcount(slot)
    return 0


_ONE: Final = _count_of_one()


def counts_references() -> bool:
    """True if counts of references tell exactly if a stub is held."""
    if os.environ.get("BIFROST_COUNTS") == "0" or sys.implementation.name != "cpython":
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    slot = Slot()
    kept = [slot]
    count = [sys.getrefcount(one) for one in kept][0]
    return count == _ONE + 1 and len(kept) == 1


class Bounds:
    """The limits of a batch, which the server tells."""

    __slots__ = (
        "batch_bytes",
        "commands",
        "depth",
        "frame_bytes",
        "futures",
        "profiles",
        "under_way",
        "wait_ms",
    )

    def __init__(self) -> None:
        defaults = {row.number: row.default for row in t.LIMITS}
        self.frame_bytes = defaults[t.LIMIT_FRAME_BYTES]
        self.batch_bytes = defaults[t.LIMIT_BATCH_BYTES]
        self.commands = defaults[t.LIMIT_BATCH_COMMANDS]
        self.futures = defaults[t.LIMIT_FUTURES]
        self.depth = defaults[t.LIMIT_DEPTH]
        self.wait_ms = defaults[t.LIMIT_WAIT_MS]
        self.under_way = defaults[t.LIMIT_BATCHES_UNDER_WAY]
        #: True if the server makes profiles.
        self.profiles = False

    def set(self, limit: int, value: int) -> None:
        """Notes a limit of the server; others are ignored."""
        match limit:
            case t.LIMIT_FRAME_BYTES:
                self.frame_bytes = value
            case t.LIMIT_BATCH_BYTES:
                self.batch_bytes = value
            case t.LIMIT_BATCH_COMMANDS:
                self.commands = value
            case t.LIMIT_FUTURES:
                self.futures = value
            case t.LIMIT_DEPTH:
                self.depth = value
            case t.LIMIT_WAIT_MS:
                self.wait_ms = min(value, 0xFFFF_FFFF)
            case t.LIMIT_BATCHES_UNDER_WAY:
                # References count back in a byte.
                self.under_way = min(max(value, 1), 0xFF)
            case t.LIMIT_PROFILE_ENTRIES:
                self.profiles = True


class Settings:
    """The settings of a recorder."""

    __slots__ = ("counts", "native", "remap_futures", "reply_bytes_max", "trace")

    def __init__(
        self,
        reply_bytes_max: int = t.REPLY_BYTES_MAX,
        remap_futures: int = t.REMAP_FUTURES,
        trace: str | None = None,
        counts: bool | None = None,
        use_native: bool | None = None,
    ) -> None:
        #: The longest reply that is read, in bytes.
        self.reply_bytes_max = reply_bytes_max
        #: The number of futures after which a flush is due; never more than the server allows.
        self.remap_futures = remap_futures
        #: The program's place in a trace.
        self.trace = trace
        #: True if counts of references decide what a flush wants.
        self.counts = counts_references() if counts is None else counts
        #: True if the native library records. It always counts.
        self.native = (
            native.module is not None
            and not native.is_off
            and self.counts
            and use_native is not False
        )


class Scope:
    """An open structure, and the place where it starts in the batch."""

    __slots__ = ("batch", "batch_start", "commands_start", "futures_start", "kind", "place")

    def __init__(
        self,
        kind: str,
        place: object,
        batch_start: int,
        futures_start: int,
        commands_start: int,
        batch: int,
    ) -> None:
        self.kind = kind
        self.place = place
        self.batch_start = batch_start
        self.futures_start = futures_start
        self.commands_start = commands_start
        self.batch = batch


class Sent:
    """An outermost structure of a batch, by the first position behind its begin marker."""

    __slots__ = ("kind", "place", "position")

    def __init__(self, position: int, kind: str, place: object) -> None:
        self.position = position
        self.kind = kind
        self.place = place

    def name(self) -> CallName:
        """Returns its name, for messages."""
        return CallName(self.kind, self.position, self.place, ())


class Batch:
    """A batch under way."""

    __slots__ = (
        "ends_at",
        "error_handles",
        "forgiven",
        "futures",
        "infos",
        "kept",
        "number",
        "structures",
        "transactions",
        "wait_ms",
        "wanted",
    )

    def __init__(self, number: int) -> None:
        #: Its number in the session, from 1.
        self.number = number
        self.futures: list[Slot | None] = []
        self.infos: list[Info] = []
        #: The failed stubs that its calls have as arguments: position, argument, failure.
        self.error_handles: list[tuple[int, int, Failure]] = []
        self.structures: list[Sent] = []
        #: The transactions at its begin and at its end.
        self.transactions: tuple[int, int] = (0, 0)
        #: The calls up to this position need not be told.
        self.forgiven: float = 0
        #: True if later batches may name its results.
        self.kept = False
        #: The number of results that its answer has.
        self.wanted = 0
        #: The number of bytes of the session up to its end.
        self.ends_at = 0
        #: The milliseconds that it may wait for changes of others.
        self.wait_ms = 0

    def transaction_at(self, position: int) -> int:
        """Returns the transaction that a call belongs to."""
        first, last = self.transactions
        if first == last:
            return last
        for info in reversed(self.infos[: max(position - 1, 0)]):
            made: int = info[0]
            if made >> KIND_BITS in (COMMIT >> KIND_BITS, ABORT >> KIND_BITS):
                return (made & 0xFFFF_FFFF) + 1
        return first

    def error_handle(self, call: int, argument: int) -> Failure | None:
        """Returns the failure of an argument that the server knows only as the error-handle."""
        of_call = [
            (a, failure)
            for position, a, failure in reversed(self.error_handles)
            if position == call
        ]
        for a, failure in of_call:
            if a == argument:
                return failure
        return of_call[0][1] if of_call else None

    def structure_name(self, position: int) -> CallName | None:
        """Returns the outermost structure whose first position this is."""
        for sent in self.structures:
            if sent.position == position:
                return sent.name()
        return None


class Counters:
    """The counts of a session up to now."""

    __slots__ = ("calls", "crossings", "executed")

    def __init__(self, crossings: int, calls: int, executed: int) -> None:
        #: Pairs of domain crossings: batches sent and answered.
        self.crossings = crossings
        #: Commands sent in them.
        self.calls = calls
        #: Calls that the server ran for them; those made by loops count each time.
        self.executed = executed

    @property
    def batching_factor(self) -> float:
        """Commands for each pair of crossings; 0 before the first."""
        return self.calls / self.crossings if self.crossings else 0.0

    def __repr__(self) -> str:
        return f"{self.calls} calls in {self.crossings} crossings"


class State:
    """The tables of one session."""

    def __init__(self, numbers: Numbers, bounds: Bounds, settings: Settings) -> None:
        #: The session of the caller; nothing here looks at it.
        self.owner: Any = None
        #: Words not sent yet. Structures stay here until they are whole.
        self.batch: array[int] = new_words()
        #: VF: the futures of this batch, and their calls.
        self.futures: list[Slot | None] = []
        self.infos: list[Info] = []
        #: When either is reached, :meth:`due` looks more closely.
        self.attention_words = t.PUBLISH_BYTES // 8
        # The flush is a command, too: it has a word for every second future at most.
        bounds.futures = max(min(bounds.futures, 2 * (bounds.frame_bytes // 8 - 1)), 1)
        most = min(bounds.futures, bounds.commands // 2)
        self.attention_futures = max(min(settings.remap_futures, most), 1)
        #: The futures up to which a call may be recorded without a further look; 0 if numbers are
        #: mapped.
        is_usual = numbers.is_same and bounds.frame_bytes >= _FRAME_BYTES_MIN
        self.hot_futures = self.attention_futures if is_usual else 0
        #: Commands of this batch without those that have made one future each.
        self.extra = 0
        #: Words of this batch that were sent.
        self.published = 0
        #: VH: the holders of each handle.
        self.handles: dict[int, Held] = {}
        #: The handles whose holders have gone since the last look. Finalizers append to it.
        self.dropped: list[int] = []
        #: Handles to give back at the end of this batch.
        self.frees: list[int] = []
        self.failed: dict[int, _FailedRef] = {}
        self.scopes: list[Scope] = []
        #: The reason why the outermost open structure will not be sent.
        self.poison: Failure | None = None
        #: The reason why there is no session any more.
        self.broken: Failure | None = None
        self.out_of_scope: Failure = Misused(t.MISUSE_OUT_OF_SCOPE)
        self.history: list[HistoryEntry] = []
        self.history_omitted = 0
        self.error_handles: list[tuple[int, int, Failure]] = []
        self.structures: list[Sent] = []
        #: The number of tables of this batch, which is not flushed by itself while there are some.
        self.tables = 0
        #: True if the batch is a transaction, which is sent whole.
        self.shipping = False
        #: The first failure of the last batch that was a transaction, by its order.
        self.shipped_from = 0
        #: The milliseconds that the batch may wait for changes of others.
        self.batch_wait_ms = 0
        #: The number of times that a transaction ended, or may have.
        self.transaction_ends = 0
        #: The last failure that ended a batch.
        self.batch_end: Failure | None = None
        #: The batches under way, oldest first, and the results of all of them.
        self.under_way: deque[Batch] = deque()
        self.wanted = 0
        #: Words of them that were not sent, and the bytes of the session that were.
        self.unsent: array[int] = new_words()
        self.sent_bytes = 0
        #: The failures of batches that are answered: the batch, the last batch that may name them,
        #: the failures by the positions of their calls.
        self.answered: list[tuple[int, int, dict[int, Failure]]] = []
        self.batch_number = 1
        #: True if the program has asked for profiles.
        self.profiled = False
        self.bounds = bounds
        self.numbers = numbers
        self.settings = settings
        self.counts = settings.counts
        # Batched procedures.
        self.procedures = 0
        self.procedures_by_name: dict[str, tuple[int, Heading]] = {}
        self.procedure_names: list[str] = []
        self.procedures_open: list[tuple[str, Heading]] = []
        # Counters.
        self.crossings = 0
        self.calls = 0
        self.executed = 0
        #: True once a failure was noted as not told: then stubs are to be looked at.
        self.stale = False

    # Commands.

    @property
    def commands(self) -> int:
        """The number of commands of the recorded batch."""
        return self.extra + len(self.futures)

    def counters(self) -> Counters:
        """Returns the counts of the session up to now."""
        return Counters(self.crossings, self.calls, self.executed)

    # Slots.

    def new_result(self, slot: Slot, made: int, place: object) -> Slot:
        """Makes a slot a result of the call that was recorded last. All results of a call are
        taken, in order, before anything else is recorded.
        """
        slot._core = self
        slot._ref = ~len(self.futures)
        slot._known = None
        self.futures.append(slot)
        self.infos.append((made, place))
        self.extra -= 1
        return slot

    def skip_result(self, made: int, place: object) -> int:
        """Takes a position for a result that nobody wants; returns its reference."""
        self.futures.append(None)
        self.infos.append((made, place))
        self.extra -= 1
        return -len(self.futures)

    def new_failed(self, slot: Slot, failure: Failure) -> Slot:
        """Makes a slot a result of a call that was refused."""
        slot._core = self
        self.settle_failed(slot, failure)
        return slot

    def new_value(self, slot: Slot, value: Value) -> Slot:
        """Makes a slot a value that is known already. It crosses only when it is used."""
        slot._core = self
        self.settle_value(slot, value)
        return slot

    def new_object(self, slot: Slot, handle: int) -> Slot:
        """Makes a slot a further stub of an object that the session has a handle for."""
        slot._core = self
        slot._known = self.hold(handle, None)
        slot._ref = handle
        return slot

    def settle_value(self, slot: Slot, value: Value) -> None:
        """Notes the value of a slot."""
        slot._ref = 0
        if value[0] == t.TAG_COMPOUND:
            holders = self.hold_all(each_reference(value[1]))  # type: ignore[arg-type]
            slot._known = (*value, holders)
        else:
            slot._known = value

    def settle_failed(self, slot: Slot, failure: Failure) -> None:
        """Notes the failure of a slot, which holds the objects of the exception."""
        values = getattr(failure, "values", ())
        holders = self.hold_all(value.number for value in values if isinstance(value, Handle))
        slot._ref = 0
        slot._known = (FAILED, failure, holders)
        key = id(slot)
        reference = _FailedRef(slot, self._failed_gone)
        reference.key = key
        self.failed[key] = reference
        self.stale = True

    def _failed_gone(self, reference: weakref.ref[Slot]) -> None:
        self.failed.pop(reference.key, None)  # type: ignore[attr-defined]
        self.stale = True

    def failure_of(self, slot: Slot) -> Failure | None:
        """Returns the failure of a stub, if it has one."""
        if slot._ref or slot._known[0] != FAILED:
            return None
        failure: Failure = slot._known[1]
        return failure

    def unusable(self, slot: Slot) -> Failure | None:
        """Returns the reason why a stub cannot be used at all: its call was never sent."""
        failure = self.failure_of(slot)
        return failure if isinstance(failure, (NotSent, Misused)) else None

    def is_pending(self, slot: Slot) -> bool:
        """True if the result of a stub is not known yet."""
        return slot._ref < 0 or (slot._ref == 0 and slot._known[0] == UNDER_WAY)

    def is_same(self, one: Slot, other: Slot) -> bool:
        """True if two stubs are known to have the same result. Failures are never the same."""
        if one._ref or other._ref:
            return one._ref > 0 and one._ref == other._ref
        a, b = one._known, other._known
        if a[0] != b[0] or a[0] < 0:
            return False
        if a[0] == t.TAG_REAL:
            # By its bits: a real that is no number is the same as itself.
            return bool(repr(a[1]) == repr(b[1]))
        return bool(a[1] == b[1])

    # Handles.

    def hold(self, handle: int, made: Info | None) -> Holder:
        """Returns a further holder of a handle. ``made`` is the call that it came from."""
        held = self.handles.get(handle)
        if held is None:
            held = self.handles[handle] = Held(made)
        held.holders += 1
        holder: Holder = _new(Holder)
        holder._dropped = self.dropped
        holder.number = handle
        return holder

    def hold_all(self, handles: Iterable[int], made: Info | None = None) -> tuple[Holder, ...]:
        """Returns a holder for each handle."""
        return tuple([self.hold(handle, made) for handle in handles])

    def prune_frees(self) -> None:
        """Looks for handles that nobody holds any more, and takes those out that have come
        again.
        """
        count = len(self.dropped)
        for handle in self.dropped[:count]:
            held = self.handles.get(handle)
            if held is not None:
                held.holders -= 1
                if held.holders == 0:
                    self.frees.append(handle)
        del self.dropped[:count]
        if self.frees:
            # The order in which stubs are dropped is no language's promise.
            frees = sorted(set(self.frees))
            handles = self.handles
            self.frees = [n for n in frees if n in handles and handles[n].holders == 0]

    # What is wanted.

    def keep_wanted(self) -> list[int]:
        """Drops the futures of the batch that nobody holds; returns the positions of the others."""
        futures, wanted = self.futures, []
        position = 0
        if self.counts:
            count = sys.getrefcount
            for slot in futures:
                position += 1
                if slot is None:
                    continue
                if count(slot) > _ONE:
                    wanted.append(position)
                else:
                    futures[position - 1] = None
            return wanted
        for slot in futures:
            position += 1
            if slot is not None:
                wanted.append(position)
        return wanted

    def release(self, slot: Slot) -> None:
        """Gives a stub up, for implementations that do not count references."""
        if slot._ref < 0 and slot._ref >= -len(self.futures) and self.futures[~slot._ref] is slot:
            self.futures[~slot._ref] = None
        elif slot._ref == 0 and slot._known[0] == UNDER_WAY:
            _, number, position = slot._known
            for batch in self.under_way:
                if batch.number == number:
                    # The answer has a result for it, which goes at once.
                    stand_in = Slot()
                    stand_in._core, stand_in._ref, stand_in._known = self, 0, slot._known
                    batch.futures[position - 1] = stand_in
        released = Misused(t.MISUSE_OUT_OF_SCOPE)
        slot._ref, slot._known = 0, (FAILED, released, ())

    # Names, for messages.

    def made_name(self, made: int) -> str:
        """Returns the name of a call."""
        number = made & 0xFFFF_FFFF
        match made >> KIND_BITS:
            case 0:
                return self.numbers.method_name(number)
            case 1:
                return self.numbers.routine_name(number)
            case 2:
                names = self.procedure_names
                return names[number] if number < len(names) else "procedure"
            case 3:
                return "commit"
            case 4:
                return "abort"
        return _MAKER_NAMES.get(made, "?")

    def call_name(self, batch: Batch, number: int, rounds: tuple[int, ...]) -> CallName:
        """Returns the name of a call of a batch."""
        if 0 < number <= len(batch.infos):
            info = batch.infos[number - 1]
            return CallName(
                self.made_name(info[0]), number, self.show_place(place_of(info)), rounds
            )
        return CallName("?", number, None, rounds)

    def name_of(self, handle: int) -> str | None:
        """Returns the name of a handle in messages: the call that the object came from."""
        held = self.handles.get(handle)
        if held is None or held.made is None:
            return None
        place = self.show_place(place_of(held.made))
        return f"the result of `{self.made_name(held.made[0])}` at {place}"

    def show_place(self, place: object) -> object:
        """Returns the place of a call as messages have it. A caller may have a form of its own."""
        return place

    def unsent_name(self, name: str, place: object) -> CallName:
        """Returns the name of a call that was not sent."""
        return CallName(name, 0, self.show_place(place), ())

    def closed_reason(self) -> Closed | None:
        """Returns the reason why the session is closed."""
        return getattr(self.broken, "why", None)

    def roll_back(self, words: int, futures: int) -> None:
        """Takes back what an interrupted call has left."""
        extra = self.extra
        del self.batch[words:]
        del self.futures[futures:]
        del self.infos[futures:]
        self.extra = extra
