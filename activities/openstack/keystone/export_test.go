package keystone

import (
	"net/http"
	"time"
)

// NewTransport is what clients share, with another patience.
func NewTransport(silence time.Duration) *http.Transport {
	t, err := Connection{Silence: silence}.Transport()
	if err != nil {
		panic(err)
	}
	return t
}
