package integration_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
	"strongroom/deploy/cloud"
)

// Flavors of the guest that counts its boots: that of one takes shares while it runs.
var (
	countsInClear  = flavorSpec{"e2e-counts-clear", 64, 0, 0, 0, nil}
	countsWithLive = flavorSpec{"e2e-counts-live", 64, 0, 0, 0, map[string]string{"trait:" + compute.TraitLiveShares: "required"}}
)

// liveShares calls a route of a server's shares as a client of strongroom 1.1.
func (c *testCloud) liveShares(t *testing.T, method, server, share string, body any) error {
	t.Helper()
	client := *c.compute(t, "-demo")
	client.Microversion = "2.97, strongroom 1.1"
	url := client.ServiceURL("servers", server, "shares")
	if share != "" {
		url += "/" + share
	}
	resp, err := client.Request(t.Context(), method, url, &gophercloud.RequestOpts{JSONBody: body, OkCodes: []int{202}, KeepResponseBody: true})
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// On a host whose libvirt gives guests cgroups a guest that runs is given a share at once, which the deaths of workers in the
// middle change nothing about; one that does not give it back, as this one that has no driver of it, keeps it, mounted, and
// libvirt's daemon goes on. Where the guest ends meanwhile, the share is detached. One whose memory is not shared is refused, and so is all that does not speak strongroom 1.1.
func TestSharesOfAGuestThatRuns(t *testing.T) {
	backends(t, openStack) // a share of NFS is one that such a machine mounts
	h := newNestedHostWith(t, "luksv2", nestedNeeds{
		name: "live", services: []string{manilaService, cloud.NFS}, modules: []string{"nfs", "nfsv4"}, forward: map[int]string{nfsPort: cloud.NFS},
		host: map[string]any{"shares": nestedMounts, "share_address": "127.0.0.1"}, cgroups: true,
	})
	if h == nil {
		return
	}
	h.returns(t)
	h.isUp(t)
	s := h.nfsShare(t)
	require.NoError(t, os.WriteFile(filepath.Join(s.folder, "letter"), []byte("from outside"), 0o644))
	body := map[string]any{"share": map[string]any{"shareId": s.id, "tag": "data"}}
	id, other := h.createOf(t, countsWithLive, h.count), h.createOf(t, countsInClear, h.count)
	for _, one := range []string{id, other} {
		h.becomes(t, one, "ACTIVE")
	}
	conflict := func(err error) {
		t.Helper()
		require.True(t, gophercloud.ResponseCodeIs(err, http.StatusConflict), "%v", err)
	}
	conflict(h.attach(t, id, s, "data"))
	conflict(h.liveShares(t, http.MethodPost, other, "", body))
	h.delete(t, other)

	h.arm(t, "share.Allow@after")
	begun, given := h.armInside(t, "domain.AttachShare@before"), h.armInside(t, "domain.AttachShare@after")
	require.NoError(t, h.liveShares(t, http.MethodPost, id, "", body))
	h.hasShare(t, id, s, "active")
	begun()
	given()
	require.Equal(t, 1, strings.Count(h.mounted(t), "\n"))
	require.Equal(t, "from outside", h.atMount(t, s, "cat letter"))
	const virsh = "virsh -c 'qemu:///system?socket=/run/libvirtd-nested/run/libvirt-sock' "
	domains := h.inside(t, "", "sh", "-c", "for d in $("+virsh+"list --name); do "+virsh+"dumpxml $d; done")
	require.Equal(t, 1, strings.Count(domains, "<source dir='"+nestedMounts+"/"+s.id+"/mnt'/>"), domains)
	require.Empty(t, h.audit(t).Findings)

	conflict(h.detach(t, id, s))
	begun = h.armInside(t, "domain.DetachShare@before")
	require.NoError(t, h.liveShares(t, http.MethodDelete, id, s.id, nil))
	h.hasShare(t, id, s, "error")
	begun()
	require.Equal(t, "ACTIVE", h.settled(t, id).Status)
	require.Equal(t, 1, strings.Count(h.mounted(t), "\n"), "its guest has it still")
	h.turnOff(t, id)
	require.Empty(t, h.mounted(t))
	h.turnOn(t, id)
	h.hasShare(t, id, s, "active")
	taken := h.armInside(t, "domain.DetachShare@after")
	require.NoError(t, h.liveShares(t, http.MethodDelete, id, s.id, nil))
	h.inside(t, "", "sh", "-c", "for d in $("+virsh+"list --name); do "+virsh+"destroy $d; done")
	h.hasNoShare(t, id, s)
	taken()
	require.Empty(t, h.mounted(t))
	require.Empty(t, h.accessRules(t, s))
	h.delete(t, id)
	require.Empty(t, h.audit(t).Findings)
}
