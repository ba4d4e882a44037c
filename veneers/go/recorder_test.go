package veneer

import (
	"bufio"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// outputs are the outputs of a case, but for the crossings.
var outputs = []string{"results", "known", "history", "history_omitted", "counters", "closed"}

// scriptCases returns the cases of the files in vectors/recorder.
func scriptCases(t *testing.T) []tree {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(vectorsFolder, "recorder", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []tree
	for _, path := range paths {
		for _, test := range list(parse(readFile(t, path))) {
			cases = append(cases, test.(tree))
		}
	}
	if len(cases) < 40 {
		t.Fatalf("there are %d cases only", len(cases))
	}
	return cases
}

// randomCases returns the random scripts; BIFROST_RANDOM names a file with more.
func randomCases(t *testing.T) []tree {
	t.Helper()
	path := os.Getenv("BIFROST_RANDOM")
	if path == "" {
		path = filepath.Join(vectorsFolder, "random.jsonl")
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<26)
	var cases []tree
	for lines.Scan() {
		cases = append(cases, parse(lines.Text()).(tree))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 500 {
		t.Fatalf("there are %d cases only", len(cases))
	}
	return cases
}

func scriptClient(t *testing.T) *client {
	t.Helper()
	return newClient(t, readFile(t, vectorsFolder, "interface.json"))
}

// compare compares outputs with those of a case.
func compare(t *testing.T, found tree, expected tree, where string) {
	t.Helper()
	for _, name := range outputs {
		if !reflect.DeepEqual(found[name], expected[name]) {
			t.Errorf("%s of %s:\nfound %s\nnot   %s", name, where,
				shortened(written(found[name])), shortened(written(expected[name])))
		}
	}
}

// shortened returns the begin of a long text.
func shortened(text string) string {
	if len(text) > 4000 {
		return text[:4000] + "..."
	}
	return text
}

func TestScriptsHaveTheirOutputs(t *testing.T) {
	c := scriptClient(t)
	for _, test := range scriptCases(t) {
		t.Run(text(test["case"]), func(t *testing.T) {
			m := newMachine(t, c, test, cut{}, nil)
			compare(t, m.run(list(test["script"])), test, text(test["case"]))
			if found := m.shownCrossings(); !reflect.DeepEqual(found, test["crossings"]) {
				t.Errorf("found %s\nnot   %s",
					shortened(written(found)), shortened(written(test["crossings"])))
			}
		})
	}
}

func TestRandomScriptsHaveTheirOutputs(t *testing.T) {
	c := scriptClient(t)
	for _, test := range randomCases(t) {
		t.Run(text(test["case"]), func(t *testing.T) {
			m := newMachine(t, c, test, cut{}, nil)
			compare(t, m.run(list(test["script"])), test, text(test["case"]))
			sent := []any{}
			for _, crossing := range list(m.shownCrossings()) {
				sent = append(sent, tree{"sent": crossing.(tree)["sent"]})
			}
			if !reflect.DeepEqual(any(sent), test["crossings"]) {
				t.Errorf("found %s\nnot   %s",
					shortened(written(sent)), shortened(written(test["crossings"])))
			}
		})
	}
}

// allOutputs runs a case, and returns everything that it gives.
func allOutputs(t *testing.T, c *client, test tree, how cut) (string, []crossing) {
	t.Helper()
	m := newMachine(t, c, test, how, nil)
	found := m.run(list(test["script"]))
	var sent strings.Builder
	for _, crossing := range m.crossings {
		for _, piece := range crossing.sent {
			sent.WriteString(hexed(piece) + "\n")
		}
	}
	return written(found) + sent.String(), m.crossings
}

func TestAReplyMayBeCutAnywhere(t *testing.T) {
	c := scriptClient(t)
	for _, test := range scriptCases(t) {
		whole, crossings := allOutputs(t, c, test, cut{})
		longest := 0
		for _, crossing := range crossings {
			longest = max(longest, len(crossing.answered))
		}
		most := 64
		if test["server"] != nil {
			most = 4
		}
		cuts := []cut{{every: 4096}}
		if longest < 20_000 {
			cuts = []cut{{every: 1}, {every: 5}}
			for at := 1; at < min(longest, most); at++ {
				cuts = append(cuts, cut{at: at})
			}
		}
		for _, how := range cuts {
			if found, _ := allOutputs(t, c, test, how); found != whole {
				t.Errorf("%s, cut as %+v:\nfound %s\nnot   %s", test["case"], how,
					shortened(found), shortened(whole))
			}
		}
	}
}

// No panic comes of a changed reply, and no session goes on that sends bytes that are no command.
func TestNoByteOfAReplyIsTrusted(t *testing.T) {
	c := scriptClient(t)
	runs := 0
	for _, test := range scriptCases(t) {
		if test["server"] != nil {
			continue
		}
		_, crossings := allOutputs(t, c, test, cut{})
		length := 0
		for _, crossing := range crossings {
			length += len(crossing.answered)
		}
		for at := 0; at < min(length, 300); at += 3 {
			allOutputs(t, c, test, cut{changes: true, changed: at})
			runs++
		}
	}
	if runs < 1000 {
		t.Errorf("only %d changes were tried", runs)
	}
}
