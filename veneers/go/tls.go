package veneer

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
)

// authoritiesVariable names the file of the authorities, where Options have none.
const authoritiesVariable = "BIFROST_CA"

// certificateBytesMax is the length of the longest file of certificates.
const certificateBytesMax = 1 << 20

// errAnotherKey is the error of a server whose key is not that of the pin.
var errAnotherKey = errors.New("the server has another key than the pin of the address")

// errAnotherProtocol is the error of a server that chose no application protocol.
var errAnotherProtocol = errors.New("the server does not speak the protocol of Bifrost (ALPN)")

// tlsConfig returns the settings of TLS for an address: 1.3, without tickets. A server is trusted
// by the pin of the address; or else by authorities: those of the options, those of the file that
// BIFROST_CA names, those of the system.
func tlsConfig(a address, o Options) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: a.host,
		NextProtos: []string{"bifrost/1"},
		VerifyConnection: func(state tls.ConnectionState) error {
			return checkPeer(state, a.pin)
		},
	}
	if a.isWeb() {
		config.NextProtos = []string{"http/1.1"}
	}
	file := o.Authorities
	switch {
	case a.pin != nil && file != "":
		return nil, errors.New(
			"an address with a pin trusts this key alone: give no authorities, or no pin")
	case a.pin != nil:
		// Name, dates and issuer do not count: checkPeer compares the key.
		config.InsecureSkipVerify = true
	case file == "":
		file = os.Getenv(authoritiesVariable)
	}
	if a.pin == nil && file != "" {
		text, err := readCertificates(file)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("there are no certificates in %s", file)
		}
	}
	if (o.Certificate == "") != (o.Key == "") {
		return nil, errors.New("a certificate needs its key, and a key its certificate")
	}
	if o.Certificate != "" {
		chain, err := readCertificates(o.Certificate)
		if err != nil {
			return nil, err
		}
		key, err := readCertificates(o.Key)
		if err != nil {
			return nil, err
		}
		own, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("the certificate in %s cannot be used: %w", o.Certificate, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// readCertificates reads a file of certificates or keys.
func readCertificates(file string) ([]byte, error) {
	found, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if found.Size() > certificateBytesMax {
		return nil, fmt.Errorf("%s is longer than %d bytes", file, certificateBytesMax)
	}
	return os.ReadFile(file)
}

// checkPeer checks a server in the handshake: its protocol, and its key if there is a pin.
func checkPeer(state tls.ConnectionState, pin []byte) error {
	if state.NegotiatedProtocol == "" {
		return errAnotherProtocol
	}
	if pin == nil {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errAnotherKey
	}
	digest := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	if subtle.ConstantTimeCompare(digest[:], pin) != 1 {
		return errAnotherKey
	}
	return nil
}

// untrustedError is the error of a certificate that is not trusted. It has the pin by which the
// server can be.
type untrustedError struct {
	err error
	pin string
}

func (e *untrustedError) Error() string {
	return fmt.Sprintf("%v; if the server is to be trusted, name its authorities, or its key by #%s "+
		"at the end of the address", e.err, e.pin)
}

func (e *untrustedError) Unwrap() error { return e.err }

// explainTLS adds the pin of a server to the error of its certificate.
func explainTLS(err error) error {
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) || len(failed.UnverifiedCertificates) == 0 {
		return err
	}
	digest := sha256.Sum256(failed.UnverifiedCertificates[0].RawSubjectPublicKeyInfo)
	return &untrustedError{err, "sha256-" + base64.RawURLEncoding.EncodeToString(digest[:])}
}
