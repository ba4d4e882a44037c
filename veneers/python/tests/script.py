"""An interpreter of the scripts in ``vectors/recorder/``: untyped operations of a recorder.

:class:`Machine` is the type to read first. It has a recorder, a table of stubs by their names in
the script, and a queue of replies. It moves bytes as a client's connection does. The format is
described in ``vectors/recorder/README.md``.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from functools import cache
from pathlib import Path
from typing import Any

from replies import (
    encode_reply,
    hexed,
    nil_for_each,
    shown_profile,
    value_of,
    welcome_of,
)
from told import error

from bifrost_veneer import _tables as t
from bifrost_veneer.recorder import (
    FAILED,
    UNDER_WAY,
    Due,
    Greeting,
    Heading,
    Interface,
    ItemList,
    Recorder,
    Settings,
    Slot,
    Stubs,
)
from bifrost_veneer.recorder import errors as e
from bifrost_veneer.recorder.commands import decode_commands, show
from bifrost_veneer.recorder.decode import Handle, Table, compound_items
from bifrost_veneer.recorder.structures import ElseBlock, Ending, OthersBlock, WhenBlock

VECTORS = Path(__file__).resolve().parents[3] / "vectors"

OPERATIONS = frozenset(
    [
        "lookup",
        "call",
        "send",
        "operator",
        "routine",
        "call_procedure",
        "value",
        "cell",
        "rows",
        "emit",
        "read_rows",
        "get",
        "cast",
        "test_type",
        "drop",
        "clone",
        "open",
        "condition",
        "foreach",
        "jump",
        "end",
        "reopen",
        "abandon",
        "procedure",
        "return",
        "end_procedure",
        "find_procedure",
        "reply",
        "lose",
        "flush",
        "begin_flush",
        "finish_flush",
        "claim",
        "commit",
        "abort",
        "wait",
        "wait_ms",
        "is_same",
        "transaction_ends",
        "transaction",
        "end_transaction",
        "abandon_transaction",
        "exceptions",
        "clear_exceptions",
        "profile",
        "read_profile",
        "leave",
        "transmit",
        "ship",
    ]
)


class Step(int):
    """The place of a call in the source: the number of a step, from 1."""

    @staticmethod
    @cache
    def of(number: int) -> Step:
        """The one place of a number: the native library keeps each place that it has seen."""
        return Step(number)

    def __str__(self) -> str:
        return f"step {int(self)}"


class Client:
    """The interface that the stubs of all scripts were made from."""

    def __init__(self, path: Path = VECTORS / "interface.json") -> None:
        self.text = path.read_text(encoding="utf-8")
        self.interface = Interface(self.text)
        operators = self.interface.operators()
        self.stubs = Stubs(bytes([7] * 32), lambda: self.text, operators=operators)

    def type(self, name: str) -> int:
        return self.interface.type_numbers[name]

    def method(self, name: str) -> int:
        owner, _, method = name.rpartition(".")
        return self.interface.method_numbers[self.type(owner), method]

    def routine(self, name: str) -> int:
        return self.interface.routine_numbers[name]

    def operator(self, name: str) -> int | None:
        for index, row in enumerate(t.OPERATORS):
            if row.name == name:
                return self.stubs.operators[index]
        return None


def operation(step: dict[str, Any]) -> str:
    """The operation of a step."""
    keys = [key for key in step if key in OPERATIONS]
    assert len(keys) == 1, step
    return keys[0]


def is_numbered(part: Any) -> bool:
    """True if a name in a step has the number of its round."""
    if isinstance(part, str):
        return part.startswith("$") and part.endswith("_n")
    if isinstance(part, dict):
        part = list(part.values())
    return isinstance(part, list) and any(is_numbered(inner) for inner in part)


def numbered(part: Any, number: int) -> Any:
    """A step of a loop, with the number of its round in its names."""
    if isinstance(part, dict):
        return {key: numbered(value, number) for key, value in part.items()}
    if isinstance(part, list):
        return [numbered(inner, number) for inner in part]
    return f"{part[:-1]}{number}" if is_numbered(part) else part


def server_interface(client: Client, changes: dict[str, str]) -> str:
    """The server's interface: the client's with changes."""
    interface = copy.deepcopy(json.loads(client.text))
    for name, change in changes.items():
        owner, _, method = name.rpartition(".")
        ty = next(ty for ty in interface["types"] if ty["name"] == owner)
        at = next(i for i, m in enumerate(ty["methods"]) if m["name"] == method)
        match change:
            case "removed":
                del ty["methods"][at]
            case "without parameters":
                ty["methods"][at].pop("params", None)
            case "last":
                ty["methods"].append(ty["methods"].pop(at))
            case new:
                ty["methods"][at]["name"] = new
    return json.dumps(interface)


class Cut:
    """The pieces in which a reply comes; ``changed`` changes one bit of all replies."""

    def __init__(self, every: int = 0, at: int | None = None, changed: int | None = None) -> None:
        self.every, self.at, self.changed = every, at, changed

    def pieces(self, reply: bytes) -> list[bytes]:
        if self.every:
            return [reply[i : i + self.every] for i in range(0, len(reply), self.every)]
        if self.at is not None:
            return [reply[: self.at], reply[self.at :]]
        return [reply]


class Machine:
    """A script that is being run."""

    # False if the replies come from elsewhere.
    makes_replies = True

    def __init__(
        self, client: Client, case: dict[str, Any], cut: Cut | None = None, counts: bool = True
    ) -> None:
        self.client = client
        self.cut = cut or Cut()
        settings = self.settings()
        settings.counts = counts
        settings.native = settings.native and counts
        if "remap_futures" in case:
            settings.remap_futures = case["remap_futures"]
        if "reply_bytes_max" in case:
            settings.reply_bytes_max = case["reply_bytes_max"]
        names = {row.name: row.number for row in t.LIMITS}
        limits = [(names[name], value) for name, value in case.get("limits", {}).items()]
        self.recorder: Recorder = self.greet(Greeting(client.stubs, "", "", settings), case, limits)
        self.foreign = Slot()
        self.foreign._core, self.foreign._ref, self.foreign._known = object(), -1, None
        self.place = Step.of(0)
        self.stubs: dict[str, Slot] = {}
        self.ended: dict[str, Ending] = {}
        self.procedures: dict[str, tuple[int, e.Failure | None]] = {}
        self.replies: deque[bytes | None] = deque()
        self.answered = 0
        self.sent: list[bytes] = []
        self.wanted: deque[int] = deque()
        self.shipped: Any = None
        self.crossings: list[Any] = []
        self.results: list[Any] = []

    def settings(self) -> Settings:
        """The settings of the recorder."""
        return Settings()

    def greet(
        self, greeting: Greeting, case: dict[str, Any], limits: list[tuple[int, int]]
    ) -> Recorder:
        """Opens the session of a case."""
        client = self.client
        greeting.take_bytes()
        digest = client.stubs.digest if not self.server_text(case) else bytes(32)
        recorder = greeting.handle_bytes(welcome_of(digest, limits))
        if text := self.server_text(case):
            assert recorder is None, "another interface is asked for"
            recorder = greeting.handle_bytes(encode_reply({"interface": text}))
        assert recorder is not None, "the greeting is over"
        return recorder

    def server_text(self, case: dict[str, Any]) -> str:
        """The interface of the server, if it is another one."""
        return server_interface(self.client, case["server"]) if "server" in case else ""

    def next_reply(self, wanted: int) -> bytes | None:
        """The answer to the oldest batch; None if the stream ends in its place."""
        return self.replies.popleft() if self.replies else nil_for_each(wanted)

    def run(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        """Runs all steps, and returns the outputs of the case."""
        for index, step in enumerate(steps):
            self.take(index + 1, step)
        return self.finish()

    def take(self, number: int, step: dict[str, Any]) -> None:
        """Runs the step with this number."""
        self.place = Step.of(number)
        if "loop" not in step:
            self.note(self.step(step, operation(step)))
            return
        steps = [(inner, operation(inner), is_numbered(inner)) for inner in step["steps"]]
        for turn in range(1, step["loop"] + 1):
            for inner, op, changes in steps:
                self.note(self.step(numbered(inner, turn) if changes else inner, op))

    def note(self, result: tuple[Any] | None) -> None:
        """Notes the result of a step, if it has one. Equal ones of a loop are counted."""
        if result is None:
            return
        last = self.results[-1] if self.results else [0]
        if last[0] == self.place and last[1] == result[0]:
            self.results[-1] = [*last[:2], (last[2] if len(last) > 2 else 1) + 1]
        else:
            self.results.append([int(self.place), result[0]])

    def finish(self) -> dict[str, Any]:
        """Returns the outputs of the steps that were run."""
        assert not self.replies or self.cut.changed is not None, "replies that nobody asked for"
        if self.sent:
            self.cross(None)
        known = {name: self.known(slot) for name, slot in self.stubs.items()}
        counters = self.recorder.counters()
        closed, omitted = self.recorder.is_closed, self.recorder.history_omitted
        history = [
            {"batch": x.batch, "error": error(x.failure)} for x in self.recorder.exceptions()
        ]
        return {
            "crossings": self.crossings,
            "results": self.results,
            "known": known,
            "history": history,
            "history_omitted": omitted,
            "counters": {"crossings": counters.crossings, "calls": counters.calls},
            "closed": closed,
        }

    # Bytes.

    def cross(self, answered: bytes | None) -> None:
        """Writes down a crossing."""
        sent, self.sent = self.sent, []
        self.crossings.append(
            {
                "sent": [hexed(piece) for piece in sent],
                "commands": decode_commands(b"".join(sent)),
                "answered": None if answered is None else hexed(answered),
            }
        )

    def send(self, flushed: bool) -> None:
        """Sends what can be sent; with ``flushed`` only what was flushed."""
        while data := self.recorder.take_bytes(flushed):
            for command in decode_commands(data) if self.makes_replies else ():
                if isinstance(command, dict) and "flush" in command:
                    self.wanted.append(sum(count for _, count in command["flush"]["wanted"]))
            self.sent.append(data)

    def admit(self) -> e.Failure | None:
        if self.recorder.is_ready:
            return None
        try:
            match self.recorder.due():
                case Due.SEND:
                    self.send(False)
                case Due.FLUSH:
                    self.flush()
        except e.Told as told:
            return told.failure
        return None

    def flush(self) -> None:
        self.recorder.begin_flush(False)
        self.answer_all()

    def synchronize(self, name: str) -> None:
        self.recorder.begin_flush_for(name, False, self.place)
        self.answer_all()

    def answer_all(self) -> None:
        while self.recorder.is_under_way:
            self.answer()

    def answer(self) -> None:
        """Answers the oldest batch under way."""
        self.send(True)
        wanted = self.wanted.popleft() if self.wanted else 0
        lost = e.ByConnection(ConnectionError("the stream ended"))
        reply = self.next_reply(wanted)
        if reply is None:
            self.cross(None)
            raise e.Told(self.recorder.close(lost))
        if self.cut.changed is not None and 0 <= self.cut.changed - self.answered < len(reply):
            at = self.cut.changed - self.answered
            reply = reply[:at] + bytes([reply[at] ^ 1 << (at % 8)]) + reply[at + 1 :]
        self.answered += len(reply)
        self.cross(reply)
        assert not self.recorder.handle_bytes(b""), "nothing has come"
        for piece in self.cut.pieces(reply):
            if self.recorder.handle_bytes(piece):
                return
        raise e.Told(self.recorder.close(lost))

    # Stubs.

    def slot(self, name: str) -> Slot:
        return self.stubs[name]

    def name(self, name: str, slot: Slot) -> None:
        old = self.stubs.get(name)
        if old is not None and not self.recorder.counts:
            self.recorder.release(old)
        self.stubs[name] = slot

    def known(self, slot: Slot) -> Any:
        if slot._ref < 0:
            return {"future": -slot._ref}
        if slot._ref > 0:
            return {"handle": slot._ref}
        known = slot._known
        if known[0] == FAILED:
            return {"failed": error(known[1])}
        if known[0] == UNDER_WAY:
            return {"under_way": known[1]}
        if known[0] == t.TAG_ROWS:
            return {"rows": known[1].count}
        return {"value": show(known[:2])}

    def take_results(self, step: dict[str, Any], recorded: int | e.Failure) -> None:
        """Takes the stubs of a call's results; without names there is one result, which is
        dropped.
        """
        names = names_of(step.get("as"))
        for name in names or [None]:
            slot = Slot()
            if isinstance(recorded, e.Failure):
                self.recorder.new_failed(slot, recorded)
            else:
                self.recorder.new_result(slot, recorded, self.place)
            if name is not None:
                self.name(name, slot)
            elif not self.recorder.counts:
                self.recorder.release(slot)

    def variables(self, step: dict[str, Any]) -> None:
        for name in names_of(step.get("as")):
            self.name(name, self.recorder.variable(Slot(), self.place))

    def argument(self, argument: Any) -> Any:
        if isinstance(argument, str):
            return self.slot(argument)
        if "foreign" in argument:
            return self.foreign
        if "nested" in argument:
            inner = ItemList([])
            for _ in range(argument["nested"] - 1):
                inner = ItemList([inner])
            return inner
        if "items" in argument:
            return ItemList([self.argument(item) for item in argument["items"]])
        return value_of(argument)

    # Steps.

    def step(self, step: dict[str, Any], op: str) -> tuple[Any] | None:
        """Runs a step. Returns its result in a tuple, if it has one."""
        arguments = [self.argument(argument) for argument in step.get("args", ())]
        return getattr(self, f"do_{op}")(step, step[op], arguments)  # type: ignore[no-any-return]

    def do_lookup(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        ty = self.client.type(step["type"])
        stubs = self.client.stubs
        self.take_results(
            step, self.recorder.lookup(admitted, stubs, what, ty, step["type"], self.place)
        )

    def do_call(self, step: Any, what: Any, arguments: Any) -> None:
        self.record_call(step, self.client.method(what), arguments)

    def do_operator(self, step: Any, what: Any, arguments: Any) -> None:
        number = self.client.operator(what)
        assert number is not None
        self.record_call(step, number, arguments)

    def record_call(self, step: Any, method: int, arguments: Any) -> None:
        admitted = self.admit()
        receiver = self.slot(step["on"])
        self.take_results(
            step, self.recorder.call(admitted, receiver, method, arguments, self.place)
        )

    def do_send(self, step: Any, what: Any, arguments: Any) -> None:
        admitted = self.admit()
        receiver, method = self.slot(step["on"]), self.client.method(what)
        self.take_results(
            step, self.recorder.send(admitted, receiver, method, arguments, self.place)
        )

    def do_routine(self, step: Any, what: Any, arguments: Any) -> None:
        admitted = self.admit()
        stubs, routine = self.client.stubs, self.client.routine(what)
        recorded = self.recorder.call_routine(admitted, stubs, routine, arguments, self.place)
        self.take_results(step, recorded)

    def do_call_procedure(self, step: Any, what: Any, arguments: Any) -> None:
        admitted = self.admit()
        number, refused = self.procedures[what]
        recorded = self.recorder.call_procedure(admitted, number, refused, arguments, self.place)
        self.take_results(step, recorded)

    def do_value(self, step: Any, what: Any, _: Any) -> None:
        self.name(step["as"], self.recorder.new_value(Slot(), value_of(what)))

    def do_cell(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        self.take_results(
            step, self.recorder.cell(admitted, self.client.type(what), what, self.place)
        )

    def do_rows(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        types = [(self.client.type(name), name) for name in names_of(what)]
        self.take_results(step, self.recorder.rows(admitted, types, self.place))

    def do_emit(self, step: Any, what: Any, arguments: Any) -> None:
        admitted = self.admit()
        self.take_results(
            step, self.recorder.emit(admitted, self.slot(what), arguments, self.place)
        )

    def do_get(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        self.take_results(step, self.recorder.get(admitted, self.slot(what), self.place))

    def do_cast(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        slot, ty = self.slot(step["on"]), self.client.type(what)
        self.take_results(step, self.recorder.cast(admitted, slot, ty, what, self.place))

    def do_test_type(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        slot, ty = self.slot(step["on"]), self.client.type(what)
        self.take_results(step, self.recorder.test_type(admitted, slot, ty, what, self.place))

    def do_read_rows(self, step: Any, what: Any, _: Any) -> tuple[Any]:
        known: Any = self.slot(what)._known if self.slot(what)._ref == 0 else (FAILED,)
        objects: list[Slot] = []
        read: Any = None
        if known[0] == t.TAG_ROWS:
            table: Table = known[1]
            cells = self.items(table.cells, objects)
            width = len(table.columns)
            read = [cells[i : i + width] for i in range(0, len(cells), width)]
        elif known[0] == t.TAG_COMPOUND:
            read = self.items(compound_items(known[1]), objects)
        names = names_of(step.get("as"))
        for name, slot in zip(names, objects, strict=False):
            self.name(name, slot)
        # A changed reply may have fewer.
        for name in names[len(objects) :]:
            self.name(name, self.recorder.new_value(Slot(), (t.TAG_NIL, None)))
        return (read,)

    def items(self, items: list[Any], objects: list[Slot]) -> list[Any]:
        """Returns items; objects by their number among all."""
        out: list[Any] = []
        for item in items:
            if isinstance(item, Handle):
                objects.append(self.recorder.new_object(Slot(), item.number))
                out.append({"object": len(objects)})
            elif item[0] == t.TAG_COMPOUND:
                out.append(self.items(compound_items(item[1]), objects))
            else:
                out.append(show(item))
        return out

    def do_drop(self, _: Any, what: Any, __: Any) -> None:
        for name in names_of(what):
            slot = self.stubs.pop(name)
            if not self.recorder.counts:
                self.recorder.release(slot)

    def do_clone(self, step: Any, what: Any, _: Any) -> None:
        self.name(step["as"], self.slot(what))

    # Structures.

    def do_open(self, _: Any, what: Any, __: Any) -> None:
        self.recorder.open(self.admit(), what, self.place)

    def do_condition(self, _: Any, what: Any, __: Any) -> None:
        self.recorder.condition(self.argument(what), self.place)

    def do_foreach(self, step: Any, what: Any, arguments: Any) -> None:
        admitted = self.admit()
        place = self.place
        receiver: Any = None
        if "on" in step:
            receiver = self.argument(step["on"])
            operator = self.client.operator(what)
            number = self.client.method(what) if operator is None else operator
        else:
            number = self.client.routine(what)
        stubs = self.client.stubs
        recorded = self.recorder.foreach(admitted, receiver, number, stubs, arguments, place, place)
        self.take_results(step, recorded)

    def do_jump(self, _: Any, what: Any, __: Any) -> None:
        self.recorder.jump(what, self.place)

    def do_end(self, step: Any, _: Any, __: Any) -> None:
        ended = self.recorder.end()
        if "as" in step:
            self.ended[step["as"]] = ended

    def do_reopen(self, step: Any, what: Any, _: Any) -> None:
        types = tuple(self.client.type(name) for name in names_of(step.get("types")))
        block: Any = OthersBlock("as" in step)
        if what == "else":
            block = ElseBlock()
        elif what == "when":
            block = WhenBlock(step["name"], types)
        self.recorder.reopen(self.ended[step["of"]], block, self.place)
        self.variables(step)

    def do_abandon(self, _: Any, __: Any, ___: Any) -> None:
        self.recorder.abandon()

    def heading(self, step: Any) -> Heading:
        params = tuple(self.client.type(name) for name in names_of(step.get("params")))
        return Heading(params, self.client.type(step["result"]) if "result" in step else None)

    def do_procedure(self, step: Any, what: Any, _: Any) -> None:
        admitted = self.admit()
        number = self.recorder.open_procedure(admitted, what, self.heading(step), self.place)
        self.procedures[what] = (number, None)
        self.variables(step)

    def do_return(self, _: Any, what: Any, __: Any) -> None:
        self.recorder.return_(None if what is None else self.argument(what), self.place)

    def do_end_procedure(self, _: Any, what: Any, __: Any) -> None:
        refused = self.recorder.close_procedure()
        self.procedures[what] = (self.procedures[what][0], refused)

    def do_find_procedure(self, step: Any, what: Any, _: Any) -> tuple[Any]:
        return (self.recorder.find_procedure(what, self.heading(step)),)

    # Crossings.

    def do_reply(self, _: Any, what: Any, __: Any) -> None:
        self.replies.append(encode_reply(what))

    def do_lose(self, _: Any, __: Any, ___: Any) -> None:
        self.replies.append(None)

    def attempt(self, *work: Any) -> tuple[Any]:
        try:
            for one in work:
                one()
        except e.Told as told:
            return ({"error": error(told.failure)},)
        return ("ok",)

    def do_flush(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        return self.attempt(lambda: self.synchronize("flush"), lambda: self.recorder.surface(True))

    def do_begin_flush(self, _: Any, what: Any, __: Any) -> tuple[Any]:
        kept = what == "kept"
        return self.attempt(lambda: self.recorder.begin_flush_for("flush", kept, self.place))

    def do_finish_flush(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        return self.attempt(self.answer, lambda: self.recorder.surface(True))

    def do_claim(self, _: Any, what: Any, __: Any) -> tuple[Any]:
        slot = self.slot(what)
        result = self.attempt(lambda: self.know(slot), lambda: self.claim(slot))
        return (self.known(slot),) if result == ("ok",) else result

    def know(self, slot: Slot) -> None:
        if slot._ref < 0:
            self.synchronize("claim")
        elif slot._ref == 0 and slot._known[0] == UNDER_WAY:
            number = slot._known[1]
            while self.recorder.is_unanswered(number):
                self.answer()

    def claim(self, slot: Slot) -> None:
        failure = self.recorder.failure_of(slot)
        if failure is None:
            self.recorder.surface(False)
        else:
            self.recorder.tell(failure)
            raise e.Told(failure)

    def do_commit(self, step: Any, _: Any, __: Any) -> None:
        admitted = self.admit()
        if admitted is None:
            try:
                if self.recorder.commit_due() is not Due.NOTHING:
                    self.flush()
            except e.Told as told:
                admitted = told.failure
        self.take_results(step, self.recorder.commit(admitted, self.place))

    def do_abort(self, step: Any, _: Any, __: Any) -> None:
        self.take_results(step, self.recorder.abort(self.admit(), self.place))

    def do_wait(self, step: Any, what: Any, _: Any) -> None:
        self.take_results(step, self.recorder.wait(self.admit(), what, self.place))

    def do_wait_ms(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        return (self.recorder.wait_ms,)

    def do_transaction_ends(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        return (self.recorder.transaction_ends,)

    def do_is_same(self, _: Any, what: Any, __: Any) -> tuple[Any]:
        return (self.recorder.is_same(self.slot(what[0]), self.slot(what[1])),)

    def do_transaction(self, step: Any, what: Any, _: Any) -> tuple[Any]:
        batch = None
        if "batch" in what:
            batch = (int(what["batch"]["client"], 16), what["batch"]["number"])

        def begin() -> None:
            slot = self.recorder.begin_transaction(Slot(), what.get("tries", 0), batch, self.place)
            self.name(step["as"], slot)

        return self.attempt(lambda: self.synchronize("transaction"), begin)

    def do_end_transaction(self, _: Any, what: Any, __: Any) -> tuple[Any] | None:
        # There is none if its begin was refused.
        slot = self.stubs.get(what)
        if slot is None:
            return None
        if self.shipped is None:
            self.shipped = self.recorder.end_transaction_batch()
            begin = [lambda: self.recorder.begin_flush(False)]
        else:
            begin = []
        refusals, self.shipped = self.shipped, None

        def finish() -> None:
            outcome: e.Failure | None = None
            try:
                self.claim(slot)
            except e.Told as told:
                outcome = told.failure
            failure = self.recorder.finish_transaction(outcome, refusals, self.place)
            if failure is not None:
                raise e.Told(failure)

        return self.attempt(*begin, self.answer_all, finish)

    def do_ship(self, _: Any, __: Any, ___: Any) -> None:
        self.shipped = self.recorder.end_transaction_batch()
        self.recorder.begin_flush(False)
        self.send(True)

    def do_transmit(self, _: Any, __: Any, ___: Any) -> None:
        self.send(True)

    def do_abandon_transaction(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        self.recorder.abandon_transaction()
        result = self.attempt(self.flush)
        self.recorder.tell_transaction()
        return result

    def do_exceptions(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        return ([error(entry.failure) for entry in self.recorder.exceptions()],)

    def do_clear_exceptions(self, _: Any, __: Any, ___: Any) -> None:
        if self.recorder.clear_exceptions(self.place):
            self.recorder.clear_server(self.admit())

    def do_profile(self, _: Any, on: bool, __: Any) -> tuple[Any]:
        def ask() -> None:
            if self.recorder.profile_due(on):
                self.recorder.profile(self.admit(), on)

        return self.attempt(ask)

    def do_read_profile(self, _: Any, __: Any, ___: Any) -> tuple[Any]:
        profile = self.recorder.profile_of_last
        return (None if profile is None else shown_profile(profile),)

    def do_leave(self, _: Any, __: Any, ___: Any) -> None:
        if self.recorder.leave():
            self.send(False)
            self.recorder.close(e.ByClient())


def names_of(names: Any) -> list[Any]:
    """One name, several, or none."""
    if names is None:
        return []
    return names if isinstance(names, list) else [names]
