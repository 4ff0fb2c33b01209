package secret

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrWiped is what a passphrase answers that was wiped or never filled.
var ErrWiped = errors.New("secret: the passphrase was wiped")

// Passphrase is a secret value: the text that opens a disk or a vTPM. It is
// always passed as a pointer and wiped by whoever it was given to. It is safe
// for use by several goroutines.
type Passphrase struct {
	// The value hides in a closure: dumpers that walk structs and pointers by
	// reflection, and call no methods, see a function's address.
	locked func(fn func(value *[]byte) error) error
}

// New makes a passphrase of a value and takes the slice over: the caller must
// not use it again.
func New(value []byte) *Passphrase {
	var mu sync.Mutex
	if value == nil {
		value = []byte{}
	}
	return &Passphrase{locked: func(fn func(*[]byte) error) error {
		mu.Lock()
		defer mu.Unlock()
		return fn(&value)
	}}
}

// Generate makes the base64 text (standard encoding, padded) of nBytes random
// bytes: 88 characters for 64 bytes (EE-09), 512 for 384 (TPM-09).
func Generate(nBytes int) (*Passphrase, error) {
	if nBytes < 1 {
		return nil, fmt.Errorf("secret: cannot make a passphrase of %d bytes", nBytes)
	}
	raw := make([]byte, nBytes)
	defer clear(raw)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("secret: read random bytes: %w", err)
	}
	text := make([]byte, base64.StdEncoding.EncodedLen(nBytes))
	base64.StdEncoding.Encode(text, raw)
	return New(text), nil
}

// Use lends the value to fn, which must neither keep nor change the slice, and
// must not call the passphrase itself. It gives fn's error, or ErrWiped. A Wipe
// waits until fn has returned.
func (p *Passphrase) Use(fn func(value []byte) error) error {
	if p == nil || p.locked == nil {
		return ErrWiped
	}
	return p.locked(func(value *[]byte) error {
		if *value == nil {
			return ErrWiped
		}
		return fn(*value)
	})
}

// sumKeyBytes are those of a Sum that come before its MAC.
const sumKeyBytes = 32

// Sum gives what tells whether another passphrase has the same value: a random key of 32 bytes and the HMAC-SHA256 of the value
// under it. Who has it can try values, which for a weak passphrase finds it: it rests sealed.
func (p *Passphrase) Sum() ([]byte, error) {
	key := make([]byte, sumKeyBytes)
	_, _ = rand.Read(key) // never fails
	return p.sum(key)
}

// Fits reports whether a Sum is of this value.
func (p *Passphrase) Fits(sum []byte) (bool, error) {
	is, err := p.sum(sum[:min(len(sum), sumKeyBytes)])
	return err == nil && hmac.Equal(is, sum), err
}

func (p *Passphrase) sum(key []byte) (sum []byte, err error) {
	err = p.Use(func(value []byte) error {
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write(value) // never fails
		sum = mac.Sum(slices.Clone(key))
		return nil
	})
	return sum, err
}

// Len is the value's length in bytes, 0 once it is wiped.
func (p *Passphrase) Len() int {
	n := 0
	_ = p.Use(func(value []byte) error { n = len(value); return nil })
	return n
}

// Wipe overwrites the value with zeroes and forgets it. It may be called again,
// and on nil.
func (p *Passphrase) Wipe() {
	if p == nil || p.locked == nil {
		return
	}
	_ = p.locked(func(value *[]byte) error {
		clear(*value)
		*value = nil
		return nil
	})
}
