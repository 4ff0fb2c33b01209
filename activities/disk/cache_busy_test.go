package disk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
)

// again does something until no other is at the same work.
func (b *testBundle) again(t *testing.T, do func() error) error {
	t.Helper()
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := do()
		var busy interface{ RetryAfter() time.Duration }
		if !errors.As(err, &busy) || time.Now().After(until) {
			return err
		}
	}
}

// slow makes an image that arrives when it is let go.
func (b *testBundle) slow(data []byte) (img compute.Image, letGo func()) {
	img = b.image("raw", data)
	goOn := make(chan struct{})
	b.images.data[img.ID] = func() io.Reader { return &gate{Reader: bytes.NewReader(data), open: goOn} }
	return img, func() { close(goOn) }
}

type gate struct {
	io.Reader
	open chan struct{}
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.open
	return g.Reader.Read(p)
}

// downloads waits until so many downloads have begun.
func (b *testBundle) downloads(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		b.images.mu.Lock()
		defer b.images.mu.Unlock()
		return b.images.opened == n
	}, 2*time.Minute, 10*time.Millisecond)
}

// H6: who finds a download of the same image under way does not wait for it.
func TestH6ADownloadUnderWayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	img, letGo := b.slow(bytes.Repeat([]byte("image"), 2000))
	first := make(chan error)
	go func() { first <- b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}) }()
	b.downloads(t, 1)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := b.CacheImage(ctx, disk.CacheImageInput{Image: img})
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, img.ID.String())
	var busy interface{ RetryAfter() time.Duration }
	require.ErrorAs(t, err, &busy)
	require.Positive(t, busy.RetryAfter())

	letGo()
	require.NoError(t, <-first)
	require.NoError(t, b.CacheImage(t.Context(), disk.CacheImageInput{Image: img}))
	require.Equal(t, 1, b.images.opened)
}

// H6: many creates of an image that is being downloaded leave a host's slots to others, and
// all come to an end.
func TestH6ADownloadHoldsOneSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := temporaltest.Client(t)
	host := durable.Host{ID: compute.HostID{UUID: uuid.New()}}
	control := worker.New(c, durable.ControlQueue, worker.Options{DisableRegistrationAliasing: true})
	control.RegisterWorkflowWithOptions(func(ctx workflow.Context, img compute.Image) error {
		return disk.CacheImage.On(host).TakenWithin(durable.HostSilence).Do(ctx, disk.CacheImageInput{Image: img})
	}, workflow.RegisterOptions{Name: "cache"})
	bulk := worker.New(c, durable.HostBulkQueue(host.ID), worker.Options{
		DisableWorkflowWorker: true, DisableRegistrationAliasing: true, MaxConcurrentActivityExecutionSize: 3,
		Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	b.Register(bulk)
	for _, w := range []worker.Worker{control, bulk} {
		require.NoError(t, w.Start())
		t.Cleanup(w.Stop)
	}
	cache := func(img compute.Image) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: uuid.NewString(), TaskQueue: durable.ControlQueue}, "cache", img)
		require.NoError(t, err)
		return run
	}
	large, letGo := b.slow(bytes.Repeat([]byte("image"), 2000))
	var many []client.WorkflowRun
	for range 20 {
		many = append(many, cache(large))
	}
	b.downloads(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	err := cache(b.image("raw", bytes.Repeat([]byte("other"), 2000))).Get(ctx, nil)
	letGo()
	require.NoError(t, err, "the other image, while the first is on its way")
	for _, run := range many {
		require.NoError(t, run.Get(ctx, nil))
	}
	require.Equal(t, 2, b.images.opened)
}

// H6: a project's downloads of different images leave a slot of the host to others.
func TestH6AProjectLeavesASlotToOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	small := func() compute.Image { return b.image("raw", bytes.Repeat([]byte("small"), 2000)) }
	cache := func(project string, img compute.Image) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return b.CacheImage(ctx, disk.CacheImageInput{Credential: compute.Credential{ProjectID: project}, Image: img})
	}
	first, letGo := b.slow(bytes.Repeat([]byte("first"), 2000))
	second, letSecondGo := b.slow(bytes.Repeat([]byte("second"), 2000))
	ends := make(chan error)
	for _, img := range []compute.Image{first, second} {
		go func() { ends <- cache("p1", img) }()
	}
	b.downloads(t, 2)
	third, kept := small(), small()
	restore := func() error {
		d := compute.Disk{ID: newDisk(), Role: compute.RootDisk, Shelved: &compute.ShelvedDisk{Image: kept.ID, SizeBytes: kept.SizeBytes, SHA256: kept.SHA256}}
		return b.Restore(t.Context(), disk.RestoreInput{Credential: compute.Credential{ProjectID: "p1"}, Server: newServer(), Disk: d})
	}
	for name, do := range map[string]func() error{
		"a third image":  func() error { return cache("p1", third) },
		"a shelved disk": restore,
		"a check": func() error {
			return b.CheckImage(t.Context(), disk.CheckImageInput{Project: "p1", Image: b.unnoted(t, small())})
		},
	} {
		err := do()
		require.Equal(t, compute.Unavailable, compute.KindOf(err), "%s: %v", name, err)
		var busy interface{ RetryAfter() time.Duration }
		require.ErrorAs(t, err, &busy, name)
	}
	require.NoError(t, cache("p2", small()), "another project's")
	letGo()
	letSecondGo()
	require.NoError(t, errors.Join(<-ends, <-ends))
	require.NoError(t, cache("p1", third), "once there is a turn")
	require.Equal(t, compute.Corrupt, compute.KindOf(restore()), "it is no qcow2")
}
