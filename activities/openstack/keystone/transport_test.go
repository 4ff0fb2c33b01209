package keystone_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/activities/openstack/keystone"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// The silence that is borne is one that no busy machine makes of a step of a fifth of a second.
func TestATransferMayTakeLongButNotHang(t *testing.T) {
	t.Parallel()
	const silence, steps = 6 * time.Second, 35
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		write := func() {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
		}
		switch r.URL.Path {
		case "/slow":
			for range steps {
				write()
				time.Sleep(silence / 30)
			}
		case "/hangs":
			write()
			<-hang
		case "/mute":
			<-hang
		}
	}))
	t.Cleanup(server.Close)
	client := http.Client{Transport: keystone.NewTransport(silence)}
	read := func(path string) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
		if err != nil {
			return 0, err
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return readAll(response.Body)
	}
	var reads sync.WaitGroup
	reads.Go(func() {
		n, err := read("/slow")
		assert.NoError(t, err)
		assert.Equal(t, steps, n)
	})
	reads.Go(func() {
		n, err := read("/hangs")
		assert.ErrorContains(t, err, "timeout")
		assert.Equal(t, 1, n)
	})
	reads.Go(func() {
		_, err := read("/mute")
		assert.ErrorContains(t, err, "timeout")
	})
	reads.Wait()
	close(hang)
}

// A large image goes through in both directions, with a user's token.
func TestALargeTransfer(t *testing.T) {
	t.Parallel()
	b := setup(t, cloudtest.Open(t))
	cloud, _, known := b.strongroom(t)
	project, _ := b.project(t)
	cred := known.add(project, b.login(t, b.member(t, project), project).Token(), "")
	library := &glance.Library{Clients: cloud.Clients("image")}
	img, err := library.Create(t.Context(), cred, compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "large", DiskFormat: "raw", ContainerFormat: "bare", Visibility: image.Private,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Delete(context.Background(), cred, img.ID)) })
	data := bytes.Repeat([]byte("0123456789abcdef"), 4<<20) // 64 MiB
	require.NoError(t, library.Upload(t.Context(), cred, img.ID, stream{data}.reader()))
	stored, err := library.Open(t.Context(), cred, img.ID)
	require.NoError(t, err)
	defer stored.Close()
	n, err := readAll(stored)
	require.NoError(t, err)
	require.Equal(t, len(data), n)
}

// stream is data whose reader can do nothing but read.
type stream struct{ data []byte }

func (s stream) reader() io.Reader { return io.MultiReader(bytes.NewReader(s.data)) }

func readAll(r io.Reader) (int, error) {
	data, err := io.ReadAll(r)
	return len(data), err
}
