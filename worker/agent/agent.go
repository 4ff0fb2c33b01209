// Package agent is the small HTTP service of a host worker: it hands out
// console logs, which are a tenant's data and have no place in a workflow's
// history. Requests are signed with a key that api and hosts share.
package agent

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"
)

// The headers of a signed request.
const (
	headerTime      = "X-Strongroom-Time"      // Unix seconds
	headerSignature = "X-Strongroom-Signature" // hex HMAC-SHA256 of method, URI and time
)

// skew is how far the two clocks may be apart.
const skew = 2 * time.Minute

func sign(r *http.Request, key []byte, now time.Time) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set(headerTime, stamp)
	r.Header.Set(headerSignature, signature(r, key, stamp))
}

func signature(r *http.Request, key []byte, stamp string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(r.Method + "\n" + r.URL.RequestURI() + "\n" + stamp))
	return hex.EncodeToString(mac.Sum(nil))
}

func signed(r *http.Request, key []byte, now time.Time) bool {
	stamp := r.Header.Get(headerTime)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > skew {
		return false
	}
	return hmac.Equal([]byte(signature(r, key, stamp)), []byte(r.Header.Get(headerSignature)))
}
