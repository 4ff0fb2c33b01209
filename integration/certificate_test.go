package integration_test

import (
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
	"strongroom/worker/pki"
)

// A host is locked out in the middle of a create, and has another certificate later: the
// create is completed, or undone. Where its next step had not reached the host when it was locked out, it
// waits for the host until then. Where the certificate comes before the create goes on, it is completed.
func TestKillMatrixCertificate(t *testing.T) {
	backends(t, local, openStack)
	eachPoint(t, cutsOf("certificate", cuts.certificate), func(t *testing.T, c *testCloud, point string) {
		caught := func() (id string, at held) {
			at = c.hold(t, point)
			id = c.createIdle(t, encryptedTIS)
			require.Eventually(t, at.reached, settleTimeout, 50*time.Millisecond)
			c.lockOut(t, c.Host(1))
			return id, at
		}
		id, at := caught()
		at.release()
		time.Sleep(lockedOut)
		c.letIn(t, c.Host(1))
		require.Contains(t, []string{"ACTIVE", "ERROR"}, c.settled(t, id).Status)
		c.nothingIsLeftInTime(t) // an undo that waited for the host goes on
		c.delete(t, id)
		c.nothingIsLeft(t)

		id, at = caught()
		c.letIn(t, c.Host(1))
		at.release()
		s := c.settled(t, id)
		require.Equal(t, "ACTIVE", s.Status, "fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// A host that starts with a certificate that ends soon renews it, and operations that it was
// in the middle of go on, also when that one has ended.
func TestKillMatrixCertificateEnds(t *testing.T) {
	backends(t, local) // it is about certificates of hosts and Temporal's connections
	eachPoint(t, cutsOf("certificate end", cuts.certificate), func(t *testing.T, c *testCloud, point string) {
		at := c.hold(t, point)
		id := c.createIdle(t, encryptedTIS)
		require.Eventually(t, at.reached, settleTimeout, 50*time.Millisecond)
		ends := c.endsSoon(t, 90*time.Second)
		c.restartHost(t, c.Host(1))
		folder := pki.Folder(filepath.Join(c.State, "certificate"))
		require.Eventually(t, func() bool {
			own, _, err := folder.Load()
			return err == nil && time.Until(own.Cert().NotAfter) > pki.HostLifetime/2
		}, time.Until(ends), 100*time.Millisecond, "it was not renewed")
		time.Sleep(time.Until(ends) + time.Second)
		at.release()
		s := c.settled(t, id)
		require.Equal(t, "ACTIVE", s.Status, "fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// lockedOut is longer than Temporal takes to hear that a host was revoked, and to notice that it does not
// beat any more.
const lockedOut = 30 * time.Second

// lockOut takes a host's certificate away.
func (c *testCloud) lockOut(t *testing.T, h stack.Host) {
	t.Helper()
	out, err := c.strongroom("--config", c.ConfigFile(), "host", "revoke", hostName(t, h))
	require.NoError(t, err, out)
}

// letIn gives a host another certificate, with which it starts again.
func (c *testCloud) letIn(t *testing.T, h stack.Host) {
	t.Helper()
	c.enrollAgain(t, h)
	c.restartHost(t, h)
}

// restartHost kills a host worker and waits until another one has reported itself.
func (c *testCloud) restartHost(t *testing.T, h stack.Host) {
	t.Helper()
	part := h.Part("host")
	before, running := process.Named(c.PIDFile(part))
	began := time.Now()
	if running {
		c.kill(t, part)
	}
	db := c.database(t)
	require.Eventually(t, func() bool {
		pid, running := process.Named(c.PIDFile(part))
		var seen time.Time
		var agent string
		err := db.QueryRow(t.Context(), "SELECT last_seen, agent_url FROM hosts WHERE name = $1", hostName(t, h)).Scan(&seen, &agent)
		return err == nil && running && pid != before && seen.After(began) && listens(t, agent)
	}, settleTimeout, 100*time.Millisecond, "the host does not come back")
}

// listens reports whether anything takes connections at a URL. A host's agent does so a moment after its
// report is in the database.
func listens(t *testing.T, at string) bool {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// endsSoon gives the host, once it starts again, a certificate that ends at a time.
func (c *testCloud) endsSoon(t *testing.T, within time.Duration) time.Time {
	t.Helper()
	authority, err := pki.Open(filepath.Join(c.State, "ca"))
	require.NoError(t, err)
	folder := pki.Folder(filepath.Join(c.State, "certificate"))
	own, keys, err := folder.Load()
	require.NoError(t, err)
	name, err := pki.NameOf(own.Cert())
	require.NoError(t, err)
	soon, err := authority.Issue(name, keys.Sign.Public(), within)
	require.NoError(t, err)
	_, err = c.database(t).Exec(t.Context(), `INSERT INTO host_certificates (serial, host_id, host_name, sealing_key, not_after)
		SELECT $1, host_id, host_name, sealing_key, $2 FROM host_certificates WHERE serial = $3`,
		soon.SerialNumber.Text(16), soon.NotAfter, own.Cert().SerialNumber.Text(16))
	require.NoError(t, err)
	_, err = c.database(t).Exec(t.Context(), "UPDATE host_certificates SET revoked_at = now() WHERE serial = $1", own.Cert().SerialNumber.Text(16))
	require.NoError(t, err)
	require.NoError(t, folder.Save(soon, own.CA(), keys))
	return soon.NotAfter
}

func (c *testCloud) database(t *testing.T) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	return db
}
