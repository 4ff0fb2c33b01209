package gateway

import (
	"errors"
	"io"
	"sync"
)

// How much of a stream is read ahead.
const (
	aheadBytes = 256 << 10
	aheadParts = 4
)

// ahead reads a stream while what came before is used, so that one processor decrypts and
// another one takes the digest and writes.
type ahead struct {
	from io.ReadCloser
	free chan []byte // nil: not made yet
	full chan part
	now  part   // what is given now
	left []byte // of it

	end   sync.Once
	ended chan struct{}
}

type part struct {
	data []byte
	err  error // that came behind the data
}

var errClosed = errors.New("the stream was closed")

func readAhead(from io.ReadCloser) *ahead {
	a := &ahead{from: from, free: make(chan []byte, aheadParts), full: make(chan part, aheadParts), ended: make(chan struct{})}
	for range aheadParts {
		a.free <- nil
	}
	go a.run()
	return a
}

func (a *ahead) run() {
	for {
		var p part
		select {
		case p.data = <-a.free:
		case <-a.ended:
			return
		}
		if p.data == nil {
			p.data = make([]byte, aheadBytes)
		}
		n := 0
		for n < aheadBytes && p.err == nil {
			var more int
			more, p.err = a.from.Read(p.data[n:])
			n += more
		}
		p.data = p.data[:n]
		a.full <- p // there is room for all
		if p.err != nil {
			return
		}
	}
}

func (a *ahead) Read(p []byte) (int, error) {
	for len(a.left) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.data != nil {
			a.free <- a.now.data[:aheadBytes]
		}
		select {
		case a.now = <-a.full:
			a.left = a.now.data
		case <-a.ended:
			return 0, errClosed
		}
	}
	n := copy(p, a.left)
	a.left = a.left[n:]
	return n, nil
}

// Close also ends a Read that waits.
func (a *ahead) Close() (err error) {
	a.end.Do(func() {
		close(a.ended)
		err = a.from.Close()
	})
	return err
}
