package secret

import (
	"bytes"
	"fmt"
	"os"
)

// Pipe gives the read end of a pipe that carries the value and then ends, for
// exec.Cmd.ExtraFiles: entry 0 is the child's /dev/fd/3. The caller closes the
// file once the child has started, or when it will not be.
//
// The value is taken before Pipe returns, so a Wipe right after changes nothing
// for the child. The writer lets go when the value is read or when the last
// reader has closed its end, whichever is first: a child that never reads holds
// it no longer than the child lives.
func (p *Passphrase) Pipe() (*os.File, error) {
	var value []byte
	if err := p.Use(func(v []byte) error { value = bytes.Clone(v); return nil }); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		clear(value)
		return nil, fmt.Errorf("secret: make a pipe: %w", err)
	}
	go func() {
		defer clear(value)
		defer func() { _ = w.Close() }()
		_, _ = w.Write(value) // fails only when nobody is left to read
	}()
	return r, nil
}
