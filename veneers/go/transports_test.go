package veneer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// wait is the time in which tests of time limits must be over.
const wait = 10 * time.Second

// anywhere are the arguments of a server that listens at each transport.
func anywhere(schemes ...string) []string {
	var arguments []string
	for _, scheme := range schemes {
		place := "127.0.0.1:0"
		if scheme == "shm" {
			place = "FOLDER/shm"
		}
		arguments = append(arguments, "--listen", scheme+"://"+place)
	}
	return arguments
}

// everywhere are the transports besides unix sockets.
func everywhere() []string {
	all := []string{"tcp", "tls", "ws", "wss"}
	if hasShm {
		all = append(all, "shm")
	}
	return all
}

// makeCertificate makes the certificate of a name, and the authority if the folder has none.
func makeCertificate(t *testing.T, folder, name string, more ...string) {
	t.Helper()
	arguments := append([]string{"certificate", "--name", name, "-o", folder}, more...)
	if authority := filepath.Join(folder, "ca.pem"); exists(authority) {
		arguments = append(arguments, "--ca", authority)
	}
	if out, err := exec.Command(serverBinary(t), arguments...).CombinedOutput(); err != nil {
		t.Fatalf("there is no certificate: %v: %s", err, out)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// refusedWith expects that no session is opened, and that the error has a text.
func refusedWith(t *testing.T, url string, o Options, text string) {
	t.Helper()
	s, err := Connect(context.Background(), url, o)
	if err == nil {
		s.Close()
		t.Errorf("a session with %s is open", url)
		return
	}
	var refused *ConnectError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: found %v, not %q", url, err, text)
	}
}

// visitOver expects that a session over a transport works.
func visitOver(t *testing.T, url string, o Options) {
	t.Helper()
	s := connect(t, url, o)
	name := strings.SplitN(url, ":", 2)[0] + t.Name()
	db := s.Lookup("database", "DataBase")
	user := db.Call("DataBase.new_user", TextValue(name))
	user.Do("DataElem.touch")
	visits := user.Call("DataElem.visits")
	expectText(t, db.Call("DataBase.fetch", TextValue(name)).Call("DataElem.name"), name)
	expectInt(t, visits, 1)
	// A word that fills many records and messages, in both directions.
	long := strings.Repeat("0123456789abcdef", 20_000)
	value, err := db.Call("DataBase.new_user", TextValue(long)).Call("DataElem.name").Claim()
	if found, _ := value.Text(); err != nil || found != long {
		t.Errorf("%s: found %d bytes, %v", url, len(found), err)
	}
	if crossings, commands := s.Counters(); crossings != 2 || commands != 8 {
		t.Errorf("%s: %d commands in %d crossings", url, commands, crossings)
	}
	if err := s.Abort(); err != nil {
		t.Error(err)
	}
}

func TestSessionsOverAllTransports(t *testing.T) {
	arguments := append(anywhere(everywhere()...), "--token", "open sesame")
	urls := startServer(t, "database", arguments...)
	if len(urls) != 1+len(everywhere()) {
		t.Fatalf("the server is at %v", urls)
	}
	for _, url := range urls {
		visitOver(t, url, Options{Token: "open sesame"})
		if !strings.HasPrefix(url, "unix:") && !strings.HasPrefix(url, "shm:") {
			refusedWith(t, url, Options{Token: "wrong"}, "BadToken")
			refusedWith(t, url, Options{}, "BadToken")
		}
		place, pin, hasPin := strings.Cut(url, "#")
		if !hasPin {
			continue
		}
		// Nobody has signed the server's certificate: the error has the pin.
		refusedWith(t, place, Options{Token: "open sesame"}, pin)
		other := place + "#" + pin[:len(pin)-10] + "AAAAAAAAAA"
		refusedWith(t, other, Options{Token: "open sesame"}, errAnotherKey.Error())
		refusedWith(t, url, Options{Authorities: "/etc/hosts"}, "trusts this key alone")
	}
}

func TestAuthoritiesOfServersAndClients(t *testing.T) {
	folder, others := t.TempDir(), t.TempDir()
	makeCertificate(t, folder, "localhost")
	makeCertificate(t, folder, "client.example", "--client")
	makeCertificate(t, others, "client.example", "--client")
	in := func(file string) string { return filepath.Join(folder, file) }
	arguments := append(anywhere("tls", "wss"), "--anonymous-loopback",
		"--certificate", in("localhost.pem"), "--key", in("localhost-key.pem"),
		"--set", "tls.clients="+in("ca.pem"), "--set", "tls.required=true")
	urls := startServer(t, "database", arguments...)
	good := Options{
		Authorities: in("ca.pem"), Certificate: in("client.example.pem"),
		Key: in("client.example-key.pem"), Timeout: wait,
	}
	with := func(change func(*Options)) Options {
		changed := good
		change(&changed)
		return changed
	}
	for _, url := range urls[1:] {
		address, _, _ := strings.Cut(url, "#")
		named := strings.Replace(address, "127.0.0.1", "localhost", 1)
		visitOver(t, named, good)
		refusedWith(t, address, good, "127.0.0.1")
		refusedWith(t, named, with(func(o *Options) { o.Certificate, o.Key = "", "" }), "certificate")
		refusedWith(t, named, with(func(o *Options) {
			o.Certificate = filepath.Join(others, "client.example.pem")
			o.Key = filepath.Join(others, "client.example-key.pem")
		}), "certificate")
		refusedWith(t, named, with(func(o *Options) {
			o.Authorities = filepath.Join(others, "ca.pem")
		}), "sha256-")
		for text, change := range map[string]func(*Options){
			"no such file":             func(o *Options) { o.Authorities = in("nothing.pem") },
			"there are no certificate": func(o *Options) { o.Authorities = in("client.example-key.pem") },
			"needs its key":            func(o *Options) { o.Key = "" },
			"cannot be used":           func(o *Options) { o.Key = in("localhost-key.pem") },
			"longer than":              func(o *Options) { o.Authorities = longFile(t) },
		} {
			refusedWith(t, named, with(change), text)
		}
		t.Setenv(authoritiesVariable, in("ca.pem"))
		visitOver(t, named, with(func(o *Options) { o.Authorities = "" }))
		t.Setenv(authoritiesVariable, filepath.Join(others, "ca.pem"))
		refusedWith(t, named, with(func(o *Options) { o.Authorities = "" }), "sha256-")
	}
}

// longFile returns the name of a file that is too long for one of certificates.
func longFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "long.pem")
	if err := os.WriteFile(file, make([]byte, certificateBytesMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAServerThatIsFull(t *testing.T) {
	arguments := append(anywhere(everywhere()...), "--anonymous-loopback",
		"--set", "sessions_max=1")
	urls := startServer(t, "database", arguments...)
	connect(t, urls[0], Options{})
	for _, url := range urls {
		_, err := Connect(context.Background(), url, Options{})
		var why *ClosedByServer
		if !errors.As(err, &why) || why.Number != ErrorTooManySessions {
			t.Errorf("%s: found %v", url, err)
		}
	}
}

// relay is a proxy for one server. Each connection to it gets at most so many bytes of the server;
// then it is cut, or hangs.
type relay struct {
	left  atomic.Int64
	hangs bool
	host  string
}

// startRelay starts a proxy that ends with the test. It returns the address to connect to.
func startRelay(t *testing.T, url string, hangs bool, left int64) (*relay, string) {
	t.Helper()
	scheme, rest, _ := strings.Cut(url, "://")
	place, pin, _ := strings.Cut(rest, "#")
	network := "tcp"
	if scheme == "unix" {
		network = "unix"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{hangs: hangs, host: listener.Addr().String()}
	r.left.Store(left)
	over := make(chan struct{})
	t.Cleanup(func() {
		close(over)
		listener.Close()
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, place)
			if err != nil {
				near.Close()
				continue
			}
			go func() {
				// The end of either side is the end of both.
				_, _ = io.Copy(far, near)
				far.Close()
			}()
			go r.back(near, far, over)
		}
	}()
	if network == "unix" {
		return r, "tcp://" + r.host
	}
	if pin != "" {
		pin = "#" + pin
	}
	return r, scheme + "://" + r.host + pin
}

func (r *relay) back(near, far net.Conn, over chan struct{}) {
	defer near.Close()
	defer far.Close()
	data := make([]byte, 4096)
	for {
		count, err := far.Read(data)
		left := r.left.Add(int64(-count))
		if _, wrong := near.Write(data[:max(0, min(count, count+int(left)))]); wrong != nil || err != nil {
			return
		}
		if left <= 0 {
			if r.hangs {
				<-over
			}
			return
		}
	}
}

func TestAConnectionThatIsCutOrHangs(t *testing.T) {
	arguments := append(anywhere("tcp", "tls", "ws", "wss"), "--anonymous-loopback")
	for _, url := range startServer(t, "database", arguments...) {
		for _, hangs := range []bool{false, true} {
			r, address := startRelay(t, url, hangs, 1<<40)
			s, err := Connect(context.Background(), address, Options{Timeout: 300 * time.Millisecond})
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			// The answer ends in its middle.
			db := s.Lookup("database", "DataBase")
			name := db.Call("DataBase.new_user", TextValue(strings.Repeat("x", 5000))).Call("DataElem.name")
			r.left.Store(1000)
			started := time.Now()
			_, err = name.Claim()
			var closed *ClosedByConnection
			if !errors.As(err, &closed) || !errors.As(s.Err(), &closed) {
				t.Errorf("%s: found %v", url, err)
			}
			var late net.Error
			if isLate := errors.As(err, &late) && late.Timeout(); isLate != hangs {
				t.Errorf("%s: found %v", url, err)
			}
			if took := time.Since(started); took > wait/2 {
				t.Errorf("%s: it took %v", url, took)
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s: %v", url, err)
			}
		}
		// Every greeting that is cut, or hangs.
		for _, hangs := range []bool{false, true} {
			for _, left := range []int64{1, 20, 150} {
				_, address := startRelay(t, url, hangs, left)
				refusedWith(t, address, Options{Timeout: 200 * time.Millisecond}, "")
			}
		}
	}
}

func TestServersThatAreSilent(t *testing.T) {
	for _, scheme := range []string{"tcp", "tls", "ws", "wss"} {
		url := strings.Replace(fake(t, true), "tcp:", scheme+":", 1)
		started := time.Now()
		_, err := Connect(context.Background(), url, Options{Timeout: 50 * time.Millisecond})
		var late net.Error
		if !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("%s: found %v", scheme, err)
		}
		url = strings.Replace(fake(t, true), "tcp:", scheme+":", 1)
		ctx, cancel := context.WithCancelCause(context.Background())
		stop := errors.New("enough")
		time.AfterFunc(50*time.Millisecond, func() { cancel(stop) })
		if _, err = Connect(ctx, url, Options{}); !errors.Is(err, context.Canceled) && !errors.Is(err, stop) {
			t.Errorf("%s: found %v", scheme, err)
		}
		if took := time.Since(started); took > wait {
			t.Errorf("%s: it took %v", scheme, took)
		}
	}
}

func TestAReplyThatIsTooLong(t *testing.T) {
	arguments := append(anywhere(everywhere()...), "--anonymous-loopback")
	for _, url := range startServer(t, "database", arguments...) {
		s, err := Connect(context.Background(), url, Options{ReplyBytesMax: 30_000})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		db := s.Lookup("database", "DataBase")
		short := db.Call("DataBase.new_user", TextValue("short"))
		expectText(t, short.Call("DataElem.name"), "short")
		long := db.Call("DataBase.new_user", TextValue(strings.Repeat("x", 40_000)))
		_, err = long.Call("DataElem.name").Claim()
		var bad *ClosedByBadReply
		if !errors.As(err, &bad) || !errors.As(s.Err(), &bad) {
			t.Errorf("%s: found %v", url, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// webFake starts a server of websockets, which ends with the test. It returns its address.
func webFake(t *testing.T, protocols []string, then func(*websocket.Conn, net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	raw := make(chan net.Conn, 1)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: protocols})
			if err == nil {
				then(conn, <-raw)
			}
		}),
		ConnState: func(conn net.Conn, state http.ConnState) {
			if state == http.StateNew {
				raw <- conn
			}
		},
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	return "ws://" + listener.Addr().String() + "/there"
}

func TestWebsocketsThatAreNone(t *testing.T) {
	ctx := context.Background()
	welcomed := welcomeOf([32]byte{}, nil, 1, "a fake")
	empty := encodeReply(tree{"interface": `{"types":[],"routines":[]}`})
	hello := func(conn *websocket.Conn) {
		if _, _, err := conn.Read(ctx); err != nil {
			t.Error(err)
		}
	}
	for name, then := range map[string]func(*websocket.Conn, net.Conn){
		"text": func(conn *websocket.Conn, _ net.Conn) {
			hello(conn)
			_ = conn.Write(ctx, websocket.MessageText, welcomed)
		},
		"a long message": func(conn *websocket.Conn, _ net.Conn) {
			hello(conn)
			_ = conn.Write(ctx, websocket.MessageBinary, make([]byte, webMessageBytes+1))
		},
		"a frame of a reserved kind": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			_, _ = raw.Write([]byte{0x83, 0})
		},
		"a frame with reserved bits": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			_, _ = raw.Write([]byte{0xc2, 1, 0})
		},
		"a frame that goes on with nothing": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			_, _ = raw.Write([]byte{0x80, 1, 0})
		},
		"a ping that is too long": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			_, _ = raw.Write(append([]byte{0x89, 126, 0, 126}, make([]byte, 126)...))
		},
		"a frame of many exabytes": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			_, _ = raw.Write(bytes.Repeat([]byte{0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 9))
			raw.Close()
		},
		"a close": func(conn *websocket.Conn, _ net.Conn) {
			hello(conn)
			_ = conn.Close(websocket.StatusGoingAway, "going")
		},
		"an end": func(conn *websocket.Conn, raw net.Conn) {
			hello(conn)
			raw.Close()
		},
	} {
		url := webFake(t, []string{webSubprotocol}, then)
		started := time.Now()
		_, err := Connect(ctx, url, Options{Timeout: wait})
		var refused *ConnectError
		if !errors.As(err, &refused) || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(started); took > wait/2 {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	// The pieces of a reply come in any messages, with pings between them.
	url := webFake(t, []string{webSubprotocol}, func(conn *websocket.Conn, _ net.Conn) {
		hello(conn)
		reading := conn.CloseRead(ctx)
		_ = reading
		for _, one := range welcomed {
			_ = conn.Write(ctx, websocket.MessageBinary, nil)
			_ = conn.Write(ctx, websocket.MessageBinary, []byte{one})
		}
	})
	_, err := Connect(ctx, url, Options{Timeout: 500 * time.Millisecond})
	if err == nil {
		t.Error("a server that describes nothing is none")
	}
	pings := make(chan error, 1)
	url = webFake(t, []string{webSubprotocol}, func(conn *websocket.Conn, _ net.Conn) {
		hello(conn)
		_ = conn.Write(ctx, websocket.MessageBinary, welcomed)
		hello(conn)
		for _, one := range empty {
			_ = conn.Write(ctx, websocket.MessageBinary, nil)
			_ = conn.Write(ctx, websocket.MessageBinary, []byte{one})
		}
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		go func() { _, _, _ = conn.Read(limited) }()
		// A session that does nothing answers.
		pings <- conn.Ping(limited)
	})
	s, err := Connect(ctx, url, Options{Timeout: wait})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-pings; err != nil {
		t.Errorf("a ping is not answered: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnswersThatOpenNoWebsocket(t *testing.T) {
	refusedWith(t, webFake(t, nil, func(*websocket.Conn, net.Conn) {}), Options{}, webSubprotocol)
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\n\r\n",
		"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
			"Sec-WebSocket-Accept: none\r\nSec-WebSocket-Protocol: bifrost.1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", webHeadBytes) + "\r\n\r\n",
		"SSH-2.0-there\r\n", "\x00\xff",
	} {
		url := strings.Replace(fake(t, false, []byte(answer)), "tcp:", "ws:", 1)
		refusedWith(t, url, Options{Timeout: wait}, "")
		// Bytes that are no TLS.
		url = strings.Replace(fake(t, false, []byte(answer)), "tcp:", "tls:", 1)
		refusedWith(t, url, Options{Timeout: wait}, "tls")
	}
}

func TestAddresses(t *testing.T) {
	pin := "#sha256-tTl2qXIwWigR3YLgkbIO1HBIKBLSVHkASjaLDEn1nu0"
	for text, expected := range map[string]string{
		"unix:///a/b": "unix /a/b", "shm:///a": "shm /a", "tcp://host:1": "tcp host:1", "tcp://[::1]:7447": "tcp [::1]:7447",
		"ws://host": "ws host:80/", "ws://host:8": "ws host:8/", "wss://host/a/b": "wss host:443/a/b",
		"wss://[::1]/a" + pin: "wss [::1]:443/a", "tls://host:65535" + pin: "tls host:65535",
	} {
		a, err := parseAddress(text)
		found := a.scheme + " " + a.path
		if !a.isLocal() {
			found = a.scheme + " " + a.place() + a.path
		}
		if err != nil || found != expected || strings.Contains(text, "#") != (len(a.pin) == 32) {
			t.Errorf("%s: %s, %v", text, found, err)
		}
	}
	for _, text := range []string{
		"", "x", "unix://a", "unix:///a/", "unix:///a\x00b", "unix:///" + strings.Repeat("a", pathBytesMax),
		"tcp://host", "tcp://::1:7", "tcp://h:65536", "tcp://h:-1", "tcp://h:1x", "tcp://h:", "tcp://:1",
		"tcp://[::1", "tcp://[::1]", "tcp://[1.2.3.4]:1", "tcp://[::1%1]:1", "tcp://h:1" + pin,
		"tls://h:1#sha256-abc", "tls://h:1#md5", "tls://h:1#", "tls://h:1" + pin[:len(pin)-1] + "1",
		"tls://h:1/path" + pin, "ws://h/a b", "ws://h/a?b", "ws:///a", "ws://u@h/", "ws://h/" + pin,
		"quic://h:1", "http://h:1", "unix:///a/b\x00",
	} {
		if a, err := parseAddress(text); err == nil {
			t.Errorf("%q is an address: %v", text, a)
		}
	}
}
