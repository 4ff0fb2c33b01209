package swift_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/object"
	"strongroom/activities/object/objecttest"
	"strongroom/activities/object/swift"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// logins are clients by project: a client that is logged in as a user of it.
type logins map[string]*gophercloud.ServiceClient

func (l logins) Client(_ context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if client, ok := l[cred.ProjectID]; ok {
		return client, nil
	}
	return nil, compute.Errorf(compute.Forbidden, "nobody is logged in to project %s", cred.ProjectID)
}

func (l logins) add(t *testing.T, provider *gophercloud.ProviderClient) compute.Credential {
	t.Helper()
	userID, projectID := cloudtest.Who(t, provider)
	client, err := gopher.NewObjectStorageV1(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	l[projectID] = client
	return compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	mine, theirs := cloudtest.NewProject(t), cloudtest.NewProject(t)
	one, two := logins{}, logins{}
	owner, other := one.add(t, mine.Login(t)), one.add(t, theirs.Login(t))
	two.add(t, mine.Login(t))
	blobs := &swift.Blobs{Clients: one}
	_, err := blobs.List(t.Context(), owner, "", "", 1) // makes the account, as a project's first request does
	require.NoError(t, err)
	t.Run("suite", func(t *testing.T) { // returns once its parallel tests are through
		objecttest.Run(t, func(*testing.T) objecttest.Harness {
			return objecttest.Harness{
				Store: &object.Segmented{Blobs: blobs}, Again: &object.Segmented{Blobs: &swift.Blobs{Clients: two}}, Blobs: blobs,
				Owner: owner, Other: other,
			}
		})
	})
}

// What can be read once is stored as it is, in a container that may not be there yet.
func TestStream(t *testing.T) {
	t.Parallel()
	l := logins{}
	cred := l.add(t, cloudtest.NewProject(t).Login(t))
	blobs := &swift.Blobs{Clients: l}
	_, err := blobs.List(t.Context(), cred, "", "", 1) // makes the account
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, blobs.Put(t.Context(), cred, "a", &object.Stream{Reader: strings.NewReader("data")}))
	}
	from, err := blobs.Open(t.Context(), cred, "a")
	require.NoError(t, err)
	defer from.Close()
	got, err := io.ReadAll(from)
	require.NoError(t, err)
	require.Equal(t, "data", string(got))
	broken := io.MultiReader(strings.NewReader("da"), iotest.ErrReader(io.ErrUnexpectedEOF))
	require.Error(t, blobs.Put(t.Context(), cred, "b", &object.Stream{Reader: broken}))
	_, err = blobs.Size(t.Context(), cred, "b")
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	require.NoError(t, blobs.Delete(t.Context(), cred, "a"))
}

// A Swift that ends its answer to a HEAD as if it had a body, and does so late, spoils no request after it.
func TestAHeadWhoseAnswerHasAnEnd(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			_, _ = w.Write([]byte("data"))
			return
		}
		conn, stream, err := http.NewResponseController(w).Hijack()
		if !assert.NoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = stream.WriteString("HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n")
		if r.Close { // as eventlet does
			_, _ = stream.WriteString("Connection: close\r\n")
		}
		_, _ = stream.WriteString("\r\n")
		_ = stream.Flush()
		time.Sleep(time.Second / 2)
		_, _ = stream.WriteString("0\r\n\r\n")
		_ = stream.Flush()
	}))
	t.Cleanup(server.Close)
	client := &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/"}
	cred := compute.Credential{ProjectID: "p"}
	blobs := &swift.Blobs{Clients: logins{"p": client}}
	_, err := blobs.Size(t.Context(), cred, "a")
	require.Equal(t, compute.NotFound, compute.KindOf(err), "%v", err)
	data, err := blobs.Open(t.Context(), cred, "a")
	require.NoError(t, err)
	require.NoError(t, data.Close())
}
