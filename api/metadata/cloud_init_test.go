package metadata_test

import (
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxied is the service as a guest reaches it: behind a proxy that says who asks.
func (k *kit) proxied() string {
	k.t.Helper()
	to, err := url.Parse(k.http.URL)
	require.NoError(k.t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Header.Set("X-Instance-ID", k.id)
		r.Out.Header.Set("X-Tenant-ID", project)
		r.Out.Header.Set("X-Instance-ID-Signature", sign(secret, k.id))
	}})
	k.t.Cleanup(proxy.Close)
	return proxy.URL
}

// TestCloudInitReadsTheService (EE-32): the program that reads it in real guests, in
// OpenStack's form and in EC2's.
func TestCloudInitReadsTheService(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cloud-init"); err != nil && os.Getenv("CI") == "" {
		t.Skip("needs cloud-init")
	}
	k := setup(t)
	cmd := exec.Command("/usr/bin/python3", "testdata/read_service.py", k.proxied())
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	require.NoError(t, err)
	var number int
	var serials []string
	require.NoError(t, k.pool.QueryRow(t.Context(), `SELECT s.number, (SELECT array_agg(left(d.id::text, 20) ORDER BY d.device_name)
		FROM server_disks d WHERE d.server_id = s.id) FROM servers s`).Scan(&number, &serials))
	require.JSONEq(t, `{
		"openstack": {
			"instance_id": "`+k.id+`", "hostname": "vault", "keys": {"mine": "ssh-ed25519 AAAA me"}, "seed": 512,
			"devices": [
				{"type": "disk", "bus": "pci", "address": "0000:00:10.0", "serial": "`+serials[0]+`", "path": "/dev/vda", "encrypted": "True"},
				{"type": "disk", "bus": "pci", "address": "0000:00:11.0", "serial": "`+serials[1]+`", "path": "/dev/vdb", "tags": ["scratch"]}
			],
			"user_data": "#!/bin/sh\n", "vendor_data": {}, "vendor_data2": {"static": {}}, "links": ["52:54:00:00:00:01"]
		},
		"ec2": {
			"instance_id": "`+fmt.Sprintf("i-%08x", number)+`", "hostname": "vault", "keys": {"mine": "ssh-ed25519 AAAA me"},
			"block_devices": {"ami": "vda", "root": "/dev/vda", "swap": "/dev/vdb"}, "zone": "nova", "type": "safe", "user_data": "#!/bin/sh\n"
		}
	}`, string(out))
}
