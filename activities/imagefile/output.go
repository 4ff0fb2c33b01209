package imagefile

import (
	"bytes"
	"errors"
)

const mostOutput = 1 << 20

// ErrOutput says that a program printed more than 1 MiB.
var ErrOutput = errors.New("the program printed too much")

// Output takes what a program prints, up to 1 MiB. The buffer is not embedded: its
// ReadFrom would let io.Copy pass by the bound.
type Output struct {
	text bytes.Buffer
	over bool
}

func (o *Output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > mostOutput {
		o.over = true
		return 0, ErrOutput
	}
	return o.text.Write(p)
}

// Exceeded reports whether more was printed. The program may not say so itself: it may take
// the broken pipe for a failure of its own.
func (o *Output) Exceeded() bool { return o.over }

// Bytes is what was printed.
func (o *Output) Bytes() []byte { return o.text.Bytes() }

func (o *Output) String() string { return o.text.String() }
