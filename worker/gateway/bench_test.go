package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/compute"
	"strongroom/schema/schematest"
	"strongroom/worker/gateway"
)

// overHTTP is an image store that streams over HTTP, as Glance does.
type overHTTP struct {
	image.Library
	url string
}

func (s overHTTP) Open(ctx context.Context, _ compute.Credential, _ compute.ImageID) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// BenchmarkImage downloads an image from an HTTP server as a host does, which takes its
// SHA-256, in turn directly and through a gateway, and reports the ratio of the bytes in a
// second: gateway ÷ direct.
func BenchmarkImage(b *testing.B) {
	const size = 512 << 20
	data := make([]byte, size)
	_, _ = rand.Read(data)
	glance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	defer glance.Close()
	store := overHTTP{url: glance.URL}
	c := newCloudWith(b, store)
	h := c.enrolled("a")
	op := h.server()
	img := compute.ImageID{UUID: op.ServerID.UUID}
	c.Exec("UPDATE servers SET image_id = $2::uuid, image = jsonb_build_object('id', $2::uuid::text) WHERE id = $1", op.ServerID, img)
	fetch := func(from image.Store) time.Duration {
		var took time.Duration
		require.NoError(b, as(b, "server/"+op.ServerID.String(), func(ctx context.Context) error {
			began := time.Now()
			data, err := from.Open(ctx, schematest.Owner, img)
			if err != nil {
				return err
			}
			defer data.Close()
			n, err := io.Copy(sha256.New(), data)
			took = time.Since(began)
			require.EqualValues(b, size, n)
			return err
		}))
		return took
	}
	var direct, through time.Duration
	for b.Loop() {
		direct += fetch(store)
		through += fetch(gateway.HostImages{Client: h.client})
	}
	seconds := func(d time.Duration) float64 { return float64(b.N) * size / (1 << 20) / d.Seconds() }
	b.ReportMetric(seconds(direct), "direct-MB/s")
	b.ReportMetric(seconds(through), "gateway-MB/s")
	b.ReportMetric(direct.Seconds()/through.Seconds(), "gateway/direct")
}
