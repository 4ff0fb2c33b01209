package initializer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/secret"
	"strongroom/securepv/initializer"
)

// answers is a source that has a number of errors before it has an answer.
type answers struct {
	errs    []error
	secrets initializer.Secrets
}

func (a *answers) Fetch(context.Context) (*initializer.Secrets, error) {
	if len(a.errs) > 0 {
		err := a.errs[0]
		a.errs = a.errs[1:]
		return nil, err
	}
	s := a.secrets
	return &s, nil
}

func program(t *testing.T, s initializer.Source, said io.Writer) *initializer.Initializer {
	t.Helper()
	dir := t.TempDir()
	return &initializer.Initializer{
		Source: s, Folder: filepath.Join(dir, "contrast"), Done: filepath.Join(dir, "done"), Retry: time.Millisecond,
		Opener: initializer.Opener{Log: slog.New(slog.NewTextHandler(io.MultiWriter(said, t.Output()), nil))},
	}
}

// PV-07: without volumes the secrets are written where the workload looks for them, and that is all. What
// is there from a start before is replaced.
func TestPV07WritesTheSecretsAndEnds(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	for range 2 {
		s := initializer.Secrets{Seed: pass(seed), Key: pass("private"), MeshCA: []byte("mesh"), RootCA: []byte("root"), CertChain: []byte("chain")}
		i := program(t, &answers{errs: []error{errors.New("not yet"), errors.New("not yet")}, secrets: s}, &said)
		for name, want := range map[string]struct {
			text string
			mode os.FileMode
		}{
			"secrets/workload-secret-seed":       {seed, 0o400},
			"tls-config/key.pem":                 {"private", 0o400},
			"tls-config/mesh-ca.pem":             {"mesh", 0o444},
			"tls-config/coordinator-root-ca.pem": {"root", 0o444},
			"tls-config/certChain.pem":           {"chain", 0o444},
		} {
			if i.Source.(*answers).secrets.Seed.Len() > 0 {
				require.NoError(t, i.Run(t.Context()))
			}
			info, err := os.Stat(filepath.Join(i.Folder, name))
			require.NoError(t, err)
			require.Equal(t, want.mode, info.Mode())
			text, err := os.ReadFile(filepath.Join(i.Folder, name))
			require.NoError(t, err)
			require.Equal(t, want.text, string(text))
		}
		require.NoFileExists(t, i.Done, "the probe is for those that stay")
		require.Zero(t, s.Seed.Len(), "it is forgotten")
	}
	require.Equal(t, 4, strings.Count(said.String(), "no secret yet"))
	require.NotContains(t, said.String(), seed)
}

// What cannot become better is not tried again, and volumes need a secret that fits.
func TestPV11NoSecret(t *testing.T) {
	t.Parallel()
	missing := program(t, initializer.File{Path: filepath.Join(t.TempDir(), "none")}, io.Discard)
	require.ErrorIs(t, missing.Run(t.Context()), os.ErrNotExist)

	none := program(t, &answers{}, io.Discard)
	none.Volumes = []initializer.Volume{{Device: "/nowhere"}}
	require.ErrorContains(t, none.Run(t.Context()), "gives this workload no secret")

	weak := program(t, &answers{secrets: initializer.Secrets{Seed: pass("what somebody thought of")}}, io.Discard)
	weak.Volumes, weak.KDF = none.Volumes, initializer.PBKDF2
	require.ErrorContains(t, weak.Run(t.Context()), "use argon2id")

	over, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, program(t, &answers{errs: []error{errors.New("not yet")}}, io.Discard).Run(over), "not yet")
}

// silent is a source that says nothing to the first who ask.
type silent struct{ times int }

func (s *silent) Fetch(ctx context.Context) (*initializer.Secrets, error) {
	if s.times > 0 {
		s.times--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &initializer.Secrets{}, nil
}

// A service that does not answer at all is asked again.
func TestPV11AsksAgainWhereNothingIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		require.NoError(t, program(t, &silent{2}, &said).Run(t.Context()))
		require.Equal(t, 2, strings.Count(said.String(), "no secret yet"))
	})
}

// PV-06, PV-11: the file for the startup probe is there when all volumes are, and SIGTERM closes them. Of
// several, one that is refused leaves none open.
func TestPV11SeveralVolumes(t *testing.T) {
	t.Parallel()
	a, b := setup(t), setup(t)
	o := a.order()
	second := filepath.Join(a.kernel.dir, "device1")
	require.NoError(t, os.Rename(b.volume.Device, second))
	o.Volumes = append(o.Volumes, initializer.Volume{Device: second, Mount: filepath.Join(a.kernel.dir, "state1")})
	o.Folder = filepath.Join(a.kernel.dir, "contrast")

	c := o.process(t)
	require.NoError(t, os.WriteFile(o.Done, nil, 0o600)) // of a start before
	require.NoError(t, c.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(o.Folder, initializer.SeedFile))
		return err == nil
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { _, err := os.Stat(o.Done); return err == nil }, time.Minute, 10*time.Millisecond)
	require.True(t, a.mounted())
	require.NoError(t, os.WriteFile(filepath.Join(o.Volumes[1].Mount, "data"), []byte("of the second"), 0o600))
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.Wait())
	require.NoFileExists(t, o.Done)
	require.False(t, a.mounted())
	maps, err := filepath.Glob(filepath.Join(a.kernel.dir, "*.map"))
	require.NoError(t, err)
	require.Empty(t, maps)
	a.volume = o.Volumes[1]
	a.opens()
	text, err := os.ReadFile(a.data())
	require.NoError(t, err)
	require.Equal(t, "of the second", string(text))
	a.closes()

	require.NoError(t, exec.Command("mkfs.ext4", "-q", "-F", second).Run())
	c = o.process(t)
	var said bytes.Buffer
	c.Stderr = &said
	require.Error(t, c.Run())
	require.Contains(t, said.String(), "child: "+second+": refused, and left as it is")
	require.NoFileExists(t, o.Done)
	maps, err = filepath.Glob(filepath.Join(a.kernel.dir, "*.map"))
	require.NoError(t, err)
	require.Empty(t, maps, "the first is closed again")
}

// What a file has as a secret: text without the end of its line, bytes in hexadecimal.
func TestPV11SecretsOfFiles(t *testing.T) {
	t.Parallel()
	read := func(content string) (string, error) {
		name := filepath.Join(t.TempDir(), "seed")
		require.NoError(t, os.WriteFile(name, []byte(content), 0o400))
		p, err := initializer.ReadKey(name)
		var got string
		_ = p.Use(func(value []byte) error { got = string(value); return nil })
		return got, err
	}
	for content, want := range map[string]string{
		seed:                              seed,
		seed + "\n":                       seed,
		seed + "\r\n":                     seed,
		"a passphrase of five words":      "a passphrase of five words",
		strings.Repeat("\xff", 31) + "\n": strings.Repeat("ff", 31) + "0a",
	} {
		got, err := read(content)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for content, says := range map[string]string{"": "it has 0 bytes", "short\n": "it has 5 bytes", strings.Repeat("x", 10_000): "more than 8192"} {
		_, err := read(content)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "xx")
	}
}

// No secret is in what the program says of a command that fails, nor in arguments or environment.
func TestPV11KeysTravelThroughPipes(t *testing.T) {
	b := setup(t)
	log := filepath.Join(b.kernel.dir, "log")
	bin := filepath.Join(b.kernel.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	path, err := exec.LookPath("cryptsetup")
	require.NoError(t, err)
	script := "#!/bin/sh\n{ echo \"$@\"; cat /proc/$$/environ; } >> " + log + "\nexec " + path + " \"$@\"\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "cryptsetup"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	b.opens()
	b.opens()
	_, err = b.open(other)
	require.Error(t, err)
	b.closes()
	require.NoError(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(seed), secret.New([]byte(other))))
	said, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(said), "luksAddKey")
	for _, s := range []string{string(said), b.said.String()} {
		require.NotContains(t, s, seed)
		require.NotContains(t, s, other)
	}
}
