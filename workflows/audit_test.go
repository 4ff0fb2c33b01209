package workflows_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/domain"
	"strongroom/activities/ledger"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/workflows"
)

func (b *bench) runAudit() workflows.AuditResult {
	b.t.Helper()
	out, err := b.auditRun(workflows.AuditInput{}, nil)
	require.NoError(b.t, err)
	return out
}

// auditRun is one run of an audit. arm, if any, gets the environment first.
func (b *bench) auditRun(in workflows.AuditInput, arm func(*testsuite.TestWorkflowEnvironment)) (out workflows.AuditResult, err error) {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := newEnvironment(&suite)
	env.SetWorkerOptions(workerOptions())
	workflows.Register(env)
	b.register(env)
	if arm != nil {
		arm(env)
	}
	env.ExecuteWorkflow(workflows.AuditName, in)
	if err := env.GetWorkflowError(); err != nil {
		return out, err
	}
	return out, env.GetWorkflowResult(&out)
}

func TestAuditFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	got := b.runAudit()
	require.Empty(t, got.Findings)
	require.Equal(t, 11, got.Things, "a domain, three disks, a config drive, a console log, a TPM and four secrets")
	require.Len(t, got.Looked, 8)
	require.Empty(t, got.Silent)
}

// A host without a volume of its own may run an older release, which would not answer.
func TestAuditAsksNoHostForAVolumeThatHasNone(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	asked := func() (n int) {
		for _, c := range b.calls {
			if c.name == volume.Seen.Name {
				n++
			}
		}
		return n
	}
	b.forget()
	require.Len(t, b.runAudit().Looked, 8)
	require.Equal(t, 2, asked())
	b.forget()
	b.plain = map[compute.HostID]bool{b.hosts[1]: true}
	require.Len(t, b.runAudit().Looked, 8)
	require.Equal(t, 1, asked())
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	host := b.hosts[0].String()
	clear(b.tpms)
	b.files[host+" 00000000-0000-0000-0000-000000000000/disk"] = true
	b.secrets[""] = compute.SecretID{} // too damaged for its name to be read
	b.objects = []string{"nobody's"}
	got := b.runAudit()
	require.ElementsMatch(t, []compute.Finding{
		{Kind: compute.ThingTPMState, Place: host, Name: b.row.server.ID.String(), Owner: compute.ServerOwner(b.row.server.ID).String(), Project: project, What: compute.Missing},
		{Kind: compute.ThingDiskFile, Place: host, Name: "00000000-0000-0000-0000-000000000000/disk", What: compute.Unowned},
		{Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "00000000-0000-0000-0000-000000000000", What: compute.Unowned},
		{Kind: compute.ThingObject, Place: compute.PlaceObjects, Name: "nobody's", What: compute.Unowned},
	}, got.Findings)
}

// TestAuditReportsPlacesThatDidNotAnswer: what was not looked at is not judged.
func TestAuditReportsPlacesThatDidNotAnswer(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	clear(b.tpms)
	b.fault = func(c call) fault {
		if c.name == domain.Seen.Name {
			return fault{before: fail}
		}
		return fault{}
	}
	got := b.runAudit()
	require.Empty(t, got.Findings)
	require.Len(t, got.Silent, 2)
	require.ElementsMatch(t, []string{"the key manager", "the image store", "the object store", "the shared file systems service", "the network service", "the identity service"}, got.Looked)
}

// TestAuditLeavesOutRowsOfRunningOperations: a delete goes through while it looks.
func TestAuditLeavesOutRowsOfRunningOperations(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	var ended time.Time
	b.fault = at(call{name: domain.Seen.Name, nth: 2}, fault{after: func() error {
		b.mu.Lock()
		b.fault = nil
		b.mu.Unlock()
		in := b.deletion()
		err := b.run(compute.OpDelete, in, nil)
		ended = time.Now()
		return err
	}})
	got := b.runAudit()
	require.False(t, ended.IsZero())
	require.Empty(t, got.Findings)
}

// An audit of a project asks for what is of the project, in each of its runs, and says whose it was.
func TestAuditOfAProject(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	b.objects = []string{"nobody's"}
	again := workflows.AuditInput{Project: "p1"}
	for runs := 0; ; runs++ {
		require.Less(t, runs, 100, "it never ends")
		got, err := b.auditRun(again, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { env.SetCurrentHistorySize(3 << 20) })
		})
		var more *workflow.ContinueAsNewError
		if !errors.As(err, &more) {
			require.NoError(t, err)
			require.Equal(t, "p1", got.Project)
			break
		}
		again = workflows.AuditInput{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(more.Input, &again))
	}
	of := b.audited.of
	require.Equal(t, "p1 ", of[ledger.StartAudit.Name])
	require.Equal(t, []string{"p1", "", ""}, []string{of[compute.PlaceObjects], of[compute.PlaceKeyManager], of[b.hosts[0].String()]},
		"what is seen in one project is that one's; of what is seen of all nobody knows")
	require.Equal(t, strings.Repeat("p1 ", 5), of[ledger.Projects.Name], "secrets, images, objects, shares and ports")
	require.Equal(t, strings.Repeat("p1 ", 2), of[ledger.Names.Name], "images and ports")
	require.Equal(t, []string{"audit", "audit/p1"}, []string{workflows.AuditID(""), workflows.AuditID("p1")})
}

// A1: an audit whose history has grown goes on in a new run where the last one ended,
// and finds the same.
func TestA1AnAuditGoesOnInANewRun(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	host := b.hosts[0].String()
	clear(b.tpms)
	b.files[host+" 00000000-0000-0000-0000-000000000000/disk"] = true
	want := b.runAudit()
	require.Len(t, want.Findings, 2)

	var in workflows.AuditInput
	runs := 0
	for ; ; runs++ {
		require.Less(t, runs, 100, "it never ends")
		got, err := b.auditRun(in, func(env *testsuite.TestWorkflowEnvironment) {
			env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { env.SetCurrentHistorySize(3 << 20) })
		})
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			require.NoError(t, err)
			require.Equal(t, want.Findings, got.Findings)
			require.Equal(t, want.Things, got.Things)
			require.ElementsMatch(t, want.Looked, got.Looked)
			break
		}
		in = workflows.AuditInput{}
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	}
	require.Greater(t, runs, 3)
}

// A copy of an encrypted image that nobody is known to use is a finding, and one that is
// used is not.
func TestAuditSeesCopiesOfEncryptedImages(t *testing.T) {
	t.Parallel()
	b := onEncryptedImage(t)
	require.NoError(t, b.run(compute.OpCreate, b.accept(compute.OpCreate, compute.TaskScheduling, nil), nil))
	delete(b.secrets, "the image's")
	require.Empty(t, b.runAudit().Findings)
	b.uses[b.hosts[1].String()+" "+project+"/copy/server.disk"] = true
	require.Equal(t, []compute.Finding{
		{Kind: compute.ThingCachedImage, Place: b.hosts[1].String(), Name: project + "/copy/server.disk", What: compute.Unowned},
	}, b.runAudit().Findings)
}

// An image whose record is there and that nobody makes any more is a finding; one that is
// whole is its owner's.
func TestAuditSeesHalfMadeImages(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.NoError(t, b.snapshot(compute.KeyNone, nil))
	require.Empty(t, b.runAudit().Findings)
	lost := compute.ImageID{UUID: uuid.New()}
	b.images[lost.String()] = &storedImage{Image: compute.Image{ID: lost}}
	require.Equal(t, []compute.Finding{
		{Kind: compute.ThingImage, Place: compute.PlaceImageStore, Name: lost.String(), What: compute.Unowned},
	}, b.runAudit().Findings)
}

// A1: images that are made are looked at one by one, however many there are.
func TestA1AnAuditLooksAtEachImage(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	var gone []string
	for i := range 4 * pageOf {
		op := compute.Operation{ID: compute.NewOperationID(), ServerID: b.row.server.ID}
		made := op.Thing(compute.ThingImage, compute.PlaceImageStore, uuid.NewString())
		made.State, made.Credential = compute.ThingPresent, compute.MemberCredential(project)
		b.ledger[compute.Sighting{Kind: made.Kind, Place: made.Place, Name: made.Name}] = made
		if i%4 == 0 {
			gone = append(gone, made.Name)
			continue
		}
		b.images[made.Name] = &storedImage{Image: compute.Image{}, data: "whole"}
	}
	var found []string
	for _, f := range b.runAudit().Findings {
		require.Equal(t, compute.Missing, f.What)
		found = append(found, f.Name)
	}
	require.ElementsMatch(t, gone, found)
}
