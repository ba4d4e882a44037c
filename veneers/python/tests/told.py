"""Failures as JSON, as the files of ``vectors/recorder/`` have them."""

from __future__ import annotations

from typing import Any

from replies import hexed

from bifrost_veneer import _tables as t
from bifrost_veneer.recorder import errors as e
from bifrost_veneer.recorder.commands import show
from bifrost_veneer.recorder.decode import Handle


def error(failure: e.Failure) -> dict[str, Any]:
    """A failure: its own parts; if it follows from others, the first of them and those in
    between.
    """
    out = alone(failure)
    chain = list(failure.chain())[1:]
    if chain and not isinstance(failure, e.Unseen):
        out["via"] = [alone(one) for one in chain[:-1]]
        out["root"] = alone(chain[-1])
    return out


def call_of(name: e.CallName) -> dict[str, Any]:
    place = None if name.place is None else int(name.place)  # type: ignore[call-overload]
    return {"name": name.name, "number": name.number, "place": place, "rounds": list(name.rounds)}


def exception_value(value: Any) -> Any:
    if isinstance(value, Handle):
        return "object"
    if value[0] == t.TAG_COMPOUND:
        return {"nil": None}
    if value[0] == t.TAG_BYTES:
        return {"bytes": hexed(value[1])}
    return show(value)


def alone(failure: e.Failure) -> dict[str, Any]:
    match failure:
        case e.Signal(name, values, places, more, call):
            shown = [exception_value(value) for value in values]
            out: dict[str, Any] = {
                "kind": "signal",
                "name": name,
                "values": shown,
                "call": call_of(call),
            }
            if places is not None:
                out["places"] = [
                    {"routine": p.routine, "file": p.file, "line": p.line} for p in places
                ]
                out["more_places"] = more
            return out
        case e.Unhandled(argument, _, call):
            return {"kind": "unhandled", "argument": argument, "call": call_of(call)}
        case e.Refused(number, text, call):
            return {"kind": "refused", "number": number, "text": text, "call": call_of(call)}
        case e.NotReached(_, call):
            return {"kind": "not_reached", "call": call_of(call)}
        case e.NotSent(call, _):
            return {"kind": "not_sent", "call": call_of(call)}
        case e.Unseen(failures, omitted, of):
            named = None if of is None else call_of(of)
            shown = [error(one) for one in failures]
            return {"kind": "unseen", "failures": shown, "omitted": omitted, "call": named}
        case e.Misused():
            return {"kind": "misuse", "misuse": failure.name}
        case e.Missing(name):
            return {"kind": "missing", "name": name}
        case e.Ended(why):
            return closed(why)
    raise AssertionError(failure)


def closed(why: e.Closed) -> dict[str, Any]:
    match why:
        case e.ByClient():
            return {"kind": "closed", "by": "client"}
        case e.ByConnection():
            return {"kind": "closed", "by": "connection"}
        case e.ByServer(number, position, text):
            return {
                "kind": "closed",
                "by": "server",
                "number": number,
                "position": position,
                "text": text,
            }
        case e.ByBadReply(bad):
            return {"kind": "closed", "by": "bad_reply", "error": bad.name}
    return {"kind": "closed", "by": "wrong_reply"}
