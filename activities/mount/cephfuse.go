package mount

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"strongroom/activities/secret"
	"strongroom/compute"
)

const (
	cephFuse = "ceph-fuse"
	// mountPatience ends one that does not even give up.
	mountPatience = 40 * time.Second

	confName = "ceph.conf" // in the folder of what it is told
)

// byFuse mounts a share with ceph-fuse.
func (c cephFS) byFuse(ctx context.Context, id compute.ShareID, point string, from Export, monitors, path string) error {
	if _, err := exec.LookPath(cephFuse); err != nil {
		return compute.Errorf(compute.Conflict, "share %s: this host's kernel has no CephFS, and ceph-fuse is not installed", id)
	}
	told, pid := c.told(point), filepath.Join(c.Dir, id.String(), pidName)
	if err := os.Mkdir(told, 0o700); err != nil {
		return failed(id, "make its settings", err)
	}
	defer func() { _ = os.RemoveAll(told) }()
	conf := filepath.Join(told, confName)
	text := fmt.Sprintf(clientConf, monitors, path, filepath.Join(told, "keyring"), pid, cephPatience)
	err := os.WriteFile(conf, []byte(text), 0o600)
	if err == nil {
		err = writeKeyring(filepath.Join(told, "keyring"), from.User, from.Key)
	}
	if err != nil {
		return failed(id, "write its settings", err)
	}
	if err := c.run(ctx, id, told, "-c", conf, "--id", from.User, point); err != nil {
		return errors.Join(err, c.endAt(ctx, c.place, id))
	}
	if mounted, err := c.isMounted(point); err != nil || !mounted {
		return refused(id, "it could not be mounted", orElse(err, errors.New("ceph-fuse ended without a mount")))
	}
	if err := harmless(point); err != nil {
		return errors.Join(refused(id, "it could not be mounted", err), c.endAt(ctx, c.place, id))
	}
	return nil
}

// hasEnded reports whether a mount is by a ceph-fuse that has ended. Where that was killed while a program that it had started has
// its /dev/fuse open, as the mount that it runs to invalidate what the kernel keeps, the kernel waits for answers for ever.
func (c cephFS) hasEnded(id compute.ShareID, point string) (bool, error) {
	on, _, err := c.mountAt(point)
	if err != nil {
		return false, failed(id, "look at its mount point", err)
	}
	pid, err := readPID(filepath.Join(c.Dir, id.String(), pidName))
	if err != nil {
		return false, failed(id, "read who mounted it", err)
	}
	return on.source == cephFuse && pid > 0 && !c.serves(pid, point), nil
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// clientConf is all that ceph-fuse knows. It stays in no file of the host's. Once it is in the
// background it says nothing: it closes its standard error there, which is a pipe of its own file
// system then, and a log in that pipe has it wait for ever.
const clientConf = `[global]
mon_host = %s
client_mountpoint = %s
keyring = %s
pid_file = %s
client_mount_timeout = %d
log_file =
log_to_file = false
log_to_stderr = false
err_to_stderr = false
admin_socket =
run_dir =
`

// told is the folder of what ceph-fuse is told.
func (a *Activities) told(point string) string {
	sum := sha256.Sum256([]byte(point))
	return filepath.Join(a.Memory, "strongroom-mount-"+hex.EncodeToString(sum[:8]))
}

// writeKeyring writes a user's key where ceph-fuse reads it. No string holds it.
func writeKeyring(file, user string, key *secret.Passphrase) error {
	return key.Use(func(value []byte) error {
		text := append([]byte("[client."+user+"]\n\tkey = "), value...)
		text = append(text, '\n')
		defer clear(text)
		return os.WriteFile(file, text, 0o600)
	})
}

// run runs ceph-fuse until it has gone into the background, which is when the mount is made.
func (c cephFS) run(ctx context.Context, id compute.ShareID, told string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, mountPatience)
	defer cancel()
	said, err := os.OpenFile(filepath.Join(told, "said"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return failed(id, "write its settings", err)
	}
	defer func() { _ = said.Close() }()
	cmd := command(ctx, cephFuse, args...)
	cmd.Stdout, cmd.Stderr = said, said // no pipe: who goes into the background may keep it
	err = cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return compute.Errorf(compute.Unavailable, "share %s: ceph-fuse was not done in time", id)
	}
	text, _ := os.ReadFile(said.Name())
	return compute.Errorf(compute.Conflict, "share %s: it could not be mounted: %w%s", id, err, reason(text))
}

// errno is how Ceph's programs say an error of the system; the rest of what they say names
// monitors and paths (SH-25).
var errno = regexp.MustCompile(`\((\d+)\) [A-Z]`)

// reason gives the last error that ceph-fuse told of, in the system's words.
func reason(said []byte) string {
	if bytes.Contains(said, []byte("failed to fetch mon config")) {
		return ": no monitor of Ceph's answers, or none knows the key"
	}
	all := errno.FindAllSubmatch(said, -1)
	if len(all) == 0 {
		return ""
	}
	number, err := strconv.Atoi(string(all[len(all)-1][1]))
	if err != nil {
		return ""
	}
	return ": " + syscall.Errno(number).Error()
}

// finish does the rest for an attempt that was cut off right after the mount was made.
func (c cephFS) finish(id compute.ShareID, point string) error {
	_, err := os.Lstat(c.told(point))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = harmless(point)
	}
	if err == nil {
		err = os.RemoveAll(c.told(point))
	}
	if err != nil {
		return failed(id, "finish its mount", err)
	}
	return nil
}
