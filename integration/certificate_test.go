package integration_test

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"strongroom/deploy/await"
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
			at.waits(t, c.progress(id))
			c.lockOut(t, c.Host(1))
			return id, at
		}
		name := pki.HostName(c.hostID(t, c.Host(1)))
		refused := func() int { return c.refusals(t, "temporal", name, "was revoked") }
		before := refused()
		id, at := caught()
		at.release()
		await.For(t, "Temporal knows that the host was revoked, and misses it", func() bool { return refused() > before && !c.isTaken(t, id) }, c.progress(id))
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
// in the middle of go on, also when that one is good for nothing any more.
func TestKillMatrixCertificateEnds(t *testing.T) {
	backends(t, local) // it is about certificates of hosts and Temporal's connections
	eachPoint(t, cutsOf("certificate end", cuts.certificate), func(t *testing.T, c *testCloud, point string) {
		at := c.hold(t, point)
		id := c.createIdle(t, encryptedTIS)
		at.waits(t, c.progress(id))
		old := c.endsSoon(t, 10*time.Minute)
		c.restartHost(t, c.Host(1))
		folder := pki.Folder(filepath.Join(c.State, "certificate"))
		await.For(t, "the host renews its certificate", func() bool {
			own, _, err := folder.Load()
			return err == nil && time.Until(own.Cert().NotAfter) > pki.HostLifetime/2
		}, c.hostProgress(c.Host(1)))
		c.isOver(t, old)
		at.release()
		s := c.settled(t, id)
		require.Equal(t, "ACTIVE", s.Status, "fault: %s", s.Fault.Message)
		c.nothingIsLeft(t)
		c.delete(t, id)
		c.nothingIsLeft(t)
	})
}

// isTaken reports whether a worker is at an activity of a server's newest operation, as Temporal has it: one that does not beat is
// not, after a while.
func (c *testCloud) isTaken(t *testing.T, id string) bool {
	t.Helper()
	temporal, err := c.DialTemporal(pki.Operator)
	require.NoError(t, err)
	defer temporal.Close()
	got, err := temporal.DescribeWorkflowExecution(t.Context(), newestWorkflow(id), "")
	require.NoError(t, err)
	return slices.ContainsFunc(got.GetPendingActivities(), func(a *workflowpb.PendingActivityInfo) bool {
		return a.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED
	})
}

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
	await.For(t, "the host comes back", func() bool {
		pid, running := process.Named(c.PIDFile(part))
		var seen time.Time
		var agent string
		err := db.QueryRow(t.Context(), "SELECT last_seen, agent_url FROM hosts WHERE name = $1", hostName(t, h)).Scan(&seen, &agent)
		return err == nil && running && pid != before && seen.After(began) && listens(t, agent)
	}, c.hostProgress(h))
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

// endsSoon gives the host, once it starts again, a certificate that ends soon, and gives that.
func (c *testCloud) endsSoon(t *testing.T, within time.Duration) *pki.Identity {
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
	c.takeBack(t, own)
	require.NoError(t, folder.Save(soon, own.CA(), keys))
	own, _, err = folder.Load()
	require.NoError(t, err)
	return own
}

// takeBack revokes one of a host's certificates.
func (c *testCloud) takeBack(t *testing.T, of *pki.Identity) {
	t.Helper()
	_, err := c.database(t).Exec(t.Context(), "UPDATE host_certificates SET revoked_at = now() WHERE serial = $1", of.Cert().SerialNumber.Text(16))
	require.NoError(t, err)
}

// isOver has a certificate end before its time, and waits until Temporal refuses it.
func (c *testCloud) isOver(t *testing.T, of *pki.Identity) {
	t.Helper()
	temporal, err := client.DialContext(t.Context(), client.Options{HostPort: c.TemporalAddress(), ConnectionOptions: client.ConnectionOptions{TLS: of.Temporal()}})
	require.NoError(t, err)
	defer temporal.Close()
	c.takeBack(t, of)
	await.For(t, "Temporal refuses the certificate that is over", func() bool {
		_, err := temporal.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "default"})
		var denied *serviceerror.PermissionDenied
		return errors.As(err, &denied)
	})
}

func (c *testCloud) database(t *testing.T) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), databaseURL(t, c))
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close(t.Context()) })
	return db
}
