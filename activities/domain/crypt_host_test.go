package domain_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/compute"
	"strongroom/deploy/guest/vm"
	"strongroom/integration/seed"
)

func TestMain(m *testing.M) {
	seed.Deep("keys", TestExportOfAGuestThatWrites, TestExportThatIsCutOff, TestExportForms, TestExportWhenTheHostIsFull, TestRescueWithAnEncryptedImage,
		TestRemoveEndsACopy)
	seed.Deep("moves", TestLiveMigrationThatIsForcedToComplete, TestLiveMigrationThatIsForcedBefore, TestLiveMigrationThatStandsStill, TestLiveMigrationThatFails,
		TestLiveMigrationThatIsAbortedBefore, TestLiveMigrationOfWhichTheEndIsNotKnown, TestLiveMigrationTriesToPrepareAgain,
		TestLiveMigrationKeepsThePlacesOfDevices, TestNothingIsExpectedOfAServerThatDidNotLeave, TestH1ALiveMigrationToARevokedHostIsAborted)
	seed.Deep("vtpm", TestUEFISecureBoot, TestUEFIWithoutSecureBoot, TestUEFILiveMigration, TestStartOlderTPMs, TestStartMakesANewTPMAnew,
		TestCallsThatAVTPMAddsToAStart)
	seed.Deep("shares", TestSH10AGuestWritesIntoItsShare)
	seed.Deep("volumes", TestServerOnADevice, TestServerInAPool)
	seed.Deep("network", TestRemoveOfAPluggedPort, TestAGuestThatDoesNotAnswerToAnUnplug)
	seed.Deep("ops", TestSuspend, TestSuspendThatIsCancelled, TestSuspendOfAnEncryptedServer, TestGuestReadsAPlainConfigDrive, TestRescue, TestServerIsMadeAnewAndBack, TestConsoles)
	os.Exit(vm.Main(m))
}

// The machine's two ports: what asks its disk activities, and the open device.
const (
	askPort    = 8000
	devicePort = 10809
)

const volumeGroup = "cloud-disks"

// lvmConf lets LVM do without udev, which the machine has not.
const lvmConf = `
devices { obtain_device_list_from_udev = 0 external_device_info_source = "none" use_devicesfile = 0 hints = "none" }
activation { udev_sync = 0 udev_rules = 0 monitoring = 0 }
backup { backup = 0 archive = 0 }
`

// cryptMachine has a kernel that decrypts, which the one that tests run on may not: the device
// mapper, LVM and cryptsetup, and the disk activities as a host has them.
var cryptMachine = vm.Machine{
	Modules:  []string{"dm-crypt", "xts", "aesni-intel", "algif_skcipher", "algif_hash"},
	Programs: []string{"lvm", "cryptsetup", "dmsetup", "qemu-img", "qemu-nbd", "setpriv", "prlimit"},
	Files:    map[string]string{"/etc/lvm/lvm.conf": lvmConf},
	DiskMiB:  384, Ports: []int{askPort, devicePort},
}

// cryptHost is the part of a host that is in the machine.
type cryptHost struct {
	*disk.Activities
	keys   *keys
	device *exec.Cmd // serves what is open
	ended  chan struct{}
}

// asked is what is asked of the machine, with what it is about.
type asked struct {
	Keys   map[compute.SecretID]string `json:"keys"`
	Server compute.Server              `json:"server"`
	Create disk.CreateInput            `json:"create"`
	Export disk.ExportInput            `json:"export"`
	Remove compute.Removal             `json:"remove"`
}

// told is what it answers.
type told struct {
	Kind    compute.Kind         `json:"kind,omitempty"`
	Error   string               `json:"error,omitempty"`
	Paths   map[string]string    `json:"paths,omitempty"` // of open devices, by disk
	Servers []compute.ServerID   `json:"servers,omitempty"`
	Formats []compute.DiskFormat `json:"formats,omitempty"`
	Options map[string]string    `json:"options,omitempty"`
	Export  compute.Export       `json:"export"`
}

// serveDevices is the test in the machine: it has a volume group and does what it is asked for,
// until it is told to end.
func serveDevices(t *testing.T) {
	for _, args := range [][]string{{"pvcreate", "--quiet", "/dev/vda"}, {"vgcreate", "--quiet", volumeGroup, "/dev/vda"}} {
		out, err := exec.Command("lvm", args...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
	h := &cryptHost{keys: &keys{values: map[compute.SecretID]string{}}, ended: make(chan struct{})}
	var image imageStore
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /image", func(w http.ResponseWriter, r *http.Request) {
		var img compute.Image
		if err := json.Unmarshal([]byte(r.Header.Get("Image")), &img); err != nil {
			panic(err)
		}
		data := make([]byte, img.SizeBytes)
		if _, err := io.ReadFull(r.Body, data); err != nil {
			panic(err)
		}
		image = data
		var err error
		h.Activities, err = disk.New(disk.Config{
			InstancesDir: t.TempDir(), CacheDir: t.TempDir(), VolumeGroup: volumeGroup, Images: image, Keys: h.keys, Metadata: record{},
			MemoryDir: t.TempDir(), Owner: &disk.Owner{UID: os.Getuid(), GID: os.Getgid()}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		if err == nil {
			err = h.CacheImage(r.Context(), disk.CacheImageInput{Image: img})
		}
		answer(w, told{}, err)
	})
	for path, do := range map[string]func(context.Context, asked) (told, error){
		"/create": h.create, "/open": h.open, "/close": h.close, "/servers": h.servers, "/formats": h.formats, "/export": h.export, "/remove": h.remove,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var in asked
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
				panic(err)
			}
			for id, value := range in.Keys {
				h.keys.set(id, value)
			}
			got, err := do(r.Context(), in)
			answer(w, got, err)
		})
	}
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, h.InstancesDir+"/"+r.FormValue("name"))
	})
	mux.HandleFunc("POST /end", func(w http.ResponseWriter, _ *http.Request) { answer(w, told{}, nil); close(h.ended) })
	server := &http.Server{Addr: ":8000", Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.ListenAndServe() }()
	<-h.ended
	require.NoError(t, server.Shutdown(context.Background()))
	left, err := exec.Command("lvm", "lvs", "--noheadings", "--options", "lv_name", volumeGroup).CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(left), "volumes that are left")
}

func answer(w http.ResponseWriter, got told, err error) {
	if err != nil {
		got.Kind, got.Error = compute.KindOf(err), err.Error()
	}
	_ = json.NewEncoder(w).Encode(got)
}

func (h *cryptHost) create(ctx context.Context, in asked) (told, error) {
	got, err := h.Create(ctx, in.Create)
	return told{Options: got.EncryptionOptions}, err
}

// open opens a server's disks, of which the test has one, and serves it.
func (h *cryptHost) open(ctx context.Context, in asked) (told, error) {
	paths, err := h.OpenDevices(ctx, compute.Credential{}, in.Server)
	out := told{Paths: map[string]string{}}
	for id, path := range paths {
		out.Paths[id.String()] = path
		if h.device != nil {
			continue
		}
		h.device = exec.Command("qemu-nbd", "--persistent", "--shared=4", "--format=raw", "--cache=none", "--port=10809", path)
		if err := h.device.Start(); err != nil {
			return out, err
		}
	}
	return out, err
}

func (h *cryptHost) close(ctx context.Context, in asked) (told, error) {
	if h.device != nil {
		if err := h.device.Process.Signal(os.Interrupt); err != nil {
			return told{}, err
		}
		_ = h.device.Wait()
		h.device = nil
	}
	return told{}, h.CloseDevices(ctx, in.Server.ID)
}

func (h *cryptHost) servers(ctx context.Context, _ asked) (out told, err error) {
	out.Servers, err = h.OpenServers(ctx)
	return out, err
}

func (h *cryptHost) formats(ctx context.Context, _ asked) (out told, err error) {
	out.Formats, err = h.DeviceFormats(ctx)
	return out, err
}

func (h *cryptHost) export(ctx context.Context, in asked) (out told, err error) {
	out.Export, err = h.Export(ctx, in.Export)
	return out, err
}

func (h *cryptHost) remove(ctx context.Context, in asked) (told, error) {
	return told{}, h.Remove(ctx, in.Remove)
}
