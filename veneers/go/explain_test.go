package veneer

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unhex returns the bytes of words in hexadecimal digits.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readJSON reads a file.
func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// All commands have the lines that they have in other languages.
func TestExplainedCommands(t *testing.T) {
	var rows []struct{ Commands, Case, Lines string }
	readJSON(t, "../../vectors/explained.json", &rows)
	if len(rows) < 100 {
		t.Fatalf("there are %d explanations", len(rows))
	}
	explained := func(described string, data []byte) string {
		text, err := os.ReadFile(described)
		if err != nil {
			t.Fatal(err)
		}
		names, err := ParseInterface(text)
		if err != nil {
			t.Fatal(err)
		}
		e := explainer{names: names, variables: map[int]bool{}}
		lines, rest := e.whole(data)
		if rest > 0 {
			t.Errorf("%d bytes are no whole command", rest)
		}
		return lines
	}
	for _, row := range rows {
		found := ""
		if row.Case == "" {
			found = explained("../../vectors/interface.json", unhex(t, row.Commands))
		} else {
			var one struct {
				Interface       string
				ServerInterface string `json:"server_interface"`
				Crossings       []struct{ Sent []string }
			}
			readJSON(t, filepath.Join(casesFolder, "generated", row.Case), &one)
			if one.ServerInterface != "" {
				one.Interface = one.ServerInterface
			}
			var data []byte
			for _, crossing := range one.Crossings {
				for _, piece := range crossing.Sent {
					data = append(data, unhex(t, piece)...)
				}
			}
			file := filepath.Join(casesFolder, "generated", one.Interface+".interface.json")
			found = explained(file, data)
		}
		if found != row.Lines {
			t.Errorf("%s%s: found\n%snot\n%s", row.Commands, row.Case, found, row.Lines)
		}
	}
}

func TestValuesInTheTextForm(t *testing.T) {
	for text, value := range map[string]Value{
		"1.0": RealValue(1), "-0.0": RealValue(math.Copysign(0, -1)), "1e16": RealValue(1e16),
		"1.5e-5": RealValue(1.5e-5), "0.0001": RealValue(0.0001), "NaN": RealValue(math.NaN()),
		"-inf": RealValue(math.Inf(-1)), `"a\"b\n\\\u{1b}"`: TextValue("a\"b\n\\\x1b"),
		`'\''`: CharValue('\''), "nil": NilValue(), `x"00ff"`: BytesValue([]byte{0, 255}),
	} {
		if found := showValue(value); found != text {
			t.Errorf("found %s, not %s", found, text)
		}
	}
}

func TestTheRecordedBatchIsExplained(t *testing.T) {
	s := connect(t, startServer(t, "database")[0], Options{})
	db := s.Lookup("database", "DataBase")
	visits := db.Call("DataBase.fetch", TextValue("eve")).Call("DataElem.visits")
	const expected = `# batch 1: 3 commands, not sent
@1 := lookup database: DataBase
@2 := @1.fetch("eve")
@3 := @2.visits()
`
	if found := s.Explain(); found != expected {
		t.Errorf("found\n%s", found)
	}
	expectInt(t, visits, 0)
	if found := s.Explain(); found != "# batch 2: nothing is recorded\n" {
		t.Errorf("found\n%s", found)
	}
	// The begin of a long batch is at the server already; numbers go on.
	const count = 400
	for range count {
		db.Do("DataBase.loop_fetch", TextValue("eve"), IntValue(0))
	}
	found := s.Explain()
	if !strings.Contains(found, "bytes before, which the server has already\n") ||
		!strings.Contains(found, "@400 := h1.loop_fetch(\"eve\", 0)\n") {
		t.Errorf("found\n%s", found)
	}
}

func TestProfiles(t *testing.T) {
	s := connect(t, startServer(t, "database")[0], Options{})
	if err := s.Profile(true); err != nil {
		t.Fatal(err)
	}
	expectInt(t, s.Lookup("database", "DataBase").Call("DataBase.fetch", TextValue("eve")).Call("DataElem.visits"), 0)
	if profile := s.LastProfile(); profile == nil || len(profile.Entries) == 0 {
		t.Errorf("found %v", profile)
	}
	if err := s.Profile(false); err != nil {
		t.Fatal(err)
	}
	s.core.bounds.hasProfiles = false
	if err := s.Profile(true); !errors.Is(err, ErrNoProfiles) {
		t.Errorf("found %v", err)
	}
}
