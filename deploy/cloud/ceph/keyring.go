package ceph

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// entity is somebody with a key, and what it may do.
type entity struct {
	name string
	caps map[string]string // by daemon
}

// Manila is the name of the user that Manila works as.
const Manila = "manila"

// entities are all that the cluster begins with. Their keys go into the monitor as
// it is made, so that nobody has to be added once it runs.
var entities = []entity{
	{"mon.", map[string]string{"mon": "allow *"}},
	{"client.admin", map[string]string{"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"}},
	{"mgr.a", map[string]string{"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"}},
	{"osd.0", map[string]string{"mon": "allow profile osd", "mgr": "allow profile osd", "osd": "allow *"}},
	{"mds.a", map[string]string{"mon": "allow profile mds", "mgr": "allow profile mds", "osd": "allow rwx", "mds": "allow *"}},
	{"client." + Manila, map[string]string{"mon": "allow r", "mgr": "allow rw"}},
}

// newKey makes a key as Ceph writes it: the type AES, when it was made, and 16
// random bytes.
func newKey(now time.Time) string {
	const aes, length = 1, 16
	b := binary.LittleEndian.AppendUint16(nil, aes)
	b = binary.LittleEndian.AppendUint32(b, uint32(now.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(now.Nanosecond()))
	b = binary.LittleEndian.AppendUint16(b, length)
	secret := make([]byte, length)
	_, _ = rand.Read(secret) // never fails
	return base64.StdEncoding.EncodeToString(append(b, secret...))
}

// writeKeyrings writes a keyring for each entity, and one with all of them for the
// monitor.
func (c *Cluster) writeKeyrings() error {
	var all strings.Builder
	for _, e := range entities {
		key := newKey(time.Now())
		fmt.Fprintf(&all, "[%s]\n\tkey = %s\n", e.name, key)
		for daemon, allowed := range e.caps {
			fmt.Fprintf(&all, "\tcaps %s = \"%s\"\n", daemon, allowed)
		}
		text := fmt.Sprintf("[%s]\n\tkey = %s\n", e.name, key)
		if err := writeFile(c.file("keyring."+e.name), text); err != nil {
			return err
		}
	}
	return writeFile(c.file("keyring.mon"), all.String())
}

func (c *Cluster) file(name string) string { return filepath.Join(c.cfg.Dir, name) }
