package cloud

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/jackc/pgx/v5"

	"strongroom/deploy/cloud/ceph"
	"strongroom/deploy/cloud/ovn"
	"strongroom/deploy/dev/postgres"
	"strongroom/deploy/dev/process"
)

// clientTimeout bounds each request of this package.
const clientTimeout = 30 * time.Second

//go:embed files
var files embed.FS

// prepare makes the folder and writes every file that the services read.
func (c *Cloud) prepare(ctx context.Context) error {
	if err := os.MkdirAll(c.cfg.Dir, 0o711); err != nil {
		return err
	}
	var err error
	if c.settings, err = loadSettings(ctx, c.cfg.Dir); err != nil {
		return err
	}
	// PostgreSQL's user passes through.
	if err := os.Chmod(c.cfg.Dir, 0o711); err != nil {
		return err
	}
	for _, dir := range []string{
		"run", "log", "keystone/fernet", "keystone/credential", "glance/images", "glance/staging",
		"glance/tasks", "manila", "cinder", "neutron", "swift/node/d1", "nfs/shares", "nfs/exports", "nfs/recovery",
	} {
		if err := os.MkdirAll(c.file(dir), 0o700); err != nil {
			return err
		}
	}
	if err := touch(c.file("nfs/exports/all.conf")); err != nil { // nfs-ganesha reads it from the beginning
		return err
	}
	if err := c.render(); err != nil {
		return err
	}
	if err := c.SetBarbicanPolicy(c.cfg.BarbicanPolicy); err != nil {
		return err
	}
	seed := map[string]any{
		"region": Region, "projects": projects, "roles": roles, "users": users, "system_readers": systemReaders,
		"passwords": c.settings.Passwords, "identity": c.url("keystone") + "/v3", "catalog": c.catalog(),
	}
	if err := writeJSON(c.file("etc/seed.json"), seed); err != nil {
		return err
	}
	return writeFile(c.CloudsFile(), c.cloudsYAML())
}

// touch makes a file where there is none.
func touch(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// render writes files/… below etc/; those that end in .tmpl are templates.
func (c *Cloud) render() error {
	fragments := template.New("").Option("missingkey=error")
	if _, err := fragments.ParseFS(files, "files/fragments.tmpl"); err != nil {
		return err
	}
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == "files/fragments.tmpl" {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		name, isTemplate := strings.CutSuffix(strings.TrimPrefix(path, "files/"), ".tmpl")
		if isTemplate {
			t, err := fragments.Clone()
			if err != nil {
				return err
			}
			if t, err = t.New(name).Parse(string(text)); err != nil {
				return err
			}
			var out bytes.Buffer
			if err := t.Execute(&out, view{c}); err != nil {
				return err
			}
			text = out.Bytes()
		}
		return writeFile(c.file("etc/"+name), text)
	})
}

// view is what a template sees of the cloud.
type view struct{ *Cloud }

// Dir is the state folder.
func (v view) Dir() string { return v.cfg.Dir }

// Runs reports whether a service runs.
func (v view) Runs(service string) bool { return v.runs(service) }

// URL is a service's address without a path.
func (v view) URL(service string) string { return v.url(service) }

// MasterKey is the key that seals Barbican's secrets.
func (v view) MasterKey() string { return v.settings.MasterKey }

// BarbicanPolicy is the file of the rules that are not Barbican's own.
func (v view) BarbicanPolicy() string { return v.file(barbicanPolicy) }

// SwiftHash is the salt of Swift's paths.
func (v view) SwiftHash() string { return v.settings.SwiftHash }

// ImageHash is the algorithm of an image's os_hash_value.
func (v view) ImageHash() string { return v.cfg.ImageHash }

// ManilaRoot is from where Manila runs; "": it is this machine's.
func (v view) ManilaRoot() string { return v.cfg.ManilaRoot }

// Guests says whether Neutron tells of servers' ports.
func (v view) Guests() bool { return v.cfg.Guests }

// Bridges says whether Neutron makes networks of Linux bridges.
func (v view) Bridges() bool { return v.runs(Broker) }

// Broker is where Neutron and its agents meet.
func (v view) Broker() string { return v.broker() }

// Northbound and Southbound are the addresses of OVN's databases.
func (v view) Northbound() string { return ovn.Northbound(v.file("ovn")) }

// Southbound is the other one.
func (v view) Southbound() string { return ovn.Southbound(v.file("ovn")) }

// Expiry and Window are a token's life and what follows it, in seconds.
func (v view) Expiry() int { return int(v.cfg.TokenExpiry.Seconds()) }

// Window is how long an expired token is good beside a service token.
func (v view) Window() int { return int(v.cfg.ExpiredWindow.Seconds()) }

// Cache is how long services trust a token, in seconds; -1 is not at all.
func (v view) Cache() int {
	if v.cfg.TokenCache == 0 {
		return -1
	}
	return max(1, int(v.cfg.TokenCache.Seconds()))
}

// Database is the address of a service's database, for SQLAlchemy.
func (v view) Database(name string) string {
	return fmt.Sprintf("postgresql://%s@/%s?host=%s", postgres.Role, name, v.file("postgres/run"))
}

// Login gives what a service's token middleware logs in with.
func (v view) Login(user, serviceType string) map[string]any {
	return map[string]any{"AuthURL": v.AuthURL(), "User": user, "Password": v.settings.Passwords[user], "Type": serviceType, "Region": Region, "Cache": v.Cache()}
}

// WSGI gives what a service's uwsgi settings are made of.
func (v view) WSGI(service string) map[string]any {
	threads := 4
	if service == "keystone" {
		// It keeps the token of the request at hand in an object that all threads
		// share, and answers with what another one may.
		threads = 1
	}
	return map[string]any{"Port": v.Port(service), "File": v.file("etc/" + service + "_wsgi.py"), "Path": v.file("etc"), "Threads": threads}
}

func (c *Cloud) file(name string) string { return filepath.Join(c.cfg.Dir, name) }

// The files that services wait for: they say that what a service needs is up.
const (
	databasesMade = "run/databases"
	cephMade      = "run/ceph"
	networksMade  = "run/networks"
)

func (c *Cloud) url(service string) string {
	return fmt.Sprintf("http://127.0.0.1:%d", c.settings.Ports[service])
}

func (c *Cloud) runs(service string) bool {
	return service == "keystone" || slices.Contains(c.cfg.Services, service)
}

// startDatabase starts PostgreSQL and makes the databases. sqlite does not do:
// these services lock each other out of it as soon as two requests meet.
func (c *Cloud) startDatabase(ctx context.Context) error {
	var err error
	c.database, err = postgres.Start(ctx, postgres.Config{
		Dir: c.file("postgres"), Volatile: true,
		PIDFile: c.file("run/postgres.pid"), LogFile: c.file("log/postgres.log"),
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"keystone", "barbican", "glance", "manila", Cinder, Neutron} {
		if err := c.database.Database(ctx, name); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, c.database.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	// Barbican's simple_crypto writes bytes into text columns and reads them back
	// as \x… with the default, after which nothing can be stored.
	if _, err := conn.Exec(ctx, "ALTER ROLE "+postgres.Role+" SET bytea_output = 'escape'"); err != nil {
		return err
	}
	return writeFile(c.file(databasesMade), nil)
}

// startCeph starts the file system below Manila's CephFS.
func (c *Cloud) startCeph(ctx context.Context) error {
	var err error
	c.storage, err = ceph.Start(ctx, ceph.Config{
		Dir: c.file("ceph"), RunDir: c.file("run"), LogDir: c.file("log"),
		Ports:  ceph.Ports{V2: c.settings.Ports["ceph"], V1: c.settings.Ports["ceph-v1"]},
		Logger: c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	return writeFile(c.file(cephMade), nil)
}

// service is a process to run and the address that tells that it is ready.
type service struct {
	name    string
	process process.Config
	health  string // "": it needs not be waited for
}

// process is how a service is run.
func (c *Cloud) process(name, home string, command ...string) process.Config {
	return process.Config{
		Name: name, Command: command, Dir: c.cfg.Dir,
		// No proxy of this process's environment, and no language.
		Env: []string{
			"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + home, "STRONGROOM_CLOUD=" + c.cfg.Dir,
			fmt.Sprintf("STRONGROOM_TOKEN_LIFE=%.0f", c.cfg.TokenExpiry.Seconds()),
			"PYTHONUNBUFFERED=1", "MALLOC_ARENA_MAX=2",
		},
		LogFile: c.file("log/" + name + ".log"), PIDFile: c.file("run/" + name + ".pid"),
		OrphanSignal: syscall.SIGTERM,
	}
}

func (c *Cloud) services() []service {
	var list []service
	add := func(name, health string, command ...string) {
		home := c.cfg.Dir
		if name == "barbican" {
			home = c.file("etc") // where oslo.config looks for barbican.conf before /etc
		}
		list = append(list, service{name: name, health: health, process: c.process(name, home, command...)})
	}
	wsgi := func(name, health string) {
		add(name, c.url(name)+health, "/usr/bin/uwsgi-core", "--ini", c.file("etc/"+name+"-uwsgi.ini"))
	}
	const python = "/usr/bin/python3"
	wsgi("keystone", "/v3")
	if c.runs("manila") {
		add("manila", c.url("manila")+"/", c.fromRoot(c.cfg.ManilaRoot, python, c.file("etc/manila_all.py"))...)
	}
	if c.runs(NFS) {
		add(NFS, "", "/usr/bin/ganesha.nfsd", "-F", "-f", c.file("etc/ganesha.conf"), "-L", "STDERR", "-N", "NIV_WARN", "-p", c.file("run/ganesha.pid"))
	}
	if c.runs("barbican") {
		wsgi("barbican", "/")
	}
	if c.runs("glance") {
		wsgi("glance", "/versions")
	}
	if c.runs(Cinder) {
		wsgi(Cinder, "/")
	}
	if c.runs(Neutron) {
		add(Neutron, c.url(Neutron)+"/", python, c.file("etc/neutron_server.py"))
		list[len(list)-1].process.Patience = 3 * time.Second // its workers take much longer to end in order
	}
	if c.runs("swift") {
		memcached := []string{"memcached", "-l", "127.0.0.1", "-p", fmt.Sprint(c.settings.Ports["memcached"]), "-U", "0", "-m", "16", "-t", "1"}
		if os.Geteuid() == 0 {
			memcached = append(memcached, "-u", "nobody")
		}
		add("memcached", "", memcached...)
		add("swift", c.url("swift")+"/healthcheck", python, c.file("etc/swift_all.py"))
	}
	return list
}

// enterRoot runs a command from a root folder with this machine's devices and the cloud's state. The
// mounts go with the process.
const enterRoot = `root=$1 state=$2; shift 2
mkdir -p "$root$state" "$root/proc" "$root/dev"
mount --bind "$state" "$root$state"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
exec chroot "$root" "$@"`

// fromRoot gives the command that runs another from a root folder; "": this machine's.
func (c *Cloud) fromRoot(root string, command ...string) []string {
	if root == "" {
		return command
	}
	return append([]string{"unshare", "--mount", "--propagation", "private", "bash", "-ec", enterRoot, "enter-root", root, c.cfg.Dir}, command...)
}

// ready waits until the service answers whatever it answers.
func (c *Cloud) ready(ctx context.Context, s service, p *process.Process) error {
	if s.health == "" {
		return nil
	}
	begin := time.Now()
	client := http.Client{Timeout: time.Second}
	err := p.Until(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.health, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
	if err == nil {
		c.cfg.Logger.Info("service is up", "service", s.name, "url", s.health, "pid", p.PID(), "after", time.Since(begin).Round(time.Millisecond))
	}
	return err
}
