package keystone_test

import (
	"bytes"
	"io"
)

// stream is data whose reader can do nothing but read.
type stream struct{ data []byte }

func (s stream) reader() io.Reader { return io.MultiReader(bytes.NewReader(s.data)) }

func readAll(r io.Reader) (int, error) {
	data, err := io.ReadAll(r)
	return len(data), err
}
