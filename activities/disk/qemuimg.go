package disk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"strongroom/activities/imagefile"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// templateOptions are the encryption options of the blank template. Its key slot is
// never used, so its iter-time, the milliseconds of hashing that a guess at the
// passphrase must cost, is QEMU's least; and its hash is the slower one: QEMU
// times it first and gives up when the clock shows no time at all, which
// happens to sha256 in up to a third of the runs on CPUs with SHA instructions.
// Cipher and mode are those of the header that replaces it.
var templateOptions = []struct{ name, value string }{
	{"format", "luks"},
	{"cipher-alg", "aes-256"},
	{"cipher-mode", "xts"},
	{"ivgen-alg", "plain64"},
	{"hash-alg", "sha512"},
	{"iter-time", "1"},
}

// clockless is what QEMU says when its clock showed no time passing; a new
// attempt has a fair chance.
const clockless = "Unable to get accurate CPU usage"

const clocklessAttempts = 20

// inUse is what QEMU says of a file that another QEMU has open.
const inUse = "Failed to get "

// newDisk is a disk that is to be made.
type newDisk struct {
	path          string
	bytes         int64
	backing       string // "" for none
	backingFormat string
	backingKey    *secret.Passphrase // nil: what lies under it is not encrypted
	templates     string             // the folder of templates, "" for everybody's
	passphrase    *secret.Passphrase // nil: not encrypted
}

// createFile makes a qcow2 file that is not encrypted.
func (a *Activities) createFile(ctx context.Context, d newDisk) error {
	c := Command{Name: "qemu-img", Args: []string{"create", "-q", "-f", "qcow2"}}
	if d.backing != "" {
		c.Args = append(c.Args, "-u", "-b", d.backing, "-F", d.backingFormat)
	}
	c.Args = append(c.Args, d.path, strconv.FormatInt(d.bytes, 10))
	_, err := a.Runner.Run(ctx, c)
	return err
}

// createBlank makes the blank template. The benchmark behind iter-time keeps a CPU busy
// for two seconds.
func (a *Activities) createBlank(ctx context.Context, path string, p *secret.Passphrase) error {
	options := "encrypt.key-secret=" + originKey
	for _, o := range templateOptions {
		options += ",encrypt." + o.name + "=" + o.value
	}
	c := Command{Name: "qemu-img", Args: []string{"create", "-q", "-f", "qcow2", "-o", options}}
	c.lend(originKey, p)
	c.Args = append(c.Args, path, strconv.Itoa(blankBytes))
	for attempt := 1; ; attempt++ {
		_, err := a.Runner.Run(ctx, c)
		if !says(err, clockless) || attempt == clocklessAttempts {
			return err
		}
		a.Logger.Debug("qemu-img saw no time passing, trying again", "attempt", attempt)
		select {
		case <-time.After(time.Duration(attempt) * time.Millisecond): // out of step with the clock's ticks
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// imageInfo is what qemu-img tells of a file.
type imageInfo struct {
	Format          string `json:"format"`
	VirtualSize     int64  `json:"virtual-size"`
	Encrypted       bool   `json:"encrypted"`
	BackingFilename string `json:"backing-filename"`
	FormatSpecific  struct {
		Data struct {
			Corrupt  bool   `json:"corrupt"`
			DataFile string `json:"data-file"`
			Encrypt  struct {
				Format string `json:"format"`
				cryptoInfo
			} `json:"encrypt"`
			cryptoInfo // of a LUKS container
		} `json:"data"`
	} `json:"format-specific"`
}

type cryptoInfo struct {
	CipherAlg  string `json:"cipher-alg"`
	CipherMode string `json:"cipher-mode"`
	IVGenAlg   string `json:"ivgen-alg"`
	HashAlg    string `json:"hash-alg"`
	Slots      []struct {
		Active bool `json:"active"`
		Iters  int  `json:"iters"`
	} `json:"slots"`
}

// look reads the header of an image's file, taken as the format that it is said
// to have: a guess from the content would let a raw image's bytes choose the format.
// The file comes from a user, who may have made it to eat the host: what qemu-img
// reads of it was looked at before, and qemu-img can reach nothing else.
func (a *Activities) look(ctx context.Context, file *os.File, format string) (i imageInfo, err error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return i, err
	}
	var storage syscall.Errno
	switch err := imagefile.Check(format, file, size); {
	case errors.As(err, &storage): // no word on the image
		return i, compute.Errorf(compute.Unavailable, "%w", err)
	case err != nil:
		return i, compute.Errorf(compute.Corrupt, "%w", err)
	}
	c := Command{Limited: true, Image: file}
	c.Args = []string{"-U", "-f", format, c.imagePath()}
	return a.infoOf(ctx, c)
}

// info reads the header of a file that has just been made, and that no guest has had.
func (a *Activities) info(ctx context.Context, path, format string) (imageInfo, error) {
	return ofOurs(a.header(ctx, path, format, "-U"))
}

// idle reads the header of one of our files, which a guest that broke out, or the host that it comes
// from, may have rewritten, and that no QEMU writes to: otherwise the error says so.
func (a *Activities) idle(ctx context.Context, path, format string) (imageInfo, error) {
	return a.header(ctx, path, format)
}

// header reads the header of a file with root's rights, for nobody else may read it: so qemu-img
// meets none that leads it to another file, or that costs whoever opens it with the key too much.
func (a *Activities) header(ctx context.Context, path, format string, options ...string) (i imageInfo, err error) {
	if format == compute.ImageQcow2 { // QEMU takes others for the bytes that they are
		if err = leadsNowhere(path); err == nil {
			err = affordable(path)
		}
	}
	if err != nil {
		return i, err
	}
	return a.infoOf(ctx, Command{Limited: true, Args: append(options, "-f", format, path)})
}

// leadsNowhere refuses a qcow2 file that QEMU would take the data of from another file, before any
// program is started on it (M4). A backing file QEMU opens only where a node has one.
func leadsNowhere(path string) error {
	names, err := imagefile.NamesDataFile(path)
	if err == nil && names {
		err = compute.Errorf(compute.Corrupt, "it names another file in its header, and was not made so. Look at the hosts that it was on: its guest may have broken into QEMU")
	}
	return err
}

// affordable refuses a qcow2 file whose LUKS header asks for more work than an image's may: a guest's start
// would do it, and qemu-img as root without a limit (H5).
func affordable(path string) error {
	err := imagefile.CheckCrypto(path)
	if storage := syscall.Errno(0); err != nil && !errors.As(err, &storage) {
		err = compute.Errorf(compute.Corrupt, "its header was not made so. Look at the hosts that it was on: %w", err)
	}
	return err
}

// infoOf runs qemu-img info with a command's arguments and passphrases.
func (a *Activities) infoOf(ctx context.Context, c Command) (i imageInfo, err error) {
	c.Name, c.Args = "qemu-img", append([]string{"info", "--output=json"}, c.Args...)
	out, err := a.Runner.Run(ctx, c)
	if err := a.stalls.judge(ctx, err); err != nil {
		return i, err
	}
	if err := json.Unmarshal(out, &i); err != nil {
		return i, fmt.Errorf("output of qemu-img info: %w", err)
	}
	return i, nil
}

// reads has QEMU open what a node describes, with a command's passphrases, and look at
// its first sector. A server may run on it: qemu-img check would take what changes
// meanwhile for damage.
func (a *Activities) reads(ctx context.Context, c Command, n node) error {
	first := []string{"map", "-U", "--output=json", "--start-offset=0", "--max-length=512"}
	c.Name, c.Args = "qemu-img", slices.Concat(first, c.Args, []string{n.json()})
	_, err := a.Runner.Run(ctx, c)
	return a.stalls.judge(ctx, err)
}

// opens tries a passphrase on an encrypted qcow2 file, without its backing file.
func (a *Activities) opens(ctx context.Context, path string, p *secret.Passphrase) error {
	file, err := json.Marshal(map[string]any{
		"driver":  "qcow2",
		"backing": nil,
		"encrypt": map[string]string{"format": "luks", "key-secret": "key"},
		"file":    map[string]string{"driver": "file", "filename": path},
	})
	if err != nil {
		return err
	}
	_, err = a.Runner.Run(ctx, Command{
		Name:        "qemu-img",
		Args:        []string{"check", "-q", "-U", "--object", "secret,id=key,file=" + fd(0), "json:" + string(file)},
		Passphrases: []*secret.Passphrase{p},
	})
	return err
}

// usedOptions gives the encryption options that a file was really made with.
func (i imageInfo) usedOptions() map[string]string {
	if !i.Encrypted {
		return nil
	}
	e, format := i.FormatSpecific.Data.Encrypt.cryptoInfo, i.FormatSpecific.Data.Encrypt.Format
	if i.Format == "luks" {
		e, format = i.FormatSpecific.Data.cryptoInfo, i.Format
	}
	options := map[string]string{
		"format":      format,
		"cipher-alg":  e.CipherAlg,
		"cipher-mode": e.CipherMode,
		"ivgen-alg":   e.IVGenAlg,
		"hash-alg":    e.HashAlg,
	}
	for _, slot := range e.Slots {
		if slot.Active {
			options["iterations"] = strconv.Itoa(slot.Iters)
		}
	}
	return options
}

// failed gives the kind to a failure of a command on one of our files.
func failed(ctx context.Context, err error, format string, args ...any) error {
	kind := compute.Unavailable
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case compute.KindOf(err) != "":
		kind = compute.KindOf(err)
	case errors.Is(err, imagefile.ErrCost) && !isOurs(err): // again and again
		kind = compute.Corrupt
	case says(err, "No space left on device"), errors.Is(err, syscall.ENOSPC):
		kind = compute.NoHost
	case says(err, inUse):
		kind = compute.Conflict
	case says(err, "not in qcow2 format"), says(err, "is corrupt"), says(err, "Image is not in"):
		kind = compute.Corrupt
	}
	return compute.Errorf(kind, "%s: %w", fmt.Sprintf(format, args...), err)
}
