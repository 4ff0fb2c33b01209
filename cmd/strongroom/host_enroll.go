package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"strongroom/compute"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

type hostToken struct {
	Within   time.Duration `default:"1h" help:"How long the token is good for."`
	SameKeys bool          `help:"Let the host enroll with keys that were revoked: you say that nobody else has them."`
	Host     string        `arg:"" name:"host" help:"The name that the host shall have."`
}

// Help is shown by --help.
func (hostToken) Help() string {
	return `Run it on a machine with access to the database and to gateway.authority: a controller.
It prints a token with which one host can enroll, once, under that name:

    strongroom host token compute1 | ssh compute1 strongroom host enroll

Keys that were revoked (strongroom host revoke) are not taken again: an attacker may have
them. For a host that was revoked by mistake, --same-keys lets it keep them:

    strongroom host token --same-keys compute1 | ssh compute1 strongroom host enroll --same-keys`
}

func (c hostToken) Run(r *run) error {
	if c.Host == "" || len(c.Host) > 255 {
		return errors.New("the name of the host has 1 to 255 characters")
	}
	cfg, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	authority, err := cfg.authority()
	if err != nil {
		return err
	}
	token, err := gateway.Offer(r, pool, authority, c.Host, c.Within, c.SameKeys)
	if err != nil {
		return err
	}
	_, err = fmt.Println(token.Text())
	return err
}

type hostEnroll struct {
	output
	TokenFile string `default:"-" help:"File with the token that strongroom host token printed; - is standard input."`
	Replace   bool   `help:"Replace the certificate that the host has."`
	SameKeys  bool   `help:"Replace the certificate, and keep the keys that the host has. If they were revoked, the token must allow it: strongroom host token --same-keys."`
}

// Help is shown by --help.
func (hostEnroll) Help() string {
	return `Run it on a compute host, as root, before strongroom host is started there for the first
time. It makes the host's keys, gets a certificate for them from the gateway
(host.gateway) with a token of strongroom host token, and keeps both in host.certificate.
The host renews its certificate by itself. The keys never leave the host; the token
tells it which gateway is the right one.

A host keeps its id (host.id_file), and with it the key with which it authenticates what
it says through Temporal, also with --replace. One that was in an attacker's hands and is
set up anew needs another id: revoke it (strongroom host revoke), delete its service once
no server is there (openstack compute service delete), remove host.id_file and the folders
host.instances and host.image_cache, and then enroll it.`
}

type enrolled struct {
	Name    string    `json:"name"`
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
}

func (c hostEnroll) Run(r *run) error {
	cfg, err := r.config()
	if err != nil {
		return err
	}
	h := cfg.Host
	_, kept, err := pki.Folder(h.Certificate).Load()
	if c.SameKeys && err != nil {
		return err
	}
	if err == nil && !c.Replace && !c.SameKeys {
		return fmt.Errorf("this host has a certificate in %s: say --replace for another", h.Certificate)
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	id, isNew, err := hostID(h.IDFile)
	if err != nil {
		return err
	}
	if isNew && h.SecureState == "" { // the folders are claimed for it while it is new
		if err := h.claimFolders(id, isNew); err != nil {
			return err
		}
	}
	keys := kept
	if !c.SameKeys {
		if keys, err = pki.GenerateKeys(); err != nil {
			return err
		}
	}
	request, err := enrollRequest(compute.HostID{UUID: id}, keys)
	if err != nil {
		return err
	}
	got, err := gateway.Enroll(r, h.Gateway, token, request, keys)
	if err != nil {
		return fmt.Errorf("enrolling at %s: %w", h.Gateway, err)
	}
	if err := pki.Folder(h.Certificate).Save(got.Cert, got.CA, keys); err != nil {
		return err
	}
	return c.print(enrolled{Name: got.Name, ID: id.String(), Expires: got.Cert.NotAfter}, func(w *sheet) {
		w.note(fmt.Sprintf("host %s (%s) has a certificate until %s; strongroom host runs it", got.Name, id, got.Cert.NotAfter.Format(time.DateOnly)))
	})
}

func (c hostEnroll) token() (string, error) {
	in := io.Reader(os.Stdin)
	if c.TokenFile != "-" {
		f, err := os.Open(filepath.Clean(c.TokenFile))
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, 4096))
	return string(text), err
}

// enrollRequest is what a host asks a gateway for the certificate of its keys with.
func enrollRequest(host compute.HostID, keys pki.Keys) (gateway.EnrollRequest, error) {
	public, err := x509.MarshalPKIXPublicKey(keys.Sign.Public())
	return gateway.EnrollRequest{Host: host, PublicKey: public, SealingKey: keys.Seal.PublicKey().Bytes()}, err
}

type hostRevoke struct {
	output
	Host string `arg:"" name:"host" help:"Its name or uuid."`
}

// Help is shown by --help.
func (hostRevoke) Help() string {
	return `For a host that may be in an attacker's hands. From now on gateways refuse its
certificates, and tokens for it that were not used yet: it gets no passphrase and no
image any more, and looks down as soon as host_timeout is over. Guests that run there go
on. Then mark it as down and move or delete what is on it:

    openstack compute service set --down HOST nova-compute

A host that is sound again gets new keys and a new certificate with strongroom host
token and strongroom host enroll --replace. Its old keys are refused for good, also with a
token; strongroom host token --help says what to do if it was revoked by mistake.

The key with which it authenticates what it says through Temporal goes with its id, and
does not change by that. A host that somebody else had been on gets another id: strongroom
host enroll --help says how.`
}

func (c hostRevoke) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := gateway.Revoke(r, pool, c.Host); err != nil {
		return err
	}
	return c.print(map[string]string{"revoked": c.Host}, func(w *sheet) { w.note("host " + c.Host + " is revoked") })
}

// certificate is that of a host worker which runs, with what uses it.
type certificate struct {
	folder      pki.Folder
	host        compute.HostID
	own         *pki.Identity
	gateway     *gateway.Client
	passphrases *gateway.HostKeys
}

// keep renews the certificate in time, until the context ends.
func (c certificate) keep(r *run) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-r.Done():
			return
		case <-tick.C:
			c.renewIfDue(r)
		}
	}
}

// renewIfDue renews the certificate if less than a third of its life is left. It fails only
// into the log: as long as the old one is good, the host can work.
func (c certificate) renewIfDue(r *run) {
	if time.Until(c.own.Cert().NotAfter) >= pki.HostLifetime/3 {
		return
	}
	if err := c.renew(r); err != nil {
		r.log.WarnContext(r, "the host's certificate could not be renewed", "expires", c.own.Cert().NotAfter, "error", err)
		return
	}
	r.log.InfoContext(r, "the host's certificate was renewed", "expires", c.own.Cert().NotAfter)
}

func (c certificate) renew(r *run) error {
	keys, err := pki.GenerateKeys()
	if err != nil {
		return err
	}
	request, err := enrollRequest(c.host, keys)
	if err != nil {
		return err
	}
	answer, err := c.gateway.Renew(r, request)
	if err != nil {
		return err
	}
	cert, err := pki.ParseFor(answer.Certificate, c.host, keys)
	if err != nil {
		return err
	}
	if err := c.folder.Save(cert, c.own.CA(), keys); err != nil {
		return err
	}
	c.own.Replace(cert, keys.Sign)
	c.passphrases.Renewed(keys)
	return nil
}
