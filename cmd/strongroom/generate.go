package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/renameio/v2"

	"strongroom/securepv"
)

type generateCommand struct {
	Files           []string      `arg:"" name:"file" help:"Files of Kubernetes YAML or JSON, folders of such files, or - for standard input."`
	InPlace         bool          `short:"i" xor:"to" help:"Write each file back where it is."`
	Diff            bool          `xor:"to" help:"Show what would change, as diff -u does, and change nothing."`
	Out             string        `short:"o" xor:"to" placeholder:"FILE" help:"Write everything into one file instead of standard output."`
	SkipInitializer bool          `help:"Inject no initializer: the YAML stays as it is."`
	Image           string        `placeholder:"IMAGE" help:"The image of the initializer, best with its digest; by default the one that was published with this release, if one was."`
	Secret          string        `xor:"from" placeholder:"NAME/KEY" help:"Where there is no coordinator: the workload's secret is this key of this Kubernetes Secret, of the workload's namespace."`
	BarbicanSecret  string        `xor:"from" placeholder:"ID" help:"The same, of a secret of Barbican, which the initializer reads with the application credential in --clouds."`
	Clouds          string        `placeholder:"NAME" help:"The Kubernetes Secret, of the workload's namespace, whose key clouds.yaml has that credential."`
	OSCloud         string        `name:"os-cloud" placeholder:"CLOUD" help:"Which cloud of it; by default openstack."`
	CoordinatorHost string        `xor:"from" placeholder:"HOST" help:"Where initializers find the coordinator; by default coordinator-ready in the workload's namespace."`
	Format          string        `enum:",new,never" default:"" placeholder:"never" help:"Which volumes initializers format: new, those that are; never, none, so that an empty one in the place of a workload's own is refused. By default as the image says, which is new."`
	KDF             string        `name:"kdf" enum:",argon2id,pbkdf2" default:"" placeholder:"pbkdf2" help:"How the secret of volumes that are formatted is made dear to guess: argon2id, or pbkdf2, for a random one. By default as the image says, which is argon2id."`
	StartupTime     time.Duration `default:"1h" placeholder:"TIME" help:"After how long Kubernetes starts an initializer again that has not opened its volumes (${default}): slow storage needs it for a format."`
}

// Exit codes of generate, as those of diff.
const (
	codeDiffers = 1
	codeRefused = 2
)

// Help is shown by --help.
func (generateCommand) Help() string {
	return `Reads Kubernetes YAML and puts the initializer into each workload: Pod, Deployment,
ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job and CronJob. It
fetches the workload's secrets before anything else of the pod starts. Where the
workload or its pod template is annotated with

  contrast.edgeless.systems/secure-pv: "volume-name:mount-name"

it also opens the block device volume-name, a PersistentVolumeClaim with
volumeMode Block, as an encrypted volume, and the file system in it appears in
the emptyDir mount-name. Containers mount that themselves, with
mountPropagation: HostToContainer. Several pairs are separated by commas;
strongroom.dev/secure-pv says the same. A new file system belongs to the user and
the group that the securityContext of those containers, or of the pod, says:
runAsUser, and fsGroup or else runAsGroup.

  strongroom generate --secret NAME/KEY app.yaml | kubectl apply -f -
  strongroom generate --secret NAME/KEY --diff app.yaml
  strongroom generate --image IMAGE --in-place deploy/

The published image gets the workload's secret from a Kubernetes Secret, or with
--barbican-secret from OpenStack's key manager; an image that can attest gets it
from a coordinator.

Once volumes are in use, --format never lets no initializer format one: an empty
one that is put in the place of a workload's own is refused.

Generating twice with the same flags is the same as once: what a container was
given by a flag it loses without it. Without the annotation the next run takes
the encrypted volume away again. A workload with the annotation
contrast.edgeless.systems/skip-initializer: "true" stays as it is.

Exit code 0: done; 1: --diff showed a difference; 2: something in the input is
wrong, and nothing was written, or a file could not be.`
}

func (c generateCommand) Run(*run) error { return c.run(os.Stdin, os.Stdout, os.Stderr) }

func (c generateCommand) run(in io.Reader, out, messages io.Writer) error {
	files, err := c.read(in, messages)
	if err != nil {
		return exit{err, codeRefused}
	}
	if err := c.chooseImage(); err != nil {
		return exit{err, codeRefused}
	}
	o, err := c.options()
	if err != nil {
		return exit{err, codeRefused}
	}
	results, err := securepv.Generate(files, o)
	if err != nil {
		return exit{err, codeRefused}
	}
	for _, r := range results {
		for _, w := range r.Warnings {
			_, _ = fmt.Fprintln(messages, "warning: "+w)
		}
	}
	switch {
	case c.Diff:
		return diff(out, files, results)
	case c.InPlace:
		err = writeBack(files, results)
	case c.Out != "":
		err = replaceFile(c.Out, joined(results))
	default:
		_, err = out.Write(joined(results))
	}
	if err != nil {
		return exit{err, codeRefused}
	}
	return nil
}

// options are what the flags say to securepv.
func (c generateCommand) options() (securepv.Options, error) {
	o := securepv.Options{Image: c.Image, Coordinator: c.CoordinatorHost, Format: c.Format, KDF: c.KDF, StartupTime: c.StartupTime, SkipInitializer: c.SkipInitializer}
	if c.StartupTime < 0 {
		return o, fmt.Errorf("--startup-time: %v is no time to wait", c.StartupTime)
	}
	switch {
	case c.Secret != "":
		secret, err := securepv.ParseSecret(c.Secret)
		if err != nil {
			return o, fmt.Errorf("--secret: %w", err)
		}
		o.Secret = &secret
	case c.BarbicanSecret != "":
		barbican, err := securepv.ParseBarbican(c.BarbicanSecret, c.Clouds, c.OSCloud)
		if err != nil {
			return o, fmt.Errorf("--barbican-secret, --clouds: %w", err)
		}
		o.Barbican = &barbican
	case c.Clouds != "" || c.OSCloud != "":
		return o, errors.New("--clouds, --os-cloud: they are of --barbican-secret ID, which is not there")
	}
	return o, nil
}

// chooseImage takes the published image where none is named.
func (c *generateCommand) chooseImage() error {
	if c.Image != "" || c.SkipInitializer {
		return nil
	}
	c.Image = securepv.PublishedImage
	if c.Image == "" {
		return errors.New("--image: say which initializer, as ghcr.io/edgelesssys/contrast/initializer@sha256:…")
	}
	if c.Secret == "" && c.BarbicanSecret == "" {
		return errors.New("--secret NAME/KEY, or --barbican-secret ID: say which has the workload's secret, for the published initializer cannot attest to a coordinator; " +
			"or name one that can with --image")
	}
	return nil
}

const standardInput = "-"

// read reads all that is named, each file once. What it leaves out of a folder is told.
func (c generateCommand) read(in io.Reader, messages io.Writer) ([]securepv.File, error) {
	var names []string
	for _, name := range c.Files {
		if name == standardInput {
			if c.InPlace {
				return nil, errors.New("--in-place: standard input has no place to write back to")
			}
			names = append(names, name)
			continue
		}
		found, left, err := manifests(name)
		if err != nil {
			return nil, err
		}
		for _, l := range left {
			_, _ = fmt.Fprintln(messages, "warning: "+l)
		}
		names = append(names, found...)
	}
	var files []securepv.File
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		text, err := readInput(name, in)
		if err != nil {
			return nil, err
		}
		files = append(files, securepv.File{Name: name, Text: text})
	}
	return files, nil
}

func readInput(name string, in io.Reader) ([]byte, error) {
	if name == standardInput {
		return io.ReadAll(in)
	}
	return os.ReadFile(name)
}

// manifestSuffixes are those of the files that kubectl reads of a folder.
var manifestSuffixes = []string{".json", ".yaml", ".yml"}

// manifests returns a file itself, or the manifests in a folder and the folders below it, as kubectl finds them: links are followed (K10). left names what
// it left out, with the reason.
func manifests(name string) (found, left []string, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return []string{filepath.Clean(name)}, nil, nil
	}
	err = filepath.WalkDir(name, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != name && strings.HasPrefix(e.Name(), "."):
			left = append(left, path+": left out: a hidden folder")
			return fs.SkipDir
		case e.IsDir():
			return nil
		case !slices.Contains(manifestSuffixes, filepath.Ext(path)):
			left = append(left, path+": left out: its name does not end in "+strings.Join(manifestSuffixes, ", "))
			return nil
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			found = append(found, path)
		default:
			left = append(left, path+": left out: no file")
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s: no file there ends in %s", name, strings.Join(manifestSuffixes, ", "))
	}
	return found, left, err
}

// joined is all results as one stream of documents.
func joined(results []securepv.Result) []byte {
	var out []byte
	for _, r := range results {
		if len(out) > 0 {
			if !bytes.HasSuffix(out, []byte("\n")) {
				out = append(out, '\n')
			}
			if !bytes.HasPrefix(r.Text, []byte("---")) {
				out = append(out, "---\n"...)
			}
		}
		out = append(out, r.Text...)
	}
	return out
}

func diff(out io.Writer, files []securepv.File, results []securepv.Result) error {
	differs := false
	for i, f := range files {
		if bytes.Equal(f.Text, results[i].Text) {
			continue
		}
		differs = true
		if _, err := io.WriteString(out, udiff.Unified(f.Name, f.Name+" (generated)", string(f.Text), string(results[i].Text))); err != nil {
			return err
		}
	}
	if differs {
		return exit{errors.New("the YAML is not as generate would write it"), codeDiffers}
	}
	return nil
}

// writeBack changes the files that differ, each in one step.
func writeBack(files []securepv.File, results []securepv.Result) error {
	for i, f := range files {
		if bytes.Equal(f.Text, results[i].Text) {
			continue
		}
		if err := replaceFile(f.Name, results[i].Text); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a file so that a reader sees the old or the new text, whatever happens. One that
// is a link stays one; one that is there keeps its mode.
func replaceFile(name string, text []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	return renameio.WriteFile(name, text, 0o666, renameio.WithExistingPermissions())
}
