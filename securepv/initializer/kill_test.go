package initializer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/securepv/initializer"
)

// childVariable says what the test's binary is to do in place of tests.
const childVariable = "STRONGROOM_INITIALIZER_CHILD"

// order is what a child does: the container's program, or a rotation, on stand-ins for the device
// mapper or on the real one. It kills itself as its step Kill is done.
type order struct {
	Dir     string // of the stand-ins; "": the device mapper
	Volumes []initializer.Volume
	Secret  string // files
	New     string // the key that the volume is to have; "": run
	Folder  string
	Done    string
	KDF     initializer.KDF
	Kill    int // 0: never

	NeverFormat bool
}

func child(text string) int {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		panic(err)
	}
	steps := 0
	step := func(what string) {
		if steps++; steps == o.Kill {
			fmt.Println("killed after: " + what)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	var kernel initializer.Kernel = initializer.DeviceMapper{}
	if o.Dir != "" {
		kernel = loops{o.Dir, step}
	}
	i := &initializer.Initializer{
		Source: initializer.File{Path: o.Secret}, Folder: o.Folder, Done: o.Done, Volumes: o.Volumes,
		Opener: initializer.Opener{Kernel: kernel, KDF: o.KDF, NeverFormat: o.NeverFormat, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Step: step},
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	if o.New == "" {
		err = i.Run(ctx)
	} else {
		err = rotateFiles(ctx, &i.Opener, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child: "+err.Error())
		return 1
	}
	return 0
}

func rotateFiles(ctx context.Context, o *initializer.Opener, in order) error {
	old, err := initializer.ReadKey(in.Secret)
	if err != nil {
		return err
	}
	anew, err := initializer.ReadKey(in.New)
	if err != nil {
		return err
	}
	return o.Rotate(ctx, in.Volumes[0].Device, old, anew)
}

// process starts a child.
func (o order) process(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), childVariable+"="+string(text))
	c.Stderr = t.Output()
	return c
}

// order gives what a child does with the bench's volume.
func (b *bench) order() order {
	b.t.Helper()
	file := func(name, text string) string {
		name = filepath.Join(b.kernel.dir, name)
		require.NoError(b.t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	return order{
		Dir: b.kernel.dir, Volumes: []initializer.Volume{b.volume}, Secret: file("seed", seed), KDF: initializer.PBKDF2,
		Done: filepath.Join(b.kernel.dir, "done"),
	}
}

// kill runs a child that is killed after a step. It reports what that was, and "" where there is no
// such step: then the child has come to its end, or is told to.
func (b *bench) kill(o order, step int) (after string) {
	b.t.Helper()
	o.Kill = step
	c := o.process(b.t)
	out, err := c.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, c.Start())
	if o.New == "" {
		ended := make(chan struct{})
		defer close(ended)
		go func() { // what is open is closed, and steps of that are steps, too
			for {
				select {
				case <-ended:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := os.Stat(o.Done); err == nil {
					_ = c.Process.Signal(syscall.SIGTERM)
					return
				}
			}
		}()
	}
	said := make([]byte, 1000)
	n, _ := out.Read(said)
	err = c.Wait()
	if n == 0 {
		require.NoError(b.t, err)
		return ""
	}
	require.Equal(b.t, syscall.SIGKILL, c.ProcessState.Sys().(syscall.WaitStatus).Signal())
	return strings.TrimSpace(strings.TrimPrefix(string(said[:n]), "killed after: "))
}

// PV-11: the first start is killed after each of its steps, and of its end. The next one opens the
// volume; a volume that was ever mounted is not formatted again.
func TestPV11KilledAtEachStepOfTheFirstStart(t *testing.T) {
	t.Parallel()
	var seen []string
	for n := 1; ; n++ {
		b := setup(t)
		o := b.order()
		after := b.kill(o, n)
		formats := b.kernel.formats()
		b.opens()
		if mounted := len(seen) > 0 && seen[len(seen)-1] == "mounted"; mounted || after == "mounted" || after == "" {
			require.Equal(t, 1, formats)
		}
		require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
		formats = b.kernel.formats()
		b.closes()
		b.opens()
		got, err := os.ReadFile(b.data())
		require.NoError(t, err)
		require.Equal(t, "kept", string(got))
		require.Equal(t, formats, b.kernel.formats(), "formatted again after %q", after)
		b.closes()
		if after == "" {
			break
		}
		seen = append(seen, after)
	}
	require.Equal(t, []string{
		"begun", "before LUKS format", "LUKS format", "before open", "opened anew", "cleared", "file system", "key material", "second copy",
		"first copy but for its first block", "first block", "mounted", "grown", "unmounted", "before close", "closed",
	}, seen)
}

// PV-11, Contrast's issue 2455: a start that finds the data is killed after each of its steps.
func TestPV11KilledAtEachStepOfALaterStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
	b.closes()
	var seen []string
	for n := 1; ; n++ {
		after := b.kill(b.order(), n)
		b.opens()
		got, err := os.ReadFile(b.data())
		require.NoError(t, err)
		require.Equal(t, "kept", string(got), after)
		b.closes()
		if after == "" {
			break
		}
		seen = append(seen, after)
	}
	require.Equal(t, []string{"before close", "before open", "opened", "mounted", "grown", "unmounted", "before close", "closed"}, seen)
	require.Equal(t, 1, b.kernel.formats())
}

// A rotation is killed after each of its steps: the volume opens with one of the two keys, and when the
// rotation is done again with the new one alone.
func TestPV11KilledAtEachStepOfARotation(t *testing.T) {
	t.Parallel()
	var seen []string
	for n := 1; ; n++ {
		b := setup(t)
		b.opens()
		require.NoError(t, os.WriteFile(b.data(), []byte("kept"), 0o600))
		b.closes()
		o := b.order()
		o.New = filepath.Join(b.kernel.dir, "new")
		require.NoError(t, os.WriteFile(o.New, []byte(other+"\n"), 0o600))
		old := b.begin()
		after := b.kill(o, n)
		if _, err := b.open(seed); err != nil {
			require.ErrorIs(t, err, initializer.ErrWrongKey)
			_, err := b.open(other)
			require.NoError(t, err)
		}
		require.Empty(t, b.kill(o, 0), "while the volume is open")
		b.closes()
		_, err := b.open(seed)
		require.ErrorIs(t, err, initializer.ErrWrongKey)
		_, err = b.open(other)
		require.NoError(t, err)
		got, err := os.ReadFile(b.data())
		require.NoError(t, err)
		require.Equal(t, "kept", string(got))
		b.closes()
		b.write(0, old[:2*copyBytes]) // the key material that belongs to it is gone
		_, err = b.open(seed)
		require.ErrorIs(t, err, initializer.ErrWrongKey)
		if after == "" {
			break
		}
		seen = append(seen, after)
	}
	require.Equal(t, []string{"exchanged", "key material", "second copy", "first copy but for its first block", "first block", "wiped"}, seen)
}

// A rotation leaves what it does not know, and refuses keys that neither open the volume.
func TestPV11RotationRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before := b.sum()
	var r *initializer.Refused
	require.ErrorAs(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(seed), pass(other)), &r)
	require.Equal(t, before, b.sum())
	b.opens()
	b.closes()
	before = b.sum()
	wrong := strings.Repeat("77", 32)
	require.ErrorIs(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(wrong), pass(other)), initializer.ErrWrongKey)
	require.ErrorContains(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(seed), pass(seed)), "are they the same")
	require.Equal(t, before, b.sum())
}

// Of two rotations at once the second is told to wait, so that no header is written with the key material of
// another. One that comes by another node of the device, where no lock is seen, has changed the header: the
// first then writes nothing.
func TestPV11TwoRotationsAtOnce(t *testing.T) {
	t.Parallel()
	third := strings.Repeat("77", 32)
	b := setup(t)
	b.opens()
	b.closes()
	second := *b.opener
	var times int
	b.opener.Step = func(string) {
		times++
		require.ErrorIs(t, second.Rotate(t.Context(), b.volume.Device, pass(seed), pass(third)), initializer.ErrBusy)
	}
	require.NoError(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(seed), pass(other)))
	require.Equal(t, 6, times)
	b.opener.Step = nil
	_, err := b.open(other)
	require.NoError(t, err)
	b.closes()

	anew, _ := newHeader(t, []byte(third), false)
	b.opener.Step = func(string) { b.write(0, anew) }
	require.ErrorIs(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(other), pass(seed)), initializer.ErrBusy)
	require.True(t, bytes.Equal(anew, b.begin()))
}

// The old key material is wiped only when the new key opens what the volume has.
func TestPV11RotationWipesNothingBeforeTheNewKeyOpens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	b.closes()
	old := b.begin()[:areaOffset+areaBytes]
	b.opener.Step = func(step string) {
		if step == "first block" {
			b.write(areaOffset+areaBytes, random(areaBytes))
		}
	}
	require.ErrorIs(t, b.opener.Rotate(t.Context(), b.volume.Device, pass(seed), pass(other)), initializer.ErrWrongKey)
	b.opener.Step = nil
	require.True(t, bytes.Equal(old[areaOffset:], b.begin()[areaOffset:areaOffset+areaBytes]))
	b.write(0, old)
	b.opens()
	b.closes()
}

// A header that another writes is not mended.
func TestPV11MendsNoHeaderThatIsBeingWritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.opens()
	b.closes()
	b.write(copyBytes, random(100))
	before := b.sum()
	f, err := os.Open(b.volume.Device)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	_, err = b.open(seed)
	require.ErrorIs(t, err, initializer.ErrBusy)
	require.Equal(t, before, b.sum())
	require.NoError(t, f.Close())
	b.opens()
	b.closes()
	require.NotEqual(t, before, b.sum())
}
