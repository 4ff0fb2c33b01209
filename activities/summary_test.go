package activities_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/image"
	"strongroom/activities/key"
	"strongroom/activities/mount"
	"strongroom/activities/object"
	"strongroom/activities/port"
	"strongroom/activities/share"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// summaryBytes is the most that Temporal takes as the summary of a call; more fails the
// workflow's task.
const summaryBytes = 400

// What an operator reads of a call in the Temporal UI (A9).
func TestA9EachCallHasASummary(t *testing.T) {
	t.Parallel()
	id := uuid.MustParse("11111111-2222-4333-8444-555555555555")
	server, img, secret := compute.ServerID{UUID: id}, compute.ImageID{UUID: id}, compute.SecretID{UUID: id}
	op := compute.NewOperationID()
	root := compute.Disk{Role: compute.RootDisk}
	long := compute.Image{ID: img, Name: strings.Repeat("ä", 255)} // users name images as they like
	for got, want := range map[string]string{
		key.Create.Summary(key.CreateInput{Name: compute.DiskSecret(server, op, root).Name}):                 "create secret for disk root",
		key.Copy.Summary(key.CopyInput{From: secret, Name: compute.ImageSecret(img, op).Name}):               "copy secret " + id.String() + " for image " + id.String(),
		key.Check.Summary(key.CheckInput{Secret: secret}):                                                    "check secret " + id.String(),
		trust.Create.Summary(trust.CreateInput{Name: compute.TrustName(server, op)}):                         "create trust",
		image.Create.Summary(image.CreateInput{Image: long}):                                                 "create image " + id.String(),
		image.Describe.Summary(image.DescribeInput{Image: img}):                                              "set properties of image " + id.String(),
		image.Upload.Summary(image.UploadInput{Image: img}):                                                  "upload image " + id.String(),
		image.OldBackups.Summary(image.OldBackupsInput{Server: server}):                                      "list old backups of server " + id.String(),
		disk.CacheImage.Summary(disk.CacheImageInput{Image: long}):                                           "cache image " + id.String(),
		disk.Create.Summary(disk.CreateInput{Disk: root}):                                                    "create disk root",
		disk.CreateCopy.Summary(disk.CreateInput{Disk: compute.Disk{Role: compute.EphemeralDisk, Index: 1}}): "create disk ephemeral1",
		disk.Export.Summary(disk.ExportInput{Disk: root}):                                                    "export disk root",
		disk.Receive.Summary(disk.ReceiveInput{Disk: root, From: compute.Agent{Name: "compute1"}}):           "receive disk root from compute1",
		disk.KeySlots.Summary(disk.KeySlotsInput{Disks: []compute.Disk{root, root}}):                         "read key slots of 2 disks",
		disk.AddKey.Summary(disk.AddKeyInput{Disk: root}):                                                    "add key to disk root",
		disk.CreateConfigDrive.Summary(disk.ConfigDriveInput{}):                                              "create config drive",
		domain.Start.Summary(domain.StartInput{Server: compute.Server{ID: server}}):                          "start domain instance-" + id.String(),
		domain.Stop.Summary(domain.StopInput{Server: server}):                                                "stop domain instance-" + id.String(),
		domain.Pause.Summary(domain.PauseInput{Server: server}):                                              "pause domain instance-" + id.String(),
		domain.AttachShare.Summary(domain.ShareInput{Server: server, Share: compute.ShareID{UUID: id}}):      "attach share " + id.String() + " to running domain instance-" + id.String(),
		domain.DetachShare.Summary(domain.ShareInput{Server: server, Share: compute.ShareID{UUID: id}}):      "detach share " + id.String() + " from running domain instance-" + id.String(),
		domain.Plug.Summary(domain.InterfaceInput{Server: server, Network: compute.Network{UUID: "n"}}):      "plug an interface on network n into domain instance-" + id.String(),
		domain.Unplug.Summary(domain.InterfaceInput{Server: server, Network: compute.Network{UUID: "n"}}):    "unplug an interface on network n from domain instance-" + id.String(),
		domain.Unpause.Summary(domain.PauseInput{Server: server}):                                            "resume domain instance-" + id.String(),
		domain.Suspend.Summary(domain.SuspendInput{Server: server}):                                          "suspend domain instance-" + id.String(),
		domain.InjectNMI.Summary(domain.InjectNMIInput{Server: server}):                                      "interrupt domain instance-" + id.String(),
		domain.Export.Summary(domain.ExportInput{Server: server, Disk: root}):                                "export disk root of running domain instance-" + id.String(),
		domain.AbortExport.Summary(domain.AbortExportInput{Server: server}):                                  "abort exports of domain instance-" + id.String(),
	} {
		require.Equal(t, want, got)
		require.Less(t, len(got), summaryBytes)
	}
	of := compute.Removal{Thing: compute.Thing{Kind: compute.ThingTPMState, Name: id.String()}}
	for _, remove := range []func(compute.Removal) string{
		port.Remove.Summary, share.Remove.Summary, key.Remove.Summary, trust.Remove.Summary, image.Remove.Summary, object.Remove.Summary,
		mount.Remove.Summary, disk.Remove.Summary, domain.Remove.Summary, tpm.Remove.Summary,
	} {
		require.Equal(t, "delete TPM state of server "+id.String(), remove(of))
	}
	for _, seen := range []func(compute.SeenInput) string{
		port.Seen.Summary, share.Seen.Summary, key.Seen.Summary, trust.Seen.Summary, image.Seen.Summary, object.Seen.Summary,
		mount.Seen.Summary, disk.Seen.Summary, domain.Seen.Summary, tpm.Seen.Summary,
	} {
		require.True(t, strings.HasPrefix(seen(compute.SeenInput{}), "list "))
	}
}

type catalog map[string]bool

func (c catalog) RegisterActivityWithOptions(_ any, o activity.RegisterOptions) {
	if c[o.Name] {
		panic(o.Name + " is registered twice")
	}
	c[o.Name] = true
}

func TestEachThingIsRemovedAndSeen(t *testing.T) {
	t.Parallel()
	c := catalog{}
	(&key.Activities{}).Register(c)
	(&trust.Activities{}).Register(c)
	(&image.Activities{}).Register(c)
	(&image.HostActivities{}).Register(c)
	(&object.Activities{}).Register(c)
	(&port.Activities{}).Register(c)
	(&share.Activities{}).Register(c)
	(&mount.Activities{}).Register(c)
	(&disk.Activities{}).Register(c)
	(&domain.Activities{}).Register(c)
	(&tpm.Activities{}).Register(c)
	for _, thing := range []string{"key", "trust", "image", "object", "port", "share", "disk", "domain", "tpm", "mount"} {
		require.Contains(t, c, thing+".Remove")
		require.Contains(t, c, thing+".Seen")
	}
}
