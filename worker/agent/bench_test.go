package agent_test

import (
	"crypto/sha256"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/worker/pki"
)

const benchMB = 1024

// BenchmarkReceive receives a disk of 1 GiB, and copies the same file over a bare TLS connection, with a
// sha256 at both ends and an fsync at the end. The median of each, and of the one by the other.
func BenchmarkReceive(b *testing.B) {
	a := authority(b)
	from, to := newNode(b, a, "from"), newNode(b, a, "to")
	server, d := from.has(benchMB+64, benchMB)
	bare := newBare(b, from, from.path(server, d))
	var receives, copies, ratios []float64
	for b.Loop() {
		copied := bare.copy(b, to, filepath.Join(b.TempDir(), "copy"))
		begin := time.Now()
		require.NoError(b, to.receive(b.Context(), from, server, d))
		received := time.Since(begin)
		require.NoError(b, os.RemoveAll(filepath.Dir(to.path(server, d))))
		receives, copies = append(receives, received.Seconds()), append(copies, copied.Seconds())
		ratios = append(ratios, received.Seconds()/copied.Seconds())
	}
	median := func(of []float64) float64 {
		slices.Sort(of)
		return of[len(of)/2]
	}
	b.ReportMetric(median(receives), "receive-s")
	b.ReportMetric(median(copies), "bare-s")
	b.ReportMetric(median(ratios), "receive/bare")
	b.ReportMetric(0, "ns/op")
}

// bare is a program that sends one file to whoever connects, with its sha256.
type bare struct {
	address string
	from    compute.HostID
}

func newBare(b *testing.B, n *node, path string) bare {
	b.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", n.identity.Server())
	require.NoError(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	send := func(to net.Conn) error {
		defer to.Close()
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.CopyBuffer(struct{ io.Writer }{to}, io.TeeReader(f, sum), make([]byte, mib)); err != nil {
			return err
		}
		_, err = to.Write(sum.Sum(nil))
		return err
	}
	go func() {
		for {
			to, err := listener.Accept()
			if err != nil {
				return
			}
			if err := send(to); err != nil {
				b.Error(err)
			}
		}
	}()
	return bare{listener.Addr().String(), n.Host}
}

func (c bare) copy(b *testing.B, to *node, path string) time.Duration {
	b.Helper()
	begin := time.Now()
	conn, err := tls.Dial("tcp", c.address, to.identity.Client(pki.HostName(c.from)))
	require.NoError(b, err)
	defer func() { _ = conn.Close() }()
	f, err := os.Create(path)
	require.NoError(b, err)
	defer os.Remove(path)
	sum := sha256.New()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(f, sum)}, io.LimitReader(conn, (benchMB+2*hole)*mib), make([]byte, mib))
	require.NoError(b, err)
	said, err := io.ReadAll(conn)
	require.NoError(b, err)
	require.Equal(b, sum.Sum(nil), said)
	require.NoError(b, f.Sync())
	require.NoError(b, f.Close())
	return time.Since(begin)
}
