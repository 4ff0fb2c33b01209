package domain_test

import (
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"

	"strongroom/activities/domain"
	"strongroom/compute"
)

// The guest gets an operation's interrupt once, however often the activity runs, also at once, and none where an
// attempt was cut off between its note and its end.
func TestInjectNMI(t *testing.T) {
	t.Parallel()
	h := setup(t, idle)
	s := h.server(t, false, nil)
	h.disksOf(t, s)
	dom := libvirt.Domain{UUID: libvirt.UUID(s.ID.UUID)}
	note := func(set libvirt.OptString) (text string) {
		t.Helper()
		uri := libvirt.OptString{"urn:strongroom:nmi:1"}
		require.NoError(t, h.Client.Do(t.Context(), func(l *libvirt.Libvirt) (err error) {
			if set != nil {
				return l.DomainSetMetadata(dom, int32(libvirt.DomainMetadataElement), set, libvirt.OptString{"nmi"}, uri, libvirt.DomainAffectLive)
			}
			text, err = l.DomainGetMetadata(dom, int32(libvirt.DomainMetadataElement), uri, libvirt.DomainAffectCurrent)
			return err
		}))
		return text
	}
	ask := func(op compute.OperationID) error {
		return h.InjectNMI(t.Context(), domain.InjectNMIInput{Server: s.ID, Operation: op})
	}
	refused := func(op compute.OperationID, text string) {
		t.Helper()
		err := ask(op)
		require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, text)
	}
	refused("req-1", "its machine neither runs nor is paused")
	_, err := h.Start(t.Context(), domain.StartInput{Server: s})
	require.NoError(t, err)
	var both sync.WaitGroup // an attempt that timed out and its successor
	for range 2 {
		both.Go(func() { require.NoError(t, ask("req-1")) })
	}
	both.Wait()
	require.Equal(t, `<operation sent="true">req-1</operation>`, note(nil))

	require.NoError(t, h.Pause(t.Context(), domain.PauseInput{Server: s.ID}))
	require.NoError(t, ask("req-2"))
	require.Equal(t, `<operation sent="true">req-2</operation>`, note(nil))

	note(libvirt.OptString{`<operation sent="false">req-3</operation>`})
	refused("req-3", "it is not known whether its guest got the interrupt")
	require.Equal(t, `<operation sent="false">req-3</operation>`, note(nil))
	require.NoError(t, ask("req-4"))

	_, err = h.Stop(t.Context(), domain.StopInput{Server: s.ID})
	require.NoError(t, err)
	require.NoError(t, ask("req-4"), "the guest got it, and went off")
	refused("req-5", "its machine neither runs nor is paused")
	require.NoError(t, h.Remove(t.Context(), ofDomain(s.ID)))
	refused("req-6", "its machine neither runs nor is paused")
}
