package gateway_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/record"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/worker/gateway"
)

// readVolume reads a secret as an activity of an operation on a volume does.
func (h *host) readVolume(volume compute.VolumeID, cred compute.Credential, id compute.SecretID) (value string, err error) {
	h.t.Helper()
	err = as(h.t, "volume/"+volume.String()+"/secureVolumeOpen", func(ctx context.Context) error {
		p, err := h.secrets.Passphrase(ctx, cred, id)
		if err != nil {
			return err
		}
		defer p.Wipe()
		return p.Use(func(b []byte) error {
			value = string(b)
			return nil
		})
	})
	return value, err
}

// ask begins an operation on the host's volume.
func (h *host) ask(kind compute.OperationKind, device string) (compute.Operation, bool, error) {
	return record.AskVolume(h.Ctx, h.DB, durable.Host{ID: h.id, Name: h.name}, kind, device)
}

// settles ends all operations on volumes.
func (c *cloud) settles(state string) {
	c.Exec("UPDATE operations SET state = $1, finished_at = now() - interval '1 hour' WHERE subject_kind = 'volume' AND state IN ('accepted', 'running')", state)
}

// H1: a host gets the keys of its own volume, while an operation runs that opens it or changes its key, and no others'.
func TestH1AHostGetsTheKeysOfItsOwnVolumeAlone(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	own := compute.DeploymentCredential()
	mine, other := c.enrolled("mine"), c.enrolled("other")
	volumes := map[*host]compute.VolumeID{mine: compute.StateVolume(mine.id), other: compute.StateVolume(other.id)}
	secrets := map[*host]compute.SecretID{}
	for h, v := range volumes {
		_, begun, err := h.ask(compute.OpSecureVolumeOpen, "/dev/v")
		require.NoError(t, err)
		require.True(t, begun)
		secrets[h] = c.stray(own)
		c.Exec("UPDATE secure_volumes SET secret_uuid = $2 WHERE id = $1", v, secrets[h])
	}
	got, err := mine.readVolume(volumes[mine], own, secrets[mine])
	require.NoError(t, err)
	require.Equal(t, c.value(own, secrets[mine]), got)
	next := c.stray(own)
	refused := func(why string, h *host, v compute.VolumeID, cred compute.Credential, id compute.SecretID) {
		t.Helper()
		_, err := h.readVolume(v, cred, id)
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", why, err)
	}
	refused("another host's volume", other, volumes[mine], own, secrets[mine])
	refused("another volume's key", mine, volumes[mine], own, secrets[other])
	refused("a secret of no volume", mine, volumes[mine], own, next)
	refused("another credential", mine, volumes[mine], compute.MemberCredential("p"), secrets[mine])

	c.settles("succeeded")
	refused("no operation runs", mine, volumes[mine], own, secrets[mine])
	_, _, err = mine.ask(compute.OpSecureVolumeClose, "")
	require.NoError(t, err)
	refused("none is read to close it", mine, volumes[mine], own, secrets[mine])
	c.settles("succeeded")
	_, _, err = mine.ask(compute.OpSecureVolumeRotateKey, "")
	require.NoError(t, err)
	c.Exec("UPDATE secure_volumes SET next_uuid = $2 WHERE id = $1", volumes[mine], next)
	for _, id := range []compute.SecretID{secrets[mine], next} {
		_, err = mine.readVolume(volumes[mine], own, id)
		require.NoError(t, err)
	}
	require.NoError(t, gateway.Revoke(c.Ctx, c.DB, "mine"))
	refused("it was revoked", mine, volumes[mine], own, secrets[mine])
}

// Of the operations on a volume one is under way at a time: the same one is asked for once, and others are refused.
func TestAskVolume(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("h1")
	_, _, err := h.ask(compute.OpSecureVolumeClose, "")
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	for device, why := range map[string]string{"": "--device", "sdb": "no absolute path", "/dev/../x": "no absolute path"} {
		_, _, err = h.ask(compute.OpSecureVolumeOpen, device)
		require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
		require.ErrorContains(t, err, why)
	}
	first, begun, err := h.ask(compute.OpSecureVolumeOpen, "/dev/a")
	require.NoError(t, err)
	require.True(t, begun)
	for _, device := range []string{"/dev/a", ""} {
		again, begun, err := h.ask(compute.OpSecureVolumeOpen, device)
		require.NoError(t, err)
		require.False(t, begun)
		require.Equal(t, first.ID, again.ID)
	}
	_, _, err = h.ask(compute.OpSecureVolumeOpen, "/dev/b")
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "not for --device /dev/b")
	_, _, err = h.ask(compute.OpSecureVolumeClose, "")
	require.Equal(t, compute.Conflict, compute.KindOf(err), "%v", err)
	is, err := record.LookAtVolume(c.Ctx, c.DB, "h1")
	require.NoError(t, err)
	require.Equal(t, "/dev/a", is.Volume.Device)
	require.True(t, is.Volume.Wanted)
	c.settles("failed")
	_, _, err = h.ask(compute.OpSecureVolumeRotateKey, "")
	require.Equal(t, compute.Conflict, compute.KindOf(err), "it was never opened: %v", err)
	_, _, err = h.ask(compute.OpSecureVolumeOpen, "/dev/b")
	require.NoError(t, err)
	is, err = record.LookAtVolume(c.Ctx, c.DB, h.id.String())
	require.NoError(t, err)
	require.Equal(t, "/dev/b", is.Volume.Device)
}

// The first time a host's volume is opened its device may be a new one. From then on one is formatted only where it is named, and
// is on record once the volume was opened on it: after a failure, and at the host's next boot, the volume is where it was.
func TestTheDeviceOfAVolume(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("h1")
	records := &record.Activities{Pool: c.DB}
	id := compute.SecretID{UUID: uuid.New()}
	asks := func(device, on string, neverFormat bool) durable.OperationInput {
		t.Helper()
		op, begun, err := h.ask(compute.OpSecureVolumeOpen, device)
		require.NoError(t, err)
		require.True(t, begun)
		in := durable.OperationInput{Operation: op.ID, Subject: op.Subject}
		for range 2 {
			got, err := records.BeginVolume(c.Ctx, in)
			require.NoError(t, err)
			require.Equal(t, on, got.Volume.Device)
			require.Equal(t, neverFormat, got.NeverFormat)
		}
		return in
	}
	recorded := func(device string) {
		t.Helper()
		is, err := record.LookAtVolume(c.Ctx, c.DB, "h1")
		require.NoError(t, err)
		require.Equal(t, device, is.Volume.Device)
	}
	opened := func(in durable.OperationInput, device string) {
		t.Helper()
		require.NoError(t, records.SetVolume(c.Ctx, record.SetVolumeInput{OperationInput: in, Keys: &record.VolumeKeys{Secret: &id, Device: device}}))
		recorded(device)
		c.settles("succeeded")
	}

	asks("/dev/a", "/dev/a", false)
	c.settles("failed")
	opened(asks("", "/dev/a", false), "/dev/a")
	asks("", "/dev/a", true)
	c.settles("succeeded")
	asks("/dev/typo", "/dev/typo", false)
	recorded("/dev/a")
	c.settles("failed")
	asks("", "/dev/a", true)
	c.settles("failed")
	opened(asks("/dev/b", "/dev/b", false), "/dev/b")
	_, err := h.client.StateVolume(c.Ctx, false) // the host was booted
	require.NoError(t, err)
	is, err := record.LookAtVolume(c.Ctx, c.DB, "h1")
	require.NoError(t, err)
	got, err := records.BeginVolume(c.Ctx, durable.OperationInput{Operation: is.Operation, Subject: compute.VolumeOwner(is.Volume.ID)})
	require.NoError(t, err)
	require.Equal(t, "/dev/b", got.Volume.Device)
	require.True(t, got.NeverFormat)
}

// A host whose worker starts has its volume opened, once at a time and not again at once after a failure; not one that
// was closed, and none that it does not have.
func TestAHostHasItsVolumeOpened(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	h := c.enrolled("h1")
	says := func(open bool) gateway.StateVolume {
		t.Helper()
		is, err := h.client.StateVolume(c.Ctx, open)
		require.NoError(t, err)
		return is
	}
	opens := func(n int) {
		t.Helper()
		require.Equal(t, n, c.CountRows("SELECT count(*) FROM operations WHERE subject_kind = 'volume'"))
	}
	require.Equal(t, gateway.StateVolume{}, says(false))
	opens(0)
	_, _, err := h.ask(compute.OpSecureVolumeOpen, "/dev/v")
	require.NoError(t, err)
	require.Equal(t, gateway.StateVolume{Known: true, Wanted: true}, says(false))
	opens(1)
	c.settles("succeeded")
	require.True(t, says(true).Wanted)
	opens(1)
	says(false) // the host was booted
	says(false)
	opens(2)
	c.Exec("UPDATE operations SET state = 'failed', message = 'no device', finished_at = now() WHERE state = 'accepted'")
	require.Equal(t, gateway.StateVolume{Known: true, Wanted: true, Message: "no device"}, says(false))
	opens(2)
	c.Exec("UPDATE operations SET finished_at = now() - interval '1 minute' WHERE state = 'failed'")
	says(false)
	opens(3)
	c.settles("succeeded")
	_, _, err = h.ask(compute.OpSecureVolumeClose, "")
	require.NoError(t, err)
	c.settles("succeeded")
	require.Equal(t, gateway.StateVolume{Known: true}, says(false))
	opens(4)
}
