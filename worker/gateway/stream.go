package gateway

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"strongroom/compute"
)

// stall is how long a stream of an image may stand still.
const stall = time.Minute

// image gives the record of an image that an operation on a server uses.
func (s *Server) image(c *call) (any, error) {
	id, p, err := s.imageOf(c)
	if err != nil {
		return nil, err
	}
	return s.Images.Get(c.Context(), p.Credential, id)
}

func (s *Server) imageOf(c *call) (compute.ImageID, purpose, error) {
	parsed, err := parseID(c.PathValue("image"))
	id := compute.ImageID{UUID: parsed}
	if err != nil {
		return id, purpose{}, err
	}
	var p purpose
	if err := json.Unmarshal([]byte(c.Header.Get(headerPurpose)), &p); err != nil {
		return id, p, compute.Errorf(compute.Invalid, "the header %s cannot be read", headerPurpose)
	}
	w, err := c.work(c.Context(), p)
	if err == nil {
		err = c.requireImage(c.Context(), w, id)
	}
	return id, p, err
}

// download streams an image to the host. An error after the first byte is in the trailer.
func (s *Server) download(c *call) (any, error) {
	id, p, err := s.imageOf(c)
	if err != nil {
		return nil, err
	}
	from, err := s.Images.Open(c.Context(), p.Credential, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }()
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.Header().Set("Trailer", trailerEnd)
	c.w.WriteHeader(http.StatusOK)
	_, err = io.CopyBuffer(writer{c.w, http.NewResponseController(c.w)}, plain{from}, make([]byte, 256<<10))
	end := endWhole
	if err != nil {
		end = string(marshal(failureOf(err)))
	}
	c.w.Header().Set(trailerEnd, end)
	return streamed{}, nil
}

// upload stores what the host sends as the data of an image.
func (s *Server) upload(c *call) (any, error) {
	id, p, err := s.imageOf(c)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.Images.Upload(c.Context(), p.Credential, id, reader{c.Body, http.NewResponseController(c.w)})
}

// plain hides all but Read, so that the copy goes through its buffer.
type plain struct{ io.Reader }

// writer gives each write to a client its own time.
type writer struct {
	w    io.Writer
	ctrl *http.ResponseController
}

func (w writer) Write(p []byte) (int, error) {
	if err := w.ctrl.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}

// reader gives each read from a client its own time.
type reader struct {
	r    io.Reader
	ctrl *http.ResponseController
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctrl.SetReadDeadline(time.Now().Add(stall)); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}
