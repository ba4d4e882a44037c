package veneer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// readBytes are the most bytes of one read.
const readBytes = 64 << 10

// lastWordsTime is the time in which the reason of a server is looked for that has closed its
// connection.
const lastWordsTime = time.Second

// stream is a stream of bytes to a server. Its reads and writes wait up to their deadlines. Bytes
// that have come are read after the deadline, too.
type stream interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// connection moves the bytes of a session. Reads and writes wait, up to a time limit.
type connection struct {
	conn    stream
	timeout time.Duration
	buffer  []byte
}

// dial connects, with all handshakes below the session.
func dial(ctx context.Context, a address, o Options) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	conn, err := dialStream(ctx, a, o)
	if err != nil {
		return nil, explainTLS(err)
	}
	return &connection{conn, o.Timeout, make([]byte, readBytes)}, nil
}

func dialStream(ctx context.Context, a address, o Options) (stream, error) {
	var config *tls.Config
	if a.isTLS() {
		var err error
		if config, err = tlsConfig(a, o); err != nil {
			return nil, err
		}
	}
	dialer := net.Dialer{}
	switch {
	case a.isWeb():
		return dialWeb(ctx, a, config)
	case a.isTLS():
		return (&tls.Dialer{NetDialer: &dialer, Config: config}).DialContext(ctx, "tcp", a.place())
	case a.scheme == "shm":
		return dialShm(ctx, a.path)
	case a.isLocal():
		return dialer.DialContext(ctx, "unix", a.path)
	}
	return dialer.DialContext(ctx, "tcp", a.place())
}

// write writes all bytes.
func (c *connection) write(data []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(data)
	return err
}

// read returns bytes that came; it waits for them, for so much longer than the time limit. They
// are valid until the next read.
func (c *connection) read(longer time.Duration) ([]byte, error) {
	return c.readUntil(time.Now().Add(c.timeout + longer))
}

func (c *connection) readUntil(deadline time.Time) ([]byte, error) {
	if err := c.conn.SetReadDeadline(deadline); err != nil {
		return nil, err
	}
	count, err := c.conn.Read(c.buffer)
	if count > 0 {
		// An error comes again with the next read.
		return c.buffer[:count], nil
	}
	return nil, err
}

// lastWords returns the reason that a server has given before it closed the connection, or the
// error of the connection.
func (c *connection) lastWords(came *replies, err error) Closed {
	deadline := time.Now().Add(lastWordsTime)
	for {
		data, readErr := c.readUntil(deadline)
		if readErr != nil {
			return &ClosedByConnection{err}
		}
		why, needsMore := came.lastWords(data)
		if why != nil {
			return why
		}
		if !needsMore {
			return &ClosedByConnection{err}
		}
	}
}

// greet opens a session.
func (c *connection) greet(ctx context.Context, g *greeting) (*recorder, error) {
	// The end of the context ends reads and writes.
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	for {
		if questions := g.takeBytes(); len(questions) > 0 {
			if err := c.write(questions); err != nil {
				return nil, greetError(ctx, c.lastWords(&g.replies, err))
			}
		}
		data, err := c.read(0)
		if err != nil {
			return nil, greetError(ctx, err)
		}
		core, err := g.handleBytes(data)
		if err != nil || core != nil {
			return core, err
		}
	}
}

// greetError returns the error of a greeting that a context may have ended.
func greetError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return errors.Join(cause, err)
	}
	return err
}

// open connects and opens a session. A server asks for the token by refusing a client without.
func open(ctx context.Context, a address, o Options) (*connection, *recorder, error) {
	c, core, err := openWith(ctx, a, o, "")
	var why *ClosedByServer
	asks := errors.As(err, &why) && why.Number == ErrorBadToken
	if asks && a.mayAskForToken() && o.Token != "" {
		return openWith(ctx, a, o, o.Token)
	}
	return c, core, err
}

func openWith(
	ctx context.Context, a address, o Options, token string,
) (*connection, *recorder, error) {
	c, err := dial(ctx, a, o)
	if err != nil {
		return nil, nil, err
	}
	s := defaultSettings()
	s.trace = o.Trace
	if o.ReplyBytesMax > 0 {
		s.replyBytesMax = o.ReplyBytesMax
	}
	core, err := c.greet(ctx, newGreeting(o.Stubs, token, o.Name, s))
	if err != nil {
		c.conn.Close()
		return nil, nil, err
	}
	return c, core, nil
}
