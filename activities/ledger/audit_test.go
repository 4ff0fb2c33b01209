package ledger_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

// audit is an audit that has begun.
type audit struct {
	*bundle
	ledger.StartAuditResult
}

func (b *bundle) startAudit() audit {
	b.t.Helper()
	got, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{})
	require.NoError(b.t, err)
	return audit{b, got}
}

// sees notes a page of what exists and gives what nobody knows.
func (a audit) sees(place string, seen ...compute.Seen) []compute.Finding {
	a.t.Helper()
	got, err := a.NoteSeen(a.Ctx, ledger.NoteSeenInput{Audit: a.Audit, Place: place, Seen: seen})
	require.NoError(a.t, err)
	return got.Unowned
}

func (a audit) looked(place string, projects ...string) {
	a.t.Helper()
	require.NoError(a.t, a.NoteLooked(a.Ctx, ledger.NoteLookedInput{Audit: a.Audit, Place: place, Projects: projects}))
}

// differences gives all of them, and how many rows and pages there were.
func (a audit) differences() (found []compute.Finding, rows, pages int) {
	a.t.Helper()
	in := ledger.DifferencesInput{Audit: a.Audit}
	for {
		got, err := a.Differences(a.Ctx, in)
		require.NoError(a.t, err)
		require.LessOrEqual(a.t, len(got.Findings), 500)
		found, rows, pages = append(found, got.Findings...), rows+got.Rows, pages+1
		if got.Next == nil {
			return found, rows, pages
		}
		in.After = got.Next
	}
}

func verdicts(found []compute.Finding) map[string]compute.Verdict {
	out := map[string]compute.Verdict{}
	for _, f := range found {
		out[f.Name] = f.What
	}
	return out
}

func TestAuditComparesBothWays(t *testing.T) {
	t.Parallel()
	b := setup(t)
	up, down := b.Host("h1", 8, 8192), b.Host("h2", 8, 8192)
	b.Exec("UPDATE hosts SET last_seen = now() - interval '1 hour' WHERE id = $1", down)
	owner, deleted := b.idle(), b.idle()
	b.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", deleted.ID)
	place := up.String()
	b.present(
		thing(owner, compute.ThingDomain, place, "there"), thing(owner, compute.ThingDomain, place, "missing"),
		thing(owner, compute.ThingDomain, down.String(), "on a silent host"),
		thing(owner, compute.ThingImage, compute.PlaceImageStore, "not looked at"),
		thing(deleted, compute.ThingDiskFile, place, "leftover"), thing(deleted, compute.ThingKeySlot, place, "slot of a deleted server"),
		thing(owner, compute.ThingKeySlot, place, "slot"),
	)
	b.open(thing(owner, compute.ThingDiskFile, place, "unsure"))
	b.waits(compute.BlockedByCredential, thing(deleted, compute.ThingKeySecret, compute.PlaceKeyManager, "waits"))
	handed := thing(owner, compute.ThingImage, compute.PlaceImageStore, "the user's")
	b.present(handed)
	b.write(func(q *schema.Queries) error { return ledger.HandOver(b.Ctx, q, []compute.Thing{handed}) })
	foreign := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "another project's")
	foreign.Credential.ProjectID = "p2"
	b.present(thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "missing key"), foreign)

	a := b.startAudit()
	require.WithinDuration(t, time.Now(), a.At, time.Minute)
	require.Equal(t, []ledger.AuditHost{
		{Host: durable.Host{ID: up, Name: "h1"}, Up: true, NoVolume: true}, {Host: durable.Host{ID: down, Name: "h2"}, Up: false, NoVolume: true},
	}, a.Hosts)
	for range 2 { // a page may be noted twice
		require.Equal(t, []compute.Finding{
			{Kind: compute.ThingDiskFile, Place: place, Name: "nobody's", What: compute.Unowned},
			{Kind: compute.ThingDomain, Place: place, Name: "nobody's", What: compute.Unowned},
		}, a.sees(place, compute.Seen{Kind: compute.ThingDomain, Name: "there"}, compute.Seen{Kind: compute.ThingDomain, Name: "nobody's"},
			compute.Seen{Kind: compute.ThingDomain, Name: "nobody's"}, compute.Seen{Kind: compute.ThingDiskFile, Name: "nobody's"},
			compute.Seen{Kind: compute.ThingDiskFile, Name: "leftover"}))
	}
	require.Empty(t, a.sees(compute.PlaceImageStore, compute.Seen{Kind: compute.ThingImage, Name: "the user's"}))
	require.Empty(t, a.sees(compute.PlaceKeyManager))
	a.looked(place, compute.LookedAll)
	a.looked(compute.PlaceKeyManager, schematest.Owner.ProjectID)
	found, rows, _ := a.differences()
	require.Equal(t, map[string]compute.Verdict{
		"missing": compute.Missing, "missing key": compute.Missing, "leftover": compute.Leftover, "slot of a deleted server": compute.Leftover,
		"unsure": compute.Unsure, "waits": compute.Waiting,
	}, verdicts(found))
	require.True(t, slices.IsSortedFunc(found, compute.ByPlace))
	require.Equal(t, 11, rows)
	for _, f := range found {
		if f.Name == "waits" {
			require.Equal(t, "why", f.Why)
			require.Equal(t, deleted.String(), f.Owner)
		}
	}
	count, err := b.Count(b.Ctx, ledger.CountInput{})
	require.NoError(t, err)
	require.Equal(t, ledger.CountResult{Open: 11, Waiting: 1, HandedOver: 1}, count)

	require.NoError(t, b.EndAudit(b.Ctx, ledger.EndAuditInput{Audit: a.Audit}))
	require.Zero(t, b.CountRows("SELECT (SELECT count(*) FROM audit_seen) + (SELECT count(*) FROM audit_looked) + (SELECT count(*) FROM audits)"))
	_, err = b.Differences(b.Ctx, ledger.DifferencesInput{Audit: a.Audit})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
	_, err = b.NoteSeen(b.Ctx, ledger.NoteSeenInput{Audit: a.Audit})
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
}

// EE-27, TPM-33: of what waits on a host that an operator gave up, the audit says that keys did not wait for it, if its server is deleted.
func TestAuditTellsOfAHostThatWasGivenUp(t *testing.T) {
	t.Parallel()
	for name, change := range hostsThatDoNotAnswer {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			host := b.Host("h1", 8, 8192)
			deleted := b.idle()
			b.Exec("UPDATE servers SET deleted_at = now() WHERE id = $1", deleted.ID)
			silent := "its host does not answer"
			why := silent
			b.waits(compute.BlockedByHost, thing(deleted, compute.ThingDiskFile, host.String(), "a deleted one's"), thing(b.idle(), compute.ThingDiskFile, host.String(), "that it left behind"))
			b.Exec("UPDATE ledger SET reason = $1", silent)
			if change != "" {
				b.Exec(change)
				why = compute.HostGivenUp
			}
			a := b.startAudit()
			found, _, _ := a.differences()
			require.Len(t, found, 2)
			require.Equal(t, []any{compute.Stranded, why, compute.Stranded, silent}, []any{found[0].What, found[0].Why, found[1].What, found[1].Why})
		})
	}
}

// What is in motion while an audit looks is no difference.
func TestAuditLeavesOutWhatChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	place := b.Host("h1", 8, 8192).String()
	busy, ended, off, still := b.idle(), b.idle(), b.idle(), b.idle()
	volume := compute.Owner{Kind: compute.OwnerVolume, ID: uuid.New()}
	op := compute.Operation{ID: compute.NewOperationID(), Kind: "secure", Subject: volume}
	b.Operation(op, nil)
	stop := compute.Operation{ID: compute.NewOperationID(), Kind: compute.OpStop, Subject: ended}
	b.Operation(stop, nil)
	gone := thing(still, compute.ThingDomain, place, "gone meanwhile")
	b.present(thing(busy, compute.ThingDomain, place, "busy"), thing(ended, compute.ThingDomain, place, "was busy"),
		thing(volume, "mount", place, "a volume's"), thing(off, compute.ThingDomain, place, "of a guest that was seen to be off"), thing(still, compute.ThingDomain, place, "missing"), gone,
		thing(still, compute.ThingDomain, place, "changed"))
	b.Exec("UPDATE servers SET current_operation = 'req-1' WHERE id = $1", busy.ID)
	a := b.startAudit()
	b.Exec("UPDATE operations SET state = 'succeeded', finished_at = now() WHERE id = $1", stop.ID)
	b.Exec("UPDATE servers SET vm_state = 'stopped', updated_at = now() WHERE id = $1", off.ID) // its host told that: M8
	b.present(thing(still, compute.ThingDomain, place, "changed"), thing(still, compute.ThingDomain, place, "new"))
	b.release(gone)
	require.Empty(t, a.sees(place, compute.Seen{Kind: compute.ThingDomain, Name: "gone meanwhile"}))
	a.looked(place, compute.LookedAll)
	found, _, _ := a.differences()
	missing := map[string]compute.Verdict{"missing": compute.Missing, "of a guest that was seen to be off": compute.Missing}
	require.Equal(t, missing, verdicts(found))

	b.Exec("UPDATE operations SET state = 'succeeded', finished_at = now() WHERE id = $1", op.ID)
	found, _, _ = a.differences()
	require.Equal(t, missing, verdicts(found))
	a = b.startAudit()
	a.looked(place, compute.LookedAll)
	found, _, _ = a.differences()
	require.Contains(t, verdicts(found), "a volume's", "its operation ended before")

	// What was released long ago is nobody's when it is seen.
	b.Exec("UPDATE ledger SET released_at = now() - interval '1 hour' WHERE name = 'gone meanwhile'")
	require.Len(t, a.sees(place, compute.Seen{Kind: compute.ThingDomain, Name: "gone meanwhile"}), 1)
}

// What an operation owns is left over when it has ended.
func TestAuditOfAnOperationsThings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	op := b.Server(compute.OpCreate)
	owner := compute.Owner{Kind: compute.OwnerOperation, ID: uuid.MustParse(string(op.ID)[len("req-"):])}
	b.present(thing(owner, compute.ThingObject, compute.PlaceObjects, "part"))
	a := b.startAudit()
	found, rows, _ := a.differences()
	require.Empty(t, found)
	require.Equal(t, 1, rows)
	b.Exec("UPDATE operations SET state = 'failed', finished_at = now() - interval '1 hour'")
	found, _, _ = a.differences()
	require.Equal(t, map[string]compute.Verdict{"part": compute.Leftover}, verdicts(found))
}

// A1: neither the ledger nor the world fits into one answer.
func TestA1AuditOfALargeLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 10000
	owner, place := b.idle(), b.Host("h1", 8, 8192).String()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		SELECT gen_random_uuid(), 'disk_file', $1, 'disk ' || n, 'server', $2::uuid, 'req-1', $2::uuid, 'p', 'u', 'present'
		FROM generate_series(1, $3::int) n`, place, owner.ID, n)
	a := b.startAudit()
	missing := map[string]compute.Verdict{}
	var seen []compute.Seen
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("disk %d", i)
		if i%9 == 0 { // more than one page of findings
			missing[name] = compute.Missing
		} else {
			seen = append(seen, compute.Seen{Kind: compute.ThingDiskFile, Name: name})
		}
	}
	seen = append(seen, compute.Seen{Kind: compute.ThingDiskFile, Name: "nobody's"})
	var unowned []compute.Finding
	for page := range slices.Chunk(seen, compute.SeenPage) {
		unowned = append(unowned, a.sees(place, page...)...)
	}
	require.Equal(t, map[string]compute.Verdict{"nobody's": compute.Unowned}, verdicts(unowned))
	a.looked(place, compute.LookedAll)
	found, rows, pages := a.differences()
	require.Equal(t, n, rows)
	require.Greater(t, pages, 2)
	require.Len(t, found, len(missing))
	require.Equal(t, missing, verdicts(found))
}

// A1: a disaster is told within the limits of a payload, whatever services said.
func TestA1AnAuditOfADisaster(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 2000
	owner, place := b.idle(), b.Host("h1", 8, 8192).String()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state, blocked_by, try_at, reason)
		SELECT gen_random_uuid(), 'disk_file', $1, 'disk ' || n, 'server', $2::uuid, 'req-1', $2::uuid, 'p', 'u', 'waiting', 'error', now(), repeat('<"ä">', 2000)
		FROM generate_series(1, $3::int) n`, place, owner.ID, n)
	a := b.startAudit()
	small := func(result any) {
		text, err := json.Marshal(result)
		require.NoError(t, err)
		require.Less(t, len(text), 256<<10)
	}
	found := map[string]bool{}
	for in := (ledger.DifferencesInput{Audit: a.Audit}); ; {
		got, err := a.Differences(a.Ctx, in)
		require.NoError(t, err)
		small(got)
		for _, f := range got.Findings {
			require.True(t, utf8.ValidString(f.Why))
			found[f.Name] = true
		}
		if in.After = got.Next; in.After == nil {
			break
		}
	}
	require.Len(t, found, n)

	in := ledger.NoteSeenInput{Audit: a.Audit, Place: place}
	for i := range compute.SeenPage {
		in.Seen = append(in.Seen, compute.Seen{Kind: compute.ThingDiskFile, Name: fmt.Sprintf("%s %d", strings.Repeat("<", 200), i)})
	}
	got, err := a.NoteSeen(a.Ctx, in)
	require.NoError(t, err)
	small(got)
	require.NotEmpty(t, got.Unowned)
	require.Equal(t, compute.SeenPage, len(got.Unowned)+got.More)
}

// Old audits that nobody ended leave nothing.
func TestStartAuditRemovesOldOnes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old := b.startAudit()
	old.looked("place", "p")
	b.Exec("UPDATE audits SET started_at = now() - interval '25 hours'")
	fresh := b.startAudit()
	fresh.looked("place", "p")
	b.startAudit()
	require.Equal(t, 2, b.CountRows("SELECT count(*) FROM audits"))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM audit_looked WHERE audit_id = $1", fresh.Audit))
}

// K15: an operation that is tried again without end is a finding; one that gets on, a drain and one that has ended are none.
func TestK15AnOperationThatGetsNoFurther(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	insert := func(id, kind, state, started string) {
		b.Exec(`INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, state, started_at) VALUES ($1, $2, $3, 'p', 'u', $2, $4, now() - $5::interval)`,
			id, owner.ID, kind, state, started)
	}
	event := func(op, name, started string, finished bool) {
		b.Exec(`INSERT INTO operation_events (operation_id, event, started_at, finished_at) VALUES ($1, $2, now() - $3::interval, CASE WHEN $4 THEN now() END)`, op, name, started, finished)
	}
	insert("req-stuck", "create", "running", "20 hours")
	event("req-stuck", "schedule", "20 hours", true)
	event("req-stuck", "create_disks", "19 hours", false)
	insert("req-mute", "stop", "running", "14 hours")
	insert("req-long", "shelve", "running", "30 hours")
	event("req-long", "upload", "5 hours", false)
	insert("req-drain", "drain", "running", "300 hours")
	insert("req-over", "start", "succeeded", "300 hours")
	long := b.startAudit().Long
	require.Len(t, long, 2)
	require.Regexp(t, `^create, in step create_disks since 20\d\d-.*Z$`, long[0].Why)
	require.Regexp(t, `^stop, in step begin since `, long[1].Why)
	require.Equal(t, []any{"req-stuck", "server " + owner.ID.String(), compute.Long}, []any{long[0].Name, long[0].Owner, long[0].What})
}

// An audit of a project is of its rows, of its operations, and of what bears the id of one of its servers; the audit of all says whose that is.
func TestAuditOfAProject(t *testing.T) {
	t.Parallel()
	b := setup(t)
	place := b.Host("h1", 8, 8192).String()
	ours, theirs := b.idle(), b.idle()
	b.Exec("UPDATE servers SET project_id = 'p2' WHERE id = $1", theirs.ID)
	file := func(of compute.Owner, name string) string { return of.ID.String() + "/" + name }
	row := func(of compute.Owner, name, project string) compute.Thing {
		out := thing(of, compute.ThingDiskFile, place, file(of, name))
		out.Credential.ProjectID = project
		return out
	}
	b.present(row(ours, "missing", "p1"), row(theirs, "missing", "p2"))
	image := func(name, project string) compute.Thing {
		out := thing(ours, compute.ThingImage, compute.PlaceImageStore, name)
		out.Credential.ProjectID = project
		return out
	}
	b.present(image("image 1", "p1"), image("image 2", "p2"))
	b.Exec("UPDATE servers SET project_id = 'p1' WHERE id = $1", ours.ID)
	byAdmin := row(theirs, "made by an administrator", "admin") // it moved the server
	b.present(byAdmin)
	for project, of := range map[string]compute.Owner{"p1": ours, "p2": theirs} { // an administrator asked for it
		b.Exec(`INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, state, started_at)
			VALUES ('req-' || $1, $2, 'stop', 'admin', 'u', $2, 'running', now() - interval '14 hours')`, project, of.ID)
	}
	strangers := []compute.Seen{
		{Kind: compute.ThingDiskFile, Name: file(ours, "unowned")}, {Kind: compute.ThingDiskFile, Name: file(theirs, "unowned")},
		{Kind: compute.ThingDiskFile, Name: uuid.NewString() + "/disk"}, {Kind: compute.ThingObject, Name: "nobody's"},
	}
	audited := func(project string) (found []compute.Finding, rows int) {
		got, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{Project: project})
		require.NoError(t, err)
		a := audit{b, got}
		found = append(a.Long, a.sees(place, strangers...)...)
		a.looked(place, compute.LookedAll)
		differences, rows, _ := a.differences()
		return append(found, differences...), rows
	}
	whose := func(found []compute.Finding) map[string][]string {
		out := map[string][]string{}
		for _, f := range found {
			out[f.Project] = append(out[f.Project], fmt.Sprintf("%s %s", f.What, f.Name))
		}
		return out
	}
	first := []string{"tried for long req-p1", "unowned " + file(ours, "unowned"), "missing " + file(ours, "missing")}
	second := []string{"tried for long req-p2", "unowned " + file(theirs, "unowned"), "missing " + byAdmin.Name, "missing " + file(theirs, "missing")}
	found, rows := audited("p1")
	require.Equal(t, map[string][]string{"p1": first}, whose(found))
	require.Equal(t, 3, rows)
	found, _ = audited("p2")
	require.Equal(t, map[string][]string{"p2": second}, whose(found))
	found, rows = audited("p3")
	require.Empty(t, found)
	require.Zero(t, rows)
	found, rows = audited("")
	require.Len(t, found, 9)
	require.Equal(t, []any{first, second, 2}, []any{whose(found)["p1"], whose(found)["p2"], len(whose(found)[""])})
	require.Equal(t, 5, rows)

	of, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{Project: "p1"})
	require.NoError(t, err)
	require.Equal(t, "p1", of.Project)
	image1 := compute.Seen{Kind: compute.ThingImage, Name: uuid.NewString()}
	got, err := b.NoteSeen(b.Ctx, ledger.NoteSeenInput{Audit: of.Audit, Place: compute.PlaceImageStore, Project: "p1", Seen: []compute.Seen{image1}})
	require.NoError(t, err)
	require.Equal(t, []compute.Finding{{Kind: image1.Kind, Place: compute.PlaceImageStore, Name: image1.Name, Project: "p1", What: compute.Unowned}}, got.Unowned)

	known, err := b.Names(b.Ctx, ledger.NamesInput{Place: compute.PlaceImageStore, Kind: compute.ThingImage, Project: "p2"})
	require.NoError(t, err)
	require.Equal(t, []string{"image 2"}, known.Names)
	page, err := b.Projects(b.Ctx, ledger.ProjectsInput{Kind: compute.ThingImage, Project: "p2"})
	require.NoError(t, err)
	require.Equal(t, []compute.Access{{Project: "p2", Credentials: []compute.Credential{compute.MemberCredential("p2")}}}, page.Projects)
}

// Where to look, page by page, and with which credentials.
func TestProjects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		SELECT gen_random_uuid(), 'key_secret', 'key-manager', 'key ' || n, 'server', $1::uuid, 'req-1', $1::uuid, 'p' || lpad((n % 250)::text, 3, '0'), 'u', 'present'
		FROM generate_series(1, 500) n`, owner.ID)
	deployed := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "deployed")
	deployed.Credential = compute.DeploymentCredential()
	lately := thing(owner, compute.ThingKeySecret, compute.PlaceKeyManager, "lately")
	lately.Credential.ProjectID = "q-lately"
	before := lately
	before.ID, before.Name, before.Credential.ProjectID = uuid.New(), "before", "q-before"
	b.open(deployed, lately, before)
	b.release(lately, before)
	b.Exec("UPDATE ledger SET released_at = now() - interval '8 days' WHERE name = 'before'")
	var trusts []compute.Credential
	for range 7 {
		c := compute.DelegatedCredential(compute.ServerID{UUID: uuid.New()}, "p007", "u1")
		require.NoError(t, b.Q.SaveTrust(b.Ctx, schema.SaveTrustParams{ID: c.ID, ProjectID: c.ProjectID, UserID: c.UserID, TrustID: new(string)}))
		trusts = append(trusts, c)
	}

	in := ledger.ProjectsInput{Kind: compute.ThingKeySecret}
	var all []compute.Access
	for pages := 1; ; pages++ {
		page, err := b.Projects(b.Ctx, in)
		require.NoError(t, err)
		all = append(all, page.Projects...)
		if in.After = page.Next; in.After == "" {
			require.Equal(t, 6, pages)
			break
		}
		require.Len(t, page.Projects, 50)
	}
	require.Len(t, all, 252)
	require.Equal(t, compute.Access{Project: compute.DeploymentProject, Credentials: []compute.Credential{compute.DeploymentCredential()}}, all[0])
	require.Equal(t, compute.Access{Project: "p000", Credentials: []compute.Credential{compute.MemberCredential("p000")}}, all[1])
	require.Equal(t, append([]compute.Credential{compute.MemberCredential("p007")}, trusts[2:]...), all[8].Credentials, "a few of them")
	require.Equal(t, "q-lately", all[251].Project)
	none, err := b.Projects(b.Ctx, ledger.ProjectsInput{Kind: compute.ThingImage})
	require.NoError(t, err)
	require.Zero(t, none)
}

// The names of a kind at a place, where nothing else lists them.
func TestNames(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	b.Exec(`INSERT INTO ledger (id, kind, place, name, owner_kind, owner_id, operation_id, credential_id, project_id, user_id, state)
		SELECT gen_random_uuid(), 'image', 'image-store', lpad(n::text, 4, '0'), 'server', $1::uuid, 'req-1', $1::uuid, 'p', 'u',
			CASE n % 5 WHEN 0 THEN 'handed_over' WHEN 1 THEN 'released' ELSE 'present' END
		FROM generate_series(1, 2000) n`, owner.ID)
	b.present(thing(owner, compute.ThingKeySecret, compute.PlaceImageStore, "of another kind"))
	in := ledger.NamesInput{Place: compute.PlaceImageStore, Kind: compute.ThingImage}
	first, err := b.Names(b.Ctx, in)
	require.NoError(t, err)
	require.Len(t, first.Names, 1000)
	in.After = first.Next
	second, err := b.Names(b.Ctx, in)
	require.NoError(t, err)
	require.Len(t, second.Names, 200)
	require.Empty(t, second.Next)
	require.Equal(t, []string{"0002", "0003", "0004", "0007"}, first.Names[:4])
}

// A port of a user's that Neutron bound for a server after it had been unbound is unbound once more.
func TestPortsThatWereBoundLate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner := b.idle()
	server := compute.ServerID{UUID: owner.ID}
	name := func() string { return compute.PortUse(compute.PortID{UUID: uuid.New()}, server) }
	late, taken, old, foreign := name(), name(), name(), name()
	of := func(name string) compute.Thing { return thing(owner, compute.ThingPort, compute.PlaceNetworks, name) }
	release := func(things ...compute.Thing) {
		b.present(things...)
		b.write(func(q *schema.Queries) error { return ledger.Release(b.Ctx, q, things) })
	}
	release(of(late), of(taken), of(old))
	b.present(of(taken)) // it was attached again
	b.Exec(`UPDATE ledger SET released_at = now() - interval '5 minutes' WHERE state = 'released'`)
	b.Exec(`UPDATE ledger SET released_at = now() - interval '2 days' WHERE name = $1`, old)
	known, err := b.Names(b.Ctx, ledger.NamesInput{Place: compute.PlaceNetworks, Kind: compute.ThingPort})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{late, taken}, known.Names)

	audit, err := b.StartAudit(b.Ctx, ledger.StartAuditInput{})
	require.NoError(t, err)
	in := ledger.NoteSeenInput{Audit: audit.Audit, Place: compute.PlaceNetworks}
	for _, name := range []string{late, taken, foreign} {
		in.Seen = append(in.Seen, compute.Seen{Kind: compute.ThingPort, Name: name})
	}
	got, err := b.NoteSeen(b.Ctx, in)
	require.NoError(t, err)
	require.Len(t, got.Unowned, 1)
	require.Equal(t, foreign, got.Unowned[0].Name)
	due, err := b.Due(b.Ctx, ledger.DueInput{})
	require.NoError(t, err)
	require.Len(t, due.Things, 1)
	require.Equal(t, late, due.Things[0].Name)
	again, err := b.NoteSeen(b.Ctx, in)
	require.NoError(t, err)
	require.Equal(t, got, again)
}

// TPM-39: the states of vTPMs that a host sees are those of all hosts that share the storage: none
// of them is nobody's. Of disks, and of other hosts, that is not so.
func TestAuditOfTPMStatesThatHostsShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hosts := []compute.HostID{b.Host("a", 4, 4096), b.Host("b", 4, 4096), b.Host("c", 4, 4096)}
	b.Exec("UPDATE hosts SET tpm_storage = 'one' WHERE name IN ('a', 'b')")
	op := compute.Operation{ID: "req-1", ServerID: compute.ServerID{UUID: uuid.New()}, Credential: compute.Credential{ProjectID: "p", UserID: "u"}}
	name := op.ServerID.String()
	b.present(op.Thing(compute.ThingTPMState, hosts[0].String(), name), op.Thing(compute.ThingDiskFile, hosts[0].String(), name))
	a := b.startAudit()
	for i, unowned := range []int{0, 0, 1} {
		require.Len(t, a.sees(hosts[i].String(), compute.Seen{Kind: compute.ThingTPMState, Name: name}), unowned, i)
	}
	require.Len(t, a.sees(hosts[1].String(), compute.Seen{Kind: compute.ThingDiskFile, Name: name}), 1)
}

// A file on storage that hosts share is on record for one of them: seen by another one it is nobody's leftover. That one removes none that is
// on record for another host, whatever waits for it; and what waits for a host that is forgotten is another one's to remove.
func TestFilesOnStorageThatHostsShare(t *testing.T) {
	t.Parallel()
	b := setup(t)
	hosts := []compute.HostID{b.Host("a", 4, 4096), b.Host("b", 4, 4096), b.Host("c", 4, 4096)}
	b.Exec("UPDATE hosts SET disk_storage = 'one' WHERE name IN ('a', 'b')")
	owner := b.idle()
	used := thing(owner, compute.ThingDiskFile, hosts[0].String(), owner.ID.String()+"/disk")
	b.present(used)
	a := b.startAudit()
	for i, unowned := range []int{0, 0, 1} {
		require.Len(t, a.sees(hosts[i].String(), compute.Seen{Kind: compute.ThingDiskFile, Name: used.Name}), unowned, i)
	}
	stale := thing(owner, compute.ThingDiskFile, hosts[1].String(), used.Name)
	left := thing(owner, compute.ThingDiskFile, hosts[1].String(), owner.ID.String()+"/disk.left")
	b.waits(compute.BlockedByHost, stale, left, thing(owner, compute.ThingDiskFile, hosts[2].String(), used.Name+"2"))
	require.ElementsMatch(t, []string{left.Name, used.Name + "2"}, b.due(), "the file that another host has on record stays")
	b.Exec("UPDATE hosts SET last_seen = now() - interval '1 day' WHERE name = 'b'")
	_, err := ledger.Forget(b.Ctx, b.DB, hosts[1])
	require.NoError(t, err)
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE state = 'waiting' AND name = $1 AND host_id = $2", left.Name, hosts[0]))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE state = 'released' AND name = $1 AND host_id = $2", used.Name, hosts[1]))
	require.Equal(t, 1, b.CountRows("SELECT count(*) FROM ledger WHERE state = 'present' AND name = $1 AND host_id = $2", used.Name, hosts[0]))
}

// SH-09: access to a share that is missed with too many others is told as held, with what to look at, and not as missing.
func TestSH09AuditOfSharesThatAreMissedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host, owner := b.Host("h1", 8, 8192), b.idle()
	server := compute.ServerID{UUID: owner.ID}
	var uses []string
	for i := range 3 {
		id := compute.ShareID{UUID: uuid.New()}
		uses = append(uses, compute.ShareUse(id, server))
		b.present(thing(owner, compute.ThingShareAccess, compute.PlaceShares, uses[i]), thing(owner, compute.ThingShareMount, host.String(), uses[i]))
		if i < 2 {
			require.NoError(t, b.Q.AttachShare(b.Ctx, schema.AttachShareParams{
				ID: uuid.New(), ServerID: server, ShareID: id, Status: compute.ShareActive, Tag: fmt.Sprint(i), ShareProto: "LOCAL", ExportLocation: []byte("sealed"),
			}))
		}
		if i == 0 {
			b.Exec("UPDATE server_shares SET missed_at = now(), held_at = now()")
		}
	}
	b.Exec("UPDATE ledger SET updated_at = now() - interval '1 minute'")
	a := b.startAudit()
	a.looked(compute.PlaceShares, compute.LookedAll)
	found, _, _ := a.differences()
	require.Equal(t, map[string]compute.Verdict{uses[0]: compute.Held, uses[1]: compute.Missing, uses[2]: compute.Missing}, verdicts(found))
	require.True(t, slices.ContainsFunc(found, func(f compute.Finding) bool { return f.What == compute.Held && f.Why == compute.HeldShares }))
}

// A host is asked for open volumes that has one, or that the ledger has something open of. What is left of a volume
// that is given up is told.
func TestAuditOfVolumes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	host := b.Host("h1", 8, 8192)
	volume := compute.VolumeOwner(compute.StateVolume(host))
	asked := func() bool { return !b.startAudit().Hosts[0].NoVolume }
	require.False(t, asked())
	mapping := thing(volume, compute.ThingVolumeMapping, host.String(), volume.ID.String())
	b.present(mapping)
	require.True(t, asked())
	b.release(mapping)
	require.False(t, asked())
	b.Exec("INSERT INTO secure_volumes (id, host_id, host_name, device, wanted) VALUES ($1, $2, 'h1', '/dev/v', true)", volume.ID, host)
	require.True(t, asked())

	key := thing(volume, compute.ThingKeySecret, compute.PlaceKeyManager, "key")
	b.present(key)
	leftover := func() map[string]compute.Verdict {
		a := b.startAudit()
		found, _, _ := a.differences()
		return verdicts(found)
	}
	require.Empty(t, leftover())
	b.Exec("DELETE FROM secure_volumes")
	require.Equal(t, map[string]compute.Verdict{"key": compute.Leftover}, leftover())
}
