package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"strongroom/compute"
)

// stall is how long a stream may stand still.
const stall = time.Minute

// image gives the record of an image that an operation on a server uses.
func (s *Server) image(c *call) (any, error) {
	id, p, err := s.imageOf(c, false)
	if err != nil {
		return nil, err
	}
	return s.Images.Get(c.Context(), p.Credential, id)
}

func (s *Server) imageOf(c *call, change bool) (compute.ImageID, purpose, error) {
	parsed, err := parseID(c.PathValue("image"))
	id := compute.ImageID{UUID: parsed}
	if err != nil {
		return id, purpose{}, err
	}
	p, err := about[purpose](c)
	if err != nil {
		return id, p, err
	}
	w, err := c.work(c.Context(), p)
	if err == nil {
		err = c.requireImage(c.Context(), w, id, change)
	}
	return id, p, err
}

// about reads what the header says a call is for.
func about[T any](c *call) (what T, err error) {
	if err = json.Unmarshal([]byte(c.Header.Get(headerPurpose)), &what); err != nil {
		err = compute.Errorf(compute.Invalid, "the header %s cannot be read", headerPurpose)
	}
	return what, err
}

// download streams an image to the host.
func (s *Server) download(c *call) (any, error) {
	id, p, err := s.imageOf(c, false)
	if err != nil {
		return nil, err
	}
	from, err := s.Images.OpenUnchecked(c.Context(), p.Credential, id) // the host checks it
	if err != nil {
		return nil, err
	}
	c.stream(from)
	return streamed{}, nil
}

// stream sends all of what it closes. An error after the first byte is in the trailer.
func (c *call) stream(from io.ReadCloser) {
	defer func() { _ = from.Close() }()
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.Header().Set("Trailer", trailerEnd)
	c.w.WriteHeader(http.StatusOK)
	_, err := io.CopyBuffer(writer{c.w, http.NewResponseController(c.w), &c.good}, plain{from}, make([]byte, 256<<10))
	end := endWhole
	if c.good.ended() != nil {
		c.Logger.WarnContext(c.Context(), "broke off a stream to a host", "host", c.Name, "address", c.RemoteAddr, "request", c.Method+" "+c.URL.Path, "error", err)
	}
	if err != nil {
		end = string(marshal(failureOf(err)))
	}
	c.w.Header().Set(trailerEnd, end)
}

// upload stores what the host sends as the data of an image.
func (s *Server) upload(c *call) (any, error) {
	id, p, err := s.imageOf(c, true)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.Images.Upload(c.Context(), p.Credential, id, c.sent())
}

// sent is the stream that the host sends.
func (c *call) sent() io.Reader { return reader{c.Body, http.NewResponseController(c.w), &c.good} }

// plain hides all but Read, so that the copy goes through its buffer.
type plain struct{ io.Reader }

// writer gives each write to a client its own time, while it is good.
type writer struct {
	w    io.Writer
	ctrl *http.ResponseController
	*good
}

func (w writer) Write(p []byte) (int, error) {
	if err := w.still(); err != nil {
		return 0, err
	}
	if err := w.ctrl.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}

// reader gives each read from a client its own time, while it is good.
type reader struct {
	r    io.Reader
	ctrl *http.ResponseController
	*good
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctrl.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	if refused := r.still(); refused != nil { // it may have waited for long
		return 0, refused
	}
	return n, err
}
