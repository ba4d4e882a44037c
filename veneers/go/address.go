package veneer

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// forms are the forms of an address, for messages.
const forms = "unix:///path, shm:///path, tcp://host:port, tls://host:port, ws://host:port " +
	"or wss://host:port"

// pathBytesMax is the length of the longest path of a socket.
const pathBytesMax = 107

// pinForm is the form of a pin, which stands behind the # of an address.
var pinForm = regexp.MustCompile(`^sha256-[A-Za-z0-9_-]{43}$`)

// hostForm is the form of a host that is no address of IPv6, and urlPathForm that of the path of a
// URL.
var (
	hostForm    = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	urlPathForm = regexp.MustCompile(`^/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*$`)
)

// address is the place where a server listens.
type address struct {
	// scheme is "unix", "shm", "tcp", "tls", "ws" or "wss".
	scheme string
	// path is the path of a socket's file, or of the URL of a websocket.
	path string
	host string
	port uint16
	// pin is the SHA-256 of the key that the server must have; nil without a pin.
	pin []byte
}

// isTLS returns true for an address of TLS.
func (a address) isTLS() bool { return a.scheme == "tls" || a.scheme == "wss" }

// isWeb returns true for the address of a websocket.
func (a address) isWeb() bool { return a.scheme == "ws" || a.scheme == "wss" }

// isLocal returns true for an address that is the path of a socket.
func (a address) isLocal() bool { return a.path != "" && !a.isWeb() }

// mayAskForToken returns true if a server there may ask for a token: over unix sockets the kernel
// tells it the user.
func (a address) mayAskForToken() bool { return !a.isLocal() }

// place returns the host and the port.
func (a address) place() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// parseAddress reads an address.
func parseAddress(text string) (address, error) {
	scheme, rest, hasScheme := strings.Cut(text, "://")
	if !hasScheme {
		return address{}, fmt.Errorf("%q is no address: an address is %s", text, forms)
	}
	a := address{scheme: scheme}
	switch scheme {
	case "unix", "shm":
		return a.withPath(rest)
	case "tcp", "tls", "ws", "wss":
	case "quic":
		return a, fmt.Errorf("this library has no QUIC: connect to tls:// or wss://")
	default:
		return a, fmt.Errorf("%q is not a transport of this library: use %s", scheme, forms)
	}
	if place, fragment, hasPin := strings.Cut(rest, "#"); hasPin {
		if !a.isTLS() || !pinForm.MatchString(fragment) {
			return a, fmt.Errorf("%q cannot follow #: a pin is sha256- and 43 characters, and stands "+
				"behind tls:// and wss:// only", fragment)
		}
		digits := strings.TrimPrefix(fragment, "sha256-")
		pin, err := base64.RawURLEncoding.Strict().DecodeString(digits)
		if err != nil {
			return a, fmt.Errorf("%q is no pin: %w", fragment, err)
		}
		rest, a.pin = place, pin
	}
	if a.isWeb() {
		var path string
		rest, path, _ = strings.Cut(rest, "/")
		if a.path = "/" + path; !urlPathForm.MatchString(a.path) {
			return a, fmt.Errorf("%q is not the path of a URL", a.path)
		}
	}
	return a.withHost(rest)
}

// withPath returns the address with the path of a socket.
func (a address) withPath(path string) (address, error) {
	switch {
	case !strings.HasPrefix(path, "/"):
		return a, fmt.Errorf("%q is no absolute path: write three slashes, as in %s:///run/bifrost/main",
			path, a.scheme)
	case strings.HasSuffix(path, "/") || strings.ContainsRune(path, 0):
		return a, fmt.Errorf("%q names no file: write the path of a socket", path)
	case len(path) > pathBytesMax:
		return a, fmt.Errorf("%q has %d bytes: the path of a socket has at most %d",
			path, len(path), pathBytesMax)
	}
	a.path = path
	return a, nil
}

// withHost returns the address with a host and a port.
func (a address) withHost(place string) (address, error) {
	host, port, hasPort := place, "", false
	if at := strings.LastIndex(place, ":"); at > strings.LastIndex(place, "]") {
		host, port, hasPort = place[:at], place[at+1:], true
	}
	inner, isBracketed := strings.CutPrefix(host, "[")
	if isBracketed {
		inner, isBracketed = strings.CutSuffix(inner, "]")
		ip, err := netip.ParseAddr(inner)
		if !isBracketed || err != nil || !ip.Is6() || ip.Zone() != "" {
			return a, fmt.Errorf("%q is no host: an address of IPv6 is written in brackets, as in "+
				"tcp://[::1]:7447", place)
		}
	} else if !hostForm.MatchString(host) {
		return a, fmt.Errorf("%q is no host: write a name, an address of IPv4, or one of IPv6 in "+
			"brackets, as in tcp://[::1]:7447", host)
	}
	a.host = inner
	switch {
	case hasPort:
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return a, fmt.Errorf("%q is no port: write a number from 0 to 65535", port)
		}
		a.port = uint16(number)
	case a.scheme == "ws":
		a.port = 80
	case a.scheme == "wss":
		a.port = 443
	default:
		return a, fmt.Errorf("%q has no port: write %s://host:port", place, a.scheme)
	}
	return a, nil
}
