package ceph

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/sync/errgroup"
)

var (
	//go:embed ceph.conf.tmpl
	confTemplate string
	//go:embed setup.py
	setupScript string
)

// clientConf is for clients that bring a key of their own: where the monitor is.
const clientConf = `[global]
mon_host = %s
run_dir =
admin_socket =
log_file =
log_to_stderr = true
`

// address is the monitor's, for both versions of the messenger.
func (c *Cluster) address() string {
	return fmt.Sprintf("[v2:127.0.0.1:%d,v1:127.0.0.1:%d]", c.cfg.Ports.V2, c.cfg.Ports.V1)
}

// environment is that of everything run here.
var environment = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}

// madeFile tells that the cluster was made to its end.
const madeFile = "made"

// neededModules are those of the manager's modules that are loaded.
var neededModules = []string{"volumes", "orchestrator", "status"}

// prepare writes what the daemons read, and makes the cluster that was not made to
// its end.
func (c *Cluster) prepare(ctx context.Context) (isNew bool, err error) {
	if err := os.MkdirAll(c.cfg.Dir, 0o700); err != nil {
		return false, err
	}
	if err := c.writeConf(); err != nil {
		return false, err
	}
	_, err = os.Stat(c.file(madeFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, dir := range []string{"mon", "mgr", "osd", "mds", "crash"} {
		if err := os.RemoveAll(c.file(dir)); err != nil {
			return false, err
		}
		if err := os.Mkdir(c.file(dir), 0o700); err != nil {
			return false, err
		}
	}
	if err := c.writeKeyrings(); err != nil {
		return false, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.makeMonitor(ctx) })
	group.Go(func() error { // needs no monitor
		return c.run(ctx, "ceph-osd", "-c", c.ConfFile(), "-i", "0", "--mkfs", "--osd-uuid", diskID, "--no-mon-config")
	})
	return true, group.Wait()
}

func (c *Cluster) makeMonitor(ctx context.Context) error {
	err := c.run(ctx, "monmaptool", "--create", "--clobber", "--fsid", fsID, "--addv", "a", c.address(), "--set-min-mon-release", "16", c.file("monmap"))
	if err != nil {
		return err
	}
	return c.run(ctx, "ceph-mon", "-c", c.ConfFile(), "-i", "a", "--mkfs", "--monmap", c.file("monmap"), "--keyring", c.file("keyring.mon"))
}

// keep remembers that the cluster is made.
func (c *Cluster) keep() error { return writeFile(c.file(madeFile), "") }

func (c *Cluster) writeConf() error {
	t, err := template.New("").Option("missingkey=error").Parse(confTemplate)
	if err != nil {
		return err
	}
	unneeded, err := unneededModules()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	err = t.Execute(&text, map[string]any{"FSID": fsID, "Dir": c.cfg.Dir, "Address": c.address(), "Bytes": diskBytes, "DisabledModules": unneeded})
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(c.ConfFile(), text.String()),
		writeFile(c.file("client.conf"), fmt.Sprintf(clientConf, c.address())),
		writeFile(c.file("setup.py"), setupScript),
	)
}

// run runs a program to its end; what it said is in the error.
func (c *Cluster) run(ctx context.Context, program string, arguments ...string) error {
	cmd := exec.CommandContext(ctx, program, arguments...)
	cmd.Env, cmd.Dir = environment, c.cfg.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(out))
	}
	return nil
}

func writeFile(file, text string) error { return os.WriteFile(file, []byte(text), 0o600) }

// unneededModules lists the manager's other modules, separated by blanks.
func unneededModules() (string, error) {
	const folder = "/usr/share/ceph/mgr"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(neededModules, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " "), nil
}
