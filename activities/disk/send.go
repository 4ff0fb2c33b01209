package disk

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"strongroom/compute"
)

// Sending is a disk of this host that another one reads.
type Sending struct {
	file   *os.File
	layout Layout
	server compute.ServerID
}

// OpenToSend opens a disk that another host is to have. Whether it may, and whether the guest
// is off, the caller has seen. NotFound: it is not on this host; Conflict: it is no file.
func (a *Activities) OpenToSend(server compute.ServerID, name string) (*Sending, error) {
	if !strings.HasPrefix(name, "disk") && !compute.IsNVRAM(name) || name == compute.ConfigDriveFile {
		return nil, compute.Errorf(compute.Invalid, "server %s: %q is no disk", server, name)
	}
	path, err := a.filePath(server, name)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, compute.Errorf(compute.NotFound, "server %s has no disk %s on this host", server, name)
	case errors.Is(err, syscall.ELOOP):
		return nil, compute.Errorf(compute.Conflict, "disk %s of server %s is no file: logical volumes and disks in a pool do not go from host to host", name, server)
	case err != nil:
		return nil, compute.Errorf(compute.Unavailable, "disk %s of server %s: %w", name, server, err)
	}
	s := &Sending{file: f, server: server}
	if err := s.read(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the file.
func (s *Sending) Close() error { return s.file.Close() }

// Layout is what the file is like.
func (s *Sending) Layout() Layout { return s.layout }

// read reads the layout.
func (s *Sending) read() (err error) {
	info, err := s.file.Stat()
	if err != nil {
		return s.failed(err)
	}
	if !info.Mode().IsRegular() {
		return compute.Errorf(compute.Conflict, "server %s: %s is no file", s.server, info.Name())
	}
	s.layout = Layout{Bytes: info.Size(), Version: version(info)}
	s.layout.Data = make([]byte, (s.layout.parts()+7)/8)
	for at := int64(0); at < info.Size(); {
		data, err := s.file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // a hole up to the end
			return nil
		}
		if err != nil {
			return s.failed(err)
		}
		hole, err := s.file.Seek(data, unix.SEEK_HOLE)
		if err != nil {
			return s.failed(err)
		}
		last := (hole - 1) / partBytes
		for part := data / partBytes; part <= last; part++ {
			s.layout.Data[part/8] |= 1 << (part % 8)
		}
		at = min((last+1)*partBytes, info.Size())
	}
	return nil
}

// version is another one once a file was replaced or written to.
func version(info fs.FileInfo) string {
	inode := uint64(0)
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprintf("%d-%d-%d", inode, info.Size(), info.ModTime().UnixNano())
}

// Send writes the parts that have data, after the last one of a segment the sha256 over those that the
// segment has, and at the end the sha256 over all of these. Parts before next are not written. before is
// asked before each part. Conflict: the file is not that of the version any more.
func (s *Sending) Send(to io.Writer, version string, next int64, before func() error) error {
	if s.layout.Version != version {
		return s.changed()
	}
	all, segment, buffer := newTotal(), sha256.New(), make([]byte, partBytes)
	for part := range s.layout.parts() {
		if !s.layout.hasData(part) {
			continue
		}
		if err := before(); err != nil {
			return err
		}
		data := buffer[:s.layout.size(part)]
		if _, err := s.file.ReadAt(data, part*partBytes); err != nil {
			return s.failed(err)
		}
		segment.Write(data)
		if part >= next {
			if _, err := to.Write(data); err != nil {
				return err
			}
		}
		if !s.layout.endsSegment(part) {
			continue
		}
		sum := segment.Sum(nil)
		segment.Reset()
		all.add(sum)
		if _, err := to.Write(sum); err != nil {
			return err
		}
	}
	if err := s.unchanged(); err != nil {
		return err
	}
	_, err := to.Write(all.Sum(nil))
	return err
}

// unchanged sees that nobody wrote to the file meanwhile.
func (s *Sending) unchanged() error {
	info, err := s.file.Stat()
	if err != nil {
		return s.failed(err)
	}
	if version(info) != s.layout.Version {
		return s.changed()
	}
	return nil
}

func (s *Sending) changed() error {
	return compute.Errorf(compute.Conflict, "a disk of server %s has changed", s.server)
}

func (s *Sending) failed(err error) error {
	return compute.Errorf(compute.Unavailable, "a disk of server %s: %w", s.server, err)
}
