package agent_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/tpm"
	"strongroom/compute"
	"strongroom/worker/agent"
	"strongroom/worker/pki"
)

// lost is a host that may be revoked, and what it hears.
type lost struct {
	compute.Agent
	cert *x509.Certificate

	mu       sync.Mutex
	heard    []string
	asked    int                     // about it
	says     error                   // what is said of it
	accepted func(n int) (err error) // the same of the n-th question; nil: says
	wrong    string                  // that was asked
}

// newLost is a host that answers with handler, and what accepts it for an arrival.
func newLost(t *testing.T, a *pki.Authority, of compute.Arrival, handler http.HandlerFunc) (*lost, agent.Client) {
	t.Helper()
	l := &lost{Agent: compute.Agent{Host: compute.HostID{UUID: uuid.New()}, Name: "lost"}}
	own, err := a.Process(pki.HostName(l.Host))
	require.NoError(t, err)
	l.cert = own.Cert()
	l.URL = serve(t, own, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.heard = append(l.heard, r.URL.Path)
		l.mu.Unlock()
		handler(w, r)
	}))
	by, err := a.Process(pki.HostName(compute.HostID{UUID: uuid.New()}))
	require.NoError(t, err)
	return l, agent.Client{Identity: by, Again: time.Millisecond, Accepts: func(_ context.Context, asked compute.Arrival, shown *x509.Certificate) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if asked != of || !shown.Equal(l.cert) {
			l.wrong = asked.Server.String() + " " + string(asked.Operation)
		}
		l.asked++
		if l.accepted != nil {
			return l.accepted(l.asked)
		}
		return l.says
	}}
}

// say changes what is said of it.
func (l *lost) say(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.says = err
}

func (l *lost) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

var revoked = compute.Errorf(compute.Forbidden, "the certificate was revoked")

// H1: a host whose certificate was revoked, or of which no gateway says that it was not, is called by no
// other one: it hears nothing.
func TestH1ARevokedHostIsToldNothing(t *testing.T) {
	t.Parallel()
	of := compute.Arrival{Server: compute.ServerID{UUID: uuid.New()}, Operation: "req-1"}
	l, c := newLost(t, authority(t), of, http.NotFound)
	tr := compute.Transfer{Server: of.Server, Operation: of.Operation, Kind: compute.ThingDiskFile, Name: of.Server.String() + "/disk"}
	calls := map[string]func() error{
		"a layout": func() error { _, err := c.Layout(t.Context(), l.Agent, tr); return err },
		"a disk":   func() error { _, err := c.Segments(t.Context(), l.Agent, tr, "1", 0); return err },
		"an image": func() error { _, err := c.Image(t.Context(), l.Agent, tr); return err },
		"a TPM":    func() error { _, _, err := c.TPM(t.Context(), l.Agent, tr); return err },
		"prepare":  func() error { _, err := c.Prepare(t.Context(), l.Agent, of, domain.Leaving{}); return err },
		"a stream": func() error { _, err := c.Stream(t.Context(), l.Agent, of, compute.StreamState); return err },
		"finish":   func() error { _, err := c.Finish(t.Context(), l.Agent, of, nil, false); return err },
	}
	for what, call := range calls {
		for _, says := range []*compute.Error{revoked, compute.Errorf(compute.Unavailable, "no gateway answers")} {
			l.say(says)
			err := call()
			require.Equal(t, says.Kind, compute.KindOf(err), "%s: %v", what, err)
			require.ErrorIs(t, err, says, what)
			require.ErrorAs(t, err, new(domain.Unsaid), what)
			require.NotContains(t, err.Error(), l.URL, "users read it")
		}
	}
	require.Empty(t, l.heard)
	require.Empty(t, l.wrong)

	l.say(nil)
	for what, call := range calls {
		l.heard = nil
		err := call()
		require.Equal(t, compute.NotFound, compute.KindOf(err), "%s: %v", what, err)
		require.NotErrorAs(t, err, new(domain.Unsaid), what)
		require.Len(t, l.heard, 1, what)
	}
}

// H1: of a host that is revoked while it sends a disk, an image or the state of a vTPM, no more is taken.
func TestH1ARevokedHostsStreamsAreCutOff(t *testing.T) {
	t.Parallel()
	a := authority(t)
	of := compute.Arrival{Server: compute.ServerID{UUID: uuid.New()}, Operation: "req-1"}
	begun := make(chan struct{}, 1)
	l, c := newLost(t, a, of, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/disk/layout" {
			_ = json.NewEncoder(w).Encode(disk.Layout{Bytes: 1000, Version: "1", Data: []byte{1}})
			return
		}
		_, _ = io.WriteString(w, "some")
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
	})
	to := newNode(t, a, "to")
	to.disks.Hosts, to.tpms.Hosts = c, c
	tr := compute.Transfer{Server: of.Server, Operation: of.Operation}
	d := compute.Disk{ID: compute.DiskID{UUID: uuid.New()}, Role: compute.EphemeralDisk, SizeMB: 8}
	reads := func(open func() (io.ReadCloser, error)) func() error {
		return func() error {
			from, err := open()
			require.NoError(t, err)
			defer from.Close()
			_, err = io.ReadAll(from)
			return err
		}
	}
	for what, receive := range map[string]func() error{
		"an image": reads(func() (io.ReadCloser, error) { return c.Image(t.Context(), l.Agent, tr) }),
		"segments": reads(func() (io.ReadCloser, error) { return c.Segments(t.Context(), l.Agent, tr, "1", 0) }),
		"TPM":      reads(func() (io.ReadCloser, error) { from, _, err := c.TPM(t.Context(), l.Agent, tr); return from, err }),
		"a disk": func() error {
			return to.disks.Receive(t.Context(), disk.ReceiveInput{Server: of.Server, Operation: of.Operation, Disk: d, From: l.Agent})
		},
		"TPM's state": func() error {
			return to.tpms.Receive(t.Context(), tpm.ReceiveInput{Server: of.Server, Operation: of.Operation, From: l.Agent})
		},
	} {
		l.say(nil)
		go func() {
			<-begun
			l.say(revoked)
		}()
		err := receive()
		require.Equal(t, compute.Forbidden, compute.KindOf(err), "%s: %v", what, err)
		require.ErrorIs(t, err, revoked, what)
	}
	require.NoFileExists(t, to.path(of.Server, d))
}

// H1: a running guest's memory and disks go no further to a host that is revoked meanwhile.
func TestH1AStreamToARevokedHostIsCutOff(t *testing.T) {
	t.Parallel()
	of := compute.Arrival{Server: compute.ServerID{UUID: uuid.New()}, Operation: "req-1"}
	ended := make(chan struct{})
	l, c := newLost(t, authority(t), of, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: strongroom-stream\r\n\r\n")
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	stream, err := c.Stream(t.Context(), l.Agent, of, compute.StreamState)
	require.NoError(t, err)
	_, err = io.WriteString(stream, "memory")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return l.questions() > 3 }, time.Minute, time.Millisecond)
	l.say(revoked)
	_, err = stream.Read(make([]byte, 1))
	require.ErrorIs(t, err, revoked)
	_, err = io.WriteString(stream, "memory")
	require.ErrorIs(t, err, revoked)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the other host was not cut off")
	}
	require.ErrorIs(t, stream.Close(), net.ErrClosed)
}

// H1: gateways that are restarted, or a database, end no stream; and nobody is asked about one that has ended.
func TestH1AStreamGoesOnWithoutAnAnswerForAWhile(t *testing.T) {
	t.Parallel()
	of := compute.Arrival{Server: compute.ServerID{UUID: uuid.New()}, Operation: "req-1"}
	goOn := make(chan struct{})
	l, c := newLost(t, authority(t), of, func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-goOn
		_, _ = io.WriteString(w, "all of it")
	})
	l.accepted = func(n int) error {
		if n%10 == 1 {
			return nil
		}
		return compute.Errorf(compute.Unavailable, "no gateway answers")
	}
	from, err := c.Image(t.Context(), l.Agent, compute.Transfer{Server: of.Server, Operation: of.Operation})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return l.questions() > 30 }, time.Minute, time.Millisecond)
	close(goOn)
	data, err := io.ReadAll(from)
	require.NoError(t, err)
	require.Equal(t, "all of it", string(data))
	require.NoError(t, from.Close())
	require.Eventually(t, func() bool {
		before := l.questions()
		time.Sleep(50 * time.Millisecond)
		return l.questions() == before
	}, time.Minute, time.Millisecond)

	silent := l.questions() + 1
	l.accepted = func(n int) error {
		if n > silent {
			return compute.Errorf(compute.Unavailable, "no gateway answers")
		}
		return nil
	}
	goOn = make(chan struct{})
	defer close(goOn)
	from, err = c.Image(t.Context(), l.Agent, compute.Transfer{Server: of.Server, Operation: of.Operation})
	require.NoError(t, err)
	_, err = io.ReadAll(from)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "for ever it does not: %v", err)
	require.NoError(t, from.Close())
}
