package workflows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
)

// waiting is a request that waits for the record of an image.
type waiting struct {
	rejected error
	answer   durable.ImageRecordResult
	answers  int
}

// wait sends the update; then is called when the answer is there.
func (b *bench) askWhile(env *testsuite.TestWorkflowEnvironment, asked compute.OperationID, w *waiting, then func()) {
	env.UpdateWorkflow(durable.ImageRecord, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { w.rejected = err },
		OnComplete: func(got any, err error) {
			require.NoError(b.t, err)
			w.answer = got.(durable.ImageRecordResult)
			w.answers++
			then()
		},
	}, asked)
}

// images of a server: how they are asked for.
var images = map[compute.OperationKind]compute.SnapshotArguments{
	compute.OpCreateImage:  {Image: imageID, Name: "copy", Key: compute.KeySame},
	compute.OpCreateBackup: {Image: imageID, Name: "copy", Key: compute.KeySame, Backup: &compute.Backup{Type: "daily", Rotation: 1}},
}

// A13: whoever waits for an image is answered as soon as its record is there, whenever
// he asks.
func TestA13ARequestLearnsOfTheRecordOnceItExists(t *testing.T) {
	t.Parallel()
	for kind, arguments := range images {
		for _, asks := range []string{record.Begin.Name, image.Create.Name, domain.Export.Name, image.Upload.Name, record.HandOver.Name, record.Settle.Name} {
			t.Run(string(kind)+" asked at "+asks, func(t *testing.T) {
				t.Parallel()
				b := spawned(t)
				in := b.accept(kind, compute.TaskSnapshotPending, arguments)
				var w, stranger waiting
				require.NoError(t, b.run(kind, in, func(env *testsuite.TestWorkflowEnvironment) {
					b.fault = at(call{name: asks, nth: 1}, fault{before: func() error {
						b.askWhile(env, in.Operation, &w, func() {
							b.mu.Lock()
							defer b.mu.Unlock()
							require.NotNil(t, b.images[imageID.String()])
							if asks == record.Begin.Name {
								require.Empty(t, b.images[imageID.String()].data, "before its data")
							}
						})
						b.askWhile(env, compute.NewOperationID(), &stranger, func() {})
						return nil
					}})
				}))
				require.NoError(t, w.rejected)
				require.Equal(t, waiting{answers: 1}, w)
				require.ErrorContains(t, stranger.rejected, string(in.Operation))
				require.Zero(t, stranger.answers)
				b.whole(in, kind)
			})
		}
	}
}

// A13: a record that was refused is answered with its reason, when the operation is settled
// and the server free again.
func TestA13ARequestLearnsWhyTheRecordWasRefused(t *testing.T) {
	t.Parallel()
	refused := compute.Errorf(compute.Forbidden, "no more images in this project")
	for kind, arguments := range images {
		for _, asks := range []string{record.Begin.Name, image.Create.Name, record.Settle.Name} {
			t.Run(string(kind)+" asked at "+asks, func(t *testing.T) {
				t.Parallel()
				b := spawned(t)
				in := b.accept(kind, compute.TaskSnapshotPending, arguments)
				var w waiting
				err := b.run(kind, in, func(env *testsuite.TestWorkflowEnvironment) {
					b.fault = func(c call) fault {
						return fault{before: func() error {
							if c.name == asks {
								b.askWhile(env, in.Operation, &w, func() {
									b.mu.Lock()
									defer b.mu.Unlock()
									require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State)
									require.Empty(t, b.row.current)
								})
							}
							if c.name == image.Create.Name {
								return refused
							}
							return nil
						}}
					}
				})
				require.Equal(t, refused.Message, durable.FromTemporal(err).Message)
				answer := durable.ImageRecordResult{Failed: true, Kind: compute.Forbidden, Message: refused.Message}
				require.Equal(t, waiting{answer: answer, answers: 1}, w)
				require.Empty(t, b.images)
				require.Empty(t, b.audit())
				require.Equal(t, compute.VMActive, b.row.server.VMState)
				require.Equal(t, compute.TaskNone, b.row.server.TaskState)
			})
		}
	}
}

// A13: a delete of the server that comes first is answered with a conflict; after the record was
// answered, the image goes with its server and nobody is answered twice.
func TestA13AnImageOfAServerThatIsDeleted(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]struct {
		cancelAt string
		answer   durable.ImageRecordResult
	}{
		"before the record":     {image.Create.Name, durable.ImageRecordResult{Failed: true, Kind: compute.Conflict, Message: "the operation was cancelled"}},
		"with the record there": {domain.Export.Name, durable.ImageRecordResult{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := spawned(t)
			in := b.accept(compute.OpCreateImage, compute.TaskSnapshotPending, images[compute.OpCreateImage])
			var w waiting
			err := b.run(compute.OpCreateImage, in, func(env *testsuite.TestWorkflowEnvironment) {
				b.fault = func(c call) fault {
					return fault{before: func() error {
						if c.name == record.Begin.Name {
							b.askWhile(env, in.Operation, &w, func() {})
						}
						if c.name == v.cancelAt {
							env.CancelWorkflow()
						}
						return nil
					}}
				}
			})
			require.Error(t, err)
			require.Equal(t, waiting{answer: v.answer, answers: 1}, w)
			require.Equal(t, compute.OperationCancelled, b.operations[in.Operation].State)
			require.Empty(t, b.images)
			require.Empty(t, b.audit())
		})
	}
	t.Run("before it began", func(t *testing.T) {
		t.Parallel()
		b := spawned(t)
		in := b.accept(compute.OpCreateImage, compute.TaskSnapshotPending, images[compute.OpCreateImage])
		b.row.current = compute.NewOperationID()
		var w waiting
		err := b.run(compute.OpCreateImage, in, func(env *testsuite.TestWorkflowEnvironment) {
			b.fault = at(call{name: record.Begin.Name, nth: 1}, fault{before: func() error {
				b.askWhile(env, in.Operation, &w, func() {})
				return nil
			}})
		})
		late := durable.NoImageRecord(err) // what it tells who asks when it has ended
		require.True(t, late.Failed)
		require.Equal(t, compute.Superseded, late.Kind)
		require.True(t, w.answer.Failed)
		require.Equal(t, compute.Superseded, w.answer.Kind)
		require.Zero(t, b.count(image.Create.Name))
	})
}
