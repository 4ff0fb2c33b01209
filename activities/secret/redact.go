package secret

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what every formatter prints in place of a passphrase.
const Redacted = "[redacted]"

// ErrNotSerialisable is what every encoder gets that is asked to write a passphrase.
var ErrNotSerialisable = errors.New("secret: a passphrase cannot be serialised")

// The methods below have value receivers, so that a dereferenced passphrase is
// as silent as a pointer to one.

// String gives Redacted.
func (p Passphrase) String() string { return Redacted }

// GoString gives Redacted.
func (p Passphrase) GoString() string { return Redacted }

// Format prints Redacted for every verb and flag.
func (p Passphrase) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue gives Redacted.
func (p Passphrase) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON always fails.
func (p Passphrase) MarshalJSON() ([]byte, error) { return nil, ErrNotSerialisable }

// MarshalText always fails.
func (p Passphrase) MarshalText() ([]byte, error) { return nil, ErrNotSerialisable }

// MarshalBinary always fails.
func (p Passphrase) MarshalBinary() ([]byte, error) { return nil, ErrNotSerialisable }

// MarshalYAML always fails.
func (p Passphrase) MarshalYAML() (any, error) { return nil, ErrNotSerialisable }

// GobEncode always fails.
func (p Passphrase) GobEncode() ([]byte, error) { return nil, ErrNotSerialisable }
