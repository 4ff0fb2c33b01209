package api_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/api"
	"strongroom/compute"
	"strongroom/schema"
)

// What a fileServer says of shares.
const (
	goodShare      = "6dd2d5ce-d469-4235-b10a-25d1e983aefd"
	secondShare    = "6dd2d5ce-d469-4235-b10a-25d1e983aefe"
	creatingShare  = "11111111-d469-4235-b10a-25d1e983aefd"
	unknownShare   = "22222222-d469-4235-b10a-25d1e983aefd"
	forbiddenShare = "33333333-d469-4235-b10a-25d1e983aefd"
	nfsShare       = "55555555-d469-4235-b10a-25d1e983aefd"
	silentShare    = "44444444-d469-4235-b10a-25d1e983aefd"

	extendedShares = "2.97, strongroom 1.0"
	liveShares     = "2.97, strongroom 1.1"

	exportLocation = "192.0.2.9:/volumes/very-secret-export"
)

// fileServer is a shared file systems service.
type fileServer struct{}

func (fileServer) Look(_ context.Context, _ compute.Credential, id compute.ShareID) (protocol, location string, err error) {
	switch id.String() {
	case creatingShare:
		return "", "", compute.Errorf(compute.Conflict, "Share %s is in 'creating' instead of 'available' status.", id)
	case unknownShare:
		return "", "", compute.Errorf(compute.NotFound, "no such share")
	case forbiddenShare:
		return "", "", compute.Errorf(compute.Forbidden, "you may not")
	case silentShare:
		return "", "", compute.Errorf(compute.Unavailable, "the service does not answer")
	case nfsShare:
		return "NFS", exportLocation, nil
	}
	return "LOCAL", exportLocation, nil
}

// canShare lets the host's servers have shares.
func (c *cloud) canShare(without ...string) {
	c.t.Helper()
	traits := []string{}
	for _, trait := range []string{compute.TraitVirtioFS, compute.TraitMemoryFile} {
		if len(without) == 0 || without[0] != trait {
			traits = append(traits, trait)
		}
	}
	c.exec(`UPDATE hosts SET traits = $1, release = '1', address = '192.0.2.1'`, traits)
}

// off makes a server that is off, on a host that can share.
func (c *cloud) off() string {
	c.t.Helper()
	id := c.active()
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.canShare()
	return id
}

func (c *cloud) attach(t *testing.T, by who, id, share string, tweaks ...tweak) answer {
	t.Helper()
	return c.do(t, by, "POST", "/servers/"+id+"/shares", fmt.Sprintf(`{"share": {"share_id": %q}}`, share), append([]tweak{at("2.97")}, tweaks...)...)
}

// hasShare gives a server a share, past the API.
func (c *cloud) hasShare(id, share string, status compute.ShareStatus) (attachment uuid.UUID) {
	c.t.Helper()
	attachment = uuid.New()
	sealed := c.seal.Seal(compute.Credential{ID: attachment, ProjectID: id, UserID: share}, []byte(exportLocation))
	require.NoError(c.t, schema.New(c.pool).AttachShare(c.t.Context(), schema.AttachShareParams{
		ID: attachment, ServerID: compute.ServerID{UUID: uuid.MustParse(id)}, ShareID: compute.ShareID{UUID: uuid.MustParse(share)},
		Status: status, Tag: share, ShareProto: "LOCAL", ExportLocation: sealed,
	}))
	return attachment
}

func (c *cloud) shareStatus(id string) (status string) {
	c.t.Helper()
	require.NoError(c.t, c.pool.QueryRow(c.t.Context(), `SELECT status FROM server_shares WHERE server_id = $1`, id).Scan(&status))
	return status
}

// SH-01, SH-03: both forms of attachment, list, show and detach.
func TestSH01TheRoutesOfShares(t *testing.T) {
	t.Parallel()
	shipped, documents := at("2.97"), at(extendedShares)
	for name, tc := range map[string]struct {
		form             tweak
		key              string
		created, deleted int
	}{"shipped": {shipped, "share_id", 201, 200}, "documents": {documents, "shareId", 202, 202}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setupCloud(t)
			id := c.off()
			path := "/servers/" + id + "/shares"
			require.Empty(t, c.do(t, reader, "GET", path, "", tc.form).ok(200).get("shares"))
			made := c.do(t, member, "POST", path, fmt.Sprintf(`{"share": {%q: %q, "tag": "data"}}`, tc.key, goodShare), tc.form).ok(tc.created)
			view := map[string]any{tc.key: goodShare, "status": "attaching", "tag": "data"}
			require.Equal(t, view, made.get("share"))
			require.Equal(t, "SHUTOFF", c.do(t, member, "GET", "/servers/"+id, "").get("server", "status"))
			require.Equal(t, []any{view}, c.do(t, reader, "GET", path, "", tc.form).ok(200).get("shares"))
			require.Equal(t, view, c.do(t, reader, "GET", path+"/"+goodShare, "", tc.form).ok(200).get("share"))
			op, err := schema.New(c.pool).GetOperation(t.Context(), compute.OperationID(made.header.Get("X-Openstack-Request-Id")))
			require.NoError(t, err)
			require.JSONEq(t, `{"share_id": "`+goodShare+`", "address": "192.0.2.1"}`, string(op.Arguments))

			c.settle(id, compute.VMStopped, compute.TaskNone)
			require.Empty(t, c.do(t, member, "DELETE", path+"/"+goodShare, "", tc.form).ok(tc.deleted).body)
			require.Equal(t, "detaching", c.shareStatus(id))
			for _, share := range []string{unknownShare, "nonsense"} {
				c.do(t, member, "GET", path+"/"+share, "", tc.form).fails(404, "itemNotFound", "Share "+share+" could not be found.")
				c.settle(id, compute.VMStopped, compute.TaskNone)
				c.do(t, member, "DELETE", path+"/"+share, "", tc.form).fails(404, "itemNotFound", "Share "+share+" could not be found.")
			}
		})
	}
}

// SH-02, SH-25, SH-29: the cloud's administrator alone reads the attachment's id and from where the
// share is mounted, of one share and never of a list; the database does not say it in clear.
func TestSH02WhoReadsTheExportLocation(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.attach(t, member, id, goodShare).ok(201)
	path := "/servers/" + id + "/shares"
	for _, by := range []who{member, reader} {
		got := c.do(t, by, "GET", path+"/"+goodShare, "", at("2.97")).ok(200)
		require.ElementsMatch(t, []string{"share_id", "status", "tag"}, got.keys("share"))
	}
	for _, by := range []who{admin, operator} {
		shown := c.do(t, by, "GET", path+"/"+goodShare, "", at("2.97")).ok(200)
		require.ElementsMatch(t, []string{"share_id", "status", "tag", "uuid", "export_location"}, shown.keys("share"))
		require.Equal(t, exportLocation, shown.get("share", "export_location"))
		require.ElementsMatch(t, []string{"shareId", "status", "tag", "attachmentId", "export_location"},
			c.do(t, by, "GET", path+"/"+goodShare, "", at(extendedShares)).ok(200).keys("share"))
		require.NotContains(t, c.do(t, by, "GET", path, "", at("2.97")).ok(200).body, "secret-export")
	}
	require.NotContains(t, c.log.String(), "secret-export")
	require.Zero(t, c.count(`SELECT count(*) FROM server_shares WHERE position('secret-export'::bytea in export_location) > 0`))
	require.Zero(t, c.count(`SELECT count(*) FROM operations WHERE arguments::text LIKE '%secret-export%'`))

	c.exec(`UPDATE server_shares SET export_location = '\x00'`) // of a key that is not in the file any more
	lost := c.do(t, admin, "GET", path+"/"+goodShare, "", at("2.97")).ok(200)
	require.Empty(t, lost.get("share", "export_location"))
}

// SH-31: there are no shares below 2.97, and none where the cloud has no such service.
func TestSH31WhereThereAreNoShares(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	none := setupCloud(t, func(config *api.Config) { config.Shares = nil })
	other := none.off()
	for _, r := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"GET", "/" + goodShare, ""}, {"POST", "", `{"share": {"share_id": "` + goodShare + `"}}`}, {"DELETE", "/" + goodShare, ""},
	} {
		c.do(t, member, r.method, "/servers/"+id+"/shares"+r.path, r.body, at("2.96")).ok(404)
		none.do(t, member, r.method, "/servers/"+other+"/shares"+r.path, r.body, at("2.97")).ok(404)
	}
}

// SH-06, SH-29: what no attachment can say.
func TestSH06BadAttachments(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	for _, body := range []string{
		``, `{}`, `{"share": {}}`, `{"share": {"share_id": "x"}}`, `{"share": {"share_id": null}}`, `{"share": {"share_id": "` + goodShare + `", "more": 1}}`,
		`{"share": {"share_id": "` + goodShare + `", "shareId": "` + goodShare + `"}}`,
		`{"share": {"share_id": "` + goodShare + `", "tag": ""}}`, `{"share": {"share_id": "` + goodShare + `", "tag": "a b"}}`,
		`{"share": {"share_id": "` + goodShare + `", "tag": "` + strings.Repeat("a", 37) + `"}}`,
		`{"share": {"share_id": "` + goodShare + `", "tag": "` + strings.Repeat("a", 256) + `"}}`,
	} {
		require.Equal(t, 400, c.do(t, member, "POST", "/servers/"+id+"/shares", body, at("2.97")).code, body)
		require.Equal(t, 400, c.do(t, member, "POST", "/servers/"+id+"/shares", body, at(extendedShares)).code, body)
	}
	require.Equal(t, 400, c.do(t, member, "GET", "/servers/"+id+"/shares?all=1", "", at("2.97")).code)
	require.Zero(t, c.count(`SELECT count(*) FROM server_shares`))
	c.hasShare(id, goodShare, compute.ShareInactive)
	for _, method := range []string{"GET", "DELETE"} {
		require.Equal(t, 400, c.do(t, member, method, "/servers/"+id+"/shares/"+goodShare+"?all=1", "", at("2.97")).code, method)
	}
	require.Equal(t, "inactive", c.shareStatus(id))
}

// SH-29: what is wrong in a request, who is not let in, who may not and who sees no such server, on each of the four routes and in both forms;
// nothing comes of it.
func TestSH29WhatEachRouteRefuses(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.hasShare(id, goodShare, compute.ShareInactive)
	operations := c.count(`SELECT count(*) FROM operations`)
	for _, r := range []struct {
		method, path, body, rule string
		may                      who
	}{
		{"GET", "", "", "index", reader},
		{"GET", "/" + goodShare, "", "show", reader},
		{"POST", "", `{"share": {"share_id": "` + secondShare + `"}}`, "create", member},
		{"DELETE", "/" + goodShare, "", "delete", member},
	} {
		for _, form := range []string{"2.97", extendedShares} {
			ask := func(by who, server, query string) answer {
				return c.do(t, by, r.method, "/servers/"+server+"/shares"+r.path+query, r.body, at(form))
			}
			require.Equal(t, 400, ask(r.may, id, "?all=1").code, r)
			require.Equal(t, 401, ask(nobody, id, "").code, r)
			denied := "Policy doesn't allow os_compute_api:os-server-shares:" + r.rule + " to be performed."
			ask(powerless, id, "").fails(403, "forbidden", denied)
			if r.may != reader {
				ask(reader, id, "").fails(403, "forbidden", denied)
			}
			for _, by := range []who{stranger, observer} {
				ask(by, id, "").fails(404, "itemNotFound", "Instance "+id+" could not be found.")
			}
			other := uuid.NewString()
			ask(r.may, other, "").fails(404, "itemNotFound", "Instance "+other+" could not be found.")
		}
	}
	require.Equal(t, "inactive", c.shareStatus(id))
	require.Equal(t, operations, c.count(`SELECT count(*) FROM operations`))
}

// SH-29, SH-02: who leads a project sees of its servers' shares what its members see: he is not the cloud's administrator.
func TestSH29AProjectsAdministratorIsNotTheClouds(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.hasShare(id, goodShare, compute.ShareInactive)
	path := "/servers/" + id + "/shares/" + goodShare
	for form, keys := range map[string][]string{"2.97": {"share_id", "status", "tag"}, extendedShares: {"shareId", "status", "tag"}} {
		require.ElementsMatch(t, keys, c.do(t, manager, "GET", path, "", at(form)).ok(200).keys("share"))
	}
	c.do(t, manager, "DELETE", path, "", at("2.97")).ok(200)
}

// SH-32: a server that is being deleted has shares that are being detached, whatever they were; one that is not deleted keeps them as they are.
func TestSH32TheSharesOfAServerThatIsDeleted(t *testing.T) {
	t.Parallel()
	for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError, compute.ShareDetaching} {
		c := setupCloud(t)
		id := c.off()
		c.hasShare(id, goodShare, status)
		c.exec(`UPDATE server_shares SET lost = 'it is gone', lost_at = now() WHERE server_id = $1 AND status = 'error'`, id)
		c.do(t, reader, "DELETE", "/servers/"+id, "").ok(403)
		require.EqualValues(t, status, c.shareStatus(id))
		c.do(t, member, "DELETE", "/servers/"+id, "").ok(204)
		require.Equal(t, "detaching", c.shareStatus(id))
		require.Zero(t, c.count(`SELECT count(*) FROM server_shares WHERE lost <> ''`))
	}
}

// SH-04, SH-05, SH-07, SH-18, SH-26: why a share is not attached, in the order in which it is looked at.
func TestSH04WhyAShareIsNotAttached(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	cannot := "Feature not supported because either compute or instance are not configured correctly."
	c.attach(t, member, uuid.NewString(), goodShare).ok(404)

	c.settle(id, compute.VMActive, compute.TaskNone) // before all else
	c.exec(`UPDATE hosts SET release = '', traits = '{}'`)
	c.attach(t, member, id, unknownShare).fails(409, "conflictingRequest", "Cannot 'create share' instance "+id+" while it is in vm_state active")
	c.settle(id, compute.VMError, compute.TaskNone)
	c.attach(t, member, id, unknownShare).fails(409, "conflictingRequest", "Cannot 'create share' instance "+id+" while it is in vm_state error")
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.exec(`UPDATE servers SET locked_by = 'owner' WHERE id = $1`, id)
	c.attach(t, member, id, unknownShare).fails(409, "conflictingRequest", "Instance "+id+" is locked")
	c.exec(`UPDATE servers SET locked_by = NULL WHERE id = $1`, id)

	c.attach(t, member, id, unknownShare).fails(403, "forbidden", "Feature not supported until computes have not been updated.")
	c.canShare(compute.TraitVirtioFS)
	c.attach(t, member, id, unknownShare).fails(409, "conflictingRequest", cannot)
	c.canShare(compute.TraitMemoryFile)
	c.attach(t, member, id, unknownShare).fails(409, "conflictingRequest", cannot)
	c.canShare()
	c.attach(t, member, id, unknownShare).fails(404, "itemNotFound", "Share "+unknownShare+" could not be found.")
	c.attach(t, member, id, creatingShare).fails(409, "conflictingRequest", "Share "+creatingShare+" is in 'creating' instead of 'available' status.")
	c.attach(t, member, id, forbiddenShare).ok(403)
	require.Equal(t, 503, c.attach(t, member, id, silentShare).code)

	c.hasShare(id, goodShare, compute.ShareInactive)
	c.attach(t, member, id, goodShare).fails(409, "conflictingRequest", "Share '"+goodShare+"' or tag '"+goodShare+"' already associated to this server.")
	c.do(t, member, "POST", "/servers/"+id+"/shares", `{"share": {"share_id": "`+secondShare+`", "tag": "`+goodShare+`"}}`, at("2.97")).
		fails(409, "conflictingRequest", "Share '"+secondShare+"' or tag '"+goodShare+"' already associated to this server.")
	require.Equal(t, 1, c.count(`SELECT count(*) FROM server_shares`))

	// What the server had of a share before is still on its way out.
	op := compute.Operation{ID: "req-before", ServerID: compute.ServerID{UUID: uuid.MustParse(id)}}
	left := op.Thing(compute.ThingShareAccess, compute.PlaceShares, secondShare+"/"+id)
	require.NoError(t, schema.New(c.pool).IntendThing(t.Context(), schema.Intention(left)))
	c.attach(t, member, id, secondShare).fails(409, "conflictingRequest", "Share "+secondShare+" is still being detached from this server. Try again later.")
	require.Equal(t, compute.TaskNone, c.row(id).TaskState)
}

// SH-18: a share of NFS is for hosts that mount NFS, and lets them in by their address on its network.
func TestSH18AShareOfNFS(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.attach(t, member, id, nfsShare).fails(409, "conflictingRequest", "Share protocol NFS is not supported.")
	c.exec(`UPDATE hosts SET traits = traits || $1, share_address = '198.51.100.7'`, []string{compute.TraitNFSShares})
	made := c.attach(t, member, id, nfsShare).ok(201)
	op, err := schema.New(c.pool).GetOperation(t.Context(), compute.OperationID(made.header.Get("X-Openstack-Request-Id")))
	require.NoError(t, err)
	require.JSONEq(t, `{"share_id": "`+nfsShare+`", "address": "198.51.100.7"}`, string(op.Arguments))
}

// SH-05: a server with pages of its own needs no memory that the host backs with files.
func TestSH05ThePageSizeOfAServer(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.canShare(compute.TraitMemoryFile)
	c.exec(`UPDATE servers SET flavor = jsonb_set(flavor, '{extra_specs}', '{"hw:mem_page_size": "large"}') WHERE id = $1`, id)
	c.attach(t, member, id, goodShare).ok(201)
}

// SH-07: of two requests at once for the same share, or the same tag, one wins.
func TestSH07TwoAttachmentsAtOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	for range 5 {
		id := c.off()
		codes := make([]int, 4)
		var all sync.WaitGroup
		for i := range codes {
			all.Go(func() { codes[i] = c.attach(t, member, id, goodShare).code })
		}
		all.Wait()
		require.ElementsMatch(t, []int{201, 409, 409, 409}, codes)
		require.Equal(t, 1, c.count(`SELECT count(*) FROM server_shares WHERE server_id = $1`, id))
		require.Equal(t, 1, c.count(`SELECT count(*) FROM operations WHERE server_id = $1 AND kind = 'share_attach'`, id))
	}
}

// K15: a server has so many shares as go through Temporal, and is refused one more; one that it has is refused as ever.
func TestK15AServerHasSoManyShares(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	for range compute.MostShares - 1 {
		c.hasShare(id, uuid.NewString(), compute.ShareInactive)
	}
	c.attach(t, member, id, goodShare).ok(201)
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.attach(t, member, id, goodShare).ok(409)
	c.attach(t, member, id, secondShare).fails(403, "forbidden", "The server has 64 shares, and may not have more.")
	require.Equal(t, 64, c.count(`SELECT count(*) FROM server_shares WHERE server_id = $1`, id))
	require.Zero(t, c.count(`SELECT count(*) FROM servers WHERE id = $1 AND task_state IS NOT NULL AND task_state <> ''`, id))
}

// SH-16, SH-32: a share goes in whatever status, from a server that is off or in ERROR.
func TestSH16WhatIsDetached(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	path := "/servers/" + id + "/shares/" + goodShare
	for _, status := range []compute.ShareStatus{compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError, compute.ShareDetaching} {
		for _, vm := range []compute.VMState{compute.VMStopped, compute.VMError} {
			c.settle(id, vm, compute.TaskNone)
			c.exec(`DELETE FROM server_shares`)
			c.hasShare(id, goodShare, status)
			c.do(t, member, "DELETE", path, "", at("2.97")).ok(200)
			require.Equal(t, "detaching", c.shareStatus(id))
		}
	}
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.do(t, member, "DELETE", path, "", at("2.97")).fails(409, "conflictingRequest", "Cannot 'delete share' instance "+id+" while it is in vm_state active")
	c.settle(id, compute.VMStopped, compute.TaskPoweringOn)
	c.do(t, member, "DELETE", path, "", at("2.97")).fails(409, "conflictingRequest", "Cannot 'delete share' instance "+id+" while it is in task_state powering-on")
}

// A guest that runs is given a share, and parted from it, by clients of strongroom 1.1 where its host and its memory let it;
// else, and for all others, the document's refusal holds (SH-04, SH-16).
func TestSharesOfGuestsThatRun(t *testing.T) {
	t.Parallel()
	c := setupCloud(t, func(config *api.Config) { config.Patience = time.Second })
	id := c.off()
	c.settle(id, compute.VMActive, compute.TaskNone)
	path := "/servers/" + id + "/shares"
	const second = `{"share": {"shareId": "` + secondShare + `"}}`
	refused := func(version string) {
		t.Helper()
		c.do(t, member, "POST", path, second, at(version)).fails(409, "conflictingRequest", "Cannot 'create share' instance "+id+" while it is in vm_state active")
	}
	refused(liveShares)
	c.exec(`UPDATE hosts SET traits = traits || $1`, []string{compute.TraitLiveShares})
	refused(liveShares) // nothing else has its memory
	c.hasShare(id, goodShare, compute.ShareInactive)
	refused(liveShares) // it was attached by an operation that went on while the guest was off, and runs without it
	c.exec(`UPDATE server_shares SET status = 'active'`)
	refused("2.97")
	refused(extendedShares)
	made := c.do(t, member, "POST", path, second, at(liveShares)).ok(202)
	require.Equal(t, "attaching", made.get("share", "status"))
	op, err := schema.New(c.pool).GetOperation(t.Context(), compute.OperationID(made.header.Get("X-Openstack-Request-Id")))
	require.NoError(t, err)
	require.JSONEq(t, `{"share_id": "`+secondShare+`", "address": "192.0.2.1", "live": true}`, string(op.Arguments))
	c.do(t, member, "DELETE", path+"/"+goodShare, "", at(liveShares)).fails(409, "conflictingRequest", "Cannot 'delete share' instance "+id+" while it is in task_state attaching_share")

	c.settle(id, compute.VMActive, compute.TaskNone)
	for _, version := range []string{"2.97", extendedShares} {
		c.do(t, member, "DELETE", path+"/"+goodShare, "", at(version)).fails(409, "conflictingRequest", "Cannot 'delete share' instance "+id+" while it is in vm_state active")
	}
	c.do(t, member, "DELETE", path+"/"+unknownShare, "", at(liveShares)).ok(404)
	c.do(t, member, "DELETE", path+"/"+goodShare, "", at(liveShares)).ok(202)

	c.settle(id, compute.VMActive, compute.TaskNone)
	c.exec(`DELETE FROM server_shares`)
	c.exec(`UPDATE servers SET flavor = jsonb_set(flavor, '{extra_specs}', '{"trait:`+compute.TraitLiveShares+`": "required"}') WHERE id = $1`, id)
	c.exec(`UPDATE servers SET locked_by = 'owner' WHERE id = $1`, id)
	c.do(t, member, "POST", path, second, at(liveShares)).fails(409, "conflictingRequest", "Instance "+id+" is locked")
	c.exec(`UPDATE servers SET locked_by = NULL WHERE id = $1`, id)
	c.do(t, member, "POST", path, second, at(liveShares)).ok(202)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.canShare()
	c.do(t, member, "DELETE", path+"/"+secondShare, "", at(liveShares)).fails(409, "conflictingRequest", "Cannot 'delete share' instance "+id+" while it is in vm_state active")

	// Off it is as ever.
	c.settle(id, compute.VMStopped, compute.TaskNone)
	c.do(t, member, "DELETE", path+"/"+secondShare, "", at(liveShares)).ok(202)
}

// SH-22: what a server with a share is kept from, and what it is not.
func TestSH22WhatAServerWithSharesCannot(t *testing.T) {
	t.Parallel()
	for _, kind := range []compute.OperationKind{
		compute.OpShelve, compute.OpEvacuate, compute.OpResize, compute.OpMigrate, compute.OpLiveMigrate, compute.OpRebuild, compute.OpRescue,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			c := setupRebuild(t)
			id := c.lockedUp("user")
			c.settle(id, compute.VMActive, compute.TaskNone)
			c.hasShare(id, goodShare, compute.ShareInactive)
			ask := requests[kind]
			ask.send(c, t, ask.by, id).fails(409, "conflictingRequest", "Feature not supported with instances that have shares.")
			require.Equal(t, compute.TaskNone, c.row(id).TaskState)
			c.exec(`DELETE FROM server_shares`)
			require.Less(t, ask.send(c, t, ask.by, id).code, 300)
		})
	}
	c := setupCloud(t)
	id := c.off()
	c.hasShare(id, goodShare, compute.ShareInactive)
	c.act(t, member, id, `{"os-start": null}`).ok(202)
	c.settle(id, compute.VMActive, compute.TaskNone)
	c.act(t, member, id, `{"suspend": null}`).fails(409, "conflictingRequest", "Feature not supported with instances that have shares.")
	c.exec(`DELETE FROM server_shares`)
	c.act(t, member, id, `{"suspend": null}`).ok(202)
}

// SH-09: why a share was taken away from a server is told beside its status, to whoever reads it, in the form that is not Nova's.
func TestSH09WhyAShareWasTakenAwayIsTold(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.hasShare(id, goodShare, compute.ShareError)
	c.hasShare(id, unknownShare, compute.ShareError)
	c.exec(`UPDATE server_shares SET lost = $1, lost_at = '2026-01-02 03:04:05+00' WHERE share_id = $2`, compute.ShareGone, goodShare)
	path := "/servers/" + id + "/shares"
	fault := map[string]any{"created": "2026-01-02T03:04:05Z", "message": "Share " + goodShare + " of server " + id + ": the share is not there any more."}
	for _, who := range []who{reader, admin} {
		require.Equal(t, fault, c.do(t, who, "GET", path+"/"+goodShare, "", at(extendedShares)).ok(200).get("share", "fault"))
		require.NotContains(t, c.do(t, who, "GET", path+"/"+goodShare, "", at("2.97")).ok(200).keys("share"), "fault")
		require.NotContains(t, c.do(t, who, "GET", path+"/"+unknownShare, "", at(extendedShares)).ok(200).keys("share"), "fault")
	}
	listed := c.do(t, reader, "GET", path, "", at(extendedShares)).ok(200).get("shares").([]any)
	require.Equal(t, fault, listed[0].(map[string]any)["fault"])
	require.NotContains(t, listed[1], "fault")
}

// T1: a detachment that is asked for again is under way: it is no 409, and does not wait for its end. That of another share waits for its turn.
func TestT1AShareIsDetachedOnce(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	for _, share := range []string{goodShare, secondShare} {
		c.attach(t, member, id, share).ok(201)
		c.exec(`UPDATE server_shares SET status = 'inactive'`)
		c.settle(id, compute.VMStopped, compute.TaskNone)
	}
	detach := func(share string) answer {
		return c.do(t, member, "DELETE", "/servers/"+id+"/shares/"+share, "", at("2.97"))
	}
	first := detach(goodShare).ok(200)
	began := len(c.starter.ops())
	again := detach(goodShare).ok(200)
	require.Equal(t, first.body, again.body)
	require.Len(t, c.starter.ops(), began)
	answer := waiting(t, func() answer { return detach(secondShare) })
	c.exec("DELETE FROM server_shares WHERE server_id = $1 AND share_id = $2", id, goodShare)
	c.settle(id, compute.VMStopped, compute.TaskNone)
	answer().ok(200)
	c.settle(id, compute.VMStopped, compute.TaskNone)
	detach(goodShare).ok(404)
}

// T1: attachments of shares wait for each other, and so does what comes behind them; one that the server has is refused at once.
func TestT1SharesAreAttachedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	c := setupCloud(t)
	id := c.off()
	c.attach(t, member, id, goodShare).ok(201)
	began := time.Now()
	c.attach(t, member, id, goodShare).ok(409)
	require.Less(t, time.Since(began), 10*time.Second)
	for _, ask := range []func() answer{
		func() answer { return c.attach(t, member, id, secondShare) },
		func() answer { return c.act(t, member, id, `{"os-start": null}`) },
	} {
		answer := waiting(t, ask)
		c.exec(`UPDATE server_shares SET status = 'inactive'`)
		c.settle(id, compute.VMStopped, compute.TaskNone)
		got := answer()
		require.Contains(t, []int{201, 202}, got.code, got.body)
	}
}
