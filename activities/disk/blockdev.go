package disk

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
)

// node describes a file and its format to QEMU. Nothing is left to what the file
// says of itself: a guest that broke out may have rewritten its header.
type node map[string]any

func fileNode(path string) node { return node{"driver": "file", "filename": path} }

func rawNode(path string) node { return node{"driver": "raw", "file": fileNode(path)} }

// deviceNode is a block device of the host.
func deviceNode(path string) node {
	return node{"driver": "raw", "file": node{"driver": "host_device", "filename": path}}
}

// luksNode is a LUKS container, opened by the secret of that id.
func luksNode(path, key string) node {
	return node{"driver": "luks", "key-secret": key, "file": fileNode(path)}
}

// qcow2Node is a qcow2 file; key "": not encrypted. backing is what lies under
// it, nil for nothing.
func qcow2Node(path, key string, backing node) node {
	n := node{"driver": "qcow2", "file": fileNode(path), "backing": nil}
	if key != "" {
		n["encrypt"] = node{"format": "luks", "key-secret": key}
	}
	if backing != nil {
		n["backing"] = backing
	}
	return n
}

// json gives the node as a file name for QEMU.
func (n node) json() string {
	text, err := json.Marshal(n)
	if err != nil {
		panic(err) // text and maps of it always encode
	}
	return "json:" + string(text)
}

// options gives a node of one file in QEMU's other notation.
func (n node) options() string {
	var out []string
	var walk func(prefix string, n node)
	walk = func(prefix string, n node) {
		for name, value := range n {
			switch v := value.(type) {
			case node:
				walk(prefix+name+".", v)
			case string:
				out = append(out, prefix+name+"="+strings.ReplaceAll(v, ",", ",,"))
			}
		}
	}
	walk("", n)
	return strings.Join(out, ",")
}

// lend hands a passphrase to the command as a secret of that id.
func (c *Command) lend(id string, p *secret.Passphrase) {
	c.Args = append(c.Args, "--object", "secret,id="+id+",file="+fd(len(c.Passphrases)))
	c.Passphrases = append(c.Passphrases, p)
}

// cacheMode is how QEMU may best read or write a file: past the host's page cache
// where the file system can do that.
func cacheMode(path string) string {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if errors.Is(err, unix.EINVAL) {
		return "writeback"
	}
	if err == nil {
		f.Close()
	}
	return "none"
}
