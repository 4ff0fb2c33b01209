package sharewatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/notification"
	"strongroom/activities/share"
	"strongroom/activities/share/local"
	"strongroom/activities/sharewatch"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// bench is a watch over a database and a shared file systems service of its own.
type bench struct {
	*schematest.Fixture
	*sharewatch.Watch
	t       *testing.T
	service *service
	host    compute.HostID
	log     *bytes.Buffer
}

// service can be made to fail, and notes with what it was asked what stands.
type service struct {
	share.Service
	asked  []compute.Credential
	shares int
	before func(compute.Credential) error
	says   func(share.ID) compute.Kind // to a question for one share, where it is no answer
	after  func(*share.Looked)         // changes what the service says
}

func (s *service) Standing(ctx context.Context, cred compute.Credential, ids []share.ID) (share.Looked, error) {
	s.asked, s.shares = append(s.asked, cred), s.shares+len(ids)
	if s.before != nil {
		if err := s.before(cred); err != nil {
			return share.Looked{}, err
		}
	}
	if s.says != nil {
		return share.LookAt(ids, func(id share.ID) ([]share.Rule, error) {
			if kind := s.says(id); kind != "" {
				return nil, compute.Errorf(kind, "no")
			}
			seen, err := s.Service.Standing(ctx, cred, []share.ID{id})
			return seen.There[id], err
		})
	}
	seen, err := s.Service.Standing(ctx, cred, ids)
	if err == nil && s.after != nil {
		s.after(&seen)
	}
	return seen, err
}

func setup(t *testing.T) *bench {
	t.Helper()
	f := schematest.NewFixture(t)
	folders, err := local.Open(t.TempDir())
	require.NoError(t, err)
	s, log := &service{Service: folders}, &bytes.Buffer{}
	return &bench{
		Fixture: f, t: t, service: s, host: f.Host("h1", 8, 8192), log: log,
		Watch: &sharewatch.Watch{Pool: f.DB, Service: s, Interval: time.Hour, MostMissed: 100, Notifications: &notification.Writer{Shares: true}, Logger: slog.New(slog.NewTextHandler(log, nil))},
	}
}

// attached is a share that a server has.
type attached struct {
	id     uuid.UUID // of the attachment
	server compute.ServerID
	share  share.ID
	cred   compute.Credential
}

// share makes a share of a project.
func (b *bench) share(project string) share.Share {
	b.t.Helper()
	made, err := b.service.Service.(*local.Service).Create(b.Ctx, compute.Credential{ProjectID: project}, "documents", 1)
	require.NoError(b.t, err)
	return made
}

// attach gives a share to a new server that runs, as operations do that have ended.
func (b *bench) attach(of share.Share, status compute.ShareStatus) attached {
	b.t.Helper()
	a := attached{id: uuid.New(), server: b.Server(compute.OpCreate).ServerID, share: of.ID, cred: compute.Credential{ProjectID: of.ProjectID}}
	b.Exec("UPDATE servers SET current_operation = '', task_state = '', vm_state = 'active', power_state = 1, host_id = $1, project_id = $2 WHERE id = $3", b.host, of.ProjectID, a.server)
	require.NoError(b.t, b.Q.AttachShare(b.Ctx, schema.AttachShareParams{
		ID: a.id, ServerID: a.server, ShareID: of.ID, Status: status, Tag: "documents", ShareProto: string(of.Protocol), ExportLocation: []byte("sealed"),
	}))
	b.allow(a)
	return a
}

func (b *bench) allow(a attached) {
	b.t.Helper()
	_, err := b.service.Allow(b.Ctx, share.AllowInput{
		Credential: a.cred, Share: a.share, Server: a.server, To: share.Grantee{Kind: share.Address, Name: "192.0.2.1"}, Level: share.ReadWrite,
	})
	require.NoError(b.t, err)
}

// deny takes the access rule away behind strongroom's back.
func (b *bench) deny(a attached) {
	b.t.Helper()
	require.NoError(b.t, b.service.Deny(b.Ctx, share.DenyInput{Credential: a.cred, Share: a.share, Server: a.server}))
}

// pass makes a pass when it is every attachment's time.
func (b *bench) pass() {
	b.t.Helper()
	b.due()
	require.NoError(b.t, b.Pass(b.Ctx))
}

// due makes it the time of all attachments.
func (b *bench) due() {
	b.t.Helper()
	b.Exec("UPDATE server_shares SET look_at = now() - interval '1 second', created_at = created_at - interval '1 minute', updated_at = updated_at - interval '1 minute'")
}

// passOf makes a pass when it is the time of some attachments alone.
func (b *bench) passOf(some ...attached) {
	b.t.Helper()
	b.due()
	b.Exec("UPDATE server_shares SET look_at = now() + interval '1 hour' WHERE NOT id = ANY($1)", idsOf(some))
	require.NoError(b.t, b.Pass(b.Ctx))
}

func idsOf(some []attached) (ids []uuid.UUID) {
	for _, a := range some {
		ids = append(ids, a.id)
	}
	return ids
}

// some gives a server each of so many shares of a project.
func (b *bench) some(n int, project string) (out []attached) {
	b.t.Helper()
	for range n {
		out = append(out, b.attach(b.share(project), compute.ShareActive))
	}
	return out
}

// lost counts the attachments that are in error.
func (b *bench) lost() int {
	b.t.Helper()
	return b.CountRows("SELECT count(*) FROM server_shares WHERE status = 'error'")
}

func (b *bench) status(a attached) (status compute.ShareStatus) {
	b.t.Helper()
	require.NoError(b.t, b.DB.QueryRow(b.Ctx, "SELECT status FROM server_shares WHERE id = $1", a.id).Scan(&status))
	return status
}

// told gives what was told and waits to be sent.
func (b *bench) told() (out []map[string]any) {
	b.t.Helper()
	rows, err := b.Q.NextNotifications(b.Ctx, 100)
	require.NoError(b.t, err)
	for _, row := range rows {
		var envelope map[string]string
		require.NoError(b.t, json.Unmarshal([]byte(*row.Message), &envelope))
		var message map[string]any
		require.NoError(b.t, json.Unmarshal([]byte(envelope["oslo.message"]), &message))
		out = append(out, message)
	}
	return out
}

func data(of any) map[string]any { return of.(map[string]any)["nova_object.data"].(map[string]any) }

// SH-09: where there are no locks, a share or an access rule that was taken away is put in error, logged
// and told at the second look that misses it. The server is left alone, and so are shares that stand.
func TestSH09WhatWasTakenAwayIsTold(t *testing.T) {
	t.Parallel()
	for _, status := range []compute.ShareStatus{compute.ShareActive, compute.ShareInactive} {
		for what, exception := range map[string]string{"rule": "ShareAccessNotFound", "share": "ShareNotFound"} {
			t.Run(string(status)+"/"+what, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				lost, kept := b.attach(b.share("p1"), status), b.attach(b.share("p1"), status)
				b.pass()
				b.pass()
				require.Equal(t, []compute.ShareStatus{status, status}, []compute.ShareStatus{b.status(lost), b.status(kept)})
				servers := b.Dump("servers")

				b.deny(lost)
				if what == "share" {
					require.NoError(t, b.service.Service.(*local.Service).Delete(b.Ctx, lost.cred, lost.share))
				}
				b.pass()
				require.Equal(t, status, b.status(lost), "another operation may be making the rule anew")
				require.Empty(t, b.told())
				b.pass()
				require.Equal(t, []compute.ShareStatus{compute.ShareError, status}, []compute.ShareStatus{b.status(lost), b.status(kept)})
				require.Equal(t, servers, b.Dump("servers"), "the guest goes on")
				require.Equal(t, 1, bytes.Count(b.log.Bytes(), []byte("level=ERROR")))
				require.Contains(t, b.log.String(), "share="+lost.share.String()+" server="+lost.server.String())

				told := b.told()
				require.Len(t, told, 1)
				require.Equal(t, []any{"instance.share_attach.error", "ERROR"}, []any{told[0]["event_type"], told[0]["priority"]})
				payload := data(told[0]["payload"])
				require.Equal(t, []any{lost.share.String(), lost.server.String(), "active"}, []any{payload["share_id"], payload["uuid"], payload["state"]})
				require.Nil(t, payload["request_id"])
				require.Equal(t, exception, data(payload["fault"])["exception"])
				require.Equal(t, "error", data(payload["shares"].([]any)[0])["status"])
				b.pass()
				require.Len(t, b.told(), 1, "once")
				require.Equal(t, 1, bytes.Count(b.log.Bytes(), []byte("level=ERROR")))
			})
		}
	}
}

// A rule that is made anew by another server's operation is gone for a moment; a rule of the host is
// one for all of its servers, whatever became of the names in it.
func TestARuleThatComesBackIsNotMissed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.attach(b.share("p1"), compute.ShareActive)
	for range 2 {
		b.deny(a)
		b.pass()
		b.allow(a)
		b.pass()
	}
	require.Equal(t, compute.ShareActive, b.status(a))
	other := b.attach(share.Share{ID: a.share, ProjectID: "p1", Protocol: share.Local}, compute.ShareActive)
	b.Exec("UPDATE hosts SET address = '192.0.2.1'")
	b.deny(other)
	b.pass()
	b.pass()
	require.Equal(t, compute.ShareActive, b.status(other), "the rule of the other server lets its host in")
	b.Exec("UPDATE hosts SET address = '192.0.2.2'")
	b.pass()
	b.pass()
	require.Equal(t, compute.ShareActive, b.status(a), "it is named")
	require.Equal(t, compute.ShareError, b.status(other))
}

// An operation knows better: nothing is looked at that one is at work on, and nothing is put in error
// that one has changed since it was read.
func TestAnOperationKnowsBetter(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.attach(b.share("p1"), compute.ShareInactive)
	b.deny(a)
	b.Exec("UPDATE servers SET current_operation = 'req-1' WHERE id = $1", a.server)
	b.pass()
	require.Empty(t, b.service.asked)
	b.Exec("UPDATE servers SET current_operation = '' WHERE id = $1", a.server)
	b.pass()
	for _, meanwhile := range []string{
		"UPDATE servers SET current_operation = 'req-2'", // a start began
		"UPDATE servers SET current_operation = ''; UPDATE server_shares SET updated_at = clock_timestamp(), status = 'inactive'", // and has ended
		"UPDATE server_shares SET status = 'detaching', updated_at = NULL",
	} {
		b.service.before = func(compute.Credential) error { b.Exec(meanwhile); return nil }
		b.pass()
		require.NotEqual(t, compute.ShareError, b.status(a), meanwhile)
		b.Exec("UPDATE servers SET current_operation = ''")
	}
	b.service.before = nil
	asked := len(b.service.asked)
	for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareDetaching, compute.ShareError} {
		b.Exec("UPDATE server_shares SET status = $1", status)
		b.pass()
		require.Equal(t, status, b.status(a))
	}
	require.Len(t, b.service.asked, asked, "the others are an operation's to look at")
	require.Empty(t, b.told())
	b.Exec("UPDATE server_shares SET status = 'inactive'")
	b.pass()
	require.Equal(t, compute.ShareError, b.status(a))
}

// A service that does not answer, or that refuses, says nothing of shares; a refusal is tried again with
// the token of somebody who comes by.
func TestAServiceThatDoesNotSay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a, other := b.attach(b.share("p1"), compute.ShareActive), b.attach(b.share("p2"), compute.ShareActive)
	b.deny(a)
	b.deny(other)
	b.pass()
	b.service.before = func(cred compute.Credential) error {
		if cred.ProjectID == "p1" {
			return compute.Errorf(compute.Unavailable, "no answer")
		}
		return nil
	}
	b.pass()
	require.Equal(t, []compute.ShareStatus{compute.ShareActive, compute.ShareError}, []compute.ShareStatus{b.status(a), b.status(other)})

	b.service.before = func(cred compute.Credential) error {
		if cred.IsMember() {
			return compute.Errorf(compute.Forbidden, "no role")
		}
		return nil
	}
	b.pass()
	require.Equal(t, compute.ShareActive, b.status(a))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM share_refusals WHERE project_id = 'p1'"))
	waits := func() bool {
		waits, err := b.Q.ProjectWaits(b.Ctx, "p1")
		require.NoError(t, err)
		return waits
	}
	require.False(t, waits(), "one was refused a moment ago")
	b.Exec("UPDATE share_refusals SET offer_at = offer_at - interval '2 minutes'")
	require.True(t, waits())
	asked := len(b.service.asked)
	require.NoError(t, b.Pass(b.Ctx))
	require.Len(t, b.service.asked, asked, "not its time")
	offer := uuid.New()
	_, err := b.Q.OfferCredential(b.Ctx, schema.OfferCredentialParams{ID: offer, ProjectID: "p1", UserID: "u1", Sealed: []byte("sealed")})
	require.NoError(t, err)
	require.False(t, waits())
	spare, err := b.Q.SpareOffers(b.Ctx)
	require.NoError(t, err)
	require.False(t, spare, "it is for the look")
	require.NoError(t, b.Q.WipeOffer(b.Ctx, offer))
	b.Exec("UPDATE server_shares SET created_at = created_at - interval '1 minute'")
	require.NoError(t, b.Pass(b.Ctx))
	require.Equal(t, offer, b.service.asked[len(b.service.asked)-1].ID)
	require.Equal(t, compute.ShareError, b.status(a))
	require.Zero(t, b.CountRows("SELECT count(*) FROM share_refusals"))
}

// A project's shares are looked at together, each once whatever number of servers has it; where
// nobody wants it, nothing is looked at.
func TestAProjectIsAskedForOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, project := range []string{"p1", "p2"} {
		one, two := b.share(project), b.share(project)
		for range 3 {
			b.attach(one, compute.ShareActive)
			b.attach(two, compute.ShareInactive)
		}
	}
	b.pass()
	require.Len(t, b.service.asked, 2)
	require.Equal(t, 4, b.service.shares)
	require.NoError(t, b.Pass(b.Ctx))
	require.Len(t, b.service.asked, 2, "not their time")
	b.Interval = 0
	b.pass()
	require.Len(t, b.service.asked, 2)
}
