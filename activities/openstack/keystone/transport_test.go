package keystone_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/activities/openstack/keystone"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

func TestATransferMayTakeLongButNotHang(t *testing.T) {
	t.Parallel()
	const silence = 500 * time.Millisecond
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flush := func() { _ = http.NewResponseController(w).Flush() }
		switch r.URL.Path {
		case "/slow":
			for range 10 {
				_, _ = w.Write([]byte("x"))
				flush()
				time.Sleep(silence / 5)
			}
		case "/hangs":
			_, _ = w.Write([]byte("x"))
			flush()
			<-hang
		case "/mute":
			<-hang
		}
	}))
	defer server.Close()
	defer close(hang)
	client := http.Client{Transport: keystone.NewTransport(silence)}
	read := func(path string) (int, error) {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+path, http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return readAll(response.Body)
	}
	n, err := read("/slow")
	require.NoError(t, err)
	require.Equal(t, 10, n)
	n, err = read("/hangs")
	require.Error(t, err)
	require.Equal(t, 1, n)
	_, err = read("/mute")
	require.Error(t, err)
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
