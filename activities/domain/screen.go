package domain

import (
	"cmp"
	"path/filepath"

	"libvirt.org/go/libvirtxml"

	"strongroom/compute"
)

// screenFolder is the folder with the socket at which QEMU shows a server's screen.
func (a *Activities) screenFolder(id compute.ServerID) string {
	return filepath.Join(a.RunDir, id.String()+".vnc")
}

// screen is that socket; "": machines here have no screen.
func (a *Activities) screen(id compute.ServerID) string {
	if !a.VNC {
		return ""
	}
	return filepath.Join(a.screenFolder(id), "v")
}

// makeScreenFolder sees that there is the folder, in which QEMU makes the socket itself. Nobody but root and QEMU's user gets
// into it: who reaches the socket needs no password.
func (a *Activities) makeScreenFolder(id compute.ServerID) error {
	if !a.VNC {
		return nil
	}
	return a.makeQEMUFolder(a.screenFolder(id))
}

// defaultVideoMB is the memory of a video card that nobody asks for.
const defaultVideoMB = 16

// addScreen gives a machine a video card, of the model that is wanted, and a screen, which is shown at a socket, "" for none.
func addScreen(d *libvirtxml.DomainDeviceList, socket string, wants compute.Hardware) {
	if socket == "" {
		return
	}
	model := libvirtxml.DomainVideoModel{Type: cmp.Or(wants.Video, "vga"), VRam: uint(wants.VideoMB) << 10}
	switch model.Type {
	case "none":
	case "vga":
		model.VRam = cmp.Or(model.VRam, defaultVideoMB<<10)
		fallthrough
	default:
		model.Heads, model.Primary = 1, "yes"
	}
	d.Videos = []libvirtxml.DomainVideo{{Model: model}}
	d.Graphics = []libvirtxml.DomainGraphic{{VNC: &libvirtxml.DomainGraphicVNC{
		Listeners: []libvirtxml.DomainGraphicListener{{Socket: &libvirtxml.DomainGraphicListenerSocket{Socket: socket}}},
	}}}
}

// adoptScreen gives a machine that a guest comes to a video card exactly if it has one where it comes from.
// One with a card is shown here if machines here have screens.
func adoptScreen(is, was *libvirtxml.DomainDeviceList) {
	if len(was.Videos) == 0 {
		is.Videos, is.Graphics = nil, nil
		return
	}
	if len(is.Videos) == 0 {
		addScreen(is, "none", compute.Hardware{Video: compute.VideoOf(was.Videos[0].Model.Type), VideoMB: int(was.Videos[0].Model.VRam >> 10)})
		is.Graphics = nil
	}
	is.Videos[0].Address = placeOf(was.Videos[0].Address)
}
