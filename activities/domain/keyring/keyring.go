// Package keyring keeps the passphrases of guests that run in the kernel's keyring
// (keyrings(7)), for as long as they run: they are in no file and no process, a restart of the
// host's worker does not lose them, and a restart of the host does.
package keyring

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// Keyring is what one host keeps. Its keys are in the keyring of the worker's user, root: no other
// user finds them, and the kernel swaps them out to no disk. A key's description has the ids of the
// host, the server and the secret, whether it is the vTPM's, and nothing else.
type Keyring struct{ prefix string }

// Open gives the keyring of a host once a key was put into it, read and removed: a container may
// not let its processes do that.
func Open(host compute.HostID) (*Keyring, error) {
	k := Of(host)
	probe := compute.ServerID{UUID: uuid.New()}
	value := make([]byte, 16)
	_, _ = rand.Read(value) // never fails
	put, id := secret.New(slices.Clone(value)), compute.SecretID{UUID: uuid.New()}
	defer put.Wipe()
	err := k.Keep(probe, compute.KeysOfDisks, id, put)
	if err == nil {
		var got *secret.Passphrase
		got, err = k.Passphrase(probe, id)
		defer got.Wipe()
		if err == nil {
			err = got.Use(func(is []byte) error {
				if !slices.Equal(is, value) {
					return errors.New("a key is not what was put in")
				}
				return nil
			})
		}
	}
	if err = errors.Join(err, k.Forget(probe)); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	return k, nil
}

// Of gives the keyring of a host, whether it can be used or not.
func Of(host compute.HostID) *Keyring { return &Keyring{"strongroom:" + host.String() + ":"} }

// The kernel's limits of a key of this type, and what it calls it.
const (
	keyType  = "user"
	maxValue = 32767
)

// ofTPM ends the description of a vTPM's key.
const ofTPM = ":tpm"

func (k *Keyring) description(server compute.ServerID, part compute.KeyPart, id compute.SecretID) string {
	out := k.prefix + server.String() + ":" + id.String()
	if part == compute.KeyOfTPM {
		out += ofTPM
	}
	return out
}

// Keep keeps a passphrase, in place of what was kept under these ids.
func (k *Keyring) Keep(server compute.ServerID, part compute.KeyPart, id compute.SecretID, p *secret.Passphrase) error {
	return p.Use(func(value []byte) error {
		return owned(func() error {
			_, err := unix.AddKey(keyType, k.description(server, part, id), value, unix.KEY_SPEC_USER_KEYRING)
			return call("add_key", err)
		})
	})
}

// Passphrase gives one that is kept. NotFound: it is not.
func (k *Keyring) Passphrase(server compute.ServerID, id compute.SecretID) (p *secret.Passphrase, err error) {
	err = owned(func() error {
		serial, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, keyType, k.description(server, compute.KeysOfDisks, id), 0)
		if isGone(err) {
			serial, err = unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, keyType, k.description(server, compute.KeyOfTPM, id), 0)
		}
		if isGone(err) {
			return compute.Errorf(compute.NotFound, "server %s: this host does not keep the key %s", server, id)
		}
		if err != nil {
			return call("keyctl_search", err)
		}
		value := make([]byte, maxValue)
		n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, serial, value, 0)
		if err != nil {
			return call("keyctl_read", err)
		}
		p = secret.New(value[:n])
		return nil
	})
	return p, err
}

// Forget ensures that nothing of a server is kept.
func (k *Keyring) Forget(server compute.ServerID) error {
	return k.forget(func(of key) bool { return of.server == server })
}

// Clear ensures that nothing of the host is kept.
func (k *Keyring) Clear() error {
	return k.forget(func(key) bool { return true })
}

// ForgetDisks ensures that no key of a disk is kept.
func (k *Keyring) ForgetDisks() error {
	return k.forget(func(of key) bool { return of.part == compute.KeysOfDisks })
}

func (k *Keyring) forget(which func(key) bool) error {
	return owned(func() error {
		all, err := k.list()
		for _, key := range all {
			if !which(key) {
				continue
			}
			if _, failed := unix.KeyctlInt(unix.KEYCTL_INVALIDATE, key.serial, 0, 0, 0); failed != nil && !isGone(failed) {
				err = errors.Join(err, call("keyctl_invalidate", failed))
			}
		}
		return err
	})
}

// Kept gives the secrets of each server of which some are kept.
func (k *Keyring) Kept() (map[compute.ServerID][]compute.SecretID, error) {
	out := map[compute.ServerID][]compute.SecretID{}
	err := owned(func() error {
		all, err := k.list()
		for _, key := range all {
			out[key.server] = append(out[key.server], key.secret)
		}
		return err
	})
	return out, err
}

// key is one that is kept.
type key struct {
	serial int
	server compute.ServerID
	part   compute.KeyPart
	secret compute.SecretID
}

// list reads the keyring. A key that goes meanwhile is left out.
func (k *Keyring) list() (all []key, err error) {
	serials, err := read(unix.KEYCTL_READ, unix.KEY_SPEC_USER_KEYRING)
	if err != nil {
		return nil, call("keyctl_read", err)
	}
	for ; len(serials) >= 4; serials = serials[4:] {
		serial := int(int32(binary.NativeEndian.Uint32(serials))) // the kernel's key_serial_t
		text, err := read(unix.KEYCTL_DESCRIBE, serial)
		if isGone(err) || errors.Is(err, unix.EACCES) { // somebody else's
			continue
		}
		if err != nil {
			return nil, call("keyctl_describe", err)
		}
		if found, ok := k.parse(strings.TrimRight(string(text), "\x00")); ok {
			found.serial = serial
			all = append(all, found)
		}
	}
	return all, nil
}

// parse reads what the kernel says of a key: type, uid, gid, permissions and description.
func (k *Keyring) parse(text string) (out key, ok bool) {
	fields := strings.SplitN(text, ";", 5)
	if len(fields) != 5 || fields[0] != keyType {
		return out, false
	}
	ids, ok := strings.CutPrefix(fields[4], k.prefix)
	server, id, more := strings.Cut(ids, ":")
	if !ok || !more {
		return out, false
	}
	out.part = compute.KeysOfDisks
	if id, more = strings.CutSuffix(id, ofTPM); more {
		out.part = compute.KeyOfTPM
	}
	var err, failed error
	out.server.UUID, err = uuid.Parse(server)
	out.secret.UUID, failed = uuid.Parse(id)
	return out, err == nil && failed == nil
}

// read gives all that a call answers, however long that is by now.
func read(cmd, serial int) ([]byte, error) {
	for size := 4096; ; {
		out := make([]byte, size)
		n, err := unix.KeyctlBuffer(cmd, serial, out, 0)
		if err != nil {
			return nil, err
		}
		if n <= size {
			return out[:n], nil
		}
		size = n + 4096
	}
}

// owned calls do where the keys of the user's keyring count as this thread's own ("possessed"): a
// service that systemd starts has a session keyring that does not lead to it, and who does not possess
// a key may see it alone.
func owned(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := unix.KeyctlInt(unix.KEYCTL_LINK, unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_THREAD_KEYRING, 0, 0); err != nil {
		return call("keyctl_link", err)
	}
	return do()
}

// isGone: there is no such key any more, or it was revoked by somebody at the host.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOKEY) || errors.Is(err, unix.EKEYREVOKED) || errors.Is(err, unix.EKEYEXPIRED)
}

func call(name string, err error) error {
	if err == nil {
		return nil
	}
	return compute.Errorf(compute.Unavailable, "the kernel's keyring: %s: %w", name, err)
}
