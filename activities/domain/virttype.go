package domain

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// kvmProbe is the boot sector of kvmprobe/probe.asm.
//
//go:embed kvmprobe/probe.bin
var kvmProbe []byte

// kvmProbeDone is what the boot sector says when the CPU did all of it.
const kvmProbeDone = "64 ok"

const kvmProbeTime = 5 * time.Second

// ChooseVirtType gives the virt_type that was configured, or, where it is "",
// kvm if a guest can really start with it on this host, else qemu. A /dev/kvm
// alone proves little: inside some virtual machines it is there, and guests hang
// on their way into protected mode. So a boot sector is run; it takes a second
// where KVM works and at most five where not. dir is a folder that QEMU's user
// can pass; what is made in it is removed.
func (c *Client) ChooseVirtType(ctx context.Context, configured, dir string) (string, error) {
	switch configured {
	case "kvm", "qemu":
		return configured, nil
	case "":
	default:
		return "", fmt.Errorf("domain: virt_type %q: it must be kvm, qemu or empty", configured)
	}
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return "qemu", nil //nolint:nilerr // no device, no KVM
	}
	works, err := c.Runs(ctx, "kvm", dir)
	if err != nil {
		return "", err
	}
	if works {
		return "kvm", nil
	}
	return "qemu", nil
}

// Runs starts a boot sector as a guest of a virt_type, and reports whether the
// CPU did what boot loaders and kernels ask of it.
func (c *Client) Runs(ctx context.Context, virtType, dir string) (bool, error) {
	work, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	image, serial := filepath.Join(work, "probe"), filepath.Join(work, "serial")
	// SeaBIOS boots from no disk that is smaller than a cylinder.
	err = errors.Join(os.WriteFile(image, kvmProbe, 0o644), os.Truncate(image, 1<<20), os.Chmod(work, 0o711))
	if err != nil {
		return false, err
	}
	doc, err := probeXML(virtType, image, serial)
	if err != nil {
		return false, err
	}
	var guest libvirt.Domain
	err = c.Do(ctx, func(l *libvirt.Libvirt) (err error) {
		guest, err = l.DomainCreateXML(doc, libvirt.DomainStartAutodestroy)
		if err != nil {
			return err
		}
		// Autodestroy ends the guest with this connection, whatever happens here.
		for deadline := time.Now().Add(kvmProbeTime); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			said, err := os.ReadFile(serial)
			if err == nil && bytes.Contains(said, []byte(kvmProbeDone)) {
				return nil
			}
			state, _, err := l.DomainGetState(guest, 0)
			if err != nil || libvirt.DomainState(state) != libvirt.DomainRunning {
				return errStuck
			}
		}
		return errStuck
	})
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case isLibvirt(err):
		return false, nil // libvirt answers: it is KVM that does not
	}
	return false, err
}

// errStuck looks like what libvirt says when QEMU cannot start at all.
var errStuck = libvirt.Error{Code: uint32(libvirt.ErrOperationFailed), Message: "the guest did not run"}

func isLibvirt(err error) bool {
	return isCode(err, libvirt.ErrOperationFailed) || isCode(err, libvirt.ErrInternalError) ||
		isCode(err, libvirt.ErrConfigUnsupported) || isCode(err, libvirt.ErrInvalidArg)
}

// probeXML is a guest like ours with nothing but the boot sector and a serial port.
func probeXML(virtType, image, serial string) (string, error) {
	port := uint(0)
	d := libvirtxml.Domain{
		Type:     virtType,
		Name:     "strongroom-probe-" + uuid.NewString()[:8],
		Memory:   &libvirtxml.DomainMemory{Value: 32, Unit: "MiB"},
		VCPU:     &libvirtxml.DomainVCPU{Value: 1},
		OS:       &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"}},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:      &libvirtxml.DomainCPU{Mode: cpuMode(virtType)},
		Devices: &libvirtxml.DomainDeviceList{
			Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
			Disks: []libvirtxml.DomainDisk{{
				Device:   "disk",
				Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
				Source:   &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: image}},
				Target:   &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
				ReadOnly: &libvirtxml.DomainDiskReadOnly{},
			}},
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{File: &libvirtxml.DomainChardevSourceFile{Path: serial}},
				Target: &libvirtxml.DomainSerialTarget{Port: &port},
			}},
		},
	}
	return d.Marshal()
}
