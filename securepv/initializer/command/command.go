// Package command is the command line of the initializer: strongroom initializer, which the
// container's own small program has, too.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer"
)

// Initializer is the command.
type Initializer struct {
	Start      Start      `cmd:"" default:"withargs" help:"Fetch the workload's secret, write it, and open the volumes: the container's program (this is what strongroom initializer does)."`
	Cryptsetup Cryptsetup `cmd:"" help:"Open one volume with a secret that another container has written, and stay."`
	Rotate     Rotate     `cmd:"" help:"Let volumes open with a new secret, and no longer with the old one."`
}

// Help is shown by --help.
func (Initializer) Help() string {
	return `The program of the container that strongroom generate puts into workloads. It is
the first of the pod: it gets the workload's secret, writes it into /contrast,
and ends. Where CRYPTSETUP_DEVICE names block devices, it then opens each of them
with that secret, and mounts the first at /state, the second at /state1, and so
on; writes /done, for which the startup probe waits; and stays until SIGTERM, at
which it unmounts and closes them.

The secret comes from one of these:

  --secret-file FILE         a Kubernetes Secret that is mounted
  --barbican-secret ID       OpenStack's key manager, with an application
                             credential in --clouds
  --attestation-command CMD  a coordinator at COORDINATOR_HOST. The command gets a
                             public key in PEM on its standard input, proves to
                             the coordinator what this workload is, and prints
                             {"workloadSecret": "hex digits", "meshCACert": "PEM",
                              "certChain": "PEM", "rootCACert": "PEM"}

A volume that is new, which is to say full of zeroes, is formatted: LUKS2 with
integrity, and ext4, which is the user's and the group's that CRYPTSETUP_OWNER
names, as 1000:2000, one for each device with commas between them. One that holds anything else than what was made here is
refused, and stays as it is.

Exit code 3: a volume is refused; 4: it is encrypted with another secret; 5: it
is in use; 1: anything else.`
}

// Exit codes.
const (
	CodeRefused  = 3
	CodeWrongKey = 4
	CodeBusy     = 5
)

// exit is an error with the exit code that it has.
type exit struct {
	error
	code int
}

// ExitCode gives it.
func (e exit) ExitCode() int { return e.code }

func (e exit) Unwrap() error { return e.error }

// withCode gives an error the exit code that it has.
func withCode(err error) error {
	var refused *initializer.Refused
	switch {
	case errors.As(err, &refused):
		return exit{err, CodeRefused}
	case errors.Is(err, initializer.ErrWrongKey):
		return exit{err, CodeWrongKey}
	case errors.Is(err, initializer.ErrBusy):
		return exit{err, CodeBusy}
	}
	return err
}

// formatFlags say how volumes are formatted.
type formatFlags struct {
	KDF    string `name:"kdf" enum:"argon2id,pbkdf2" default:"argon2id" env:"CRYPTSETUP_KDF" help:"How the secret is made dear to guess: argon2id, or pbkdf2, which is fast, for a random one of 32 bytes."`
	Format string `enum:"new,never" default:"new" env:"CRYPTSETUP_FORMAT" help:"Which volumes are formatted: new ones, or never any."`
}

func (f formatFlags) opener(log *slog.Logger) initializer.Opener {
	return initializer.Opener{Kernel: initializer.DeviceMapper{}, KDF: initializer.KDF(f.KDF), NeverFormat: f.Format == "never", Log: log}
}

// owner is read as UID:GID.
type owner initializer.Owner

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *owner) UnmarshalText(text []byte) error {
	user, group, _ := strings.Cut(string(text), ":")
	u, userErr := strconv.ParseUint(user, 10, 31)
	g, groupErr := strconv.ParseUint(group, 10, 31)
	if userErr != nil || groupErr != nil {
		return fmt.Errorf("%q: say the numbers of a user and a group, as 1000:1000", text)
	}
	*o = owner{User: int(u), Group: int(g)}
	return nil
}

// barbicanFlags say how the key manager is reached.
type barbicanFlags struct {
	Clouds  string `placeholder:"FILE" env:"OS_CLIENT_CONFIG_FILE" default:"/etc/openstack/clouds.yaml" help:"The clouds.yaml with the application credential (${default})."`
	OSCloud string `name:"os-cloud" env:"OS_CLOUD" default:"openstack" help:"Which cloud of it (${default})."`
}

// Start is the container's program.
type Start struct {
	SecretFile     string `placeholder:"FILE" env:"WORKLOAD_SECRET_FILE" xor:"source" help:"Take the workload's secret from this file."`
	BarbicanSecret string `placeholder:"ID" env:"BARBICAN_SECRET" xor:"source" help:"Take it from Barbican."`
	barbicanFlags
	CoordinatorHost    string `placeholder:"HOST" env:"COORDINATOR_HOST" help:"Take it, and certificates, from this coordinator."`
	AttestationCommand string `placeholder:"CMD" env:"ATTESTATION_COMMAND" help:"What attests to the coordinator, with its arguments."`

	Device []string `short:"d" sep:"," placeholder:"DEVICE" env:"CRYPTSETUP_DEVICE" help:"The block devices, with commas between them."`
	Owner  []owner  `sep:"," placeholder:"UID:GID" env:"CRYPTSETUP_OWNER" help:"Whose each new file system is, in the order of the devices, with commas between them; without it, root's."`
	formatFlags
	Folder string `placeholder:"DIR" default:"/contrast" help:"Where the secrets are written (${default})."`
	State  string `placeholder:"DIR" default:"/state" help:"Where the first volume is mounted (${default}); the others are at DIR1, DIR2, …"`
	Done   string `placeholder:"FILE" default:"/done" help:"The file that says that all is done (${default})."`
}

// Validate refuses owners that are not one for each device. Kong calls it.
func (c Start) Validate() error {
	if len(c.Owner) > 0 && len(c.Owner) != len(c.Device) {
		return fmt.Errorf("--owner: there are %d owners of %d devices: say whose each is, 0:0 for root", len(c.Owner), len(c.Device))
	}
	return nil
}

// fetchPause is between two attempts to get the secret.
const fetchPause = 5 * time.Second

// Vars are what the help texts and defaults name.
var Vars = kong.Vars{"seedFile": SeedFile}

// Run runs the container's program.
func (c Start) Run(ctx context.Context, log *slog.Logger) error {
	saveMemory()
	i := initializer.Initializer{Source: c.source(), Folder: c.Folder, Done: c.Done, Volumes: c.volumes(), Opener: c.opener(log), Retry: fetchPause}
	return withCode(i.Run(ctx))
}

// saveMemory lets Go collect garbage before the container's limit kills it.
func saveMemory() {
	const bytes = 40 << 20
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

func (c Start) source() initializer.Source {
	switch {
	case c.SecretFile != "":
		return initializer.File{Path: c.SecretFile}
	case c.BarbicanSecret != "":
		return initializer.Barbican{Secret: c.BarbicanSecret, Clouds: c.Clouds, Cloud: c.OSCloud}
	}
	return initializer.Coordinator{Host: c.CoordinatorHost, Command: strings.Fields(c.AttestationCommand)}
}

// volumes are the devices with their folders, as strongroom generate numbers them (PV-05, PV-14).
func (c Start) volumes() (all []initializer.Volume) {
	for i, device := range c.Device {
		at := c.State
		if i > 0 {
			at += strconv.Itoa(i)
		}
		v := initializer.Volume{Device: device, Mount: at}
		if len(c.Owner) > 0 {
			v.Owner = initializer.Owner(c.Owner[i])
		}
		all = append(all, v)
	}
	return all
}

// SeedFile is where the container's program has written the secret.
var SeedFile = filepath.Join(initializer.Folder, initializer.SeedFile)

// Cryptsetup opens one volume.
type Cryptsetup struct {
	Device  string `short:"d" aliases:"device-path" required:"" placeholder:"DEVICE" help:"The block device."`
	Mount   string `short:"m" aliases:"mount-point" required:"" placeholder:"DIR" help:"Where its file system is mounted."`
	KeyFile string `placeholder:"FILE" default:"${seedFile}" help:"The secret (${default})."`
	Owner   owner  `placeholder:"UID:GID" help:"Whose a new file system is; without it, root's."`
	formatFlags
	Done string `placeholder:"FILE" default:"/done" help:"The file that says that all is done (${default})."`
}

// Help is shown by --help.
func (Cryptsetup) Help() string {
	return `For pods that are written by hand: a container beside the initializer's, which
opens a volume and stays, as strongroom initializer does where CRYPTSETUP_DEVICE
is set.

  strongroom initializer cryptsetup -d /dev/csi0 -m /state

Contrast's names of the two, --device-path and --mount-point, are understood, too.`
}

// Run opens a volume and stays (PV-12).
func (c Cryptsetup) Run(ctx context.Context, log *slog.Logger) error {
	saveMemory()
	i := initializer.Initializer{
		Source: initializer.File{Path: c.KeyFile}, Done: c.Done, Volumes: []initializer.Volume{{Device: c.Device, Mount: c.Mount, Owner: initializer.Owner(c.Owner)}}, Opener: c.opener(log),
	}
	return withCode(i.Run(ctx))
}

// Rotate changes the secret of volumes.
type Rotate struct {
	Device            []string `short:"d" sep:"," required:"" placeholder:"DEVICE" env:"CRYPTSETUP_DEVICE" help:"The block devices, with commas between them."`
	SecretFile        string   `placeholder:"FILE" default:"${seedFile}" help:"The secret that opens them now (${default})."`
	NewSecretFile     string   `placeholder:"FILE" xor:"new" required:"" help:"The secret that is to open them."`
	NewBarbicanSecret string   `placeholder:"ID" xor:"new" required:"" help:"The secret of Barbican that is to open them."`
	barbicanFlags
	KDF string `name:"kdf" enum:"argon2id,pbkdf2" default:"argon2id" env:"CRYPTSETUP_KDF" help:"As of initializer."`
}

// Help is shown by --help.
func (Rotate) Help() string {
	return `Volumes may be open meanwhile. Run it again after an interruption: until it says
that it is done, a volume opens with one of the two secrets.

  kubectl exec -i shop-0 -c contrast-initializer -- \
    strongroom initializer rotate --new-secret-file /dev/stdin < new-seed

Then give the workload the new secret: its next start needs it. The data are not
encrypted anew: who has both the old secret and a copy of the volume's first
16 MiB from before can read them. To shut those out, copy the data to a new
volume.`
}

// Run changes the secret of volumes.
func (c Rotate) Run(ctx context.Context, log *slog.Logger) error {
	saveMemory()
	old, err := initializer.ReadKey(c.SecretFile)
	if err != nil {
		return err
	}
	defer old.Wipe()
	anew, err := c.newSecret(ctx)
	if err != nil {
		return err
	}
	defer anew.Wipe()
	if err := initializer.KDF(c.KDF).Fits(anew); err != nil {
		return err
	}
	o := formatFlags{KDF: c.KDF}.opener(log)
	for _, device := range c.Device {
		if err := o.Rotate(ctx, device, old, anew); err != nil {
			return withCode(err)
		}
	}
	return nil
}

func (c Rotate) newSecret(ctx context.Context) (*secret.Passphrase, error) {
	if c.NewSecretFile != "" {
		return initializer.ReadKey(c.NewSecretFile)
	}
	s, err := initializer.Barbican{Secret: c.NewBarbicanSecret, Clouds: c.Clouds, Cloud: c.OSCloud}.Fetch(ctx)
	if err != nil {
		return nil, err
	}
	return s.Seed, nil
}
