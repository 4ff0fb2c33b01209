package initializer

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"strongroom/activities/secret"
)

// Source gives a workload its secrets.
type Source interface {
	// Fetch gets them. An error that Final reports is the same the next time.
	Fetch(ctx context.Context) (*Secrets, error)
}

// Secrets are what a workload has.
type Secrets struct {
	// Seed is the workload secret, as text: of bytes, their hexadecimal digits. It opens the volumes.
	// nil: the coordinator gives this workload none.
	Seed *secret.Passphrase
	// Of a coordinator, in PEM: the certificates of its service mesh, and the key of this workload's.
	MeshCA, RootCA, CertChain []byte
	Key                       *secret.Passphrase
}

// Wipe forgets them.
func (s *Secrets) Wipe() {
	s.Seed.Wipe()
	s.Key.Wipe()
}

// final is an error that does not go away by itself.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final reports whether it is of no use to fetch again.
func Final(err error) bool {
	var f final
	return errors.As(err, &f)
}

// How long a secret is. 32 random bytes are 64 digits.
const (
	leastSecret = 16
	mostSecret  = 8 << 10
)

// File is a Source: a file, as a Kubernetes Secret that is mounted has one for each key.
type File struct{ Path string }

var _ Source = File{}

// Fetch implements Source.
func (f File) Fetch(context.Context) (*Secrets, error) {
	seed, err := ReadKey(f.Path)
	if err != nil {
		return nil, final{err}
	}
	return &Secrets{Seed: seed}, nil
}

// ReadKey reads a secret from a file.
func ReadKey(path string) (*secret.Passphrase, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	value := make([]byte, mostSecret+1)
	defer clear(value)
	n, err := io.ReadFull(f, value)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	seed, err := seedOf(value[:n])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return seed, nil
}

// seedOf makes a secret's text of what was read: text without the end of its line, and bytes that are
// no text in hexadecimal, as the workload gets them.
func seedOf(value []byte) (*secret.Passphrase, error) {
	text := bytes.TrimRight(value, "\r\n")
	isText := !bytes.ContainsFunc(text, func(r rune) bool { return r < 0x20 || r > 0x7e })
	switch {
	case len(value) > mostSecret:
		return nil, fmt.Errorf("it has more than %d bytes, which is no workload secret", mostSecret)
	case isText && len(text) < leastSecret, len(value) < leastSecret:
		return nil, fmt.Errorf("it has %d bytes, and a workload secret has at least %d", len(text), leastSecret)
	case isText:
		return secret.New(bytes.Clone(text)), nil
	}
	digits := make([]byte, hex.EncodedLen(len(value)))
	hex.Encode(digits, value)
	return secret.New(digits), nil
}

// isRandom reports whether a secret has the form of 32 random bytes or more: hexadecimal digits.
func isRandom(p *secret.Passphrase) bool {
	is := false
	_ = p.Use(func(value []byte) error {
		raw := make([]byte, hex.DecodedLen(len(value)))
		defer clear(raw)
		n, err := hex.Decode(raw, value)
		is = err == nil && n >= 32
		return nil
	})
	return is
}
