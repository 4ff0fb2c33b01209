package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
	"strongroom/worker/pki"
)

const benchBytes = 512 << 20

// glanceOf is the image store's adapter on a server that answers as Glance does with one
// image.
func glanceOf(b *testing.B, algorithm string, sum hash.Hash) (lib *glance.Library, address string, id compute.ImageID) {
	b.Helper()
	id.UUID = [16]byte{1}
	data := make([]byte, benchBytes)
	_, _ = rand.Read(data)
	sum.Write(data)
	record := fmt.Sprintf(`{"id": %q, "status": "active", "name": "image", "visibility": "public", "disk_format": "raw", "container_format": "bare",
		"size": %d, "os_hash_algo": %q, "os_hash_value": %q, "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}`,
		id, benchBytes, algorithm, hex.EncodeToString(sum.Sum(nil)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/file") {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, record)
	}))
	b.Cleanup(server.Close)
	return &glance.Library{Clients: loggedIn(server.URL + "/v2/")}, server.Listener.Addr().String(), id
}

type loggedIn string

func (l loggedIn) Client(context.Context, compute.Credential) (*gophercloud.ServiceClient, error) {
	return &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{TokenID: "t"}, Endpoint: string(l)}, nil
}

// bareHop passes bytes on as a gateway does and does nothing else: what it reads of the
// image store goes over TLS.
func bareHop(b *testing.B, own *pki.Identity, store, path string) (address string) {
	b.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own.Server())
	require.NoError(b, err)
	b.Cleanup(func() { _ = listener.Close() })
	pass := func(host net.Conn) error {
		defer host.Close()
		from, err := net.Dial("tcp", store)
		if err != nil {
			return err
		}
		defer from.Close()
		if _, err := fmt.Fprintf(from, "GET %s HTTP/1.0\r\n\r\n", path); err != nil {
			return err
		}
		_, err = io.CopyBuffer(struct{ io.Writer }{host}, struct{ io.Reader }{from}, make([]byte, 256<<10))
		return err
	}
	go func() {
		for {
			host, err := listener.Accept()
			if err != nil {
				return
			}
			if err := pass(host); err != nil {
				b.Error(err)
			}
		}
	}()
	return listener.Addr().String()
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no other outcome
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// way is how the image comes to the host.
type way struct {
	name string
	open func(ctx context.Context) (io.ReadCloser, error)
	took time.Duration
	used time.Duration // of processors, by all that take part
}

// BenchmarkImage downloads an image from a server that answers as Glance does: directly, as
// hosts did before there were gateways, whose adapter takes the digest, too; through a
// gateway; and over a bare hop of TLS, which is the most that a gateway could give. The host
// takes the digest of what it gets. All run on this machine, one after another.
func BenchmarkImage(b *testing.B) {
	for name, digest := range map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New} {
		b.Run(name, func(b *testing.B) { benchmarkImage(b, name, digest) })
	}
}

func benchmarkImage(b *testing.B, algorithm string, digest func() hash.Hash) {
	lib, address, img := glanceOf(b, algorithm, digest())
	c := newCloudWith(b, lib)
	h := c.enrolled("a")
	op := h.server()
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	own, err := c.authority.Process(pki.Gateway)
	require.NoError(b, err)
	hop := bareHop(b, own, address, "/v2/images/"+img.String()+"/file")
	from := func(s image.Store) func(ctx context.Context) (io.ReadCloser, error) {
		return func(ctx context.Context) (io.ReadCloser, error) { return s.Open(ctx, schematest.Owner, img) }
	}
	ways := []*way{
		{name: "direct", open: from(lib)},
		{name: "gateway", open: from(gateway.HostImages{Client: h.client})},
		{name: "bare-TLS", open: func(context.Context) (io.ReadCloser, error) {
			return tls.Dial("tcp", hop, pki.NewIdentity(h.got.Cert, h.keys.Sign, h.got.CA).Client(pki.Gateway))
		}},
	}
	for b.Loop() {
		for _, w := range ways {
			require.NoError(b, as(b, "server/"+op.ServerID.String(), func(ctx context.Context) error {
				began, used := time.Now(), processorTime()
				data, err := w.open(ctx)
				if err != nil {
					return err
				}
				defer data.Close()
				n, err := io.Copy(digest(), data)
				w.took, w.used = w.took+time.Since(began), w.used+processorTime()-used
				require.GreaterOrEqual(b, n, int64(benchBytes))
				return err
			}))
		}
	}
	b.ReportMetric(0, "ns/op")
	for _, w := range ways {
		b.ReportMetric(float64(b.N)*benchBytes/(1<<20)/w.took.Seconds(), w.name+"-MB/s")
		b.ReportMetric(w.used.Seconds()*1000/float64(b.N)*(1<<30)/benchBytes, w.name+"-CPU-ms/GB")
	}
	b.ReportMetric(ways[0].took.Seconds()/ways[1].took.Seconds(), "gateway/direct")
	b.ReportMetric(ways[2].took.Seconds()/ways[1].took.Seconds(), "gateway/bare-TLS")
}
