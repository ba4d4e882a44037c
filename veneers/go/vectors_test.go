package veneer

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// vectorsFolder has the vectors that every language reads.
const vectorsFolder = "../../vectors"

func readFile(t testing.TB, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// vectorRows returns the rows of a file of vectors.
func vectorRows(t *testing.T, name string) []tree {
	t.Helper()
	var rows []tree
	for _, row := range list(parse(readFile(t, vectorsFolder, name))) {
		rows = append(rows, row.(tree))
	}
	if len(rows) < 10 {
		t.Fatalf("%s has %d rows only", name, len(rows))
	}
	return rows
}

// isNeed returns the number of bytes that an error asks for, and true if it does.
func isNeed(err error) (int, bool) {
	var need *needError
	if !errors.As(err, &need) {
		return 0, false
	}
	return need.length, true
}

func TestCommandsAreTheirBytes(t *testing.T) {
	for _, row := range vectorRows(t, "commands.json") {
		data := unhexed(text(row["hex"]))
		commands, err := decodeCommands(data)
		if err != nil {
			t.Errorf("%s: %v", row["hex"], err)
			continue
		}
		if !reflect.DeepEqual(plain(commands), row["commands"]) {
			t.Errorf("found %v\nnot %v", plain(commands), row["commands"])
		}
		var encoded []byte
		for _, command := range list(row["commands"]) {
			encoded = append(encoded, encodeCommand(command)...)
		}
		if hexed(encoded) != hexed(data) {
			t.Errorf("%v\nfound %s\nnot   %s", row["commands"], hexed(encoded), hexed(data))
		}
		// A command that is cut is no other one.
		for at := range data {
			_, length, err := decodeCommand(data[:at])
			if needed, needs := isNeed(err); err != nil && (!needs || needed <= at) || length > at {
				t.Errorf("%s, cut at %d: %v", row["hex"], at, err)
			}
		}
	}
}

func TestMalformedCommandsAreRefused(t *testing.T) {
	for _, row := range vectorRows(t, "malformed.json") {
		_, _, err := decodeCommand(unhexed(text(row["hex"])))
		var bad *BadBytes
		if !errors.As(err, &bad) {
			t.Errorf("%s: found %v", row["what"], err)
			continue
		}
		if bad.Number.String() != row["error"] || bad.Offset != int(number(row["offset"])) {
			t.Errorf("%s: found %v, not %s at %s", row["what"], bad, row["error"], row["offset"])
		}
	}
}

// showReply returns a reply as the vectors have it.
func showReply(r reply) any {
	switch r := r.(type) {
	case *welcome:
		limits := []any{}
		for _, limit := range r.limits {
			limits = append(limits, []any{limit.number, limit.value})
		}
		return tree{"welcome": tree{
			"version": r.version, "session": r.session, "server": r.server,
			"digest": hex.EncodeToString(r.digest[:]), "limits": limits,
		}}
	case *flushed:
		outcomes, exceptions := []any{}, []any{}
		for _, outcome := range r.outcomes {
			outcomes = append(outcomes, showOutcome(outcome))
		}
		for _, e := range r.exceptions {
			exceptions = append(exceptions, showException(e))
		}
		parts := tree{
			"outcomes": outcomes, "exceptions": exceptions, "omitted": r.omitted,
			"calls": r.calls, "fuel": r.fuel,
		}
		if r.profile != nil {
			parts["profile"] = showProfile(r.profile)
		}
		return tree{"flushed": parts}
	case *interfaceReply:
		return tree{"interface": r.json}
	case *historyReply:
		entries := []any{}
		for _, entry := range r.entries {
			entries = append(entries, []any{entry.batch, showException(entry.exception)})
		}
		return tree{"exceptions": tree{"list": entries, "omitted": r.omitted}}
	case *farewell:
		return "farewell"
	case *errorReply:
		return tree{"error": tree{
			"number": uint32(r.number), "position": r.position, "text": r.text,
		}}
	}
	return nil
}

func showOutcome(value Value) any {
	switch value.tag {
	case tagRef:
		return tree{"handle": value.handle(), "type": value.typeNumber}
	case tagException:
		return tree{"exception": value.word}
	case tagAbsent:
		return "absent"
	case tagRows:
		columns, cells := []any{}, []any{}
		for _, c := range value.rows.columns {
			columns = append(columns, []any{uint32(c.tag), c.typeNumber})
		}
		for _, cell := range value.rows.cells {
			cells = append(cells, showOutcome(cell))
		}
		return tree{"rows": tree{"columns": columns, "cells": cells}}
	}
	return show(value)
}

func showPlaces(places []Place) []any {
	shown := []any{}
	for _, p := range places {
		shown = append(shown, tree{"routine": p.Routine, "file": p.File, "line": p.Line})
	}
	return shown
}

func showException(e exception) any {
	out := tree{"call": e.call, "iterations": append([]uint32{}, e.rounds...)}
	switch e.kind {
	case exceptionSignal:
		values := []any{}
		for _, value := range e.values {
			values = append(values, showOutcome(value))
		}
		signal := tree{"name": e.name, "values": values}
		if len(e.places) > 0 {
			signal["places"], signal["more_places"] = showPlaces(e.places), e.morePlaces
		}
		out["signal"] = signal
	case exceptionUnhandled:
		unhandled := tree{"argument": e.argument, "cause": e.cause}
		if e.back > 0 {
			unhandled["back"] = e.back
		}
		out["unhandled"] = unhandled
	default:
		out["refused"] = tree{"number": uint32(e.number), "text": e.text}
	}
	return out
}

func showCost(cost Cost, with tree) tree {
	with["nanoseconds"], with["calls"], with["fuel"] = cost.Nanoseconds, cost.Calls, cost.Fuel
	with["fetches"], with["objects"] = cost.Fetches, cost.Objects
	return with
}

func showProfile(p *Profile) any {
	entries := []any{}
	for _, entry := range p.Entries {
		with := tree{"call": entry.Call}
		if entry.IsStructure {
			with["structure"] = true
		}
		entries = append(entries, showCost(entry.Cost, with))
	}
	shown := tree{
		"nanoseconds": p.Nanoseconds, "fetches": p.Fetches, "objects": p.Objects,
		"runs": p.Runs, "entries": entries,
	}
	if p.Rest != nil {
		shown["rest"] = showCost(*p.Rest, tree{"omitted": p.Omitted})
	}
	return shown
}

func TestRepliesAreTheirBytes(t *testing.T) {
	for _, row := range vectorRows(t, "replies.json") {
		data := unhexed(text(row["hex"]))
		decoded, length, err := decodeReply(string(data), replyBytesMax)
		if err != nil || length != len(data) {
			t.Errorf("%v: %v, %d bytes", row["reply"], err, length)
			continue
		}
		if !reflect.DeepEqual(plain(showReply(decoded)), row["reply"]) {
			t.Errorf("found %v\nnot %v", plain(showReply(decoded)), row["reply"])
		}
		if encoded := encodeReply(row["reply"]); hexed(encoded) != hexed(data) {
			t.Errorf("%v\nfound %s\nnot   %s", row["reply"], hexed(encoded), hexed(data))
		}
		for at := range data {
			_, _, err := decodeReply(string(data[:at]), replyBytesMax)
			if _, needs := isNeed(err); !needs {
				t.Errorf("%v, cut at %d: %v", row["reply"], at, err)
			}
		}
	}
}

func TestChangedRepliesAreReadOrRefused(t *testing.T) {
	refused := 0
	for _, row := range vectorRows(t, "replies.json") {
		data := unhexed(text(row["hex"]))
		for bit := range 8 * len(data) {
			changed := append([]byte(nil), data...)
			changed[bit/8] ^= 1 << (bit % 8)
			decoded, length, err := decodeReply(string(changed), replyBytesMax)
			if (decoded == nil) == (err == nil) || length > len(changed) {
				t.Errorf("%v with bit %d: %v, %d, %v", row["reply"], bit, decoded, length, err)
			}
			if err != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no changed reply was refused")
	}
}

func TestTheInterface(t *testing.T) {
	i, err := ParseInterface([]byte(readFile(t, vectorsFolder, "interface.json")))
	if err != nil {
		t.Fatal(err)
	}
	dataBase := i.typeNumbers["DataBase"]
	fetch := i.methodNumbers[methodName{dataBase, "fetch"}]
	const heading = "fetch (user: string) returns (DataElem) signals (not_found)"
	if found := i.heading(i.method(fetch)); found != heading {
		t.Errorf("found %s", found)
	}
	if found := i.methodName(fetch); found != "DataBase.fetch" {
		t.Errorf("found %s", found)
	}
	if i.method(uint32(len(i.owners))) != nil || i.typeName(len(i.types)) != "?" {
		t.Error("there is a part behind the last one")
	}
}

func TestBadInterfacesAreRefused(t *testing.T) {
	for _, bad := range []string{
		``, `[]`, `{}`, `{"types":[]}`, `{"types":[{"name":"x","kind":"y"}],"routines":[]}`,
		`{"types":[],"routines":[{"name":"x","params":[{"name":"a","type":0}]}]}`,
		`{"types":[],"routines":[{"name":"x","results":[-1]}]}`,
		`{"types":[{"name":"x","kind":"object","supertypes":[0]}],"routines":[]}`,
		`{"types":[{"name":"x","kind":"object","supertypes":[1]},
			{"name":"y","kind":"object","supertypes":[0]}],"routines":[]}`,
		`{"types":[{"name":"x","kind":"cell","element":1}],"routines":[]}`,
		`{"types":[{"name":"x","kind":"int","methods":[{"name":"m","yields":[7]}]}],"routines":[]}`,
	} {
		if _, err := ParseInterface([]byte(bad)); err == nil {
			t.Errorf("accepted %s", bad)
		}
	}
}
