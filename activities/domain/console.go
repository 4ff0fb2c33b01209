package domain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"strongroom/compute"
)

// ConsoleInput asks for the end of a server's serial output.
type ConsoleInput struct {
	Server compute.ServerID `json:"server"`
	Lines  int              `json:"lines"` // at most so many; 0 or less: all that ConsoleBytes allow
}

// ConsoleBytes is the most that Console gives, as Nova does.
const ConsoleBytes = 100 << 10

// Console gives the end of what a server's guest said on its serial port, with
// bytes that are no text replaced. NotFound: the server never ran here.
func (a *Activities) Console(_ context.Context, in ConsoleInput) (string, error) {
	path := filepath.Join(a.InstancesDir, in.Server.String(), consoleLog)
	tail, err := tailOfFile(path, ConsoleBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return "", compute.Errorf(compute.NotFound, "server %s has no console log on this host", in.Server)
	}
	if missing := ConsoleBytes - len(tail); err == nil && missing > 0 { // virtlogd has just begun a new file
		var before []byte
		if before, err = tailOfFile(path+".0", int64(missing)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		tail = append(before, tail...)
	}
	if err != nil {
		return "", compute.Errorf(compute.Unavailable, "server %s: console log: %w", in.Server, err)
	}
	return strings.ToValidUTF8(string(lastLines(tail, in.Lines)), "\uFFFD"), nil
}

func tailOfFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return tailOf(f, most)
}

// tailOf reads at most the last so many bytes.
func tailOf(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-most), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}

// lastLines cuts all but the last n lines off, as Nova counts them: what comes after the
// last newline is one, also where that is nothing (P9).
func lastLines(b []byte, n int) []byte {
	if n <= 0 {
		return b
	}
	i := len(b)
	for ; n > 0; n-- {
		if i = bytes.LastIndexByte(b[:i], '\n'); i < 0 {
			return b
		}
	}
	return b[i+1:]
}

const (
	consoleMost = 8 << 20 // a log that is longer when its server starts
	consoleKeep = 1 << 20 // is cut to its end
)

// trimConsole keeps a guest that talks much from filling the host.
func trimConsole(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() <= consoleMost {
		return err
	}
	tail, err := tailOf(f, consoleKeep)
	if err != nil {
		return err
	}
	temp := filepath.Join(filepath.Dir(path), "."+consoleLog+".new")
	if err := os.WriteFile(temp, tail, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}
