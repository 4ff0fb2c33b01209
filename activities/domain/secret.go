package domain

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"strongroom/activities/secret"
	"strongroom/compute"
)

// loan is a secret that libvirt must know while a domain starts. Its uuid is
// the key manager's (TPM-11).
type loan struct {
	id    compute.SecretID
	cred  compute.Credential // to read it with
	usage libvirt.SecretUsageType
	name  string // of its use: libvirt refuses a second secret of the same
}

// part is which of the server's keys it is.
func (n loan) part() compute.KeyPart {
	if n.usage == libvirt.SecretUsageTypeVtpm {
		return compute.KeyOfTPM
	}
	return compute.KeysOfDisks
}

// loans are the secrets that a server's domain needs to start, each once: libvirt
// refuses a second one of the same uuid. A rescue disk and the image under it have
// one, for all that libvirt cares about its use.
func loans(s compute.Server, keys compute.Keyring) []loan {
	var all []loan
	add := func(n loan) {
		if !slices.ContainsFunc(all, func(have loan) bool { return have.id == n.id }) {
			all = append(all, n)
		}
	}
	for _, d := range s.Attached() {
		name := s.ID.String() + "_" + d.ID.String()
		// What the host decrypts needs none, but a config drive has its root disk's.
		lent := !d.OnDevice() || s.ConfigDrive && d.Role == compute.RootDisk
		if d.Encrypted && d.Secret != nil && lent {
			add(loan{*d.Secret, keys.OfDisk(d), libvirt.SecretUsageTypeVolume, name})
		}
		if d.BackingSecret != nil && !d.OnDevice() {
			add(loan{*d.BackingSecret, keys.OfDisk(d), libvirt.SecretUsageTypeVolume, name + "_backing"})
		}
	}
	if s.TPM != nil && s.TPM.Secret != nil {
		add(loan{*s.TPM.Secret, keys.TPM, libvirt.SecretUsageTypeVtpm, s.ID.String()})
	}
	return all
}

// ofServer matches the names of loans' uses and finds the server in them.
var ofServer = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:_[0-9a-f-]{36}(?:_backing|_export)?)?$`)

// lend gives libvirt one secret: in its memory only (ephemeral), and to be read
// by nobody (private).
func (c *Client) lend(ctx context.Context, l *libvirt.Libvirt, n loan, p *secret.Passphrase) error {
	// What a killed attempt left is in the way.
	if old, err := l.SecretLookupByUsage(int32(n.usage), n.name); err == nil {
		if err := forget(l, old); err != nil {
			return err
		}
	} else if !isCode(err, libvirt.ErrNoSecret) {
		return err
	}
	if old, err := l.SecretLookupByUUID(libvirt.UUID(n.id.UUID)); err == nil {
		if err := forget(l, old); err != nil {
			return err
		}
	} else if !isCode(err, libvirt.ErrNoSecret) {
		return err
	}
	usage := libvirtxml.SecretUsage{Type: "volume", Volume: n.name}
	if n.usage == libvirt.SecretUsageTypeVtpm {
		usage = libvirtxml.SecretUsage{Type: "vtpm", Name: n.name}
	}
	return p.Use(func(value []byte) error { return c.tell(ctx, l, n.id.UUID, usage, value) })
}

// tell gives libvirt a secret, or a new value of it, as lend says.
func (c *Client) tell(ctx context.Context, l *libvirt.Libvirt, id uuid.UUID, usage libvirtxml.SecretUsage, value []byte) error {
	x := libvirtxml.Secret{Ephemeral: "yes", Private: "yes", UUID: id.String(), Usage: &usage}
	doc, err := x.Marshal()
	if err != nil {
		return err
	}
	defined, err := l.SecretDefineXML(doc, 0)
	if err != nil {
		return err
	}
	return c.SetSecretValue(context.WithoutCancel(ctx), defined, value)
}

func forget(l *libvirt.Libvirt, s libvirt.Secret) error {
	if err := l.SecretUndefine(s); err != nil && !isCode(err, libvirt.ErrNoSecret) {
		return err
	}
	return nil
}

// takeBackTime is how long an attempt that was cancelled may still take to
// leave no secret behind.
const takeBackTime = 10 * time.Second

// takeBack ensures that libvirt knows no secret of these ids, and none whose
// use names the server. It works on a connection and a time of its own: the
// start before it may have been cut off.
func (a *Activities) takeBack(ctx context.Context, server compute.ServerID, ids []compute.SecretID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackTime)
	defer cancel()
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		known, _, err := l.ConnectListAllSecrets(1, 0)
		if err != nil {
			return err
		}
		var failed error
		for _, s := range known {
			if serverOf(s) == server.String() || oneOf(s, ids) {
				failed = errors.Join(failed, forget(l, s))
			}
		}
		return failed
	})
}

// serverOf gives the uuid of the server whose secret it is, "" if nobody's.
func serverOf(s libvirt.Secret) string {
	m := ofServer.FindStringSubmatch(s.UsageID)
	if m == nil {
		return ""
	}
	return m[1]
}

func oneOf(s libvirt.Secret, ids []compute.SecretID) bool {
	for _, id := range ids {
		if libvirt.UUID(id.UUID) == s.UUID {
			return true
		}
	}
	return false
}

// kind is an error's kind; one without is worth another try.
func kind(err error) compute.Kind {
	if k := compute.KindOf(err); k != "" {
		return k
	}
	return compute.Unavailable
}
