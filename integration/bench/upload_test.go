package bench_test

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// uploadMiB is how much random data the exported disk has.
const (
	uploadMiB    = 1024
	uploadRounds = 3
)

// BenchmarkUpload uploads an exported disk to a real Glance as a shelve does, and the same file with
// curl, in turn. The best of each are compared, as in BenchmarkExport.
func BenchmarkUpload(b *testing.B) {
	u := newUploading(b)
	for b.Loop() {
		var ours, theirs []time.Duration
		for range uploadRounds {
			ours, theirs = append(ours, u.upload()), append(theirs, u.curl())
		}
		mine, curl := slices.Min(ours), slices.Min(theirs)
		b.ReportMetric(mine.Seconds(), "s/upload")
		b.ReportMetric(curl.Seconds(), "s/curl")
		b.ReportMetric(mine.Seconds()/curl.Seconds(), "x-curl")
	}
	b.ReportMetric(0, "ns/op")
}

// uploading is a host with a file to upload, and a user of an image store.
type uploading struct {
	*testing.B
	path    string
	client  *gophercloud.ServiceClient
	cred    compute.Credential
	library *glance.Library
	image.HostActivities
}

func newUploading(b *testing.B) *uploading {
	b.Helper()
	provider := cloudtest.Login(b, "demo")
	u := &uploading{B: b, path: filepath.Join(b.TempDir(), "export")}
	f, err := os.Create(u.path)
	require.NoError(b, err)
	_, err = io.CopyN(f, rand.Reader, uploadMiB<<20)
	require.NoError(b, err)
	require.NoError(b, f.Sync())
	require.NoError(b, f.Close())
	u.client, err = openstack.NewImageV2(provider, cloudtest.Endpoint)
	require.NoError(b, err)
	user, project := cloudtest.Who(b, provider)
	u.cred = compute.Credential{ID: uuid.New(), ProjectID: project, UserID: user}
	u.library = &glance.Library{Clients: u}
	u.Library, u.Files = u.library, u
	return u
}

// Client is the one of whoever uploads.
func (u *uploading) Client(context.Context, compute.Credential) (*gophercloud.ServiceClient, error) {
	return u.client, nil
}

// OpenExport opens the one file that there is.
func (u *uploading) OpenExport(string) (*os.File, error) { return os.Open(u.path) }

// queued makes an image without data, which goes when it was timed.
func (u *uploading) queued() compute.Image {
	u.Helper()
	img, err := u.library.Create(u.Context(), u.cred, compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "bench", DiskFormat: "raw", ContainerFormat: "bare", Visibility: image.Private,
	})
	require.NoError(u, err)
	return img
}

func (u *uploading) timed(img compute.Image, do func()) time.Duration {
	u.Helper()
	begin := time.Now()
	do()
	took := time.Since(begin)
	img, err := u.library.Get(u.Context(), u.cred, img.ID)
	require.NoError(u, err)
	require.Equal(u, image.StatusActive, img.Status)
	require.EqualValues(u, uploadMiB<<20, img.SizeBytes)
	require.NoError(u, u.library.Delete(u.Context(), u.cred, img.ID))
	return took
}

func (u *uploading) upload() time.Duration {
	u.Helper()
	img := u.queued()
	return u.timed(img, func() {
		_, err := u.Upload(u.Context(), image.UploadInput{Credential: u.cred, Image: img.ID, File: "the one"})
		require.NoError(u, err)
	})
}

func (u *uploading) curl() time.Duration {
	u.Helper()
	img := u.queued()
	return u.timed(img, func() {
		curl := exec.CommandContext(u.Context(), "curl", "-sS", "-f", "-T", u.path, "-H", "Content-Type: application/octet-stream", "-H", "@-",
			u.client.ServiceURL("images", img.ID.String(), "file"))
		curl.Stdin = strings.NewReader("X-Auth-Token: " + u.client.Token() + "\n") // in no argument list
		out, err := curl.CombinedOutput()
		require.NoError(u, err, "%s", out)
	})
}
