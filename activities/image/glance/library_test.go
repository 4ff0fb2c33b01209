package glance_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"strongroom/activities/image"
	"strongroom/activities/image/glance"
	"strongroom/activities/image/imagetest"
	"strongroom/compute"
	"strongroom/deploy/cloud/cloudtest"
)

// logins are clients by project: a client that is logged in as a user of it, and
// "" for the operator's.
type logins map[string]*gophercloud.ServiceClient

func (l logins) Client(_ context.Context, cred compute.Credential) (*gophercloud.ServiceClient, error) {
	if client, ok := l[cred.ProjectID]; ok {
		return client, nil
	}
	return nil, compute.Errorf(compute.Forbidden, "nobody is logged in to project %s", cred.ProjectID)
}

func imageClient(t *testing.T, provider *gophercloud.ProviderClient) *gophercloud.ServiceClient {
	t.Helper()
	client, err := gopher.NewImageV2(provider, cloudtest.Endpoint)
	require.NoError(t, err)
	return client
}

func (l logins) add(t *testing.T, provider *gophercloud.ProviderClient) compute.Credential {
	t.Helper()
	userID, projectID := cloudtest.Who(t, provider)
	l[projectID] = imageClient(t, provider)
	return compute.Credential{ID: uuid.New(), ProjectID: projectID, UserID: userID}
}

// damage changes a byte in Glance's file of the image.
func damage(t *testing.T, img compute.Image) {
	t.Helper()
	name := filepath.Join(filepath.Dir(cloudtest.Open(t)), "glance", "images", img.ID.String())
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("!"), img.SizeBytes/2)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

func TestConformance(t *testing.T) {
	t.Parallel()
	mine, theirs := cloudtest.NewProject(t), cloudtest.NewProject(t)
	operator := imageClient(t, cloudtest.Login(t, "admin"))
	one, two := logins{"": operator}, logins{"": operator}
	// Only an admin makes an image public, by Glance's defaults.
	owner, other := one.add(t, mine.Login(t, "member", "admin")), one.add(t, theirs.Login(t))
	two.add(t, mine.Login(t))
	two.add(t, theirs.Login(t))
	t.Run("suite", func(t *testing.T) { // returns once its parallel tests are through
		imagetest.Run(t, func(*testing.T) imagetest.Harness {
			return imagetest.Harness{
				Library: &glance.Library{Clients: one}, Again: &glance.Library{Clients: two}, Owner: owner, Other: other, Damage: damage,
				Foreign: func(t *testing.T, disk, container string) compute.ImageID {
					t.Helper()
					made, err := images.Create(t.Context(), one[owner.ProjectID], images.CreateOpts{Name: "foreign", DiskFormat: disk, ContainerFormat: container}).Extract()
					require.NoError(t, err)
					return compute.ImageID{UUID: uuid.MustParse(made.ID)}
				},
			}
		})
	})
}

func library(t *testing.T, project cloudtest.Project, roles ...string) (*glance.Library, compute.Credential) {
	t.Helper()
	l := logins{}
	cred := l.add(t, project.Login(t, roles...))
	return &glance.Library{Clients: l}, cred
}

func private() compute.Image {
	return compute.Image{
		ID: compute.ImageID{UUID: uuid.New()}, Name: "snapshot", DiskFormat: "raw", ContainerFormat: "bare", Visibility: image.Private,
		Properties: map[string]string{"os_encrypt_key_id": uuid.NewString(), "with/slash~tilde": "kept"},
	}
}

// What the conformance suite's owner does as an admin, a member can do too.
func TestAMemberIsEnough(t *testing.T) {
	t.Parallel()
	l, cred := library(t, cloudtest.NewProject(t), "member")
	img, err := l.Create(t.Context(), cred, private())
	require.NoError(t, err)
	data := bytes.Repeat([]byte("data"), 50_000)
	require.NoError(t, l.Upload(t.Context(), cred, img.ID, bytes.NewReader(data)))
	img, err = l.Get(t.Context(), cred, img.ID)
	require.NoError(t, err)
	require.EqualValues(t, len(data), img.SizeBytes)
	require.Equal(t, "kept", img.Properties["with/slash~tilde"])
	img.Properties = map[string]string{"with/slash~tilde": "changed"}
	img, err = l.Update(t.Context(), cred, img)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"with/slash~tilde": "changed"}, img.Properties)
	img.Visibility = image.Public
	_, err = l.Update(t.Context(), cred, img)
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.NoError(t, l.Delete(t.Context(), cred, img.ID))
}

func TestReservedNamesAreNoProperties(t *testing.T) {
	t.Parallel()
	l, cred := library(t, cloudtest.NewProject(t))
	img := private()
	img.Properties["owner"] = "somebody else"
	_, err := l.Create(t.Context(), cred, img)
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
}

// broken loses the connection in the middle of the first upload that it carries.
type broken struct {
	http.RoundTripper
	uploads int
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		if b.uploads++; b.uploads == 1 {
			ctx, cancel := context.WithCancel(r.Context())
			r = r.WithContext(ctx)
			r.Body = &cutting{readCloser: r.Body, cut: cancel, left: 3 << 20}
		}
	}
	return b.RoundTripper.RoundTrip(r)
}

type cutting struct {
	readCloser
	cut  func()
	left int
}

type readCloser = interface {
	Read([]byte) (int, error)
	Close() error
}

func (c *cutting) Read(p []byte) (int, error) {
	n, err := c.readCloser.Read(p)
	if c.left -= n; c.left < 0 {
		c.cut()
	}
	return n, err
}

// A13: a quota that is used up is the caller's to see, as with Nova.
func TestA13AQuotaIsForbidden(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	defer server.Close()
	lib := &glance.Library{Clients: logins{"p": {ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/v2/"}}}
	_, err := lib.Create(t.Context(), compute.Credential{ProjectID: "p"}, compute.Image{Name: "one"})
	require.Equal(t, compute.Forbidden, compute.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "quota")
}

// answering is a Glance that answers everything alike, and notes what it is asked.
type answering struct {
	*glance.Library
	query url.Values
	body  string
}

func answers(t *testing.T, text string) *answering {
	t.Helper()
	a := &answering{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		a.query, a.body = r.URL.Query(), string(body)
		w.Header().Set("Content-Type", "application/json")
		_, err = io.WriteString(w, text)
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	a.Library = &glance.Library{Clients: logins{"p": {ProviderClient: &gophercloud.ProviderClient{}, Endpoint: server.URL + "/v2/"}}}
	return a
}

// What Glance is asked names the properties alone that are changed: another one may be there by then that nobody here has seen.
func TestAChangeNamesWhatItTouches(t *testing.T) {
	t.Parallel()
	id, cred := compute.ImageID{UUID: uuid.New()}, compute.Credential{ProjectID: "p"}
	lib := answers(t, `{"id":"`+id.String()+`","status":"active","owner":"p","visibility":"private","size":1,"color":"blue","same":"as it is","other":"goes","os_encrypt_key_id":"k"}`)
	set := map[string]string{"color": "red", "new/one": "here", "same": "as it is"}
	_, err := lib.ChangeProperties(t.Context(), cred, id, set, func(name string) bool { return !compute.OpensImage(name) })
	require.NoError(t, err)
	require.JSONEq(t, `[{"op":"add","path":"/color","value":"red"},{"op":"add","path":"/new~1one","value":"here"},{"op":"remove","path":"/other"}]`, lib.body)
	_, err = lib.ChangeProperties(t.Context(), cred, id, map[string]string{"color": "blue"}, nil)
	require.NoError(t, err)
	require.Empty(t, lib.body, "nothing is to be changed")
	_, err = lib.ChangeProperties(t.Context(), cred, id, map[string]string{"owner": "q"}, nil)
	require.Equal(t, compute.Invalid, compute.KindOf(err), "%v", err)
	require.Empty(t, lib.body)
}

// Glance is asked for what it filters by itself. An image that is not for the list is where the next part begins all the same.
func TestAListAsksForLittle(t *testing.T) {
	t.Parallel()
	mine, theirs := compute.ImageID{UUID: uuid.New()}, compute.ImageID{UUID: uuid.New()}
	document := func(id compute.ImageID, owner string) string {
		return `{"id":"` + id.String() + `","name":"debian:13","status":"queued","owner":"` + owner + `","visibility":"private","created_at":"2026-11-20T12:00:00Z"}`
	}
	lib := answers(t, `{"images":[`+document(mine, "p")+`,`+document(theirs, "q")+`],"next":"/v2/images?marker=`+theirs.String()+`"}`)
	got, err := lib.List(t.Context(), compute.Credential{ProjectID: "p"}, image.ListInput{Newest: true, Limit: 2, Name: "debian:13", Statuses: []string{"queued", "saving"}})
	require.NoError(t, err)
	require.Equal(t, url.Values{"limit": {"2"}, "sort": {"created_at:desc,id:desc"}, "name": {"eq:debian:13"}, "status": {"in:queued,saving"}}, lib.query)
	require.Len(t, got.Images, 1)
	require.Equal(t, mine, got.Images[0].ID)
	require.Equal(t, theirs, got.Last)
	require.Equal(t, theirs.String()+"@2026-11-20T12:00:00Z", got.Next)
}

// A connection that is lost leaves the image queued, and the next upload fills it.
func TestALostConnection(t *testing.T) {
	t.Parallel()
	provider := cloudtest.NewProject(t).Login(t)
	l := logins{}
	cred := l.add(t, provider)
	lib := &glance.Library{Clients: l}
	img, err := lib.Create(t.Context(), cred, private())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lib.Delete(context.Background(), cred, img.ID)) })
	provider.HTTPClient.Transport = &broken{RoundTripper: http.DefaultTransport}

	data := bytes.Repeat([]byte("data"), 4<<20)
	err = lib.Upload(t.Context(), cred, img.ID, bytes.NewReader(data))
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "%v", err)
	// Glance may begin with what it got of it when the client has gone already.
	require.Eventually(t, func() bool {
		now, err := lib.Get(t.Context(), cred, img.ID)
		return err == nil && now.Status == image.StatusQueued
	}, time.Minute, 50*time.Millisecond)
	require.Eventually(t, func() bool {
		err = lib.Upload(t.Context(), cred, img.ID, bytes.NewReader(data))
		return !compute.Is(err, compute.Unavailable)
	}, time.Minute, 50*time.Millisecond)
	require.NoError(t, err)
	now, err := lib.Get(t.Context(), cred, img.ID)
	require.NoError(t, err)
	require.EqualValues(t, len(data), now.SizeBytes)
}
