package veneer

import "fmt"

// greeting is a session that is being opened. It becomes a recorder.
//
//	hello sent --welcome, the same digest--> the recorder
//	hello sent --welcome, another digest--> describe sent --interface--> the recorder
//	any        --another reply, an error of the server--> an error
type greeting struct {
	stubs     *Stubs
	settings  settings
	bounds    bounds
	replies   replies
	questions []byte
	// isDescribed is true once the server was asked for its interface, which has the digest.
	isDescribed bool
	digest      [32]byte
}

// newGreeting returns the greeting of a session with these stubs. Without stubs it makes those of
// the interface that the server describes.
func newGreeting(stubs *Stubs, token, client string, s settings) *greeting {
	var digest [32]byte
	if stubs != nil {
		digest = stubs.digest
	}
	return &greeting{
		stubs: stubs, settings: s, bounds: defaultBounds(),
		replies:   replies{bytesMax: s.replyBytesMax},
		questions: appendHello(nil, digest, token, client, s.trace, version),
	}
}

// takeBytes takes the bytes to be sent now.
func (g *greeting) takeBytes() []byte {
	data := g.questions
	g.questions = nil
	return data
}

// handleBytes takes bytes of the server, cut anywhere. It returns the recorder when the server has
// answered; nil if more bytes are to be sent or read.
func (g *greeting) handleBytes(data []byte) (*recorder, error) {
	came, bad := g.replies.next(data)
	if bad != nil {
		return nil, &ClosedByBadReply{bad}
	}
	if came == nil {
		return nil, nil
	}
	if end, isEnd := came.(*errorReply); isEnd {
		return nil, &ClosedByServer{end.number, end.position, end.text}
	}
	// Each question is asked alone, so nothing can follow its answer.
	if len(g.replies.kept) > 0 {
		return nil, &ClosedByWrongReply{"a single reply"}
	}
	switch came := came.(type) {
	case *welcome:
		if !g.isDescribed {
			return g.welcome(came)
		}
	case *interfaceReply:
		if g.isDescribed {
			return g.describe(came)
		}
	}
	if g.isDescribed {
		return nil, &ClosedByWrongReply{"an interface"}
	}
	return nil, &ClosedByWrongReply{"a welcome"}
}

func (g *greeting) welcome(w *welcome) (*recorder, error) {
	if w.version != version {
		return nil, fmt.Errorf(
			"the server has version %d of the wire form, this client version %d",
			w.version, version)
	}
	for _, limit := range w.limits {
		g.bounds.set(limit.number, limit.value)
	}
	if g.stubs != nil && w.digest == g.stubs.digest {
		return g.recorder(sameNumbers(g.stubs)), nil
	}
	g.digest = w.digest
	g.questions = appendWord(g.questions, opDescribe)
	g.isDescribed = true
	return nil, nil
}

func (g *greeting) describe(came *interfaceReply) (*recorder, error) {
	described, err := ParseInterface([]byte(came.json))
	if err != nil {
		return nil, err
	}
	if g.stubs == nil {
		return g.recorder(sameNumbers(NewStubs(g.digest, described))), nil
	}
	return g.recorder(mapNumbers(g.stubs, described)), nil
}

func (g *greeting) recorder(n *numbers) *recorder {
	return newRecorder(n, g.bounds, g.settings, g.replies)
}
