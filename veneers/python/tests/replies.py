"""Values, replies and commands of the vectors as bytes: the half of a server that tests need."""

from __future__ import annotations

from typing import Any

from bifrost_veneer import _tables as t
from bifrost_veneer.recorder.wire import (
    Items,
    Value,
    flush_flags,
    head,
    new_words,
    put_bytes,
    put_hello,
    put_raw,
    put_tags,
    put_types,
    put_value,
    signed,
    to_bytes,
)


def hexed(data: bytes) -> str:
    """Bytes in hexadecimal digits, with a space after each word."""
    return " ".join(data[i : i + 8].hex() for i in range(0, len(data), 8))


def unhexed(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def value_of(value: dict[str, Any]) -> Value:
    """A value of the vectors."""
    ((kind, payload),) = value.items()
    match kind:
        case "nil":
            return (t.TAG_NIL, None)
        case "bool":
            return (t.TAG_BOOL, payload)
        case "int":
            return (t.TAG_INT, int(payload))
        case "real":
            return (t.TAG_REAL, float(payload))
        case "char":
            return (t.TAG_CHAR, payload)
        case "string":
            text = (
                payload if isinstance(payload, str) else payload["text"] * payload.get("times", 1)
            )
            return (t.TAG_STRING, text)
        case "bytes":
            return (t.TAG_BYTES, unhexed(payload))
    assert kind == "compound", kind
    ty = payload.get("type")
    words = new_words()
    items = Items(words, t.NO_NUMBER if ty is None else ty, len(payload["items"]))
    for item in payload["items"]:
        items.tag(put_operand(words, item))
    items.end()
    return (t.TAG_COMPOUND, to_bytes(words[1:]))


def put_operand(words: Any, operand: dict[str, Any]) -> int:
    if "ref" in operand:
        words.append(operand["ref"])
        return t.TAG_REF
    value = value_of(operand)
    put_value(words, value)
    return value[0]


# Replies.


def _reply(code: int, number: int, body: Any, flags: int = 0) -> bytes:
    words = new_words()
    words.extend((head(code, flags, number), 8 * len(body)))
    words.extend(body)
    return to_bytes(words)


def welcome_of(
    digest: bytes, limits: list[tuple[int, int]], session: int = 1, server: str = "script"
) -> bytes:
    body = new_words()
    body.append(session)
    put_raw(body, digest)
    put_bytes(body, server.encode())
    body.append(len(limits))
    for pair in limits:
        body.extend(pair)
    return _reply(t.OP_WELCOME, t.VERSION, body)


def _put_outcome(body: Any, outcome: Any) -> None:
    if outcome == "absent":
        body.append(head(t.TAG_ABSENT, 0, 0))
    elif "handle" in outcome:
        body.extend((head(t.TAG_REF, 0, outcome.get("type", 7)), outcome["handle"]))
    elif "rows" in outcome:
        rows = outcome["rows"]
        columns, cells = rows["columns"], rows.get("cells", [])
        table = new_words()
        table.append(len(columns))
        table.extend([head(tag, 0, ty) for tag, ty in columns])
        for cell in cells:
            if "handle" in cell:
                table.append(cell["handle"])
            else:
                put_value(table, value_of(cell))
        body.extend((head(t.TAG_ROWS, 0, len(cells) // len(columns)), 8 * len(table)))
        body.extend(table)
    elif "exception" in outcome:
        body.append(head(t.TAG_EXCEPTION, 0, outcome["exception"]))
    else:
        value = value_of(outcome)
        body.append(head(value[0], 0, 0))
        put_value(body, value)


def _put_exception(body: Any, exception: dict[str, Any]) -> None:
    call, rounds = exception["call"], exception.get("iterations", [])
    signal = exception.get("signal")
    if signal is not None:
        values, places = signal.get("values", []), signal.get("places", [])
        flags = len(values) | len(rounds) << 8 | len(places) << 16
        body.append(signed(t.EXCEPTION_SIGNAL | flags << 8 | call << 32))
        body.extend(rounds)
        put_bytes(body, signal["name"].encode())
        for value in values:
            _put_outcome(body, value)
        if places:
            body.append(signal.get("more_places", 0))
            for place in places:
                body.append(place["line"])
                put_bytes(body, place["routine"].encode())
                put_bytes(body, place["file"].encode())
    elif "unhandled" in exception:
        unhandled = exception["unhandled"]
        body.append(signed(t.EXCEPTION_UNHANDLED | len(rounds) << 16 | call << 32))
        body.extend(rounds)
        body.append(
            signed(
                unhandled["argument"] & 0xFF_FFFF
                | unhandled.get("back", 0) << 24
                | unhandled["cause"] << 32
            )
        )
    else:
        refused = exception["refused"]
        body.append(signed(t.EXCEPTION_REFUSED | len(rounds) << 16 | call << 32))
        body.extend(rounds)
        body.append(refused["number"])
        put_bytes(body, refused["text"].encode())


def encode_reply(reply: Any) -> bytes:
    """A reply of the vectors as bytes."""
    if reply == "farewell":
        return _reply(t.OP_FAREWELL, 0, new_words())
    if reply == "welcome":
        return welcome_of(bytes(32), [], server="")
    if reply == "interface":
        reply = {"interface": "{}"}
    ((kind, parts),) = reply.items()
    body = new_words()
    match kind:
        case "bytes":
            return unhexed(parts)
        case "welcome":
            limits = [tuple(pair) for pair in parts["limits"]]
            return welcome_of(
                bytes.fromhex(parts["digest"]), limits, parts["session"], parts["server"]
            )
        case "interface":
            put_bytes(body, parts.encode())
            return _reply(t.OP_INTERFACE, 0, body)
        case "error":
            body.append(parts["position"])
            put_bytes(body, parts["text"].encode())
            return _reply(t.OP_ERROR, parts["number"], body)
        case "exceptions":
            body.append(parts["omitted"])
            for batch, exception in parts["list"]:
                body.append(batch)
                _put_exception(body, exception)
            return _reply(t.OP_EXCEPTIONS, len(parts["list"]), body)
    outcomes, exceptions = parts.get("outcomes", []), parts.get("exceptions", [])
    body.append(signed(len(exceptions) | parts.get("omitted", 0) << 32))
    body.append(signed(parts.get("calls", 0) | parts.get("fuel", 0) << 32))
    for outcome in outcomes:
        _put_outcome(body, outcome)
    for exception in exceptions:
        _put_exception(body, exception)
    flags = 0
    if "profile" in parts:
        flags = t.FLUSHED_PROFILED
        _put_profile(body, parts["profile"])
    return _reply(t.OP_FLUSHED, len(outcomes), body, flags)


def _put_profile(body: Any, profile: dict[str, Any]) -> None:
    def pair(low: int, high: int) -> int:
        return signed(low | high << 32)

    def put_cost(cost: dict[str, Any]) -> None:
        body.append(signed(cost["nanoseconds"]))
        body.append(pair(cost["calls"], cost["fuel"]))
        body.append(pair(cost["fetches"], cost["objects"]))

    entries, rest = profile["entries"], profile.get("rest")
    body.append(signed(profile["nanoseconds"]))
    body.append(pair(profile["fetches"], profile["objects"]))
    body.append(profile["runs"])
    body.append(pair(len(entries), rest["omitted"] if rest else 0))
    for entry in entries:
        kind = t.PROFILE_STRUCTURE if entry.get("structure") else t.PROFILE_COMMAND
        body.append(pair(kind, entry["call"]))
        put_cost(entry)
    if rest:
        body.append(t.PROFILE_REST)
        put_cost(rest)


def shown_profile(profile: Any) -> dict[str, Any]:
    """A profile as the vectors have it."""

    def of_cost(cost: Any) -> dict[str, Any]:
        names = ("nanoseconds", "calls", "fuel", "fetches", "objects")
        return {name: getattr(cost, name) for name in names}

    entries = [
        {"call": entry.call}
        | ({"structure": True} if entry.is_structure else {})
        | of_cost(entry.cost)
        for entry in profile.entries
    ]
    names = ("nanoseconds", "fetches", "objects", "runs")
    shown = {name: getattr(profile, name) for name in names} | {"entries": entries}
    if profile.rest is not None:
        shown["rest"] = {"omitted": profile.omitted} | of_cost(profile.rest)
    return shown


def nil_for_each(wanted: int) -> bytes:
    """The reply to a flush for which a script has none: nil for each wanted future."""
    return encode_reply({"flushed": {"outcomes": [{"nil": None}] * wanted}})


# Commands.

_CODES = {
    name.removeprefix("OP_").lower(): code
    for name, code in vars(t).items()
    if name.startswith("OP_")
}


def _put_call(words: Any, code: int, number: int, receiver: int | None, args: list[Any]) -> None:
    operands = new_words()
    tags = [put_operand(operands, arg) for arg in args]
    flags = len(args)
    for index, tag in enumerate(tags[:4]):
        flags |= tag << (8 + 4 * index)
    words.append(head(code, flags, number))
    if receiver is not None:
        words.append(receiver)
    at = len(words)
    words.extend([0] * ((max(len(args) - 4, 0) + 15) // 16))
    put_tags(words, at, tags[4:])
    words.extend(operands)


def encode_command(command: Any) -> bytes:
    """A command of the vectors as bytes."""
    words = new_words()
    if isinstance(command, str):
        code = {"clear_history": t.OP_HISTORY}.get(command) or _CODES[command]
        words.append(head(code, int(command == "clear_history"), 0))
        return to_bytes(words)
    ((name, p),) = command.items()
    code = _CODES[name]
    match name:
        case "hello":
            digest = bytes.fromhex(p["digest"])
            put_hello(words, digest, p["token"], p["client"], p.get("trace"), p["version"])
        case "call" | "send":
            _put_call(words, code, p["method"], p["receiver"], p["args"])
        case "call_routine":
            _put_call(words, code, p["routine"], None, p["args"])
        case "call_procedure":
            _put_call(words, code, p["procedure"], None, p["args"])
        case "emit":
            _put_call(words, code, 0, p["rows"], p["values"])
        case "lookup":
            words.append(head(code, 0, t.NO_NUMBER if p["expected"] is None else p["expected"]))
            put_bytes(words, p["name"].encode())
        case "constant":
            value = value_of(p)
            words.append(head(code, value[0], 0))
            put_value(words, value)
        case "cell":
            words.append(head(code, 0, p["element"]))
        case "rows":
            words.append(head(code, len(p["columns"]), 0))
            put_types(words, p["columns"])
        case "as" | "is":
            words.extend((head(code, 0, p["type"]), p["object"]))
        case "get":
            words.extend((code, p["object"]))
        case "free":
            handles, unanswered = (p, 0) if isinstance(p, list) else (p["handles"], p["unanswered"])
            words.append(head(code, unanswered, len(handles)))
            words.extend(handles)
        case "flush":
            words.append(head(code, flush_flags(p["quiet"], p.get("kept")), len(p["wanted"])))
            words.extend([signed(first | count << 32) for first, count in p["wanted"]])
        case "transaction":
            batch = p["batch"]
            words.append(head(code, p["tries"] << 8 | int(batch is not None), 0))
            if batch is not None:
                client = int(batch["client"], 16)
                parts = (client & 0xFFFF_FFFF_FFFF_FFFF, client >> 64, batch["number"])
                words.extend([signed(word) for word in parts])
        case "wait":
            words.append(head(code, 0, p["ms"]))
        case "profile":
            words.append(head(code, t.PROFILE_ON if p["on"] else 0, 0))
        case "do" | "then":
            words.extend((code, p["test"]))
        case "when":
            words.append(head(code, len(p["values"]), 0))
            put_bytes(words, p["name"].encode())
            put_types(words, p["values"])
        case "others":
            words.append(head(code, int(p["named"]), 0))
        case "procedure":
            result = t.NO_NUMBER if p["result"] is None else p["result"]
            words.append(head(code, len(p["params"]), result))
            put_bytes(words, p["name"].encode())
            put_types(words, p["params"])
        case "return":
            if p is None:
                words.append(code)
            else:
                operand = new_words()
                tag = put_operand(operand, p)
                words.append(head(code, 1 | tag << 8, 0))
                words.extend(operand)
        case _:
            raise AssertionError(name)
    return to_bytes(words)
