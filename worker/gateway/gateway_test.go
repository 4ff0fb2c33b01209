package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	imagelocal "strongroom/activities/image/local"
	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

// H1: a host gets what an operation that runs on one of its servers needs, and nothing else.
// What is refused is in the log.
func TestH1AHostGetsWhatItsOperationsUseAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	mine, other := c.enrolled("mine"), c.enrolled("other")
	op, foreign := mine.server(), other.server()
	secret, theirs := c.secret(op.ServerID, owner), c.secret(foreign.ServerID, owner)

	got, err := mine.read(op.ServerID, owner, secret)
	require.NoError(t, err)
	require.Equal(t, c.value(owner, secret), got)

	stray := c.stray(owner)
	refused := func(why string, h *host, server compute.ServerID, cred compute.Credential, id compute.SecretID) {
		t.Helper()
		_, err := h.read(server, cred, id)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", why, err)
		h.refusal("POST /v1/passphrase", server.String())
	}
	c.log.take("")
	refused("another server's secret", mine, op.ServerID, owner, theirs)
	refused("a secret of no server", mine, op.ServerID, owner, stray)
	refused("another host's server", mine, foreign.ServerID, owner, theirs)
	refused("a credential of no operation", mine, op.ServerID, compute.Credential{ID: uuid.New(), ProjectID: owner.ProjectID, UserID: owner.UserID}, secret)
	refused("the credential in another project", mine, op.ServerID, compute.Credential{ID: owner.ID, ProjectID: "p2", UserID: owner.UserID}, secret)
	refused("strongroom's own login, which the flavor does not ask for", mine, op.ServerID, compute.DeploymentCredential(), secret)
	refused("its role in the project", mine, op.ServerID, compute.MemberCredential(owner.ProjectID), secret)
	_, err = mine.secrets.Passphrase(t.Context(), owner, secret)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "outside an operation: %v", err)

	// For some operations no host reads a key, and one of them begins without anybody asking.
	var kind string
	require.NoError(t, c.DB.QueryRow(t.Context(), "SELECT kind FROM operations WHERE id = $1", op.ID).Scan(&kind))
	for _, k := range []compute.OperationKind{compute.OpBackUpTPM, compute.OpPause, compute.OpCrashDump, compute.OpShareAttach} {
		c.Exec("UPDATE operations SET kind = $2 WHERE id = $1", op.ID, k)
		refused("a key that "+string(k)+" does not read", mine, op.ServerID, owner, secret)
	}
	c.Exec("UPDATE operations SET kind = $2 WHERE id = $1", op.ID, kind)
	_, err = mine.read(op.ServerID, owner, secret)
	require.NoError(t, err)

	// What the request names is read with the request's own credential.
	c.Exec("UPDATE operations SET kind = 'createImage', arguments = jsonb_build_object('secret', $2::text) WHERE id = $1", op.ID, stray)
	_, err = mine.read(op.ServerID, owner, stray)
	require.NoError(t, err)
	c.Exec("UPDATE operations SET arguments = jsonb_build_object('name', $2::text) WHERE id = $1", op.ID, stray)
	refused("a text that is no secret's", mine, op.ServerID, owner, stray)
	c.Exec("UPDATE operations SET kind = 'rescue', arguments = jsonb_build_object('image', jsonb_build_object('properties', "+
		"jsonb_build_object('os_encrypt_key_id', upper($2::text), 'os_encrypt_format', 'luks'))) WHERE id = $1", op.ID, stray)
	_, err = mine.read(op.ServerID, owner, stray)
	require.NoError(t, err, "in capitals")

	// The key of a rescue disk is what its image says: whoever asked reads it, and strongroom's
	// own login does not, though it reads those of the server's own disks.
	c.Exec(`UPDATE servers SET flavor = jsonb_set(flavor, '{extra_specs}', '{"hw:ephemeral_encryption_secret_security": "deployment"}') WHERE id = $1`, op.ServerID)
	victim, own := c.stray(compute.DeploymentCredential()), c.secret(op.ServerID, compute.DeploymentCredential())
	c.Exec(`INSERT INTO server_disks (id, server_id, role, device_name, size_mb, encrypted, encryption_format, encryption_secret_uuid)
		VALUES (gen_random_uuid(), $1, 'rescue', '/dev/vda', 1, true, 'luks', $2)`, op.ServerID, victim)
	refused("another's key that an image names, with strongroom's login", mine, op.ServerID, compute.DeploymentCredential(), victim)
	_, err = mine.read(op.ServerID, compute.DeploymentCredential(), own)
	require.NoError(t, err)
	refused("with the credential of the request", mine, op.ServerID, owner, own)
	c.Exec("DELETE FROM server_disks WHERE role = 'rescue'")
	c.Exec(`UPDATE servers SET flavor = flavor - 'extra_specs' WHERE id = $1`, op.ServerID)
	c.Exec("UPDATE server_disks SET encryption_secret_uuid = $2 WHERE server_id = $1", op.ServerID, secret)
	c.Exec("UPDATE operations SET arguments = '{}' WHERE id = $1", op.ID)

	// A secret that the operation made, with the credential that it was made with.
	c.Exec(`INSERT INTO ledger (id, kind, place, name, reference, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		VALUES (gen_random_uuid(), 'key_secret', 'key-manager', 'n', $1, 'image', gen_random_uuid(), $2, $3, 'p1', 'u1', 'present')`, stray, op.ID, owner.ID)
	_, err = mine.read(op.ServerID, owner, stray)
	require.NoError(t, err)
	delegated := compute.DelegatedCredential(op.ServerID, owner.ProjectID, owner.UserID)
	refused("another credential than it was made with", mine, op.ServerID, delegated, stray)
	c.Exec("UPDATE ledger SET credential_id = $1", delegated.ID)
	_, err = mine.read(op.ServerID, delegated, stray)
	require.NoError(t, err, "the key of a vTPM that a rebuild adds, before the record has the vTPM")

	// A server that an operation claimed room for is about to be there.
	refused("not yet", other, op.ServerID, owner, secret)
	c.Exec("INSERT INTO claims (server_id, host_id, operation_id, vcpus, memory_mb, disk_gb) VALUES ($1, $2, $3, 1, 1, 1)", op.ServerID, other.id, op.ID)
	_, err = other.read(op.ServerID, owner, secret)
	require.NoError(t, err)

	c.Exec("UPDATE operations SET state = 'succeeded' WHERE id = $1", op.ID)
	refused("the operation has ended", mine, op.ServerID, owner, secret)
}

// H1: a resize to a flavor whose keys the owner delegates starts the guest with the delegated
// credential before the server has the flavor. The same credential opens nothing else, and nothing
// for anybody else's resize.
func TestH1AResizeReadsKeysAsItsFlavorSays(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("h")
	op := h.server()
	owner := schematest.Owner
	secret, stray := c.secret(op.ServerID, owner), c.stray(owner)
	delegated := compute.DelegatedCredential(op.ServerID, owner.ProjectID, owner.UserID)
	flavor := func(id, security string) compute.Flavor {
		return compute.Flavor{ID: id, Name: id, VCPUs: 1, MemoryMB: 512, RootGB: 1, ExtraSpecs: map[string]string{
			"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb", "hw:ephemeral_encryption": "true", "hw:ephemeral_encryption_secret_security": security,
		}}
	}
	text := func(v any) string {
		out, err := json.Marshal(v)
		require.NoError(t, err)
		return string(out)
	}
	c.Exec("UPDATE servers SET vm_state = 'active', flavor = $2::text::jsonb WHERE id = $1", op.ServerID, text(flavor("was", "user")))
	for name, tt := range map[string]struct {
		kind   compute.OperationKind
		to     compute.Flavor
		asker  string
		secret compute.SecretID
		given  bool
	}{
		"the owner's resize":            {compute.OpResize, flavor("will", "host"), owner.UserID, secret, true},
		"another operation":             {compute.OpStart, flavor("will", "host"), owner.UserID, secret, false},
		"a resize that delegates none":  {compute.OpResize, flavor("will", "user"), owner.UserID, secret, false},
		"the resize of another user":    {compute.OpResize, flavor("will", "host"), "u2", secret, false},
		"a key that is not the disk's":  {compute.OpResize, flavor("will", "host"), owner.UserID, stray, false},
		"a resize that is none (EE-33)": {compute.OpResize, flavor("was", "host"), owner.UserID, secret, false},
	} {
		c.Exec("UPDATE operations SET kind = $2, arguments = $3::text::jsonb, user_id = $4 WHERE id = $1",
			op.ID, tt.kind, text(compute.ResizeArguments{Flavor: tt.to}), tt.asker)
		_, err := h.read(op.ServerID, delegated, tt.secret)
		if tt.given {
			require.NoError(t, err, name)
		} else {
			require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", name, err)
		}
	}
}

// H1: a certificate that was revoked, or that another authority issued, opens nothing; nor
// does none.
func TestH1WhoIsNoHostGetsNothing(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	op := h.server()
	secret := c.secret(op.ServerID, schematest.Owner)
	_, err := h.read(op.ServerID, schematest.Owner, secret)
	require.NoError(t, err)

	require.Equal(t, compute.NotFound, compute.KindOf(gateway.Revoke(c.Ctx, c.DB, "b")))
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	_, err = h.read(op.ServerID, schematest.Owner, secret)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	require.ErrorContains(t, err, "revoked")
	h.refusal("POST /v1/passphrase", "revoked")
	_, err = h.client.Seen(c.Ctx)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	h.refusal("POST /v1/host/seen", "revoked")
	_, err = h.client.Renew(c.Ctx, h.request)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	h.refusal("POST /v1/renew", "revoked")

	h.newKeys()
	require.NoError(t, h.enroll(c.token("a")), "it is sound again")
	_, err = h.read(op.ServerID, schematest.Owner, secret)
	require.NoError(t, err)

	stranger, err := pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	forged, err := stranger.Issue(pki.HostName(h.id), h.keys.Sign.Public(), time.Hour)
	require.NoError(t, err)
	for why, id := range map[string]*pki.Identity{
		"bad certificate|unknown certificate authority": pki.NewIdentity(forged, h.keys.Sign, h.got.CA),
		"no certificate of a host":                      process(t, c.authority, pki.API),
		"revoked, or has ended":                         process(t, c.authority, pki.HostName(h.id)), // issued, and in no database
	} {
		_, err := gateway.Dial(c.url, id).Seen(c.Ctx)
		require.Error(t, err)
		require.Regexp(t, why, err.Error())
	}
	nobody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := nobody.Post(c.url+"/v1/host/seen", "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)

	// And a host talks to no false gateway.
	url := c.serve(process(t, stranger, pki.Gateway))
	_, err = gateway.Dial(url, pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA)).Seen(c.Ctx)
	require.ErrorContains(t, err, "unknown authority")
	url = c.serve(process(t, c.authority, pki.HostName(h.id)))
	_, err = gateway.Dial(url, pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA)).Seen(c.Ctx)
	require.ErrorContains(t, err, "not of gateway")
}

func process(t *testing.T, a *pki.Authority, name pki.Name) *pki.Identity {
	t.Helper()
	id, err := a.Process(name)
	require.NoError(t, err)
	return id
}

// H1: a token makes one host, of its own name and of no other's id, at its own gateway.
func TestH1TokensWorkOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	first := c.enrolled("first")
	token := c.token("second")
	thief := c.newHost("second", first.id)
	require.Equal(t, compute.Conflict, compute.KindOf(thief.enroll(token)), "the id is another host's")
	second := c.newHost("second", compute.HostID{UUID: uuid.New()})
	require.NoError(t, second.enroll(token))
	require.Equal(t, "second", second.got.Name)
	require.Equal(t, compute.Forbidden, compute.KindOf(second.enroll(token)), "used")
	require.Equal(t, compute.Conflict, compute.KindOf(c.newHost("first", compute.HostID{UUID: uuid.New()}).enroll(c.token("first"))), "the name is another host's")

	spare := c.token("first")
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, first.id.String()))
	require.Equal(t, compute.Forbidden, compute.KindOf(first.enroll(spare)), "revoked by its uuid")

	late, err := gateway.Offer(c.Ctx, c.DB, c.authority, "late", time.Hour, false)
	require.NoError(t, err)
	c.Exec("UPDATE host_enrollments SET expires_at = now() WHERE host_name = 'late'")
	require.Equal(t, compute.Forbidden, compute.KindOf(c.newHost("late", compute.HostID{UUID: uuid.New()}).enroll(late.Text())))
	revoked := c.token("revoked")
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "revoked"))
	require.Equal(t, compute.Forbidden, compute.KindOf(c.newHost("revoked", compute.HostID{UUID: uuid.New()}).enroll(revoked)))

	stranger, err := pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	h := c.newHost("third", compute.HostID{UUID: uuid.New()})
	h.cloud = &cloud{Fixture: c.Fixture, t: t, url: c.serve(process(t, stranger, pki.Gateway))}
	unused := c.token("third")
	require.ErrorContains(t, h.enroll(unused), "another fingerprint")
	h.cloud = c
	require.NoError(t, h.enroll(unused), "a false gateway did not get the token")

	for _, bad := range []string{"", "x", "x.y", unused[:40], unused + "."} {
		require.Error(t, h.enroll(bad), bad)
	}
}

// H1: a host that was revoked enrolls again with new keys alone, as long as nobody says
// that the old ones were not lost.
func TestH1RevokedKeysDoNotComeBack(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	lost := h.keys
	require.NoError(t, h.enroll(c.tokenFor("a", true)), "its own keys, which are not lost")
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))

	token := c.token("a")
	refused := func(why string) {
		t.Helper()
		err := h.enroll(token)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", why, err)
		require.ErrorContains(t, err, "were revoked", why)
	}
	refused("both keys")
	fresh, err := pki.GenerateKeys()
	require.NoError(t, err)
	h.use(pki.Keys{Sign: lost.Sign, Seal: fresh.Seal})
	refused("the key of its certificate")
	h.use(pki.Keys{Sign: fresh.Sign, Seal: lost.Seal})
	refused("the key to which passphrases are sealed")
	other := c.newHost("b", compute.HostID{UUID: uuid.New()})
	other.use(lost)
	require.Equal(t, compute.Conflict, compute.KindOf(other.enroll(c.token("b"))), "under another id")
	require.Zero(t, c.CountRows("SELECT count(*) FROM host_certificates WHERE revoked_at IS NULL"))

	h.use(fresh)
	require.NoError(t, h.enroll(token), "new keys, and the token was not used up")
	c.Exec("UPDATE host_certificates SET not_after = now() - interval '1 day' WHERE revoked_at IS NOT NULL")
	_, err = h.client.Renew(c.Ctx, h.request) // removes certificates that have ended
	require.NoError(t, err)
	h.use(lost)
	require.Equal(t, compute.Conflict, compute.KindOf(h.enroll(c.token("a"))), "for good")

	require.NoError(t, h.enroll(c.tokenFor("a", true)), "its operator says that nobody else has them")
	_, err = h.client.Seen(c.Ctx)
	require.NoError(t, err)
	unused := c.tokenFor("a", true)
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	require.Equal(t, compute.Forbidden, compute.KindOf(h.enroll(unused)), "a revocation takes back such a token, too")
}

// H1: nor do revoked keys come back by a renewal. Those that a host was let keep, it may keep
// still.
func TestH1RevokedKeysDoNotComeBackByARenewal(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	lost := h.keys
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	h.newKeys()
	require.NoError(t, h.enroll(c.token("a")))
	own, other := h.keys, c.enrolled("b")

	refused := func(of *host, keys pki.Keys, why string) {
		t.Helper()
		before := c.Dump("host_certificates")
		of.use(keys)
		_, err := of.client.Renew(c.Ctx, of.request)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%s: %v", why, err)
		require.ErrorContains(t, err, "were revoked", why)
		require.Equal(t, before, c.Dump("host_certificates"), why)
	}
	fresh, err := pki.GenerateKeys()
	require.NoError(t, err)
	refused(h, lost, "both keys")
	refused(h, pki.Keys{Sign: lost.Sign, Seal: own.Seal}, "the key of its certificate")
	refused(h, pki.Keys{Sign: fresh.Sign, Seal: lost.Seal}, "the key to which passphrases are sealed")
	refused(other, lost, "as another host")
	renewed := func(keys pki.Keys, why string) {
		t.Helper()
		h.use(keys)
		_, err := h.client.Renew(c.Ctx, h.request)
		require.NoError(t, err, why)
	}
	renewed(own, "its own")
	renewed(fresh, "new ones")

	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	h.use(lost)
	require.NoError(t, h.enroll(c.tokenFor("a", true)), "its operator says that nobody else has them")
	renewed(lost, "those that it was let keep")
	refused(h, fresh, "others that were revoked")
}

// H1: a request that began before the host was revoked, and waits with its body, gets
// nothing; nor does a renewal that meets the revocation.
func TestH1NoRequestOutlivesARevocation(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	for path, body := range map[string]any{"/v1/renew": h.request, "/v1/host/seen": struct{}{}} {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		conn, err := tls.Dial("tcp", strings.TrimPrefix(c.url, "https://"), pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA).Client(pki.Gateway))
		require.NoError(t, err)
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: gateway\r\nContent-Length: %d\r\n\r\n", path, len(text))
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond) // the gateway has it by now
		require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
		_, err = conn.Write(text)
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, path)
		require.NoError(t, errors.Join(answer.Body.Close(), conn.Close()))
		h.newKeys()
		require.NoError(t, h.enroll(c.token("a")))
	}

	tx, err := c.DB.Begin(c.Ctx)
	require.NoError(t, err)
	q := schema.New(tx)
	_, err = q.LockHostCertificate(c.Ctx, h.got.Cert.SerialNumber.Text(16)) // a renewal
	require.NoError(t, err)
	revoked := make(chan error, 1)
	go func() { revoked <- gateway.Revoke(c.Ctx, c.DB, "a") }()
	select {
	case err := <-revoked:
		require.NoError(t, err)
		require.Fail(t, "it does not wait for the renewal")
	case <-time.After(300 * time.Millisecond):
	}
	require.NoError(t, q.AddHostCertificate(c.Ctx, schema.AddHostCertificateParams{
		Serial: "newer", HostID: h.id, HostName: "a", SealingKey: h.request.SealingKey, NotAfter: time.Now().Add(time.Hour),
	}))
	require.NoError(t, tx.Commit(c.Ctx))
	require.NoError(t, <-revoked)
	require.Zero(t, c.CountRows("SELECT count(*) FROM host_certificates WHERE revoked_at IS NULL"))
}

// H1: nor does the certificate of a renewal that meets an enrollment: the host has no other one than
// that which its token got it.
func TestH1NoRenewalOutlivesAnEnrollment(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	token := c.token("a")
	h.newKeys()
	h.meetsARenewal(func() error { return h.enroll(token) })
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM host_certificates WHERE revoked_at IS NULL"))
	_, err := h.client.Seen(c.Ctx)
	require.NoError(t, err, "with what it got")
}

// H1: nor one that meets "host forget", after which the host's tokens are good for nothing either.
func TestH1NoRenewalOutlivesThatItsHostIsForgotten(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	unused, others := c.token("a"), c.token("b")
	c.Exec("UPDATE hosts SET forced_down = true WHERE id = $1", h.id)
	h.meetsARenewal(func() error {
		_, err := ledger.Forget(c.Ctx, c.DB, h.id)
		return err
	})
	require.Zero(t, c.CountRows("SELECT count(*) FROM host_certificates WHERE revoked_at IS NULL"))
	h.newKeys()
	require.Equal(t, compute.Forbidden, compute.KindOf(h.enroll(unused)))
	require.NoError(t, c.newHost("b", compute.HostID{UUID: uuid.New()}).enroll(others), "another host's")
}

// meetsARenewal does what revokes the host's certificates while a renewal of one is under way, which
// is committed before it is done. The certificate that the renewal adds is revoked with the others.
func (h *host) meetsARenewal(do func() error) {
	h.t.Helper()
	tx, err := h.DB.Begin(h.Ctx)
	require.NoError(h.t, err)
	q := schema.New(tx)
	_, err = q.LockHostCertificate(h.Ctx, h.got.Cert.SerialNumber.Text(16))
	require.NoError(h.t, err)
	done := make(chan error, 1)
	go func() { done <- do() }()
	require.Eventually(h.t, func() bool {
		return h.CountRows("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%RevokeHost%'") == 1
	}, time.Minute, 20*time.Millisecond, "it waits for the renewal")
	require.NoError(h.t, q.AddHostCertificate(h.Ctx, schema.AddHostCertificateParams{
		Serial: "newer", HostID: h.id, HostName: h.name, SealingKey: []byte("newer"), NotAfter: time.Now().Add(time.Hour),
	}))
	require.NoError(h.t, tx.Commit(h.Ctx))
	require.NoError(h.t, <-done)
	require.Equal(h.t, 1, h.CountRows("SELECT count(*) FROM host_certificates WHERE serial = 'newer' AND revoked_at IS NOT NULL"))
}

// H1, C1: who has a host's certificate gets a few more of it, so that a revocation and the list of what
// was revoked stay short. A host that cannot store what it gets may ask again a week later, also when
// what it got is good still.
func TestH1AHostGetsFewCertificates(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h, other := c.enrolled("a"), c.enrolled("b")
	good := func() int {
		return c.CountRows("SELECT count(*) FROM host_certificates WHERE host_id = $1 AND revoked_at IS NULL AND not_after > now()", h.id)
	}
	renews := func(many int) (renewed int) {
		t.Helper()
		c.log.take("")
		answers := make(chan error, many)
		for range many {
			go func() {
				_, err := h.client.Renew(c.Ctx, h.request)
				answers <- err
			}()
		}
		for range many {
			if err := <-answers; err == nil {
				renewed++
			} else {
				require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "4 certificates within a week")
			}
		}
		return renewed
	}
	require.Equal(t, 3, renews(12), "at once")
	require.Len(t, c.log.take(`level=WARN msg=refused peer=`+string(pki.HostName(h.id))+" address=127.0.0.1:"), 9)
	require.Equal(t, 4, good())
	_, err := h.client.Seen(c.Ctx)
	require.NoError(t, err, "what it asked with is good")
	_, err = other.client.Renew(c.Ctx, other.request)
	require.NoError(t, err, "another host")
	require.Len(t, c.log.take(`level=INFO msg="host renewed its certificate" host=b id=`+other.id.String()+" address=127.0.0.1:"), 1)

	c.Exec("UPDATE host_certificates SET created_at = now() - interval '8 days' WHERE host_id = $1", h.id)
	require.Equal(t, 4, renews(5))
	require.Equal(t, 8, good())
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "a"))
	require.Zero(t, good())
	h.newKeys()
	require.NoError(t, h.enroll(c.token("a")))
	require.Equal(t, 3, renews(4), "those that were revoked do not count")
}

// A gateway with another certificate authority than the others does not start.
func TestGatewaysHaveOneAuthority(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	stranger, err := pki.Ensure(t.TempDir() + "/ca")
	require.NoError(t, err)
	require.NoError(t, gateway.KeepAuthority(c.Ctx, c.DB, c.authority))
	require.NoError(t, gateway.KeepAuthority(c.Ctx, c.DB, c.authority))
	require.Equal(t, compute.Conflict, compute.KindOf(gateway.KeepAuthority(c.Ctx, c.DB, stranger)))
}

// A report that comes late, after its sender has given it up and sent another one, undoes nothing of what that said: that
// the host has no lease any more, say. Reports of another boot, and those of an earlier release, which
// have no number, are taken.
func TestALateReportIsDropped(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	a := c.enrolled("a")
	report := func(boot string, number int64, fenceAfter int32) error {
		return a.client.Report(c.Ctx, gateway.HostReport{CPUInfo: []byte("{}"), BootID: boot, ReportNumber: number, FenceAfter: fenceAfter})
	}
	is := func(fenceAfter int) {
		t.Helper()
		require.Equal(t, 1, c.CountRows("SELECT count(*) FROM hosts WHERE id = $1 AND fence_after = $2", a.id, fenceAfter))
	}
	require.NoError(t, report("boot-1", 100, 60))
	require.NoError(t, report("boot-1", 300, 0))
	for _, number := range []int64{200, 300} {
		require.Equal(t, compute.Conflict, compute.KindOf(report("boot-1", number, 60)))
		is(0)
	}
	require.NoError(t, report("boot-1", 400, 120))
	is(120)
	require.NoError(t, report("boot-2", 1, 60), "it was booted")
	is(60)
	require.NoError(t, report("boot-2", 0, 0), "it was rolled back")
	is(0)
	require.NoError(t, report("boot-2", 2, 60), "and upgraded")
	is(60)
}

// What a host says of itself is written under the name and the id of its certificate.
func TestReportsAreOfTheCertificatesHost(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	a, b := c.enrolled("a"), c.enrolled("b")
	require.NoError(t, a.client.Report(c.Ctx, gateway.HostReport{ID: b.id, Name: "b", VCPUs: 77, CPUInfo: []byte("{}"), FenceAfter: 60}))
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM hosts WHERE id = $1 AND name = 'a' AND vcpus = 77 AND fence_after = 60", a.id))
	require.Equal(t, compute.Invalid, compute.KindOf(a.client.Report(c.Ctx, gateway.HostReport{CPUInfo: []byte("{}"), FenceAfter: 1})), "no lease can be that short")
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM hosts WHERE id = $1 AND name = 'b' AND vcpus = 8", b.id))

	op := a.server()
	c.Exec("UPDATE servers SET vm_state = 'active', power_state = 1, current_operation = '' WHERE id = $1", op.ServerID)
	rest, err := a.client.Seen(c.Ctx)
	require.NoError(t, err)
	require.Len(t, rest, 1)
	none, err := b.client.Seen(c.Ctx)
	require.NoError(t, err)
	require.Empty(t, none)
	off := []gateway.FoundPower{{AtRest: rest[0], Found: compute.PowerNone}}
	state := func() string {
		var state string
		require.NoError(t, c.DB.QueryRow(c.Ctx, "SELECT vm_state FROM servers WHERE id = $1", op.ServerID).Scan(&state))
		return state
	}
	require.NoError(t, b.client.SyncPower(c.Ctx, off))
	require.Equal(t, "active", state(), "another host's word")
	require.NoError(t, a.client.SyncPower(c.Ctx, off))
	require.Equal(t, "stopped", state())
	c.Exec("UPDATE servers SET vm_state = 'error', updated_at = NULL WHERE id = $1", op.ServerID)
	require.NoError(t, a.client.SyncPower(c.Ctx, []gateway.FoundPower{{AtRest: gateway.AtRest{Server: op.ServerID, VMState: compute.VMError}, Found: compute.PowerRunning}}))
	require.Equal(t, "error", state(), "it was not at rest")

	c.Exec("UPDATE servers SET current_operation = 'req-x' WHERE id = $1", op.ServerID)
	require.NoError(t, a.client.Progress(c.Ctx, op.ServerID, 40))
	require.Equal(t, compute.Forbidden, compute.KindOf(b.client.Progress(c.Ctx, op.ServerID, 50)))
	require.Equal(t, compute.Invalid, compute.KindOf(a.client.Progress(c.Ctx, op.ServerID, 101)))
	require.Equal(t, 40, c.CountRows("SELECT progress FROM servers WHERE id = $1", op.ServerID))

	got, err := a.client.MetadataAfter(c.Ctx, op.ServerID, nil)
	require.NoError(t, err)
	require.Equal(t, "vm", got.Name)
	_, err = b.client.MetadataAfter(c.Ctx, op.ServerID, nil)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))
	another := b.server().ID
	_, err = a.client.MetadataAfter(c.Ctx, op.ServerID, &another)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "another server's operation")
}

// H1: images pass through whole, or fail as they do at the image store; others' are refused.
func TestH1ImagesPassThrough(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	h := c.enrolled("a")
	op := h.server()
	img, data := c.image(owner)
	foreign, _ := c.image(owner)
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	images := gateway.HostImages{Client: h.client}
	do := func(f func(ctx context.Context) error) error { return as(t, "server/"+op.ServerID.String(), f) }
	download := func(id compute.ImageID) (all []byte, err error) {
		err = do(func(ctx context.Context) error {
			from, err := images.Open(ctx, owner, id)
			if err != nil {
				return err
			}
			defer from.Close()
			all, err = io.ReadAll(from)
			return err
		})
		return all, err
	}
	got, err := download(img)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	require.NoError(t, iotest.TestReader(opened(t, h, op.ServerID, img), data))
	_, err = download(foreign)
	require.Equal(t, compute.Forbidden, compute.KindOf(err))

	queued := c.queued(owner)
	upload := func(id compute.ImageID, from io.Reader) error {
		return do(func(ctx context.Context) error { return images.Upload(ctx, owner, id, from) })
	}
	require.Equal(t, compute.Forbidden, compute.KindOf(upload(queued, bytes.NewReader(data))))
	c.makes(op, owner, compute.ThingImage, compute.PlaceImageStore, queued.String())
	require.Error(t, upload(queued, io.MultiReader(bytes.NewReader(data[:1<<20]), iotest.ErrReader(io.ErrUnexpectedEOF))))
	record, err := c.images.Get(c.Ctx, owner, queued)
	require.NoError(t, err)
	require.Equal(t, "queued", record.Status, "a part of it is no image")
	require.NoError(t, upload(queued, bytes.NewReader(data)))
	require.Equal(t, compute.Conflict, compute.KindOf(upload(queued, bytes.NewReader(data))), "it has its data")
	require.NoError(t, do(func(ctx context.Context) error {
		record, err = images.Get(ctx, owner, queued)
		return err
	}))
	require.Equal(t, "active", record.Status)
	require.EqualValues(t, len(data), record.SizeBytes)
}

// H1: a host writes no image but one that an operation makes: neither the server's own, nor one that a
// request names, nor one that another operation, or this one as somebody else, makes.
func TestH1AHostWritesImagesThatItsOperationMakesAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	owner := schematest.Owner
	h := c.enrolled("a")
	op, other := h.server(), h.server()
	img := c.queued(owner)
	upload := func() error {
		return as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error {
			return gateway.HostImages{Client: h.client}.Upload(ctx, owner, img, strings.NewReader("data"))
		})
	}
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	require.Equal(t, compute.Forbidden, compute.KindOf(upload()), "the server's")
	c.Exec("UPDATE operations SET arguments = jsonb_build_object('image', $2::text) WHERE id = $1", op.ID, img)
	require.Equal(t, compute.Forbidden, compute.KindOf(upload()), "named")
	c.makes(other, owner, compute.ThingImage, compute.PlaceImageStore, img.String())
	require.Equal(t, compute.Forbidden, compute.KindOf(upload()), "made by another operation")
	c.Exec("UPDATE ledger SET operation_id = $2, user_id = 'u2' WHERE name = $1", img.String(), op.ID)
	require.Equal(t, compute.Forbidden, compute.KindOf(upload()), "made as somebody else")
	c.Exec("UPDATE ledger SET user_id = $2 WHERE name = $1", img.String(), owner.UserID)
	require.NoError(t, upload())
}

// opened is the image's reader, as an operation on a server gets it.
func opened(t *testing.T, h *host, server compute.ServerID, id compute.ImageID) io.Reader {
	t.Helper()
	var from io.ReadCloser
	require.NoError(t, as(t, "server/"+server.String(), func(ctx context.Context) (err error) {
		from, err = gateway.HostImages{Client: h.client}.Open(context.WithoutCancel(ctx), schematest.Owner, id)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, from.Close()) })
	return from
}

// unhurried is an image store that takes longer than a request may.
type unhurried struct{ image.Library }

func (u unhurried) OpenUnchecked(ctx context.Context, cred compute.Credential, id compute.ImageID) (io.ReadCloser, error) {
	from, err := u.Library.OpenUnchecked(ctx, cred, id)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(from, 1<<20), late{ctx}, from), from}, nil
}

func (u unhurried) Upload(ctx context.Context, cred compute.Credential, id compute.ImageID, data io.Reader) error {
	if err := u.Library.Upload(ctx, cred, id, data); err != nil {
		return err
	}
	_, err := late{ctx}.Read(nil)
	if err == io.EOF { //nolint:errorlint // late gives it as it is
		return nil
	}
	return err
}

// late ends after longer than a request may take, or with its context's error.
type late struct{ ctx context.Context }

func (l late) Read([]byte) (int, error) {
	select {
	case <-l.ctx.Done():
		return 0, l.ctx.Err()
	case <-time.After(requestTime * 3 / 2):
		return 0, io.EOF
	}
}

// An image may take longer than other requests: in the middle of its bytes, and after the
// last of them.
func TestImagesTakeTheirTime(t *testing.T) {
	t.Parallel()
	local, err := imagelocal.Open(imagelocal.Config{Dir: t.TempDir()})
	require.NoError(t, err)
	c := newCloudWith(t, unhurried{local})
	owner := schematest.Owner
	h := c.enrolled("a")
	op := h.server()
	c.images = local // the image is made directly
	img, data := c.image(owner)
	queued := c.queued(owner)
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	c.makes(op, owner, compute.ThingImage, compute.PlaceImageStore, queued.String())
	images := gateway.HostImages{Client: h.client}
	require.NoError(t, as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error {
		from, err := images.Open(ctx, owner, img)
		if err != nil {
			return err
		}
		defer from.Close()
		got, err := io.ReadAll(from)
		require.True(t, bytes.Equal(data, got))
		return err
	}))
	require.NoError(t, as(t, "server/"+op.ServerID.String(), func(ctx context.Context) error {
		return images.Upload(ctx, owner, queued, bytes.NewReader(data))
	}))
}

// A host's certificate is renewed while it is in use: what was sealed to the keys before can
// still be opened.
func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	op := h.server()
	secret := c.secret(op.ServerID, schematest.Owner)
	newer := c.newHost("a", h.id)
	answer, err := h.client.Renew(c.Ctx, newer.request)
	require.NoError(t, err)
	cert, err := pki.ParseFor(answer.Certificate, h.id, newer.keys)
	require.NoError(t, err)
	_, err = pki.ParseFor(answer.Certificate, h.id, h.keys)
	require.Error(t, err, "for other keys")

	h.secrets.Renewed(newer.keys)
	_, err = h.read(op.ServerID, schematest.Owner, secret)
	require.NoError(t, err, "over a connection of the certificate before")
	h.client = gateway.Dial(c.url, pki.NewIdentity(cert, newer.keys.Sign, h.got.CA))
	h.secrets = gateway.NewHostKeys(h.client, h.id, newer.keys)
	_, err = h.read(op.ServerID, schematest.Owner, secret)
	require.NoError(t, err)
}

// EE-03, EE-41: a host tells its default encryption format with its report. One of an earlier
// release, whose report has no such key, is taken as one that makes luks.
func TestEE41HostsOfTwoReleasesReportThemselves(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	older, newer := c.enrolled("older"), c.enrolled("newer")
	report := gateway.HostReport{VCPUs: 1, CPUInfo: []byte("{}"), DefaultFormat: compute.FormatLUKSv2, GroupMB: new(int64(4096))}
	require.NoError(t, newer.client.Report(c.Ctx, report))
	text, err := json.Marshal(report)
	require.NoError(t, err)
	var keys map[string]any
	require.NoError(t, json.Unmarshal(text, &keys))
	require.Equal(t, "luksv2", keys["default_format"])
	delete(keys, "default_format")
	delete(keys, "group_mb")
	text, err = json.Marshal(keys)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(c.Ctx, http.MethodPut, c.url+"/v1/host", bytes.NewReader(text)) // not with this release's client
	require.NoError(t, err)
	own := pki.NewIdentity(older.got.Cert, older.keys.Sign, older.got.CA).Client(pki.Gateway)
	answer, err := pki.HTTPClient(&http.Transport{TLSClientConfig: own}).Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	rows, err := c.Q.HostsWithUse(c.Ctx, nil)
	require.NoError(t, err)
	has := map[compute.HostID]compute.DiskFormat{}
	for _, h := range schema.Hosts(rows) {
		has[h.ID] = h.DefaultFormat()
		require.Equal(t, h.ID == newer.id, h.Groups)
		require.Equal(t, map[bool]int{true: 4096}[h.Groups], h.Capacity.GroupMB)
	}
	require.Equal(t, map[compute.HostID]compute.DiskFormat{older.id: compute.FormatLUKS, newer.id: compute.FormatLUKSv2}, has)

	report.DefaultFormat = "rot13"
	require.Equal(t, compute.Invalid, compute.KindOf(newer.client.Report(c.Ctx, report)))
	report.DefaultFormat, report.GroupMB = "", nil // it went back to the earlier release
	require.NoError(t, newer.client.Report(c.Ctx, report))
	require.Equal(t, 2, c.CountRows("SELECT count(*) FROM hosts WHERE default_format = '' AND group_mb IS NULL"))
}

// H1: each placement reads the rows of all hosts, so no text in them is longer than a host's can be.
func TestH1AHostsTextsAreBounded(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	long, longest := strings.Repeat("ä", compute.MostHostText+1), strings.Repeat("ä", compute.MostHostText)
	traits := func(n int) []string {
		return slices.Repeat([]string{"CUSTOM_" + strings.Repeat("A", compute.MostHostText-7)}, n)
	}
	cpu := func(n int) []byte { return []byte(`"` + strings.Repeat("c", n-2) + `"`) }
	require.NoError(t, h.client.Report(c.Ctx, gateway.HostReport{
		CPUInfo: cpu(compute.MostHostCPUInfo), Traits: traits(compute.MostHostTraits), Uptime: longest, AvailabilityZone: longest,
	}))
	for name, set := range map[string]func(*gateway.HostReport){
		"traits":       func(r *gateway.HostReport) { r.Traits = traits(compute.MostHostTraits + 1) },
		"a long trait": func(r *gateway.HostReport) { r.Traits = []string{long} },
		"cpu_info":     func(r *gateway.HostReport) { r.CPUInfo = cpu(compute.MostHostCPUInfo + 1) },
		"address":      func(r *gateway.HostReport) { r.Address = long },
		"agent":        func(r *gateway.HostReport) { r.AgentURL = long },
		"hypervisor":   func(r *gateway.HostReport) { r.HypervisorType = long },
		"zone":         func(r *gateway.HostReport) { r.AvailabilityZone = long },
		"uptime":       func(r *gateway.HostReport) { r.Uptime = long },
		"release":      func(r *gateway.HostReport) { r.Release = long },
		"boot":         func(r *gateway.HostReport) { r.BootID = long },
		"TPM storage":  func(r *gateway.HostReport) { r.TPMStorage = long },
	} {
		report := gateway.HostReport{CPUInfo: []byte("{}")}
		set(&report)
		err := h.client.Report(c.Ctx, report)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		require.Less(t, len(err.Error()), 500, name)
	}
}

// H8: what a host says of networks is heard by the whole cloud, so it is bounded. What is refused is not written.
func TestH8AReportOfNetworksIsBounded(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("a")
	const network = "5c1e0f5e-0c64-4b3c-8f1d-2b64a3a0d001"
	many := func(n int, one func(int) string) (out []string) {
		for i := range n {
			out = append(out, one(i))
		}
		return out
	}
	id := func(i int) string { return fmt.Sprintf("5c1e0f5e-0c64-4b3c-8f1d-%012x", i) }
	project := func(i int) string { return fmt.Sprintf("%032x", i) }
	limits := func(networks []string, projects ...string) map[string][]string {
		out := map[string][]string{}
		for _, network := range networks {
			out[network] = projects
		}
		return out
	}
	report := func(networks []string, private map[string][]string) error {
		return h.client.Report(c.Ctx, gateway.HostReport{CPUInfo: []byte("{}"), Networks: networks, NetworkProjects: private})
	}
	most := many(compute.MostHostNetworks, id)
	require.NoError(t, report(most, limits(most, "p")))
	require.NoError(t, report([]string{network}, limits([]string{strings.ToUpper(network)}, many(compute.MostNetworkProjects, project)...)))
	require.NoError(t, report([]string{network}, limits([]string{network}, "default_domain-1", strings.Repeat("p", 64))))

	more := many(compute.MostHostNetworks+1, id)
	for name, said := range map[string]struct {
		networks []string
		private  map[string][]string
	}{
		"networks":             {more, nil},
		"limited networks":     {nil, limits(more, "p")},
		"projects":             {nil, limits([]string{network}, many(compute.MostNetworkProjects+1, project)...)},
		"a name":               {[]string{"provider"}, nil},
		"no name":              {[]string{""}, nil},
		"a long name":          {[]string{strings.Repeat(network, 1000)}, nil},
		"a limit of a name":    {nil, limits([]string{"provider"}, "p")},
		"a project of nothing": {nil, limits([]string{network}, "")},
		"a long project":       {nil, limits([]string{network}, strings.Repeat("p", 65))},
		"an odd project":       {nil, limits([]string{network}, "p", "a\nb")},
	} {
		err := report(said.networks, said.private)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%s: %v", name, err)
		require.Less(t, len(err.Error()), 300, name)
	}
	require.Equal(t, 1, c.CountRows("SELECT count(*) FROM hosts WHERE networks = ARRAY[$1] AND network_projects = jsonb_build_object($1, $2::jsonb)",
		network, []string{"default_domain-1", strings.Repeat("p", 64)}))
}
