#!/usr/bin/env python3
"""A client without a library: the text form with answers in JSON, over a unix socket."""

import json
import socket
import sys


class Session:
    """A conversation with a server."""

    def __init__(self, path):
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.connect(path)
        self.lines = self.stream.makefile("r", encoding="utf-8")
        welcome = self.ask('hello 2 json name "client.py"')
        if "error" in welcome:
            raise SystemExit(welcome["text"])

    def say(self, line):
        """Sends a command that has no answer."""
        self.stream.sendall(line.encode() + b"\n")

    def ask(self, line):
        """Sends a command, and returns its answer. Lines before it may be wrong."""
        self.say(line)
        answer = json.loads(self.lines.readline())
        if answer.get("error") == "BadLine":
            raise ValueError(f"line {answer['line']}, column {answer['column']}: {answer['text']}")
        return answer


session = Session(sys.argv[1])
session.say("$db := lookup database: DataBase")

# A struct as argument. Text is quoted as in JSON.
prefix = json.dumps("b")
names = session.ask(f"? get $db.matching({{prefix: {prefix}, visits: 0}})")["results"][0]["value"]
print("names:", names)

# A table of all users, in one crossing.
session.say("$t := rows string, int")
session.say("foreach $e in $db.users() do")
session.say("emit $t, $e.name(), $e.visits()")
session.say("end")
for name, visits in session.ask("? $t")["results"][0]["rows"]:
    print(f"{name}: {visits} visits")

# An exception, and the call that depends on the one that signalled it.
for exception in session.ask('? $db.fetch("zoe").name()')["exceptions"]:
    print(exception.get("signal") or f"not run: receiver is call {exception['unhandled']['cause']}")
session.ask("bye")
