package metadata_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"strongroom/api/metadata"
	"strongroom/compute"
	documents "strongroom/compute/metadata"
	"strongroom/schema"
	"strongroom/schema/schematest"
)

var secret = []byte("what the proxy shares")

func sign(key []byte, id string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id))
	return hex.EncodeToString(mac.Sum(nil))
}

// kit is the service over HTTP on a real database with one server in it.
type kit struct {
	t    *testing.T
	pool *pgxpool.Pool
	http *httptest.Server
	id   string
}

const project = "0123456789abcdef0123456789abcdef"

func setup(t *testing.T) *kit {
	t.Helper()
	k := &kit{t: t, pool: schematest.New(t)}
	k.http = httptest.NewServer(metadata.New(metadata.Config{Servers: schema.Metadata{Pool: k.pool}, Secret: secret}))
	t.Cleanup(k.http.Close)
	q, key, data, user, tag := schema.New(k.pool), "mine", " ssh-ed25519 AAAA me\r\n", "IyEv YmluL3NoCg==\n", "scratch"
	id, image := compute.ServerID{UUID: uuid.New()}, compute.ImageID{UUID: uuid.New()}
	k.id = id.String()
	require.NoError(t, q.InsertServer(t.Context(), schema.InsertServerParams{
		ID: id, ProjectID: project, UserID: "u1", Name: "Vault", Hostname: "vault", ReservationID: "r-1", VMState: compute.VMActive,
		AvailabilityZone: "nova", Flavor: compute.Flavor{Name: "safe"}, ImageID: &image, RequiredTraits: []string{}, ForbiddenTraits: []string{},
		Networks: []compute.Network{{UUID: uuid.NewString(), MAC: "52:54:00:00:00:01"}}, Metadata: map[string]string{"role": "safe"},
		Tags: []string{}, KeyName: &key, KeyData: &data, UserData: &user,
	}))
	for i, d := range []schema.InsertServerDiskParams{
		{Role: compute.RootDisk, DeviceName: "/dev/vda", Encrypted: true}, {Role: compute.SwapDisk, DeviceName: "/dev/vdb", Tag: &tag},
	} {
		d.ID, d.ServerID, d.Bus, d.BootIndex = compute.DiskID{UUID: uuid.New()}, id, "virtio", int32(-i)
		require.NoError(t, q.InsertServerDisk(t.Context(), d))
	}
	return k
}

// get asks with the headers of a proxy; spoil changes them first.
func (k *kit) get(path string, spoil func(http.Header)) (int, string, http.Header) {
	k.t.Helper()
	request, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, k.http.URL+path, nil)
	require.NoError(k.t, err)
	request.Header.Set("X-Instance-ID", k.id)
	request.Header.Set("X-Tenant-ID", project)
	request.Header.Set("X-Forwarded-For", "10.0.0.7")
	request.Header.Set("X-Instance-ID-Signature", sign(secret, k.id))
	if spoil != nil {
		spoil(request.Header)
	}
	response, err := k.http.Client().Do(request)
	require.NoError(k.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(k.t, err)
	return response.StatusCode, string(body), response.Header
}

func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	k := setup(t)
	other := uuid.NewString()
	for name, c := range map[string]struct {
		code  int
		says  string
		spoil func(http.Header)
	}{
		"the proxy":       {200, "meta_data.json", nil},
		"no server":       {400, "X-Instance-ID header is missing from request.", func(h http.Header) { h.Del("X-Instance-ID") }},
		"no signature":    {400, "X-Instance-ID-Signature header is missing from request.", func(h http.Header) { h.Del("X-Instance-ID-Signature") }},
		"no project":      {400, "X-Tenant-ID header is missing from request.", func(h http.Header) { h.Del("X-Tenant-ID") }},
		"two servers":     {400, "Multiple X-Instance-ID headers found within request.", func(h http.Header) { h.Add("X-Instance-ID", other) }},
		"two projects":    {400, "Multiple X-Tenant-ID headers found within request.", func(h http.Header) { h.Add("X-Tenant-ID", "p2") }},
		"two signatures":  {400, "Multiple", func(h http.Header) { h.Add("X-Instance-ID-Signature", "00") }},
		"another secret":  {403, "Invalid proxy request signature.", func(h http.Header) { h.Set("X-Instance-ID-Signature", sign([]byte("guess"), k.id)) }},
		"empty signature": {403, "Invalid proxy request signature.", func(h http.Header) { h.Set("X-Instance-ID-Signature", "") }},
		"another's":       {403, "Invalid proxy request signature.", func(h http.Header) { h.Set("X-Instance-ID", other) }},
		"unknown server": {404, "Not Found", func(h http.Header) {
			h.Set("X-Instance-ID", other)
			h.Set("X-Instance-ID-Signature", sign(secret, other))
		}},
		"no uuid":           {404, "Not Found", func(h http.Header) { h.Set("X-Instance-ID", "x"); h.Set("X-Instance-ID-Signature", sign(secret, "x")) }},
		"another's project": {404, "Not Found", func(h http.Header) { h.Set("X-Tenant-ID", "p2") }},
	} {
		code, body, _ := k.get("/openstack/latest", c.spoil)
		require.Equal(t, c.code, code, name)
		require.Contains(t, body, c.says, name)
		require.NotContains(t, body, sign(secret, other), name)
	}
	_, err := k.pool.Exec(t.Context(), `UPDATE servers SET deleted_at = now()`)
	require.NoError(t, err)
	code, _, _ := k.get("/openstack/latest/meta_data.json", nil)
	require.Equal(t, 404, code, "a deleted server has none")
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	k := setup(t)
	for path, want := range map[string]string{
		"/openstack/latest/user_data":                     "#!/bin/sh\n",
		"/latest/user-data":                               "#!/bin/sh\n",
		"/openstack/latest/":                              "meta_data.json\nuser_data\nvendor_data.json\nnetwork_data.json\nvendor_data2.json",
		"/2009-04-04/meta-data/block-device-mapping/":     "ami\nroot\nswap",
		"/2009-04-04/meta-data/block-device-mapping/swap": "/dev/vdb",
		"/latest/meta-data/public-keys/0/openssh-key":     "ssh-ed25519 AAAA me", // K21: one line, without what is around it
		"/latest/meta-data/instance-type":                 "safe",
	} {
		code, body, header := k.get(path, nil)
		require.Equal(t, 200, code, path)
		require.Equal(t, want, body, path)
		require.Equal(t, "text/plain; charset=UTF-8", header.Get("Content-Type"))
		require.Equal(t, "no-store", header.Get("Cache-Control"))
	}
	code, body, header := k.get("/openstack/2018-08-27/meta_data.json", nil)
	require.Equal(t, 200, code)
	require.Equal(t, "application/json; charset=UTF-8", header.Get("Content-Type"))
	var meta struct {
		UUID, Name string
		Meta       map[string]string
		Devices    []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(body), &meta))
	require.Equal(t, k.id, meta.UUID)
	require.Equal(t, "Vault", meta.Name)
	require.Equal(t, map[string]string{"role": "safe"}, meta.Meta)
	require.Len(t, meta.Devices, 2)
	require.Equal(t, "True", meta.Devices[0]["encrypted"], "EE-32")
	require.NotContains(t, meta.Devices[1], "encrypted")
	require.Equal(t, []any{"scratch"}, meta.Devices[1]["tags"])

	for _, path := range []string{"/openstack/latest/nothing", "/openstack/1.0", "/nothing"} {
		code, _, _ := k.get(path, nil)
		require.Equal(t, 404, code, path)
	}
}

// TestVersionsAreNoSecret: "/" alone needs no proxy.
func TestVersionsAreNoSecret(t *testing.T) {
	t.Parallel()
	k := setup(t)
	for _, path := range []string{"", "/", "//"} {
		code, body, _ := k.get(path, func(h http.Header) { clear(h) })
		require.Equal(t, 200, code)
		require.True(t, strings.HasPrefix(body, "1.0\n"), body)
		require.True(t, strings.HasSuffix(body, "\n2009-04-04\nlatest"), body)
	}
	for _, path := range []string{"/openstack", "/latest"} {
		code, _, _ := k.get(path, func(h http.Header) { clear(h) })
		require.Equal(t, 400, code)
		code, body, _ := k.get(path, nil)
		require.Equal(t, 200, code)
		require.NotEmpty(t, body)
	}
	response, err := k.http.Client().Post(k.http.URL+"/openstack/latest/meta_data.json", "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 405, response.StatusCode)
}

// broken is a record that fails.
type broken struct{ err error }

func (b broken) Metadata(context.Context, compute.ServerID) (documents.Server, error) {
	return documents.Server{}, b.err
}

// TestFaultsTellNothing of what went wrong inside.
func TestFaultsTellNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
	}{
		{compute.Errorf(compute.Unavailable, "the database: dial db.internal"), 503},
		{compute.Errorf(compute.Corrupt, "db.internal holds no base64"), 500},
		{errors.New("db.internal"), 500},
	} {
		k := &kit{t: t, id: uuid.NewString()}
		k.http = httptest.NewServer(metadata.New(metadata.Config{Servers: broken{c.err}, Secret: secret}))
		t.Cleanup(k.http.Close)
		code, body, _ := k.get("/openstack/latest/meta_data.json", nil)
		require.Equal(t, c.code, code)
		require.NotContains(t, body, "db.internal")
	}
}

// TestMetadataAheadOfTheRecord: a rebuild's new guest is told what the request
// changed, before the rebuild has come to its decision; the service is not.
func TestMetadataAheadOfTheRecord(t *testing.T) {
	t.Parallel()
	k := setup(t)
	id, op := compute.ServerID{UUID: uuid.MustParse(k.id)}, compute.NewOperationID()
	name, key, data, user := "Other", "other", "ssh-ed25519 BBBB me", "b3RoZXI="
	arguments, err := json.Marshal(compute.RebuildRequest{Change: compute.ServerChange{
		Name: &name, Hostname: &name, Metadata: map[string]string{}, KeyName: compute.Setting{Set: true, Text: &key}, KeyData: &data,
		UserData: compute.Setting{Set: true, Text: &user},
	}})
	require.NoError(t, err)
	_, err = k.pool.Exec(t.Context(), `INSERT INTO operations (id, server_id, kind, project_id, user_id, credential_id, arguments)
		VALUES ($1, $2, 'rebuild', 'p', 'u', $3, $4)`, op, id, uuid.New(), arguments)
	require.NoError(t, err)
	source := schema.Metadata{Pool: k.pool}
	got, err := source.MetadataAfter(t.Context(), id, &op)
	require.NoError(t, err)
	require.Equal(t, "other", string(got.UserData))
	require.Equal(t, []string{name, name, key, data}, []string{got.Name, got.Hostname, got.KeyName, got.PublicKey})
	require.Empty(t, got.Metadata)
	got, err = source.Metadata(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "Vault", got.Name)

	_, err = k.pool.Exec(t.Context(), `UPDATE operations SET arguments = '[]'`)
	require.NoError(t, err)
	_, err = source.MetadataAfter(t.Context(), id, &op)
	require.True(t, compute.Is(err, compute.Invalid), "%v", err)
	none := compute.NewOperationID()
	_, err = source.MetadataAfter(t.Context(), id, &none)
	require.True(t, compute.Is(err, compute.NotFound), "%v", err)
}
