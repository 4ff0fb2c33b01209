package deploy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is a root of its own into which apt and dpkg install, from a repository of two packages. The first takes a second.
type machine struct {
	root, project string
	environment   []string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: dpkg")
	}
	root := t.TempDir()
	m := machine{root: root, project: filepath.Join(root, "project")}
	for _, folder := range []string{
		"run", "usr/sbin", "tmp", "etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt",
		"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "repository", "project/deploy",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	m.write(t, "var/lib/dpkg/status", "")
	for name, script := range map[string]string{"probe-slow": "touch $DPKG_ROOT/run/slow-began; sleep 1", "probe-quick": "cp $DPKG_ROOT/usr/sbin/policy-rc.d $DPKG_ROOT/run/policy"} {
		m.write(t, name+"/DEBIAN/control", "Package: "+name+"\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: nothing\n")
		m.write(t, name+"/DEBIAN/postinst", "#!/bin/sh\nset -e\n"+script+"\n")
		require.NoError(t, os.Chmod(filepath.Join(root, name, "DEBIAN/postinst"), 0o755))
		m.must(t, "dpkg-deb", "--root-owner-group", "--build", filepath.Join(root, name), filepath.Join(root, "repository", name+".deb"))
		text := m.must(t, "dpkg-deb", "--field", filepath.Join(root, "repository", name+".deb"))
		info, err := os.Stat(filepath.Join(root, "repository", name+".deb"))
		require.NoError(t, err)
		sum := strings.Fields(m.must(t, "sha256sum", filepath.Join(root, "repository", name+".deb")))[0]
		file, err := os.OpenFile(filepath.Join(root, "repository/Packages"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = fmt.Fprintf(file, "%sFilename: ./%s.deb\nSize: %d\nSHA256: %s\n\n", text, name, info.Size(), sum)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	m.write(t, "etc/apt/sources.list", "deb [trusted=yes] file:"+filepath.Join(root, "repository")+" ./\n")
	m.write(t, "apt.conf", fmt.Sprintf(`Dir "%s/"; Dir::State::status "%s/var/lib/dpkg/status"; Dir::Bin::dpkg "/usr/bin/dpkg"; APT::Sandbox::User "root";
#clear DPkg::Pre-Install-Pkgs; #clear DPkg::Post-Invoke; #clear APT::Update::Post-Invoke; DPkg::Options:: "--force-script-chrootless";
`, root, root))
	m.write(t, "project/deploy/packages.txt", "# GROUP PACKAGE\none probe-slow\ntwo probe-quick\nboth probe-slow\nboth probe-quick\nnone probe-that-is-not\n")
	for _, script := range []string{"install-packages", "progress.sh"} {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		m.write(t, "project/deploy/"+script, string(text))
	}
	m.environment = append(os.Environ(), "APT_CONFIG="+filepath.Join(root, "apt.conf"), "DPKG_ROOT="+root, "DPKG_ADMINDIR="+filepath.Join(root, "var/lib/dpkg"))
	return m
}

func (m machine) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
}

func (m machine) must(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).Output()
	require.NoError(t, err, command)
	return string(out)
}

// install gives the command that installs groups, with more variables.
func (m machine) install(variables []string, groups ...string) *exec.Cmd {
	c := exec.Command("bash", append([]string{filepath.Join(m.project, "deploy/install-packages")}, groups...)...)
	c.Env = append(m.environment, variables...)
	return c
}

func (m machine) has(t *testing.T, name string) bool {
	t.Helper()
	c := exec.Command("dpkg-query", "-W", "-f=${db:Status-Status}", name)
	c.Env = m.environment
	out, _ := c.Output() // it fails where there is none
	return string(out) == "installed"
}

// waitFor waits for a file.
func (m machine) waitFor(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(m.root, name))
		return err == nil
	}, time.Minute, 10*time.Millisecond, name)
}

// lock holds a lock as apt does, from a process of its own, until the returned function is called.
func (m machine) lock(t *testing.T, name string) (pid int, release func()) {
	t.Helper()
	path := filepath.Join(m.root, name)
	holder := exec.Command("python3", "-c", "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()", path)
	in, err := holder.StdinPipe()
	require.NoError(t, err)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	var released bool
	release = func() {
		if !released {
			released = true
			_ = in.Close()
			_ = holder.Wait()
		}
	}
	t.Cleanup(release)
	return holder.Process.Pid, release
}

// Each package that is missing is installed, once, and its service does not start; then nothing is said.
func TestInstallPackages(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	out, err := m.install(nil, "both").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `^packages: apt-get update\npackages: installing, with dependencies: probe-quick probe-slow\npackages: installed in \d+ s\n$`, string(out))
	require.True(t, m.has(t, "probe-slow") && m.has(t, "probe-quick"))
	policy, err := os.ReadFile(filepath.Join(m.root, "run/policy"))
	require.NoError(t, err)
	m.write(t, "run/policy", string(policy))
	for variable, code := range map[string]int{"STRONGROOM_INSTALLS=1": 101, "A=b": 0} { // what others install meanwhile starts
		c := exec.Command("sh", filepath.Join(m.root, "run/policy"), "nginx", "start")
		c.Env = []string{variable}
		_ = c.Run()
		require.Equal(t, code, c.ProcessState.ExitCode(), variable)
	}
	require.NoFileExists(t, filepath.Join(m.root, "usr/sbin/policy-rc.d"))

	out, err = m.install(nil, "one", "two").CombinedOutput()
	require.NoError(t, err)
	require.Empty(t, string(out))
	out, err = m.install(nil, "three").CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "packages: packages.txt has no group three\n", string(out))
	out, err = m.install(nil, "none").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "E: Unable to locate package probe-that-is-not\n")
	require.True(t, strings.HasSuffix(string(out), "\npackages: installation failed, see above\n"), string(out))
}

// What a killed run left is put right by the next one: dpkg in the middle of its work, and the file that keeps services from starting.
func TestInstallPackagesAfterAKilledRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const policy = "usr/sbin/policy-rc.d"
	m.write(t, policy, "#!/bin/sh\n# written by strongroom's install-packages\nexit 101\n")
	m.write(t, "var/lib/dpkg/updates/0001", "")
	out, err := m.install(nil, "two").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "packages: an earlier installation was interrupted: dpkg --configure -a\n")
	require.True(t, m.has(t, "probe-quick"))
	require.NoFileExists(t, filepath.Join(m.root, policy))

	m.write(t, policy, "#!/bin/sh\n# written by strongroom's install-packages\nexit 101\n")
	require.NoError(t, m.install(nil, "two").Run())
	require.NoFileExists(t, filepath.Join(m.root, policy), "also where nothing is missing")
	m.write(t, policy, "#!/bin/sh\nexit 101\n")
	require.NoError(t, m.install(nil, "both").Run())
	require.FileExists(t, filepath.Join(m.root, policy), "the operator's own stays")
}

// A signal ends it when apt has ended, for no service may start meanwhile.
func TestInstallPackagesEndsWithApt(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	c := m.install(nil, "one")
	var out bytes.Buffer
	c.Stderr = &out
	require.NoError(t, c.Start())
	m.waitFor(t, "run/slow-began")
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, c.Wait(), &exit)
	require.Equal(t, 143, exit.ExitCode(), out.String())
	require.True(t, m.has(t, "probe-slow"))
	require.NoFileExists(t, filepath.Join(m.root, "usr/sbin/policy-rc.d"))
}

// Two that need packages at once: one installs, the other waits for it and looks again; Debian is asked once.
func TestInstallPackagesAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	var all [2]*exec.Cmd
	var said [2]strings.Builder
	for i, group := range []string{"one", "both"} {
		all[i] = m.install(nil, group)
		all[i].Stderr = &said[i]
		require.NoError(t, all[i].Start())
		if i == 0 {
			m.waitFor(t, "run/slow-began")
		}
	}
	for i, c := range all {
		require.NoError(t, c.Wait(), said[i].String())
	}
	require.NotContains(t, said[0].String(), "waiting")
	require.Regexp(t, `^packages: waiting for another run to install packages: process \d+\npackages: installing, with dependencies: probe-quick\n`, said[1].String())
	require.True(t, m.has(t, "probe-slow") && m.has(t, "probe-quick"))
}

// It says for which program it waits, when that holds a lock of apt or dpkg, and installs when the lock is free.
func TestInstallPackagesWaitsForApt(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"var/lib/apt/lists/lock", "var/lib/dpkg/lock-frontend"} {
		t.Run(filepath.Base(lock), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			pid, release := m.lock(t, lock)
			c := m.install(nil, "two")
			out, err := c.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			lines, waited := bufio.NewReader(out), false
			var all strings.Builder
			for {
				line, err := lines.ReadString('\n')
				all.WriteString(line)
				if strings.HasPrefix(line, "packages: waiting") {
					require.Regexp(t, fmt.Sprintf(`^packages: waiting, \d+ s at most: process %d \(python3\) holds %s\n$`, pid, filepath.Join(m.root, lock)), line)
					require.False(t, waited, "it says so once")
					waited = true
					require.False(t, m.has(t, "probe-quick"))
					release()
				}
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
			}
			require.NoError(t, c.Wait(), all.String())
			require.True(t, waited)
			require.True(t, m.has(t, "probe-quick"))
		})
	}
}

// It names a program that keeps the lock, and changes nothing.
func TestInstallPackagesGivesUp(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	pid, _ := m.lock(t, "var/lib/apt/lists/lock")
	out, err := m.install([]string{"STRONGROOM_APT_WAIT=2"}, "two").CombinedOutput()
	require.Error(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Regexp(t, fmt.Sprintf(`^packages: process %d \(python3\) holds %s, still after \d+ s\. Wait until it ends, or end it; then run this again\.$`,
		pid, filepath.Join(m.root, "var/lib/apt/lists/lock")), lines[len(lines)-1])
	out, err = m.install([]string{"STRONGROOM_APT_WAIT=5m"}, "two").CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "packages: STRONGROOM_APT_WAIT is a number of seconds, not \"5m\"\n", string(out))
	assert.False(t, m.has(t, "probe-quick"))
	assert.NoFileExists(t, filepath.Join(m.root, "usr/sbin/policy-rc.d"))
}

// apt-get update succeeds without a mirror that it cannot reach. It is said why a package is missing then, and the next run asks again.
func TestInstallPackagesWithoutAMirror(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	reachable, err := os.ReadFile(filepath.Join(m.root, "etc/apt/sources.list"))
	require.NoError(t, err)
	m.write(t, "etc/apt/sources.list", "deb [trusted=yes] http://127.0.0.1:1/debian bookworm main\n")
	m.write(t, "etc/apt/apt.conf.d/quick", `Acquire::http::Proxy "false"; Acquire::Retries "0";`)
	out, err := m.install(nil, "two").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Failed to fetch http://127.0.0.1:1/debian")
	require.Contains(t, string(out), "packages: installation failed, see above")
	require.Equal(t, 1, strings.Count(string(out), "packages: apt-get update\n"), "one a run")

	// A list that cannot be had stops nothing that is in the others.
	m.write(t, "etc/apt/sources.list", string(reachable)+"deb [trusted=yes] file:/nonexistent ./\n")
	out, err = m.install(nil, "one").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Regexp(t, `(?m)^[EW]: .*/nonexistent`, string(out))
	require.Contains(t, string(out), "packages: apt-get update did not get all lists; going on with those that are there\n")
	require.True(t, m.has(t, "probe-slow"))
	m.write(t, "etc/apt/sources.list", string(reachable))
	out, err = m.install(nil, "two").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "packages: apt-get update\n")
	require.True(t, m.has(t, "probe-quick"))
}

// Without root, one line says what to install.
func TestInstallPackagesNeedsRoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for dir := m.root; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) { // others may pass through
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	c := m.install(nil, "both")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "packages: not installed: probe-quick probe-slow. Run this as root, or install them: apt-get install --no-install-recommends probe-quick probe-slow\n", string(out))
}
