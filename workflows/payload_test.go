package workflows_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"strongroom/compute"
	"strongroom/durable"
)

// wide are as many properties as an image may have, of what takes most of JSON.
func wide(t *testing.T) map[string]string {
	out := map[string]string{}
	for i := range 128 {
		out[strings.Repeat("<", 252)+fmt.Sprintf("%03d", i)] = strings.Repeat("<", 255)
	}
	require.NoError(t, compute.CheckImage(compute.Image{Properties: out}))
	out["one"] = strings.Repeat("<", 300)
	require.Error(t, compute.CheckImage(compute.Image{Properties: out}), "there could be more")
	delete(out, "one")
	return out
}

// wideNetwork is as much as the interfaces of a server may have.
func wideNetwork(t *testing.T) compute.Network {
	out := compute.Network{UUID: uuid.NewString(), Tag: strings.Repeat("<", 21<<10)}
	require.NoError(t, compute.CheckNetworkText([]compute.Network{out}))
	require.Error(t, compute.CheckNetworkText([]compute.Network{out, out}))
	return out
}

// largest is a converter that notes how large the largest payload was.
type largest struct {
	converter.DataConverter
	bytes atomic.Int64
}

// ToPayloads implements converter.DataConverter.
func (l *largest) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	out, err := l.DataConverter.ToPayloads(values...)
	for _, p := range out.GetPayloads() {
		l.bytes.Store(max(l.bytes.Load(), int64(len(p.GetData()))))
	}
	return out, err
}

// K15: each kind of operation ends well where all that its tenant chooses is as large as it may be.
func TestK15TheLargestServerGoesThroughTemporal(t *testing.T) {
	t.Parallel()
	seen, large := map[compute.OperationKind]bool{}, wide(t)
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		s := subjects[name]
		if seen[s.kind] {
			continue
		}
		seen[s.kind] = true
		t.Run(name, func(t *testing.T) {
			b := s.setup(t)
			with := func(img compute.Image) compute.Image {
				img.Properties = maps.Clone(img.Properties)
				if img.Properties == nil {
					img.Properties = map[string]string{}
				}
				maps.Copy(img.Properties, large)
				return img
			}
			b.row.server.Image = with(b.row.server.Image)
			b.row.server.Networks = append(b.row.server.Networks, wideNetwork(t))
			switch in := s.arguments.(type) {
			case compute.RebuildRequest:
				in.Image = with(in.Image)
				s.arguments = in
			case compute.RescueArguments:
				in.Image = with(in.Image)
				s.arguments = in
			case compute.SnapshotArguments:
				in.Metadata = large
				s.arguments = in
			}
			sizes := &largest{DataConverter: converter.GetDefaultDataConverter()}
			require.NoError(t, b.run(s.kind, b.accept(s.kind, s.task, s.arguments), func(env *testsuite.TestWorkflowEnvironment) { env.SetDataConverter(sizes) }))
			require.Greater(t, sizes.bytes.Load(), int64(300<<10), "the record of the image is nowhere")
			require.LessOrEqual(t, sizes.bytes.Load(), int64(durable.MostBytes))
			t.Log(s.kind, sizes.bytes.Load()>>10, "KiB")
		})
	}
}

// K15: nor does a server with all the shares that it may have pass any limit: not by its start or its stop, and not by its delete, which reads all that there is of it.
func TestK15AServerWithAllItsSharesGoesThroughTemporal(t *testing.T) {
	t.Parallel()
	b := stopped(t)
	for i := range compute.MostShares {
		id := compute.ShareID{UUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte{byte(i)})}
		b.writeDown(id)
		require.NoError(t, b.shares(compute.OpShareAttach, compute.TaskAttachingShare, compute.ShareArguments{Share: id, Address: "192.0.2.1"}))
	}
	for _, step := range []struct {
		kind compute.OperationKind
		task compute.TaskState
	}{{compute.OpStart, compute.TaskPoweringOn}, {compute.OpStop, compute.TaskPoweringOff}, {compute.OpStart, compute.TaskPoweringOn}, {compute.OpDelete, compute.TaskDeleting}} {
		sizes := &largest{DataConverter: converter.GetDefaultDataConverter()}
		require.NoError(t, b.run(step.kind, b.accept(step.kind, step.task, nil), func(env *testsuite.TestWorkflowEnvironment) { env.SetDataConverter(sizes) }))
		require.Greater(t, sizes.bytes.Load(), int64(compute.MostShares*100), "the shares are nowhere")
		require.LessOrEqual(t, sizes.bytes.Load(), int64(durable.MostBytes))
		t.Log(step.kind, sizes.bytes.Load()>>10, "KiB")
	}
	require.Empty(t, b.things())
}

// K15: an operation on a server whose record does not go through Temporal leaves the server as it is, and makes nothing; a delete goes on.
func TestK15AServerThatIsTooLargeStaysAsItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subject string
		vm      compute.VMState
	}{
		"stop": {"stop", compute.VMActive}, "create": {"spawn", compute.VMError}, "rebuild": {"rebuild, UEFI", compute.VMActive}, "image": {"snapshot of a running server", compute.VMActive},
	} {
		s := subjects[c.subject]
		b := s.setup(t)
		power := b.power()
		b.tooLarge = "the record of the server has 3000 KiB, and at most 1024 go through Temporal"
		in := b.accept(s.kind, s.task, s.arguments)
		require.ErrorContains(t, b.run(s.kind, in, nil), b.tooLarge, name)
		require.Equal(t, compute.OperationFailed, b.operations[in.Operation].State, name)
		require.Equal(t, c.vm, b.row.server.VMState, name)
		require.Equal(t, power, b.power(), name)
		require.Empty(t, b.audit(), name)
	}
	b := spawned(t)
	b.tooLarge = "it does not matter"
	in := b.accept(compute.OpDelete, compute.TaskDeleting, nil)
	require.NoError(t, b.run(compute.OpDelete, in, nil))
	require.Empty(t, b.things())
}
