package veneer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// The limits of websockets.
const (
	// webMessageBytes are the most bytes of one message, in either direction.
	webMessageBytes = 1 << 20
	// webHeadBytes are the most bytes of the answer to the request for a websocket.
	webHeadBytes = 16 << 10
	// webCloseTime is the time in which a server answers the frame that closes a websocket.
	webCloseTime = time.Second
)

const webSubprotocol = "bifrost.1"

// errText is the error of a server that sends text.
var errText = errors.New("the server sent text over the websocket")

// webConn is a websocket as a stream. A binary message is a piece of the stream, and its borders
// mean nothing. A goroutine reads ahead by one piece, and so answers the pings of the server while
// the program is busy elsewhere.
type webConn struct {
	inner *websocket.Conn
	// pieces are the bytes that came, and failure is the reason of their end.
	pieces  chan []byte
	failure error
	// ended is closed at their end, and closing when nobody reads any more.
	ended   chan struct{}
	closing chan struct{}
	cancel  context.CancelFunc
	once    sync.Once
	// rest are the bytes of a piece that were not read.
	rest          []byte
	readDeadline  time.Time
	writeDeadline time.Time
}

// dialWeb opens a websocket at an address. Redirections are not followed, and proxies not asked.
func dialWeb(ctx context.Context, a address, config *tls.Config) (*webConn, error) {
	dialer := net.Dialer{}
	transport := &http.Transport{
		DialContext: dialer.DialContext,
		// The transport would choose application protocols of its own.
		DialTLSContext:         (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext,
		MaxResponseHeaderBytes: webHeadBytes,
		DisableKeepAlives:      true,
	}
	client := &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	inner, _, err := websocket.Dial(ctx, a.scheme+"://"+a.place()+a.path, &websocket.DialOptions{
		HTTPClient:   client,
		Subprotocols: []string{webSubprotocol},
	})
	if err != nil {
		return nil, err
	}
	if inner.Subprotocol() != webSubprotocol {
		err := fmt.Errorf("the server does not speak %s over websockets", webSubprotocol)
		return nil, errors.Join(err, inner.CloseNow())
	}
	inner.SetReadLimit(webMessageBytes)
	reading, cancel := context.WithCancel(context.Background())
	w := &webConn{
		inner: inner, pieces: make(chan []byte), failure: net.ErrClosed,
		ended: make(chan struct{}), closing: make(chan struct{}), cancel: cancel,
	}
	go w.readAhead(reading)
	return w, nil
}

// readAhead hands the pieces to the reader, up to the end.
func (w *webConn) readAhead(ctx context.Context) {
	defer close(w.pieces)
	defer close(w.ended)
	// While the reader has one buffer, the other one is filled.
	var buffers [2][readBytes]byte
	turn := 0
	for {
		kind, message, err := w.inner.Reader(ctx)
		if err == nil && kind != websocket.MessageBinary {
			err = errText
		}
		for err == nil {
			var count int
			count, err = message.Read(buffers[turn][:])
			if count == 0 {
				continue
			}
			select {
			case w.pieces <- buffers[turn][:count]:
				turn = 1 - turn
			case <-w.closing:
				return
			}
		}
		if !errors.Is(err, io.EOF) || kind == 0 {
			w.failure = err
			return
		}
	}
}

// Read reads bytes of the stream; it waits until the deadline.
func (w *webConn) Read(into []byte) (int, error) {
	if len(w.rest) == 0 {
		timer := time.NewTimer(time.Until(w.readDeadline))
		defer timer.Stop()
		// What has come is read after the deadline, too.
		select {
		case piece, isOpen := <-w.pieces:
			return w.take(into, piece, isOpen)
		default:
		}
		select {
		case piece, isOpen := <-w.pieces:
			return w.take(into, piece, isOpen)
		case <-w.closing:
			return 0, net.ErrClosed
		case <-timer.C:
			return 0, os.ErrDeadlineExceeded
		}
	}
	return w.take(into, w.rest, true)
}

func (w *webConn) take(into, piece []byte, isOpen bool) (int, error) {
	if !isOpen {
		return 0, w.failure
	}
	count := copy(into, piece)
	w.rest = piece[count:]
	return count, nil
}

// Write writes all bytes, as messages.
func (w *webConn) Write(data []byte) (int, error) {
	ctx, cancel := context.WithDeadline(context.Background(), w.writeDeadline)
	defer cancel()
	written := 0
	for written < len(data) {
		piece := data[written:min(len(data), written+webMessageBytes)]
		if err := w.inner.Write(ctx, websocket.MessageBinary, piece); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}

// Close sends the frame that closes a websocket, and waits a short time for the answer.
func (w *webConn) Close() error {
	w.once.Do(func() {
		close(w.closing)
		closed := make(chan struct{})
		go func() {
			// Its errors are those of a connection that has ended already.
			select {
			case <-w.ended:
				_ = w.inner.CloseNow()
			default:
				_ = w.inner.Close(websocket.StatusNormalClosure, "")
			}
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(webCloseTime):
		}
		// The end of its context ends a reader that still waits, and with it the connection.
		w.cancel()
	})
	return nil
}

func (w *webConn) SetReadDeadline(at time.Time) error {
	w.readDeadline = at
	return nil
}

func (w *webConn) SetWriteDeadline(at time.Time) error {
	w.writeDeadline = at
	return nil
}
