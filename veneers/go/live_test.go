package veneer

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// serverBinary returns the server's program: that of BIFROST_BIN, or the one of the checkout.
func serverBinary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("BIFROST_BIN")
	if name == "" {
		name = "../../target/debug/bifrost"
	}
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no server to test with, set BIFROST_BIN: %v", err)
	}
	return path
}

// startServer starts a server for a program of the cases, at a unix socket and where the arguments
// say; it ends with the test. FOLDER in an argument is a folder of its own. It returns the server's
// addresses.
func startServer(t testing.TB, program string, arguments ...string) []string {
	t.Helper()
	return startProgram(t, filepath.Join(casesFolder, "programs", program+".theta"), arguments...)
}

// startProgram is startServer for the program of a file.
func startProgram(t testing.TB, program string, arguments ...string) []string {
	t.Helper()
	// The path of a socket has at most 108 bytes.
	folder, err := os.MkdirTemp("", "bifrost-go-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	file, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"serve", "--listen", "unix://" + folder + "/socket"}, arguments...)
	for index := range all {
		all[index] = strings.ReplaceAll(all[index], "FOLDER", folder)
	}
	server := exec.Command(serverBinary(t), append(all, file)...)
	server.Dir = folder
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "BIFROST_") {
			server.Env = append(server.Env, entry)
		}
	}
	server.Env = append(server.Env, "XDG_STATE_HOME="+folder)
	var said strings.Builder
	server.Stderr = &said
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// It may have ended by itself, which a signal finds out.
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("the server has ended: %v", err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("the server failed: %v: %s", err, said.String())
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "ready ") {
		t.Fatalf("the server did not start: %q, %v: %s", line, err, said.String())
	}
	return strings.Fields(line)[1:]
}

// StartServer is startServer for tests that see the package from outside.
var StartServer = startServer

// ServerBinary is serverBinary for them.
var ServerBinary = serverBinary

// StartProgram is startProgram for them.
var StartProgram = startProgram

// live is a source that is a server.
type live struct {
	t       testing.TB
	machine *machine
	conn    net.Conn
	came    []byte
}

func newLive(t testing.TB, url string) *live {
	t.Helper()
	conn, err := net.Dial("unix", strings.TrimPrefix(url, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &live{t: t, conn: conn}
}

func (s *live) write(data []byte) error {
	if err := s.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	_, err := s.conn.Write(data)
	return err
}

func (s *live) read() ([]byte, error) {
	data := make([]byte, 1<<16)
	count, err := s.conn.Read(data)
	return data[:count], err
}

// The stubs have no digest of a server, so its interface is asked for, and has the same numbers.
func (s *live) greet(g *greeting) (*recorder, error) {
	for {
		if err := s.write(g.takeBytes()); err != nil {
			return nil, err
		}
		data, err := s.read()
		if err != nil {
			return nil, err
		}
		core, err := g.handleBytes(data)
		if core != nil || err != nil {
			return core, err
		}
	}
}

func (s *live) sent(data []byte) {
	if err := s.write(data); err != nil {
		s.t.Errorf("bytes cannot be sent: %v", err)
	}
}

func (s *live) reply(int) []byte {
	if len(s.machine.replies) > 0 {
		// The stream ends in its place.
		s.conn.Close()
		return nil
	}
	for {
		_, length, err := decodeReply(string(s.came), replyBytesMax)
		if err == nil {
			whole := s.came[:length:length]
			s.came = s.came[length:]
			return whole
		}
		var need *needError
		if !errors.As(err, &need) {
			s.t.Errorf("the server sent no reply: %v", err)
			return nil
		}
		data, err := s.read()
		if err != nil {
			s.t.Errorf("the server has ended the session: %v", err)
			return nil
		}
		s.came = append(s.came, data...)
	}
}

// liveMachines returns a machine for each session of a case, connected to a server.
func liveMachines(t *testing.T, test tree) map[string]*machine {
	t.Helper()
	var settings []string
	for _, setting := range list(test["set"]) {
		settings = append(settings, "--set", text(setting))
	}
	url := startServer(t, text(test["program"]), settings...)[0]
	c := newClient(t, generatedInterface(t, test["interface"]))
	machines := map[string]*machine{}
	for name := range sessionsOf(test) {
		from := newLive(t, url)
		machines[name] = newMachine(t, c, test, cut{}, from)
		from.machine = machines[name]
	}
	return machines
}

func TestCasesAreLive(t *testing.T) {
	for _, test := range generatedCases(t) {
		t.Run(text(test["case"]), func(t *testing.T) {
			play(t, test, liveMachines(t, test))
		})
	}
}

// tagsOfBatches are the tags of cases that are about batches: with a flush after each step they
// are others.
var tagsOfBatches = []any{
	"closed", "counters", "growth", "leave", "limits", "misuse", "not_reached", "overlap",
	"remap_many", "rounds", "rows", "transaction", "unseen",
}

// withoutNumbers returns a result without the parts that count commands and batches.
func withoutNumbers(part any) any {
	switch part := part.(type) {
	case []any:
		out := []any{}
		for _, inner := range part {
			out = append(out, withoutNumbers(inner))
		}
		return out
	case tree:
		out := tree{}
		for name, inner := range part {
			switch name {
			case "number", "place", "rounds":
			case "handle":
				out[name] = "object"
			default:
				out[name] = withoutNumbers(inner)
			}
		}
		return out
	}
	return part
}

// claims returns the results of the claims of a case.
func claims(t *testing.T, test tree, results any) any {
	t.Helper()
	script := list(test["script"])
	found := []any{}
	for _, part := range list(results) {
		entry := list(part)
		step := script[number(entry[0])-1].(tree)
		if step["claim"] != nil || step["read_rows"] != nil {
			found = append(found, withoutNumbers(entry[1:]))
		}
	}
	return found
}

func TestCasesAreEvaluated(t *testing.T) {
	count := 0
	for _, test := range generatedCases(t) {
		isOfBatches := func(tag any) bool { return slices.Contains(tagsOfBatches, tag) }
		if slices.ContainsFunc(list(test["covers"]), isOfBatches) {
			continue
		}
		count++
		t.Run(text(test["case"]), func(t *testing.T) {
			machines := liveMachines(t, test)
			evaluate(t, test, machines)
			for name, expected := range sessionsOf(test) {
				found := claims(t, test, machines[name].finish()["results"])
				if wanted := claims(t, test, expected["results"]); !reflect.DeepEqual(found, wanted) {
					t.Errorf("%s:\nfound %s\nnot   %s", name, written(found), written(wanted))
				}
			}
		})
	}
	if count < 40 {
		t.Errorf("only %d cases were evaluated", count)
	}
}

// evaluate runs the steps with a flush after each.
func evaluate(t *testing.T, test tree, machines map[string]*machine) {
	t.Helper()
	script := list(test["script"])
	for index, part := range script {
		m := machines[text(part.(tree)["session"])]
		m.take(index+1, part.(tree))
		// A further block follows its structure directly.
		goesOn := index+1 < len(script) && script[index+1].(tree)["reopen"] != nil
		r := m.recorder
		if len(r.scopes) > 0 || r.isShipping || r.broken != nil || goesOn {
			continue
		}
		if wrong := m.flush(); wrong != nil {
			t.Fatalf("the flush behind step %d: %v", index+1, wrong)
		}
	}
}
