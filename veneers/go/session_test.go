package veneer

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// connect opens a session with a server, which ends with the test.
func connect(t *testing.T, url string, options Options) *Session {
	t.Helper()
	s, err := Connect(context.Background(), url, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("the session is not closed: %v", err)
		}
	})
	return s
}

// expectText expects that a claim has a text.
func expectText(t *testing.T, s *Stub, expected string) {
	t.Helper()
	value, err := s.Claim()
	if found, isText := value.Text(); err != nil || !isText || found != expected {
		t.Errorf("found %v, %v, not %q", value, err, expected)
	}
}

// expectInt expects that a claim has an int.
func expectInt(t *testing.T, s *Stub, expected int64) {
	t.Helper()
	value, err := s.Claim()
	if found, isInt := value.Int(); err != nil || !isInt || found != expected {
		t.Errorf("found %v, %v, not %d", value, err, expected)
	}
}

// expectMisuse expects that an error has a misuse in it.
func expectMisuse(t *testing.T, err error, expected Misuse) {
	t.Helper()
	var found *Misused
	if !errors.As(err, &found) || found.Misuse != expected {
		t.Errorf("found %v, not %v", err, expected)
	}
}

func TestASessionOverEachTransport(t *testing.T) {
	urls := startServer(t, "database", "--listen", "tcp://127.0.0.1:0", "--token", "open sesame")
	if len(urls) != 2 {
		t.Fatalf("the server is at %v", urls)
	}
	for _, url := range urls {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		s := connect(t, url, Options{Token: "open sesame", Name: "a test", Trace: trace})
		name := strings.SplitN(url, ":", 2)[0]
		db := s.Lookup("database", "DataBase")
		user := db.Call("DataBase.new_user", TextValue(name))
		user.Do("DataElem.touch")
		visits := user.Call("DataElem.visits")
		expectText(t, db.Call("DataBase.fetch", TextValue(name)).Call("DataElem.name"), name)
		expectInt(t, visits, 1)
		if crossings, commands := s.Counters(); crossings != 1 || commands != 6 {
			t.Errorf("%s: %d commands in %d crossings", url, commands, crossings)
		}
		if err := s.Commit(); err != nil {
			t.Error(err)
		}
	}
}

func TestATokenThatIsWrong(t *testing.T) {
	url := startServer(t, "database", "--listen", "tcp://127.0.0.1:0", "--token", "right")[1]
	for _, token := range []string{"", "wrong"} {
		_, err := Connect(context.Background(), url, Options{Token: token})
		var refused *ConnectError
		var why *ClosedByServer
		if !errors.As(err, &refused) || !errors.As(err, &why) || why.Number != ErrorBadToken {
			t.Errorf("with %q: %v", token, err)
		}
	}
}

func TestFailuresAreErrors(t *testing.T) {
	s := connect(t, startServer(t, "database")[0], Options{})
	db := s.Lookup("database", "DataBase")
	name := db.Call("DataBase.fetch", TextValue("nobody")).Call("DataElem.name")
	_, err := name.Claim()
	var signal *Signal
	if !errors.As(err, &signal) || signal.Name != "not_found" {
		t.Fatalf("found %v", err)
	}
	if !strings.Contains(err.Error(), "session_test.go:") {
		t.Errorf("no place is in %q", err)
	}
	var unhandled *Unhandled
	if !errors.As(err, &unhandled) || unhandled.Argument != 0 {
		t.Errorf("found %v", err)
	}
	if err := s.Commit(); err != nil {
		t.Errorf("a failure that was told prevents a commit: %v", err)
	}
	db.Do("DataBase.fetch", TextValue("nobody else"))
	var unseen *Unseen
	if err := s.Commit(); !errors.As(err, &unseen) || len(unseen.Failures) != 1 {
		t.Errorf("a failure that was not told does not prevent a commit: %v", err)
	}
	db.Do("DataBase.fetch", TextValue("nobody at all"))
	if err := s.Flush(); !errors.As(err, &unseen) || len(unseen.Failures) != 1 {
		t.Errorf("a lost failure is not told: %v", err)
	}
	if entries, omitted := s.Exceptions(); len(entries) != 5 || omitted != 0 {
		t.Errorf("found %v", entries)
	}
	s.ClearExceptions()
	if entries, _ := s.Exceptions(); len(entries) != 0 {
		t.Errorf("found %v", entries)
	}
	if err := s.Abort(); err != nil {
		t.Error(err)
	}
}

func TestMisusesAreFailures(t *testing.T) {
	url := startServer(t, "database")[0]
	s, other := connect(t, url, Options{}), connect(t, url, Options{})
	db := s.Lookup("database", "DataBase")
	user := db.Call("DataBase.new_user", TextValue("yuri"))
	claimed, err := user.Claim()
	if err != nil || !claimed.IsObject() {
		t.Fatalf("found %v, %v", claimed, err)
	}
	gone := s.Value(TextValue("gone"))
	gone.Release()
	for _, test := range []struct {
		argument Operand
		misuse   Misuse
	}{
		{gone, MisuseReleased},
		{claimed, MisuseReleased},
		{TextValue("\xff"), MisuseNotText},
		{CharValue(0xd800), MisuseNotText},
		{other.Value(TextValue("yuri")), MisuseOtherSession},
		{Items{Items{gone}}, MisuseReleased},
	} {
		_, err := db.Call("DataBase.fetch", test.argument).Claim()
		expectMisuse(t, err, test.misuse)
	}
	_, err = gone.Claim()
	expectMisuse(t, err, MisuseReleased)
	var missing *Missing
	for _, stub := range []*Stub{
		db.Call("DataBase.fly"), db.Call("fly"), db.Call("Bird.fly"), s.Routine("fly"),
		s.Lookup("database", "Bird"), db.As("Bird"), db.Is("Bird"),
	} {
		if _, err := stub.Claim(); !errors.As(err, &missing) {
			t.Errorf("found %v", err)
		}
	}
	expectText(t, db.Call("DataBase.fetch", TextValue("yuri")).Call("DataElem.name"), "yuri")
}

func TestContentsAndTypes(t *testing.T) {
	s := connect(t, startServer(t, "database")[0], Options{})
	db := s.Lookup("database", "DataBase")
	for _, name := range []string{"yuri", "yusuf", "zelda"} {
		db.Call("DataBase.new_user", TextValue(name)).Do("DataElem.touch")
	}
	query := Items{TextValue("yu"), IntValue(1)}
	found := db.Call("DataBase.matching", query).Contents()
	isOne, isNone := db.Is("DataBase"), db.Is("directory")
	if _, err := found.Claim(); err != nil {
		t.Fatal(err)
	}
	items, areItems := found.Items()
	if !areItems || len(items) != 2 {
		t.Fatalf("found %d items, %v", len(items), areItems)
	}
	expectText(t, items[0], "yuri")
	expectText(t, items[1], "yusuf")
	for stub, expected := range map[*Stub]bool{isOne: true, isNone: false} {
		value, err := stub.Claim()
		if is, isBool := value.Bool(); err != nil || !isBool || is != expected {
			t.Errorf("found %v, %v", value, err)
		}
	}
	expectText(t, db.As("DataBase").Call("DataBase.fetch", items[0]).Call("DataElem.name"), "yuri")
}

// A batch is sent in pieces, and its results are mapped when there are very many.
func TestManyCalls(t *testing.T) {
	s := connect(t, startServer(t, "database")[0], Options{})
	db := s.Lookup("database", "DataBase")
	user := db.Call("DataBase.new_user", TextValue("yuri"))
	const count = 40_000
	for range count {
		user.Do("DataElem.touch")
	}
	expectInt(t, user.Call("DataElem.visits"), count)
	if crossings, _ := s.Counters(); crossings < 2 || crossings > 5 {
		t.Errorf("there were %d crossings", crossings)
	}
}

func TestAnotherInterface(t *testing.T) {
	own, err := ParseInterface([]byte(generatedInterface(t, "database")))
	if err != nil {
		t.Fatal(err)
	}
	options := Options{Stubs: NewStubs([32]byte{1}, own)}
	s := connect(t, startServer(t, "database_other")[0], options)
	db := s.Lookup("database", "DataBase")
	// The numbers of both are others, in this server.
	_, err = db.Call("DataBase.fetch", TextValue("yuri")).Call("DataElem.name").Claim()
	var signal *Signal
	if !errors.As(err, &signal) || signal.Name != "not_found" {
		t.Errorf("found %v", err)
	}
	var missing *Missing
	if _, err := db.Call("DataBase.new_user", TextValue("yuri")).Claim(); !errors.As(err, &missing) {
		t.Errorf("found %v", err)
	}
}

func TestAClosedSession(t *testing.T) {
	s, err := Connect(context.Background(), startServer(t, "database")[0], Options{})
	if err != nil {
		t.Fatal(err)
	}
	db := s.Lookup("database", "DataBase")
	if s.Err() != nil {
		t.Errorf("found %v", s.Err())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var closed *ClosedByClient
	_, claimed := db.Claim()
	_, called := db.Call("DataBase.fetch", TextValue("yuri")).Claim()
	for _, err := range []error{claimed, called, s.Flush(), s.Commit(), s.Abort(), s.Err()} {
		if !errors.As(err, &closed) {
			t.Errorf("found %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

func TestATraceThatIsNone(t *testing.T) {
	url := startServer(t, "database")[0]
	_, err := Connect(context.Background(), url, Options{Trace: "here"})
	var why *ClosedByServer
	if !errors.As(err, &why) || why.Number != ErrorBadWord {
		t.Errorf("found %v", err)
	}
}

func TestAddressesThatAreNone(t *testing.T) {
	for _, url := range []string{
		"", "database", "unix://relative", "unix:///folder/", "tcp://host", "shm:///x", "quic://h:1",
		"unix:///there/is/no/such/socket",
	} {
		_, err := Connect(context.Background(), url, Options{})
		var refused *ConnectError
		if !errors.As(err, &refused) || refused.Address != url {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// fake starts a server that answers each read with the next one of some texts, and then closes
// the connection or, if it hangs, waits for the end of the test.
func fake(t *testing.T, hangs bool, answers ...[]byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		listener.Close()
	})
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		data := make([]byte, 1<<16)
		for _, answer := range answers {
			if _, err := conn.Read(data); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
		if hangs {
			<-ended
		}
	}()
	return "tcp://" + listener.Addr().String()
}

func TestServersThatAreNone(t *testing.T) {
	welcomed := welcomeOf([32]byte{}, nil, 1, "a fake")
	empty := encodeReply(tree{"interface": `{"types":[],"routines":[]}`})
	for name, answers := range map[string][][]byte{
		"nothing":             nil,
		"garbage":             {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n")},
		"another reply":       {encodeReply("farewell")},
		"two replies":         {append(append([]byte{}, welcomed...), welcomed...)},
		"a part of a reply":   {welcomed[:40]},
		"no interface":        {welcomed, encodeReply("farewell")},
		"a bad interface":     {welcomed, encodeReply("interface")},
		"another version":     {replyOf(opWelcome, 0, 1, welcomed[16:])},
		"a welcome and bytes": {append(append([]byte{}, welcomed...), 1)},
	} {
		_, err := Connect(context.Background(), fake(t, false, answers...), Options{})
		var refused *ConnectError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The last reply is bad; so the session ends with it.
	url := fake(t, false, welcomed, empty, []byte("garbage!"))
	s, err := Connect(context.Background(), url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := s.Value(IntValue(1)).As("x")
	if err := s.Flush(); err == nil || s.Err() != nil {
		t.Errorf("nothing crosses, and a refusal is told: %v, %v", err, s.Err())
	}
	s.ClearExceptions()
	var bad *ClosedByBadReply
	if err := s.Flush(); !errors.As(err, &bad) || !errors.As(s.Err(), &bad) {
		t.Errorf("found %v", err)
	}
	if _, err := value.Claim(); err == nil {
		t.Error("a refused call has a value")
	}
}

func TestAServerThatSaysNothing(t *testing.T) {
	started := time.Now()
	_, err := Connect(context.Background(), fake(t, true), Options{Timeout: 50 * time.Millisecond})
	var timedOut net.Error
	if !errors.As(err, &timedOut) || !timedOut.Timeout() {
		t.Errorf("found %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, fake(t, true), Options{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("found %v", err)
	}
	if took := time.Since(started); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestTheLastWordsOfAServer(t *testing.T) {
	welcomed := welcomeOf([32]byte{}, nil, 1, "a fake")
	empty := encodeReply(tree{"interface": `{"types":[],"routines":[]}`})
	end := encodeReply(tree{"error": tree{
		"number": plain(uint32(ErrorExpired)), "position": plain(0), "text": "idle for too long",
	}})
	url := fake(t, false, welcomed, append(append([]byte{}, empty...), end...))
	_, err := Connect(context.Background(), url, Options{})
	var wrong *ClosedByWrongReply
	if !errors.As(err, &wrong) {
		t.Errorf("found %v", err)
	}
	s, err := Connect(context.Background(), fake(t, false, welcomed, empty, end), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.ClearExceptions()
	var why *ClosedByServer
	if err := s.Flush(); !errors.As(err, &why) || why.Number != ErrorExpired {
		t.Errorf("found %v", err)
	}
}
