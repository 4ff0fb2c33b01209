package audittest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/activities/ledger"
	"strongroom/deploy/dev/temporal/temporaltest"
	"strongroom/durable"
	"strongroom/workflows"
)

// processVariable makes a test's program a control worker.
const processVariable = "STRONGROOM_TEST_AUDIT_WORKER"

type settings struct{ Temporal, Namespace, Database string }

// Main is for TestMain: in a process that Start started it is the control worker, and
// does not return.
func Main() {
	text := os.Getenv(processVariable)
	if text == "" {
		return
	}
	if err := run(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run works until whoever started it closes the input, or is gone.
func run(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	pool, err := pgxpool.New(context.Background(), s.Database)
	if err != nil {
		return err
	}
	defer pool.Close()
	c, err := durable.Dial(durable.ClientConfig{Address: s.Temporal, Namespace: s.Namespace, Keys: temporaltest.Keys, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	defer c.Close()
	w := sdk.New(c, durable.ControlQueue, sdk.Options{
		DisableRegistrationAliasing: true, Interceptors: []interceptor.WorkerInterceptor{&durable.Boundary{}},
	})
	workflows.Register(w)
	(&ledger.Activities{Pool: pool}).Register(w)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Process is a control worker in a process of its own.
type Process struct {
	t     testing.TB
	cmd   *exec.Cmd
	input io.Closer
	ended bool
}

// Start starts one. It ends with the test.
func Start(t testing.TB, temporal, namespace string, database *pgxpool.Pool) *Process {
	t.Helper()
	text, err := json.Marshal(settings{Temporal: temporal, Namespace: namespace, Database: database.Config().ConnString()})
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	p := &Process{t: t, cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), processVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.stop)
	return p
}

// Kill ends it as a crash would.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	p.ended = true
}

func (p *Process) stop() {
	if !p.ended {
		_ = p.input.Close()
		require.NoError(p.t, p.cmd.Wait())
	}
}

// PeakMB is the most memory that it ever had, as the kernel counts it.
func (p *Process) PeakMB() float64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	require.NoError(p.t, err)
	_, rest, found := strings.Cut(string(status), "VmHWM:")
	require.True(p.t, found)
	var kB float64
	_, err = fmt.Sscan(rest, &kB)
	require.NoError(p.t, err)
	return kB / 1024
}
