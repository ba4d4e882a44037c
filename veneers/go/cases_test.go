package veneer

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// This file runs the cases of cases/generated, in three ways: a case is replayed with the answers
// of its file, it is live with those of a server, and it is evaluated with a flush after each step.
// See cases/README.md.

const (
	casesFolder     = "../../cases"
	generatedFolder = casesFolder + "/generated"
)

// generatedCases returns the cases.
func generatedCases(t *testing.T) []tree {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(generatedFolder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []tree
	for _, path := range paths {
		if !strings.HasSuffix(path, ".interface.json") {
			cases = append(cases, parse(readFile(t, path)).(tree))
		}
	}
	if len(cases) < 60 {
		t.Fatalf("there are %d cases only", len(cases))
	}
	return cases
}

func generatedInterface(t testing.TB, name any) string {
	t.Helper()
	return readFile(t, generatedFolder, text(name)+".interface.json")
}

// hasLoops returns true if the crossings of a case are in few words.
func hasLoops(test tree) bool {
	return slices.ContainsFunc(list(test["script"]), func(step any) bool {
		return step.(tree)["loop"] != nil
	})
}

// unfoldBytes returns the bytes that stand in few words.
func unfoldBytes(part any) []byte {
	switch part := part.(type) {
	case nil:
		return nil
	case string:
		return unhexed(part)
	case []any:
		var all []byte
		for _, inner := range part {
			all = append(all, unfoldBytes(inner)...)
		}
		return all
	}
	folded := part.(tree)
	words, times := unhexed(text(folded["words"])), int(number(folded["times"]))
	if folded["plus"] == nil {
		return bytes.Repeat(words, times)
	}
	var all []byte
	for range times {
		all = append(all, words...)
		for index, plus := range list(folded["plus"]) {
			word := binary.LittleEndian.Uint64(words[8*index:])
			binary.LittleEndian.PutUint64(words[8*index:], word+number(plus))
		}
	}
	return all
}

// unfold returns the crossings of a session's outputs as bytes.
func unfold(session tree) []crossing {
	var all []crossing
	for _, part := range list(session["crossings"]) {
		folded := part.(tree)
		one := crossing{answered: unfoldBytes(folded["answered"])}
		for _, piece := range list(folded["sent"]) {
			times := 1
			if several, isFolded := piece.(tree); isFolded && several["sent"] != nil {
				piece, times = several["sent"], int(number(several["times"]))
			}
			one.sent = append(one.sent, slices.Repeat([][]byte{unfoldBytes(piece)}, times)...)
		}
		times := max(int(number(folded["times"])), 1)
		all = append(all, slices.Repeat([]crossing{one}, times)...)
	}
	return all
}

// sessionsOf returns the outputs of each session by its name; a single one has none.
func sessionsOf(test tree) map[string]tree {
	sessions := map[string]tree{}
	named, areSeveral := test["sessions"].(tree)
	if !areSeveral {
		sessions[""] = test
	}
	for name, session := range named {
		sessions[name] = session.(tree)
	}
	return sessions
}

// replayed is a source with the answers of a case's file.
type replayed struct {
	test    tree
	server  string
	answers []crossing
}

func (s *replayed) greet(g *greeting) (*recorder, error) {
	own := &scripted{test: s.test, server: s.server}
	return own.greet(g)
}

func (s *replayed) sent([]byte) {}

func (s *replayed) reply(int) []byte {
	answer := s.answers[0].answered
	s.answers = s.answers[1:]
	return answer
}

// play runs the steps of all sessions in their order, and compares the outputs of each.
func play(t *testing.T, test tree, machines map[string]*machine) {
	t.Helper()
	for index, step := range list(test["script"]) {
		machines[text(step.(tree)["session"])].take(index+1, step.(tree))
	}
	for name, expected := range sessionsOf(test) {
		m := machines[name]
		compare(t, m.finish(), expected, name)
		if hasLoops(test) {
			wanted := unfold(expected)
			if len(wanted) != len(m.crossings) {
				t.Errorf("%d crossings, not %d", len(m.crossings), len(wanted))
				continue
			}
			for index := range wanted {
				if !reflect.DeepEqual(m.crossings[index], wanted[index]) {
					t.Errorf("crossing %d differs", index+1)
				}
			}
		} else if found := m.shownCrossings(); !reflect.DeepEqual(found, expected["crossings"]) {
			t.Errorf("found %s\nnot   %s",
				shortened(written(found)), shortened(written(expected["crossings"])))
		}
	}
}

func TestCasesAreReplayed(t *testing.T) {
	for _, test := range generatedCases(t) {
		t.Run(text(test["case"]), func(t *testing.T) {
			c := newClient(t, generatedInterface(t, test["interface"]))
			server := ""
			if test["server_interface"] != nil {
				server = generatedInterface(t, test["server_interface"])
			}
			machines := map[string]*machine{}
			for name, session := range sessionsOf(test) {
				from := &replayed{test, server, unfold(session)}
				machines[name] = newMachine(t, c, test, cut{}, from)
			}
			play(t, test, machines)
		})
	}
}
