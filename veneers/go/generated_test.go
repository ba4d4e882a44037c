package veneer_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	bf "bifrost.dev/veneer"
)

// Stubs of all kinds of programs are in the form of gofmt, and pass go vet.
func TestStubsOfAllPrograms(t *testing.T) {
	library, err := filepath.Abs(".")
	done(t, err)
	project := t.TempDir()
	text, err := os.ReadFile("go.mod")
	done(t, err)
	// The project has what the library needs, and the library in this folder.
	needs := strings.Replace(string(text), "module bifrost.dev/veneer", "module example.com/stubs", 1)
	needs += "\nrequire bifrost.dev/veneer v0.0.0\n\nreplace bifrost.dev/veneer => " + library + "\n"
	done(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte(needs), 0o644))
	sums, err := os.ReadFile("go.sum")
	done(t, err)
	done(t, os.WriteFile(filepath.Join(project, "go.sum"), sums, 0o644))
	programs := []string{"testdata/unusual.theta", "../../crates/trader/trader.theta"}
	for _, name := range []string{
		"bags", "boards", "catalogue", "inventory", "packages", "routes", "scores", "supervised", "trees",
	} {
		programs = append(programs, filepath.Join("../../examples", name, name+".theta"))
	}
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".theta")
		folder := filepath.Join(project, name)
		run(t, "", bf.ServerBinary(t), "veneer", "--lang", "go", program, "-o", folder)
		made, err := os.ReadFile(filepath.Join(folder, "bifrost_stubs.go"))
		done(t, err)
		formatted, err := format.Source(made)
		done(t, err)
		if string(formatted) != string(made) {
			t.Errorf("the stubs of %s are not in the form of gofmt", program)
		}
	}
	run(t, project, filepath.Join(runtime.GOROOT(), "bin/go"), "vet", "-mod=mod", "./...")
}

// run runs a program in a folder, which has to succeed.
func run(t *testing.T, folder, program string, arguments ...string) {
	t.Helper()
	command := exec.Command(program, arguments...)
	command.Dir = folder
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, said)
	}
}
