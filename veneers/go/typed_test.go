package veneer_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	bf "bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/actors"
	"bifrost.dev/veneer/internal/stubs/conformance"
	"bifrost.dev/veneer/internal/stubs/database"
)

// This file has what the tests of the typed layer have in common.

// open opens a session with a server, which is closed with the test.
func open(
	t *testing.T, connect func(context.Context, string, ...bf.Options) (*bf.Session, error), url string,
) *bf.Session {
	t.Helper()
	s, err := connect(context.Background(), url, bf.Options{Places: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// probe returns a session with a server of conformance.theta, and the object with the name probe.
func probe(t *testing.T, settings ...string) (*bf.Session, conformance.Probe) {
	t.Helper()
	s := open(t, conformance.Connect, serve(t, "conformance", settings...))
	return s, conformance.LookupProbe(s, "probe")
}

// people returns a session with a server of database.theta, and the database.
func people(t *testing.T) (*bf.Session, database.DataBase) {
	t.Helper()
	s := open(t, database.Connect, serve(t, "database"))
	return s, database.LookupDataBase(s, "database")
}

// adder returns a session with a server of actors.theta, and its actor.
func adder(t *testing.T) (*bf.Session, actors.Adder) {
	t.Helper()
	s := open(t, actors.Connect, serve(t, "actors"))
	return s, actors.LookupAdder(s, "adder")
}

// serve starts a server with settings, and returns its address.
func serve(t *testing.T, program string, settings ...string) string {
	t.Helper()
	var arguments []string
	for _, setting := range settings {
		arguments = append(arguments, "--set", setting)
	}
	return bf.StartServer(t, program, arguments...)[0]
}

// claim is a result that can be claimed.
type claim[V any] interface{ Claim() (V, error) }

// want expects that a claim has a value.
func want[V any](t *testing.T, result claim[V], expected V) {
	t.Helper()
	if found, err := result.Claim(); err != nil || !reflect.DeepEqual(found, expected) {
		t.Errorf("found %v, %v, not %v", found, err, expected)
	}
}

// done expects that there is no error.
func done(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// fails expects that a claim fails with an error of a class, and returns that.
func fails[E error, V any](t *testing.T, result claim[V]) (found E) {
	t.Helper()
	_, err := result.Claim()
	return is[E](t, err)
}

// is expects an error of a class, and returns that.
func is[E error](t *testing.T, err error) (found E) {
	t.Helper()
	if !errors.As(err, &found) {
		t.Fatalf("found %v", err)
	}
	return found
}

// signals expects that a claim fails with a signal.
func signals[V any](t *testing.T, result claim[V], name string) {
	t.Helper()
	if signal := fails[*bf.Signal](t, result); signal.Name != name {
		t.Errorf("found %v, not %s", signal, name)
	}
}

// refused expects that an error is one of the server.
func refused(t *testing.T, err error, number bf.ErrorNumber) {
	t.Helper()
	if found := is[*bf.Refused](t, err); found.Number != number {
		t.Errorf("found %v, not %v", found, number)
	}
}

// misused expects that an error is a misuse.
func misused(t *testing.T, err error, misuse bf.Misuse) {
	t.Helper()
	if found := is[*bf.Misused](t, err); found.Misuse != misuse {
		t.Errorf("found %v, not %v", found, misuse)
	}
}

// crossed expects so many crossings.
func crossed(t *testing.T, s *bf.Session, expected uint64) {
	t.Helper()
	if crossings, _ := s.Counters(); crossings != expected {
		t.Errorf("there were %d crossings, not %d", crossings, expected)
	}
}

// history expects the signals in the history, each with its rounds.
func history(t *testing.T, s *bf.Session, names []string, rounds ...[]uint32) {
	t.Helper()
	var found []string
	entries, _ := s.Exceptions()
	for index, entry := range entries {
		signal := is[*bf.Signal](t, entry.Failure)
		found = append(found, signal.Name)
		if index < len(rounds) && !slices.Equal(signal.Call.Rounds, rounds[index]) {
			t.Errorf("%s is of the rounds %v", signal.Name, signal.Call.Rounds)
		}
	}
	if !slices.Equal(found, names) {
		t.Errorf("the history is %v, not %v", found, names)
	}
}

// panics expects that a function panics with a text.
func panics(t *testing.T, text string, do func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if said, _ := recover().(string); !strings.Contains(said, text) {
			t.Errorf("it panics with %q", said)
		}
	}()
	do()
}

// equal expects that two values are equal.
func equal(t *testing.T, found, expected any) {
	t.Helper()
	if !reflect.DeepEqual(found, expected) {
		t.Errorf("found %v, not %v", found, expected)
	}
}
