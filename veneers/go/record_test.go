package veneer_test

import (
	"context"
	"testing"

	"bifrost.dev/veneer"
	"bifrost.dev/veneer/internal/stubs/conformance"
)

// probeOf opens a session with a server of the conformance program.
func probeOf(t testing.TB) (*veneer.Session, conformance.Probe) {
	t.Helper()
	s, err := conformance.Connect(context.Background(), veneer.StartServer(t, "conformance")[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	probe := conformance.LookupProbe(s, "probe")
	if err := probe.Resolve(); err != nil {
		t.Fatal(err)
	}
	return s, probe
}

// The calls of a batch that is sent in one piece.
const callsOfTest = 100

func BenchmarkRecord(b *testing.B) {
	s, probe := probeOf(b)
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= callsOfTest {
		scope := s.Scope()
		for number := range int64(min(left, callsOfTest)) {
			probe.SameInt(number)
		}
		b.StopTimer()
		scope.Close()
		if err := s.Flush(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func BenchmarkPair(b *testing.B) {
	_, probe := probeOf(b)
	b.ReportAllocs()
	for number := range int64(b.N) {
		promise := probe.SameInt(number)
		if _, err := promise.Claim(); err != nil {
			b.Fatal(err)
		}
		promise.Release()
	}
}
