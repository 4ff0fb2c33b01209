package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"strongroom/activities/domain"
	"strongroom/activities/key"
	opact "strongroom/activities/operation"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/workflows"
)

func (b *bench) runAudit() workflows.AuditResult {
	b.t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DisableRegistrationAliasing: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}}})
	workflows.Register(env)
	b.register(env)
	env.ExecuteWorkflow(workflows.AuditName)
	require.NoError(b.t, env.GetWorkflowError())
	var out workflows.AuditResult
	require.NoError(b.t, env.GetWorkflowResult(&out))
	return out
}

func TestAuditFindsNothingWhereAllIsWell(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	got := b.runAudit()
	require.Empty(t, got.Findings)
	require.Equal(t, 11, got.Things, "a domain, three disks, a config drive, a console log, a TPM and four secrets")
	require.Len(t, got.Looked, 6)
	require.Empty(t, got.Silent)
}

func TestAuditFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	host := b.hosts[0].String()
	clear(b.tpms)
	b.files[host+" 00000000-0000-0000-0000-000000000000/disk"] = true
	b.secrets[""] = compute.SecretID{} // too damaged to tell its name
	b.objects = []string{"nobody's"}
	got := b.runAudit()
	require.ElementsMatch(t, []compute.Finding{
		{Kind: compute.ThingTPMState, Place: host, Name: b.row.server.ID.String(), Server: b.row.server.ID.String(), What: compute.Missing},
		{Kind: compute.ThingDiskFile, Place: host, Name: "00000000-0000-0000-0000-000000000000/disk", What: compute.Unowned},
		{Kind: compute.ThingKeySecret, Place: compute.PlaceKeyManager, Name: "00000000-0000-0000-0000-000000000000", What: compute.Unowned},
		{Kind: compute.ThingObject, Place: compute.PlaceObjects, Name: "nobody's", What: compute.Unowned},
	}, got.Findings)
}

// TestAuditTellsWhoWasSilent: what was not looked at is not judged.
func TestAuditTellsWhoWasSilent(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	clear(b.tpms)
	b.fault = func(c call) fault {
		if c.name == domain.Inventory {
			return fault{before: fail}
		}
		return fault{}
	}
	got := b.runAudit()
	require.Empty(t, got.Findings)
	require.Len(t, got.Silent, 2)
	require.Equal(t, []string{"the key manager", "the image store", "the object store", "the identity service"}, got.Looked)
}

// TestAuditLeavesWhatIsInMotionAlone: a delete goes through while it looks.
func TestAuditLeavesWhatIsInMotionAlone(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	var ended time.Time
	b.fault = at(call{name: domain.Inventory, nth: 2}, fault{after: func() error {
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
	require.Zero(t, b.count(key.Inventory)-1)
}

func TestSweepGivesItsCounts(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	workflows.Register(env)
	env.RegisterActivityWithOptions(func(context.Context) (opact.SweepResult, error) {
		return opact.SweepResult{Started: 2, Closed: 1}, nil
	}, activity.RegisterOptions{Name: opact.Sweep})
	env.ExecuteWorkflow(workflows.SweepName)
	var got opact.SweepResult
	require.NoError(t, env.GetWorkflowResult(&got))
	require.Equal(t, opact.SweepResult{Started: 2, Closed: 1}, got)
}

// A copy of an encrypted image that nobody is known to use is told, and one that is
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

// An image that was announced and that nobody makes any more is told; one that is
// whole is its owner's.
func TestAuditSeesHalfMadeImages(t *testing.T) {
	t.Parallel()
	b := spawned(t)
	require.NoError(t, b.snapshot(compute.KeyNone, nil))
	require.Empty(t, b.runAudit().Findings)
	lost := compute.ImageID{UUID: uuid.New()}
	b.images[lost.String()] = &shelved{Image: compute.Image{ID: lost}}
	require.Equal(t, []compute.Finding{
		{Kind: compute.ThingImage, Place: compute.PlaceImageStore, Name: lost.String(), What: compute.Unowned},
	}, b.runAudit().Findings)
}
