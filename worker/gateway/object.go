package gateway

import (
	"slices"
	"strings"

	"strongroom/activities/object"
	"strongroom/compute"
)

// maxNames bounds a part of a list.
const maxNames = 1000

// objectOf gives the blob that the host asks for, of an object that an operation on the
// server made, or, to be read, of one of the server's.
func (c *call) objectOf(change bool) (blobRequest, error) {
	in, err := about[blobRequest](c)
	if err != nil {
		return in, err
	}
	name, err := object.OfBlob(in.Blob)
	if err != nil {
		return in, err
	}
	w, err := c.work(c.Context(), in.purpose)
	if err != nil {
		return in, err
	}
	return in, c.requireObject(c.Context(), w, name, change)
}

func (s *Server) objectData(c *call) (any, error) {
	in, err := c.objectOf(false)
	if err != nil {
		return nil, err
	}
	from, err := s.Objects.Open(c.Context(), in.Credential, in.Blob)
	if err != nil {
		return nil, err
	}
	c.stream(from)
	return streamed{}, nil
}

func (s *Server) storeObject(c *call) (any, error) {
	in, err := c.objectOf(true)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.Objects.Put(c.Context(), in.Credential, in.Blob, &object.Stream{Reader: c.sent()})
}

func (s *Server) deleteObject(c *call) (any, error) {
	in, err := c.objectOf(true)
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.Objects.Delete(c.Context(), in.Credential, in.Blob)
}

func (s *Server) objectSize(c *call) (any, error) {
	in, err := c.objectOf(false)
	if err != nil {
		return nil, err
	}
	return s.Objects.Size(c.Context(), in.Credential, in.Blob)
}

// objectNames lists the segments of an object.
func (s *Server) objectNames(c *call) (any, error) {
	in, err := c.objectOf(true)
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(in.Blob, "/") { // others' objects may begin with its name
		return nil, compute.Errorf(compute.Forbidden, "a host lists the segments of one object")
	}
	names, err := s.Objects.List(c.Context(), in.Credential, in.Blob, in.After, maxNames)
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, in.Blob) }), err
}
