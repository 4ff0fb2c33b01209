package compute_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

// SH-10, SH-11, SH-12, SH-15, SH-16, SH-32: every edge of the status chart, and no other.
func TestSH32TheStatusChart(t *testing.T) {
	t.Parallel()
	const attaching, inactive, active, failed, detaching = compute.ShareAttaching, compute.ShareInactive, compute.ShareActive, compute.ShareError, compute.ShareDetaching
	statuses := []compute.ShareStatus{attaching, inactive, active, failed, detaching}
	for event, after := range map[compute.ShareEvent][]compute.ShareStatus{ // in the order of statuses
		compute.ShareGranted:    {inactive, inactive, active, failed, detaching},
		compute.ShareAdded:      {active, inactive, active, failed, detaching},
		compute.ShareRefused:    {failed, inactive, active, failed, detaching},
		compute.ShareMounted:    {attaching, active, active, active, detaching},
		compute.ShareNotMounted: {attaching, failed, failed, failed, detaching},
		compute.ShareUnmounted:  {attaching, inactive, inactive, failed, detaching},
		compute.ShareStuck:      {attaching, failed, failed, failed, detaching},
		compute.ShareUnwanted:   {detaching, detaching, detaching, detaching, detaching},
		compute.ShareKept:       {attaching, inactive, active, failed, failed},
		compute.ShareTaken:      {attaching, failed, failed, failed, detaching},
	} {
		for i, status := range statuses {
			require.Equal(t, after[i], status.After(event), "%s, %s", status, event)
		}
	}
	for _, status := range statuses {
		err := compute.ShareMapping{Status: status}.CheckMountable()
		require.Equal(t, status == attaching || status == detaching, err != nil, status) // SH-13, SH-33
	}
}

func TestSH05WhereServersCanHaveShares(t *testing.T) {
	t.Parallel()
	plain, pages := compute.Server{}, compute.Server{Flavor: compute.Flavor{ExtraSpecs: map[string]string{"hw:mem_page_size": "large"}}}
	image := compute.Server{Image: compute.Image{Properties: map[string]string{"hw_mem_page_size": "large"}}}
	fs, memory := compute.TraitVirtioFS, compute.TraitMemoryFile
	for _, tc := range []struct {
		server compute.Server
		traits []string
		can    bool
	}{
		{plain, []string{fs, memory}, true},
		{plain, []string{fs}, false},
		{plain, []string{memory}, false},
		{plain, nil, false},
		{pages, []string{fs}, true},
		{image, []string{fs}, true},
		{pages, []string{memory}, false},
	} {
		err := tc.server.CheckSharesOn(tc.traits)
		if tc.can {
			require.NoError(t, err, tc)
			continue
		}
		require.Equal(t, compute.Conflict, compute.KindOf(err), tc)
		require.EqualError(t, err, "Feature not supported because either compute or instance are not configured correctly.")
	}
}

func TestSH06Tags(t *testing.T) {
	t.Parallel()
	for tag, good := range map[string]bool{
		"data": true, "A-1": true, uuid.NewString(): true, strings.Repeat("a", 36): true,
		"": false, "a b": false, "a_b": false, "ä": false, "a\n": false, strings.Repeat("a", 37): false,
	} {
		err := compute.CheckShareTag(tag)
		require.Equal(t, good, err == nil, tag)
		if !good {
			require.Equal(t, compute.Invalid, compute.KindOf(err), tag)
		}
	}
	require.ErrorContains(t, compute.CheckShareTag(strings.Repeat("a", 37)), "virtiofs takes 36 at most")
}

func TestUsesOfSharesAreNamed(t *testing.T) {
	t.Parallel()
	share, server := compute.ShareID{UUID: uuid.New()}, compute.ServerID{UUID: uuid.New()}
	gotShare, gotServer, err := compute.ParseShareUse(compute.ShareUse(share, server))
	require.NoError(t, err)
	require.Equal(t, share, gotShare)
	require.Equal(t, server, gotServer)
	for _, name := range []string{"", "x", share.String(), share.String() + "/", "../" + server.String(), strings.ToUpper(compute.ShareUse(share, server)) + "x", "{" + share.String() + "/" + server.String()[1:]} {
		_, _, err := compute.ParseShareUse(name)
		require.Equal(t, compute.Invalid, compute.KindOf(err), name)
	}
	s := compute.Server{ID: server, Shares: []compute.ShareMapping{{Share: share}}}
	host := compute.HostID{UUID: uuid.New()}
	mount := compute.Thing{Kind: compute.ThingShareMount, Place: host.String(), Name: compute.ShareUse(share, server)}
	require.True(t, s.Uses(host, mount))
	require.False(t, s.Uses(compute.HostID{UUID: uuid.New()}, mount))
	access := compute.Thing{Kind: compute.ThingShareAccess, Place: compute.PlaceShares, Name: mount.Name}
	require.True(t, s.Uses(host, access))
	s.Shares = nil
	require.False(t, s.Uses(host, mount))
	require.False(t, s.Uses(host, access))
}

// SH-17: the mount goes before the rule by which the host may have it.
func TestSH17WhatGoesFirst(t *testing.T) {
	t.Parallel()
	require.Contains(t, compute.GoneFirst(compute.ThingShareMount), compute.ThingRunningDomain)
	require.Contains(t, compute.GoneFirst(compute.ThingShareAccess), compute.ThingShareMount)
	require.Contains(t, compute.GoneFirst(compute.ThingTrust), compute.ThingShareAccess)
}
