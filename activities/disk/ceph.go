package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// cephPatience bounds how long a command waits for a cluster that does not answer: by
// itself it would wait for minutes, or for ever. The host's own file comes after it, and
// where that says something else it holds.
const cephPatience = `[client]
client_mount_timeout = 10
rados_mon_op_timeout = 10
rados_osd_op_timeout = 30
`

// commandConf is the Ceph configuration of commands. Guests have the host's own: they
// are to wait until the cluster is back.
func (a *Activities) commandConf() (string, error) {
	text, err := os.ReadFile(a.Pool.ConfFile)
	if err != nil {
		return "", err
	}
	text = append([]byte(cephPatience), text...)
	path := filepath.Join(a.CacheDir, "ceph.conf")
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, text) {
		return path, nil
	}
	f, err := os.CreateTemp(a.CacheDir, ".ceph-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return path, err
}

// ceph runs one of Ceph's commands as the host's user.
func (a *Activities) ceph(ctx context.Context, name string, args ...string) ([]byte, error) {
	conf, err := a.commandConf()
	if err != nil {
		return nil, err
	}
	args = append(args, "--conf", conf, "--id", a.Pool.User, "--keyring", a.Pool.Keyring)
	return a.Runner.Run(ctx, Command{Name: name, Args: args})
}

// cephDoc runs one of Ceph's commands that answer with a document.
func (a *Activities) cephDoc(ctx context.Context, doc any, name, command string, args ...string) error {
	out, err := a.ceph(ctx, name, append([]string{command, "--format", "json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, doc); err != nil {
		return fmt.Errorf("output of %s %s: %w", name, command, err)
	}
	return nil
}

// ClusterKey reads the host's key, as base64 text, from its keyring. The caller wipes
// it. Unavailable: it is not there.
func (a *Activities) ClusterKey() (*secret.Passphrase, error) {
	text, err := os.ReadFile(a.Pool.Keyring)
	if err != nil {
		return nil, compute.Errorf(compute.Unavailable, "the Ceph keyring: %w", err)
	}
	defer clear(text)
	ours := false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("[")) {
			ours = string(line) == "[client."+a.Pool.User+"]"
		}
		name, value, found := bytes.Cut(line, []byte("="))
		if ours && found && string(bytes.TrimSpace(name)) == "key" {
			return secret.New(bytes.Clone(bytes.TrimSpace(value))), nil
		}
	}
	return nil, compute.Errorf(compute.Unavailable, "the Ceph keyring %s has no key of client.%s", a.Pool.Keyring, a.Pool.User)
}

// clusterKey is the id of the host's key in a command.
const clusterKey = "cluster"

// lendCluster hands the host's key to a command of QEMU's.
func (c *Command) lendCluster(key *secret.Passphrase) {
	c.Args = append(c.Args, "--object", "secret,id="+clusterKey+",format=base64,file="+fd(len(c.Passphrases)))
	c.Passphrases = append(c.Passphrases, key)
}

// imageNode describes an image to QEMU; key "": what is in it is not encrypted.
func (a *Activities) imageNode(i poolImage, key string) (node, error) {
	conf, err := a.commandConf()
	n := node{"driver": "raw", "file": node{
		"driver": "rbd", "pool": i.pool, "image": i.name, "user": a.Pool.User, "conf": conf, "key-secret": clusterKey,
	}}
	if key != "" {
		n["driver"], n["key-secret"] = "luks", key
	}
	return n, err
}

// missing reports whether a command failed because there is no such image.
func missing(err error) bool {
	return exitCode(err) == 2 && (says(err, "error opening image") || says(err, "delete error"))
}

// findImage gives the bytes of an image. found is false when there is none.
func (a *Activities) findImage(ctx context.Context, i poolImage) (bytes int64, found bool, err error) {
	var info struct {
		Bytes int64 `json:"size"`
	}
	err = a.cephDoc(ctx, &info, "rbd", "info", i.String())
	if missing(err) {
		return 0, false, nil
	}
	return info.Bytes, err == nil, err
}

// imageInUse reports whether somebody has an image open to write to it. A client that was
// killed counts for half a minute more.
func (a *Activities) imageInUse(ctx context.Context, i poolImage) (bool, error) {
	var status struct {
		Watchers []json.RawMessage `json:"watchers"`
	}
	err := a.cephDoc(ctx, &status, "rbd", "status", i.String())
	return len(status.Watchers) > 0, err
}

// removeImage ensures that there is no such image, whole or half made. One that a
// client which was killed had open goes half a minute later: until then it is in use.
func (a *Activities) removeImage(ctx context.Context, i poolImage) error {
	for _, i := range []poolImage{i, i.draft()} {
		if _, err := a.ceph(ctx, "rbd", "rm", "--no-progress", i.String()); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// imageInfo looks at an image with QEMU's eyes.
func (a *Activities) imageInfo(ctx context.Context, i poolImage, encrypted bool, cluster *secret.Passphrase) (info imageInfo, err error) {
	at, err := a.imageNode(i, "")
	if err != nil {
		return info, err
	}
	if encrypted { // its header needs no key
		at["driver"] = "luks"
	}
	var c Command
	c.lendCluster(cluster)
	c.Args = append(c.Args, at.json())
	return a.infoOf(ctx, c)
}
