package integration_test

import (
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/drain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/ledger"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	"strongroom/activities/operation"
	"strongroom/activities/placement"
	"strongroom/activities/port"
	"strongroom/activities/record"
	"strongroom/activities/secret"
	shares "strongroom/activities/share"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/workflows"
)

// catalog collects what is registered.
type catalog struct {
	worker.Registry
	functions map[string]any
}

func (c *catalog) RegisterActivityWithOptions(f any, o activity.RegisterOptions) {
	c.functions[o.Name] = f
}

func (c *catalog) RegisterWorkflowWithOptions(f any, o workflow.RegisterOptions) {
	c.functions[o.Name] = f
}

func everythingRegistered() map[string]any {
	c := &catalog{functions: map[string]any{}}
	workflows.Register(c)
	(&record.Activities{}).Register(c)
	(&drain.Activities{}).Register(c)
	(&ledger.Activities{}).Register(c)
	(&placement.Activities{}).Register(c)
	(&operation.Activities{}).Register(c)
	(&key.Activities{}).Register(c)
	(&trust.Activities{}).Register(c)
	(&image.Activities{}).Register(c)
	(&object.Activities{}).Register(c)
	(&image.HostActivities{}).Register(c)
	(&disk.Activities{}).Register(c)
	(&domain.Activities{}).Register(c)
	(&tpm.Activities{}).Register(c)
	(&port.Activities{}).Register(c)
	(&shares.Activities{}).Register(c)
	(&mount.Activities{}).Register(c)
	(&volume.Activities{}).Register(c)
	return c.functions
}

// TestWorkflowsFindWhatTheyName: a name that nobody registers is found out by
// the first user only, for workflows call by name.
func TestWorkflowsFindWhatTheyName(t *testing.T) {
	backends(t, local) // it reads the code
	t.Parallel()
	want := []string{
		"create", "delete", "start", "stop", "reboot", "createImage", "createBackup", "rebuild", "rescue", "unrescue", "pause", "unpause", "suspend", "resume", "trigger_crash_dump", "shelve", "shelveOffload", "unshelve", "resize", "migrate", "confirmResize", "revertResize", "evacuate", "live-migration", "backUpTPM", "drain", workflows.JanitorName, workflows.AuditName,
		record.Begin.Name, record.Advance.Name, record.ClearSecrets.Name, record.Settle.Name, record.FinishDelete.Name,
		record.HandOver.Name, record.Rebuild.Name, record.Unrescue.Name, record.Shelve.Name, record.Unshelve.Name, record.ConfirmResize.Name, record.RevertResize.Name, record.LeaveHost.Name, record.Evacuate.Name, record.LiveMigrated.Name, record.NoteFenced.Name, record.TPMBackup.Name, record.ForgetTrust.Name, placement.Claim.Name, placement.Unclaim.Name, placement.HostAgent.Name, placement.TPMPeers.Name,
		ledger.Things.Name, ledger.HandedOver.Name, ledger.Due.Name, ledger.Reaped.Name, ledger.Count.Name, ledger.StartAudit.Name,
		ledger.Projects.Name, ledger.Names.Name, ledger.NoteSeen.Name, ledger.NoteLooked.Name, ledger.Differences.Name, ledger.EndAudit.Name,
		operation.CancelRunning.Name, operation.Watch.Name, operation.Sweep.Name,
		record.UseSecret.Name, ledger.TakeKey.Name, key.Name.Name, image.InUse.Name,
		key.Create.Name, key.Copy.Name, key.Check.Name, key.Remove.Name, key.Seen.Name, trust.Create.Name, trust.Remove.Name, trust.Seen.Name,
		image.Create.Name, image.Describe.Name, image.Remove.Name, image.Seen.Name, image.OldBackups.Name, image.Upload.Name, image.CheckShelved.Name,
		object.Check.Name, object.Verify.Name, object.Remove.Name, object.Seen.Name,
		disk.CacheImage.Name, disk.CheckImage.Name, disk.Create.Name, disk.CreateCopy.Name, disk.Remove.Name, disk.Seen.Name, disk.Ping.Name, disk.Find.Name, disk.TakeOver.Name, disk.Export.Name, disk.CreateConfigDrive.Name,
		disk.KeySlots.Name, disk.AddKey.Name, disk.Restore.Name, disk.Receive.Name, disk.CheckMove.Name, disk.CheckRoom.Name, disk.CheckExport.Name, disk.Resize.Name, disk.CreateNVRAM.Name, disk.ReceiveNVRAM.Name, disk.SaveNVRAM.Name, disk.RestoreNVRAM.Name,
		domain.Start.Name, domain.Stop.Name, domain.Pause.Name, domain.Unpause.Name, domain.Suspend.Name, domain.InjectNMI.Name, domain.AttachShare.Name, domain.DetachShare.Name, domain.Remove.Name, domain.Seen.Name, domain.Export.Name, domain.AbortExport.Name,
		domain.Keeps.Name, domain.Expect.Name, domain.Migrate.Name, domain.Arrived.Name, domain.Departed.Name,
		tpm.Save.Name, tpm.Digest.Name, tpm.BackUp.Name, tpm.Restore.Name, tpm.Receive.Name, tpm.Show.Name, tpm.Shown.Name, tpm.Keep.Name, tpm.PutBack.Name, tpm.Remove.Name, tpm.Seen.Name,
		"rotateKeys", record.Rotate.Name,
		"importLegacy", disk.Adopt.Name, ledger.LeftIn.Name,
		record.ClearPorts.Name, port.Plug.Name, port.Look.Name, port.Prepare.Name, port.Bind.Name, port.Release.Name, port.Remove.Name, port.Seen.Name,
		"attach_interface", "detach_interface", record.DropPort.Name, domain.Plug.Name, domain.Unplug.Name,
		"share_attach", "share_detach", shares.Look.Name, shares.Allow.Name, shares.Remove.Name, shares.Seen.Name,
		mount.Mount.Name, mount.Remove.Name, mount.Seen.Name,
		"secureVolumeOpen", "secureVolumeClose", "secureVolumeRotateKey", record.BeginVolume.Name, record.SetVolume.Name,
		volume.Look.Name, volume.Open.Name, volume.Close.Name, volume.Rotate.Name, volume.Remove.Name, volume.Seen.Name,
		drain.Begin.Name, drain.Watch.Name, drain.Cancel.Name, drain.End.Name,
	}
	require.ElementsMatch(t, want, slices.Collect(maps.Keys(everythingRegistered())))
}

// telling are names of fields that hold what must not be in a history.
var telling = []string{"passphrase", "password", "token", "payload", "value", "privatekey", "master", "export", "userdata"}

// allowed are fields that look as if they could hold a secret, and why they do not.
var allowed = map[string]string{
	"record.AdvanceInput.Secrets":         "ids of secrets",
	"compute.Flavor.ExtraSpecs":           "a flavor's public properties, which every user may list",
	"compute.Image.Properties":            "an image's properties, which everybody who sees the image may read",
	"compute.Server.System":               "written by strongroom alone: ids of secrets",
	"compute.Disk.EncryptionOptions":      "cipher names and sizes (EE-08)",
	"disk.CreateResult.EncryptionOptions": "cipher names and sizes (EE-08)",
	"record.Option.Options":               "cipher names and sizes (EE-08)",
	"compute.Export.EncryptionOptions":    "cipher names and sizes (EE-08)",
	"compute.SnapshotArguments.Metadata":  "an image's properties to be, which everybody who sees the image may read",
	"disk.AddKeyResult.EncryptionOptions": "cipher names and sizes (EE-08)",
	"compute.Rotated.Options":             "cipher names and sizes (EE-08)",
	"record.BeginResult.Arguments":        "what the kind's own type keeps of them, which is walked too",
	"image.DescribeInput.Properties":      "an image's properties, which everybody who sees the image may read",
}

var (
	passphrase = reflect.TypeFor[secret.Passphrase]()
	plain      = map[reflect.Type]bool{
		reflect.TypeFor[uuid.UUID](): true, reflect.TypeFor[time.Time](): true, reflect.TypeFor[compute.SecretID](): true,
		reflect.TypeFor[netip.Addr](): true, reflect.TypeFor[netip.Prefix](): true,
	}
)

// inspection walks a type and notes what could carry a secret into a history.
type inspection struct {
	seen  map[reflect.Type]bool
	used  map[string]bool
	found []string
}

func (i *inspection) walk(at string, t reflect.Type) {
	if plain[t] || i.seen[t] {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			i.find(at, "bytes")
			return
		}
		i.walk(at, t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			i.find(at, "a bag of text")
		}
		i.walk(at, t.Key())
		i.walk(at, t.Elem())
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		i.find(at, "anything: "+t.String())
	case reflect.Struct:
		i.seen[t] = true
		if t == passphrase {
			i.find(at, "a passphrase")
			return
		}
		if t.PkgPath() == "strongroom/durable" && strings.HasPrefix(t.Name(), "message[") { // its JSON is its body
			body, _ := t.FieldByName("Body")
			i.walk(at, body.Type)
			return
		}
		for n := range t.NumField() {
			i.field(t, t.Field(n))
		}
	}
}

func (i *inspection) field(owner reflect.Type, f reflect.StructField) {
	at := owner.String() + "." + f.Name
	name := strings.ToLower(f.Name)
	for _, word := range telling {
		if strings.Contains(name, word) {
			i.find(at, "its name")
		}
	}
	if strings.Contains(name, "secret") && !isReference(f.Type) {
		i.find(at, "a secret that is no reference")
	}
	if f.IsExported() {
		i.walk(at, f.Type)
	} else if !f.Anonymous {
		i.find(at, "a field that no history shows")
	}
}

// isReference reports whether a type is made of the ids of secrets.
func isReference(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t == reflect.TypeFor[compute.SecretID]()
}

func (i *inspection) find(at, what string) {
	if _, ok := allowed[at]; ok {
		i.used[at] = true
		return
	}
	i.found = append(i.found, at+": "+what)
}

// TestNoSecretFitsIntoAHistory walks the inputs and results of everything that
// is registered: they are stored and shown as they are (design 4.2).
func TestNoSecretFitsIntoAHistory(t *testing.T) {
	backends(t, local) // it reads the code
	t.Parallel()
	contexts := map[reflect.Type]bool{reflect.TypeFor[workflow.Context](): true, reflect.TypeFor[context.Context](): true}
	i := &inspection{used: map[string]bool{}, seen: map[reflect.Type]bool{}}
	for name, f := range everythingRegistered() {
		signature := reflect.TypeOf(f)
		for n := range signature.NumIn() {
			in := signature.In(n)
			if n > 0 || !contexts[in] {
				i.walk(name+" input", in)
			}
		}
		for n := range signature.NumOut() {
			if out := signature.Out(n); n < signature.NumOut()-1 {
				i.walk(name+" result", out)
			} else {
				require.Equal(t, reflect.TypeFor[error](), out, name)
			}
		}
	}
	for _, action := range compute.Actions {
		i.walk(string(action.Kind)+" arguments", action.Arguments)
	}
	require.Empty(t, i.found)
	for at := range allowed {
		require.True(t, i.used[at], "%s is allowed and needs it no more", at)
	}
}

// leaky is what the inspection must find.
type leaky struct {
	Raw        []byte
	Any        any
	Err        error
	Passphrase string
	AuthToken  string
	DiskSecret string
	Bag        map[string]string
	Nested     []*struct{ P *secret.Passphrase }
	Fine       compute.SecretID
	At         time.Time
}

func TestTheInspectionFindsLeaks(t *testing.T) {
	backends(t, local) // it reads the code
	t.Parallel()
	i := &inspection{used: map[string]bool{}, seen: map[reflect.Type]bool{}}
	i.walk("x", reflect.TypeFor[leaky]())
	require.Len(t, i.found, 8, "%v", i.found)
}
