package integration_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"strongroom/compute"
	"strongroom/deploy/await"
	"strongroom/deploy/guest"
)

// volumeCuts are the activities at which operations on a host's volume are cut off: those of the host's worker and of
// the control worker. An operation that makes a key calls record.SetVolume twice: the second time when it is decided.
var volumeCuts = map[string][]string{
	"open":   {"record.BeginVolume", "volume.Look", "volume.Open", "record.SetVolume", "ledger.Things", "record.Settle"},
	"close":  {"record.BeginVolume", "volume.Close", "record.Settle"},
	"rotate": {"record.BeginVolume", "key.Create", "record.SetVolume", "volume.Rotate", "record.SetVolume" + secondTime, "ledger.Things", "key.Remove.key_secret", "record.Settle"},
	"undo":   {"volume.Remove.volume_mount", "volume.Remove.volume_mapping", "record.SetVolume", "record.Settle"}, // of an open that failed
}

// secondTime stands in a point at which the second call that reaches it is cut off.
const secondTime = "#2"

// What is on the nested host.
const (
	nestedSecure = nestedState + "/state"
	nestedDevice = "/dev/" + nestedGroup + "/secure"
	nestedFormer = nestedDevice + "-former" // what of it was copied before its key was changed
)

// The kill matrix over the operations on the volume that has a host's own state: the host waits for it before it takes
// anything else, it is formatted once and keeps its data; it is not closed while a guest runs; and whatever worker dies at
// each of their activities, the operation succeeds, or fails as it would have, and nothing is left behind.
func TestKillMatrixSecureVolume(t *testing.T) {
	backends(t, local, openStack)
	swtpm := nestedLibvirtd.Dir + "/lib/swtpm"
	h := newNestedHostWith(t, "luksv2", nestedNeeds{name: "volume", host: map[string]any{"swtpm_enabled": true, "swtpm_state": swtpm, "suspend_state": nestedLibvirtd.Dir + "/lib/qemu/save"}})
	if h == nil {
		return
	}
	h.logicalVolume(t, nestedDevice, "192M")
	h.config["host"].(map[string]any)["secure_state"] = nestedSecure
	for _, folder := range []string{"instances", "image_cache"} {
		h.config["host"].(map[string]any)[folder] = nestedSecure + "/" + folder
	}
	text, err := yaml.Marshal(h.config)
	require.NoError(t, err)
	h.inside(t, string(text), "sh", "-c", "umask 077 && cat >"+nestedConfig)
	h.returns(t)

	out, err := h.secureState("open")
	require.Error(t, err)
	require.Contains(t, out, "--device says which")
	out, err = h.secureState("open", "--device", nestedDevice)
	require.Error(t, err)
	require.Contains(t, out, swtpm+" is not empty", "the worker has used it without a volume")
	h.inside(t, "", "find", swtpm, "-mindepth", "1", "-delete")
	_, err = h.secureState("open", "--device", "/dev/zero")
	require.Error(t, err, "it is no block device")
	_, err = h.secureState("status")
	require.Error(t, err, "nothing was begun")

	for _, point := range []string{"key.Create@before", "record.SetVolume@before", "record.SetVolume@after"} {
		h.arm(t, point)
	}
	h.cut(t, "open", "key.Create@after", "--device", nestedDevice)
	h.inside(t, "kept\n", "sh", "-c", "cat >"+nestedSecure+"/data && sync")
	h.isUp(t)
	h.keyAloneIsLeft(t)

	id := h.createOf(t, countsWithTPM, h.count)
	h.becomes(t, id, "ACTIVE")
	for _, folder := range []string{swtpm, nestedSecure + "/swtpm"} { // libvirt's is one of the volume's
		require.NotEmpty(t, h.inside(t, "", "find", folder+"/"+id, "-type", "f"), folder)
	}
	h.suspends(t, id)
	out, err = h.secureState("close")
	require.Error(t, err)
	require.Contains(t, out, "guests run on this host: 1")
	require.Contains(t, h.inside(t, "", "cat", "/proc/mounts"), nestedSecure)
	h.delete(t, id)

	h.logicalVolume(t, nestedFormer, "64M")
	h.inside(t, "", "dd", "if="+nestedDevice, "of="+nestedFormer, "bs=1M", "count=17", "conv=fsync")
	for _, point := range cutsOf("secure volume rotate", volumeCuts["rotate"]) {
		t.Run("rotate "+point, func(t *testing.T) { h.cut(t, "rotate", point) })
	}
	closes, opens := cutsOf("secure volume close", volumeCuts["close"]), cutsOf("secure volume open", volumeCuts["open"])
	for i := range max(len(closes), len(opens)) {
		do := func(what string, points []string) {
			point := ""
			if i < len(points) {
				point = points[i]
			}
			t.Run(what+" "+point, func(t *testing.T) { h.cut(t, what, point) })
		}
		do("close", closes)
		mounts := h.inside(t, "", "cat", "/proc/mounts")
		require.NotContains(t, mounts, nestedSecure)
		require.NotContains(t, mounts, swtpm)
		require.NotContains(t, strings.Join(h.opened(t), " "), "strongroom-volume")
		do("open", opens)
		require.Equal(t, "kept\n", h.inside(t, "", "cat", nestedSecure+"/data"))
	}
	h.isUp(t)
	h.exchangeDisk(t)
	h.isUp(t)
	h.keyAloneIsLeft(t)
}

// suspends suspends a server with an encrypted disk and a vTPM: the memory of its guest is on the volume alone, which may be closed
// meanwhile, and the guest goes on with it.
func (h *nestedHost) suspends(t *testing.T, id string) {
	t.Helper()
	client := h.compute(t, "-demo")
	h.boots(t, id, 1)
	require.NoError(t, servers.Suspend(t.Context(), client, id).ExtractErr())
	h.becomes(t, id, "SUSPENDED")
	save := nestedLibvirtd.Dir + "/lib/qemu/save"
	for _, folder := range []string{save, nestedSecure + "/save"} {
		require.NotEmpty(t, h.inside(t, "", "find", folder, "-type", "f"), folder)
	}
	require.NotContains(t, strings.Join(h.opened(t), " "), id)
	_, err := h.secureState("close")
	require.NoError(t, err)
	require.Empty(t, h.inside(t, "", "find", save, "-type", "f"))
	device, err := os.ReadFile(h.machine.Disk)
	require.NoError(t, err)
	require.False(t, bytes.Contains(device, []byte(guest.CountingText)), "what is on the disk is encrypted")
	_, err = h.secureState("open")
	require.NoError(t, err)
	h.isUp(t)
	require.NoError(t, servers.Resume(t.Context(), client, id).ExtractErr())
	h.becomes(t, id, "ACTIVE")
	require.Empty(t, h.inside(t, "", "find", save, "-type", "f"))
	h.boots(t, id, 1)
	require.NoError(t, servers.Reboot(t.Context(), client, id, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr())
	h.becomes(t, id, "ACTIVE")
	h.boots(t, id, 2)
	require.Empty(t, h.audit(t).Findings)
}

// keyAloneIsLeft requires that the ledger and the world agree, and that of all that the host and its servers ever had in the
// real services the volume's one key is there.
func (h *nestedHost) keyAloneIsLeft(t *testing.T) {
	t.Helper()
	require.Empty(t, h.audit(t).Findings)
	if h.real == nil {
		return
	}
	require.Empty(t, h.ownerless(t, "-demo"))
	left := h.ownerless(t, "-strongroom")
	require.Len(t, left, 1)
	require.Contains(t, left[0], "secret strongroom volume ")
}

// exchangeDisk puts an empty disk in the place of the host's volume: it is formatted where it is named, also when the worker dies over
// that, and not otherwise; and the volume is opened where it is.
func (h *nestedHost) exchangeDisk(t *testing.T) {
	t.Helper()
	lvm := func(args ...string) { h.inside(t, "", append([]string{"lvm"}, args...)...) }
	const away, empty = nestedDevice + "-away", nestedDevice + "-empty"
	h.logicalVolume(t, empty, "96M")
	refused := func(says string, args ...string) {
		t.Helper()
		out, err := h.secureState("open", args...)
		require.Error(t, err)
		require.Contains(t, out, says)
	}
	refused("open on another device than "+empty, "--device", empty)
	h.cut(t, "close", "")
	refused("no such file", "--device", nestedDevice+"-none")
	h.opensNeither(t)
	h.cut(t, "open", "") // where it was
	require.Equal(t, "kept\n", h.inside(t, "", "cat", nestedSecure+"/data"))
	h.cut(t, "close", "")

	lvm("lvrename", "--quiet", nestedGroup, "secure", "secure-away")
	lvm("lvrename", "--quiet", nestedGroup, "secure-empty", "secure")
	refused(nestedDevice + " of host " + h.name + " is new")
	require.Equal(t, "0\n", h.inside(t, "", "sh", "-c", "tr -d '\\000' <"+nestedDevice+" | wc -c"), "it is as it was")
	h.cut(t, "open", "volume.Open@after", "--device", nestedDevice)
	h.inside(t, "other\n", "sh", "-c", "test ! -e "+nestedSecure+"/data && cat >"+nestedSecure+"/data && sync")
	for device, has := range map[string]string{away: "kept\n", nestedDevice: "other\n"} {
		h.cut(t, "close", "")
		h.cut(t, "open", "", "--device", device)
		require.Equal(t, has, h.inside(t, "", "cat", nestedSecure+"/data"))
	}
}

// opensNeither asks for the volume on a device whose header somebody else made, or on one whose header another key opens, and has a
// worker die in the undo of that. Nothing is open of it then, also what a worker had left that died over an open before, and
// not a byte of the device is another.
func (h *nestedHost) opensNeither(t *testing.T) {
	t.Helper()
	const foreign = nestedDevice + "-foreign"
	h.logicalVolume(t, foreign, "64M")
	h.inside(t, strings.Repeat("somebody's", 4), "cryptsetup", "luksFormat", "--batch-mode", "--type", "luks2", "--pbkdf", "pbkdf2",
		"--pbkdf-force-iterations", "1000", "--key-file", "-", foreign)
	host := compute.HostID{UUID: uuid.MustParse(strings.TrimSpace(h.inside(t, "", "cat", nestedState+"/host.id")))}
	part := "strongroom-volume-" + compute.StateVolume(host).String() + "_dif"
	says := map[string]string{foreign: "refused, and left as it is", nestedFormer: "does not open this volume"}
	for i, point := range cutsOf("secure volume undo", volumeCuts["undo"]) {
		device := []string{foreign, nestedFormer}[(i+i/2)%2]
		t.Run("undo "+point, func(t *testing.T) {
			h.inside(t, "", "dmsetup", "create", part, "--table", "0 8 error")
			sum := h.inside(t, "", "sha256sum", device)
			is, out := h.ends(t, "open", point, "--device", device)
			require.Equal(t, "failed", is.State, out)
			require.Contains(t, is.Message, says[device])
			require.False(t, is.Open, out)
			require.NotContains(t, h.inside(t, "", "dmsetup", "ls"), "strongroom-volume")
			require.NotContains(t, h.inside(t, "", "cat", "/proc/mounts"), nestedSecure)
			require.Equal(t, sum, h.inside(t, "", "sha256sum", device), "it was written to")
		})
	}
}

// logicalVolume makes one that has been nothing before.
func (h *nestedHost) logicalVolume(t *testing.T, device, size string) {
	t.Helper()
	h.inside(t, "", "lvm", "lvcreate", "--quiet", "--yes", "--wipesignatures", "n", "--zero", "n", "--size", size, "--name", filepath.Base(device), nestedGroup)
}

// secureState runs a command on the host's volume.
func (h *nestedHost) secureState(do string, args ...string) (string, error) {
	return h.strongroom(append([]string{"--config", h.ConfigFile(), "host", "secure-state", h.name, do, "--timeout", settleTimeout.String()}, args...)...)
}

// cut does something to the volume, and has a worker die at a point; "": none does.
func (h *nestedHost) cut(t *testing.T, do, point string, args ...string) {
	t.Helper()
	is, out := h.ends(t, do, point, args...)
	require.Equal(t, "succeeded", is.State, out)
	require.Equal(t, do != "close", is.Open, out)
}

// volumeEnd is how an operation on the volume ended.
type volumeEnd struct {
	Open           bool
	State, Message string
}

// ends does something to the volume, has a worker die at a point, which must be reached, and gives how that ended, with all that
// was said.
func (h *nestedHost) ends(t *testing.T, do, point string, args ...string) (is volumeEnd, out string) {
	t.Helper()
	onHost, reached := strings.HasPrefix(point, "volume."), func() {}
	name, side, second := strings.Cut(point, secondTime)
	point = name + side
	switch {
	case point == "":
	case onHost:
		reached = h.armInside(t, point)
	default:
		h.arm(t, point)
		if second {
			require.NoError(t, os.WriteFile(filepath.Join(h.faults, point), []byte("next"), 0o600))
		}
	}
	out, err := h.secureState(do, append(args, "-o", "json")...)
	_, text, found := strings.Cut(out, "{")
	require.True(t, found, "%v: %s", err, out)
	require.NoError(t, json.NewDecoder(strings.NewReader("{"+text)).Decode(&is), out)
	require.Equal(t, err == nil, is.State == "succeeded", "%v: %s", err, out)
	switch {
	case point == "":
	case onHost:
		reached()
	default: // a point after the last step is reached a moment later than who waits for the operation reads its end
		await.For(t, point+" is reached", func() bool { _, err := os.Stat(filepath.Join(h.faults, point)); return os.IsNotExist(err) })
	}
	return is, out
}
