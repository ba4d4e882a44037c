package veneer_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"bifrost.dev/veneer"
)

// The samples print what they are expected to.
func TestSamples(t *testing.T) {
	for _, name := range []string{"auctions", "database", "lists", "points"} {
		t.Run(name, func(t *testing.T) {
			program := filepath.Join("../../examples", name, name+".theta")
			url := veneer.StartProgram(t, program)[0]
			sample := exec.Command(filepath.Join(runtime.GOROOT(), "bin/go"), "run", "./samples/"+name)
			sample.Env = append(os.Environ(), "BIFROST_URL="+url)
			sample.Stderr = os.Stderr
			printed, err := sample.Output()
			if err != nil {
				t.Fatal(err)
			}
			expected, err := os.ReadFile(filepath.Join("samples", name, "expected.txt"))
			if err != nil {
				t.Fatal(err)
			}
			if string(printed) != string(expected) {
				t.Errorf("it printed:\n%s", printed)
			}
		})
	}
}
