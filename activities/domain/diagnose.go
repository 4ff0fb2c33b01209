package domain

import (
	"context"
	"fmt"

	libvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// Diagnose tells what libvirt counts of a server's domain. A domain that is busy is not waited for.
// NotFound: it has none here.
func (a *Activities) Diagnose(ctx context.Context, id compute.ServerID) (compute.Diagnostics, error) {
	const (
		kinds  = libvirt.DomainStatsBalloon | libvirt.DomainStatsVCPU | libvirt.DomainStatsBlock | libvirt.DomainStatsInterface
		noWait = uint32(libvirt.ConnectGetAllDomainsStatsNowait)
	)
	var out compute.Diagnostics
	err := a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, id)
		if err == nil && !found {
			err = compute.Errorf(compute.NotFound, "server %s has no machine on this host", id)
		}
		if err != nil {
			return err
		}
		if out.State, err = power(l, dom); err != nil {
			return err
		}
		got, err := l.ConnectGetAllDomainStats([]libvirt.Domain{dom}, uint32(kinds), noWait)
		if err != nil {
			return err
		}
		var described libvirtxml.Domain
		text, err := l.DomainGetXMLDesc(dom, 0)
		if err == nil {
			err = described.Unmarshal(text)
		}
		if err != nil {
			return err
		}
		var c counts
		if len(got) > 0 {
			c = countsOf(got[0].Params)
		}
		if !c.whole() && (out.State == compute.PowerRunning || out.State == compute.PowerPaused) {
			return compute.Errorf(compute.Unavailable, "the machine of server %s is busy: ask again", id)
		}
		out.Hypervisor = described.Type
		c.fill(&out, described)
		return nil
	})
	return out, err
}

// counts are libvirt's, by name.
type counts map[string]any

func countsOf(params []libvirt.TypedParam) counts {
	out := counts{}
	for _, p := range params {
		out[p.Field] = p.Value.I
	}
	return out
}

// whole reports whether QEMU was asked, too: one that is busy is not, and libvirt leaves out what it alone knows.
func (c counts) whole() bool {
	_, memory := c["balloon.current"]
	_, disks := c["block.count"]
	return memory && disks
}

// number gives a count; 0 where libvirt has none.
func (c counts) number(format string, args ...any) int64 {
	switch n := c[fmt.Sprintf(format, args...)].(type) {
	case int32:
		return int64(n)
	case uint32:
		return int64(n)
	case int64:
		return n
	case uint64:
		return int64(n)
	default:
		return 0
	}
}

func (c counts) name(format string, i int64) string {
	name, _ := c[fmt.Sprintf(format, i)].(string)
	return name
}

func (c counts) fill(d *compute.Diagnostics, described libvirtxml.Domain) {
	d.MemoryKB, d.UsedKB = c.number("balloon.maximum"), c.number("balloon.current")
	for i := range c.number("vcpu.current") {
		d.CPUTimes = append(d.CPUTimes, c.number("vcpu.%d.time", i))
	}
	for i := range c.number("block.count") {
		d.Disks = append(d.Disks, compute.DiskUse{
			Name: c.name("block.%d.name", i), ReadRequests: c.number("block.%d.rd.reqs", i), ReadBytes: c.number("block.%d.rd.bytes", i),
			WriteRequests: c.number("block.%d.wr.reqs", i), WriteBytes: c.number("block.%d.wr.bytes", i),
		})
	}
	macs := map[string]string{}
	if described.Devices != nil {
		for _, nic := range described.Devices.Interfaces {
			if nic.Target != nil && nic.MAC != nil {
				macs[nic.Target.Dev] = nic.MAC.Address
			}
		}
	}
	for i := range c.number("net.count") {
		name := c.name("net.%d.name", i)
		d.NICs = append(d.NICs, compute.NICUse{Name: name, MAC: macs[name], In: c.traffic(i, "rx"), Out: c.traffic(i, "tx")})
	}
}

func (c counts) traffic(nic int64, way string) compute.Traffic {
	return compute.Traffic{
		Bytes: c.number("net.%d.%s.bytes", nic, way), Packets: c.number("net.%d.%s.pkts", nic, way),
		Errors: c.number("net.%d.%s.errs", nic, way), Dropped: c.number("net.%d.%s.drop", nic, way),
	}
}
