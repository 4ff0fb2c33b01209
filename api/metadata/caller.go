package metadata

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// The headers with which the proxy says who asks.
const (
	headerServer    = "X-Instance-Id"
	headerProject   = "X-Tenant-Id"
	headerSignature = "X-Instance-Id-Signature"
)

// caller gives the server that asks, and its project.
func (s *service) caller(r *http.Request) (server, project string, err error) {
	if s.Owner == nil {
		return s.vouched(r.Header)
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", "", err
	}
	id, project, err := s.Owner(r.Context(), from.Addr().Unmap())
	return id.String(), project, err
}

// vouched gives the server and the project that the proxy vouches for. 400: a header
// is missing, or there are two; 403: the signature is not the proxy's.
func (s *service) vouched(h http.Header) (server, project string, err error) {
	for _, name := range []struct{ header, shown string }{
		{headerServer, "X-Instance-ID"}, {headerSignature, "X-Instance-ID-Signature"}, {headerProject, "X-Tenant-ID"},
	} {
		switch n := len(h.Values(name.header)); {
		case n == 0:
			return "", "", echo.NewHTTPError(http.StatusBadRequest, name.shown+" header is missing from request.")
		case n > 1:
			return "", "", echo.NewHTTPError(http.StatusBadRequest, "Multiple "+name.shown+" headers found within request.")
		}
	}
	server, project = h.Get(headerServer), h.Get(headerProject)
	if !s.signed(server, h.Get(headerSignature)) {
		return "", "", echo.NewHTTPError(http.StatusForbidden, "Invalid proxy request signature.")
	}
	return server, project, nil
}

// signed compares in a time that tells nothing about the signature.
func (s *service) signed(server, signature string) bool {
	mac := hmac.New(sha256.New, s.Secret)
	mac.Write([]byte(server))
	return hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(signature))
}
