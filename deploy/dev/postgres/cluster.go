package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"strongroom/deploy/dev/process"
)

// maxDir keeps the socket below the 108 bytes of a unix address.
const maxDir = 80

// cluster is a folder with a cluster in it, ready to be started.
type cluster struct {
	cfg      Config
	programs string // folder of initdb and postgres
	user     account
}

func (c cluster) data() string { return filepath.Join(c.cfg.Dir, "data") }
func (c cluster) run() string  { return filepath.Join(c.cfg.Dir, "run") }

// prepare makes the folder ready for a start.
func prepare(ctx context.Context, cfg Config) (cluster, error) {
	c := cluster{cfg: cfg}
	if len(cfg.Dir) > maxDir || !filepath.IsAbs(cfg.Dir) {
		return c, fmt.Errorf("the folder %q must be an absolute path of at most %d bytes", cfg.Dir, maxDir)
	}
	var err error
	if c.user, err = accountToUse(); err != nil {
		return c, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return c, err
	}
	if err := c.user.reaches(cfg.Dir); err != nil {
		return c, err
	}
	if pid, running := process.Named(cfg.PIDFile); running {
		// Start decides whose it is. Its files are not to be touched.
		cfg.Logger.Info("postgres runs already", "pid", pid)
		c.programs, err = programsOf(c.data())
		return c, err
	}
	if err := c.initialise(ctx); err != nil {
		return c, err
	}
	if c.programs, err = programsOf(c.data()); err != nil {
		return c, err
	}
	return c, c.user.folder(c.run(), 0o755)
}

// initialise makes the cluster if there is none. It appears whole: what an
// interrupted attempt left is thrown away.
func (c cluster) initialise(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(c.data(), "PG_VERSION")); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	programs, err := newestPrograms()
	if err != nil {
		return err
	}
	unfinished := c.data() + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := c.user.folder(unfinished, 0o700); err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "--pgdata", unfinished, "--username", Role,
		"--auth", "peer", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-instructions", "--no-sync")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: c.user.credential}
	initdb.Dir, initdb.Env = "/", []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// Who is who is asked of the kernel: nobody else on the machine gets in.
	for name, text := range map[string]string{
		"pg_hba.conf":   "local all all peer map=" + Role + "\n",
		"pg_ident.conf": fmt.Sprintf("%[1]s root %[1]s\n%[1]s %[2]s %[1]s\n", Role, c.user.name),
	} {
		if err := os.WriteFile(filepath.Join(unfinished, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if !c.cfg.Volatile {
		syscall.Sync() // initdb was told not to
	}
	return os.Rename(unfinished, c.data())
}

// command gives the server's command line. Settings are given here and not in
// the folder, so that an old folder gets the new ones.
func (c cluster) command() []string {
	args := []string{
		filepath.Join(c.programs, "postgres"), "-D", c.data(), "-k", c.run(),
		"-c", "listen_addresses=", "-c", "unix_socket_permissions=0777", // peer decides
		"-c", "max_connections=" + strconv.Itoa(c.cfg.MaxConnections), "-c", "jit=off", "-c", "log_line_prefix=%m %d ",
	}
	if c.cfg.Volatile {
		for _, setting := range []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "autovacuum_naptime=1h"} {
			args = append(args, "-c", setting)
		}
	}
	return args
}

// programsOf gives the programs of the version that made the cluster.
func programsOf(data string) (string, error) {
	b, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return "", err
	}
	version := strings.TrimSpace(string(b))
	for _, dir := range programFolders() {
		if filepath.Base(filepath.Dir(dir)) == version {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s was made by PostgreSQL %s, which is not installed", data, version)
}

// newestPrograms gives the programs of the newest version that is installed.
func newestPrograms() (string, error) {
	best, newest := "", -1
	for _, dir := range programFolders() {
		if version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir))); err == nil && version > newest {
			best, newest = dir, version
		}
	}
	if best == "" {
		return "", errors.New("no server is installed: apt-get install postgresql")
	}
	return best, nil
}

func programFolders() []string {
	servers, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return nil
	}
	for i := range servers {
		servers[i] = filepath.Dir(servers[i])
	}
	return servers
}
