package cloud

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"strongroom/deploy/dev/port"
)

// Supervisor begins the names of the files that whoever runs a Cloud may keep in
// its folder: its pid file and log.
const Supervisor = "supervisor"

// portNames are what listens on a port of its own.
var portNames = []string{"keystone", "glance", "barbican", "swift", "manila", "swift-object", "swift-container", "swift-account", "memcached", "ceph", "ceph-v1", Cinder, Neutron, NFS, Broker, Broker + "-nodes", Broker + "-names"}

// settings are what is chosen at a folder's first start and then stays.
type settings struct {
	Ports     map[string]int    `json:"ports"`
	Passwords map[string]string `json:"passwords"`  // by user
	MasterKey string            `json:"master_key"` // Barbican's, 32 bytes in base64
	SwiftHash string            `json:"swift_hash"`
}

func random(bytes int) []byte {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// loadSettings reads the folder's settings, or makes them in a folder that is
// empty. Another folder is not touched.
func loadSettings(ctx context.Context, dir string) (settings, error) {
	file := filepath.Join(dir, "settings.json")
	text, err := os.ReadFile(file)
	if err == nil {
		var s settings
		if err := json.Unmarshal(text, &s); err != nil {
			return s, fmt.Errorf("%s: %w", file, err)
		}
		return s, s.complete(ctx, file)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return settings{}, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return settings{}, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), Supervisor+".") {
			return settings{}, fmt.Errorf("the folder %s is not empty and holds no cloud", dir)
		}
	}
	s := settings{
		Ports: map[string]int{}, Passwords: map[string]string{},
		MasterKey: base64.StdEncoding.EncodeToString(random(32)), SwiftHash: hex.EncodeToString(random(16)),
	}
	return s, s.complete(ctx, file)
}

// complete chooses the ports and passwords that are missing: all in a new folder, in
// an older one those of what there was not yet when it was made.
func (s settings) complete(ctx context.Context, file string) error {
	var missing []string
	for _, name := range portNames {
		if s.Ports[name] == 0 {
			missing = append(missing, name)
		}
	}
	ports, err := port.Free(ctx, len(missing))
	if err != nil {
		return err
	}
	for i, name := range missing {
		s.Ports[name] = ports[i]
	}
	changed := len(missing) > 0
	for _, u := range users {
		if s.Passwords[u.Name] == "" {
			s.Passwords[u.Name], changed = hex.EncodeToString(random(16)), true
		}
	}
	if !changed {
		return nil
	}
	return writeJSON(file, s)
}

func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(file, append(text, '\n'))
}

// writeFile writes a file that root alone reads; it appears whole.
func writeFile(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// Remove removes the folder of a cloud that does not run. It is no error when
// there is none; a folder that holds something else is not touched.
func Remove(dir string) error {
	switch _, err := os.Stat(filepath.Join(dir, "settings.json")); {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("the folder %s holds no cloud", dir)
	case err != nil:
		return err
	}
	return os.RemoveAll(dir)
}
