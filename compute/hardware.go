package compute

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// The devices that an image may ask for where its guest needs others than servers have by themselves (K6).
var (
	diskBuses       = []string{BusVirtio, BusSCSI, BusSATA}
	nicModels       = []string{"virtio", "e1000", "e1000e", "rtl8139"}
	videoCards      = []string{"vga", "virtio", "cirrus", "bochs", videoNone}
	inputBuses      = enum{"usb", "virtio"}
	watchdogActions = enum{"none", "pause", "poweroff", "reset", noWatchdog}
)

// The buses of disks.
const (
	BusVirtio = "virtio"
	BusSCSI   = "scsi" // of a virtio SCSI controller
	BusSATA   = "sata"
)

const (
	defaultNIC   = "virtio"
	defaultVideo = "vga"
	videoNone    = "none"
	noWatchdog   = "disabled"
)

// TraitHardware is of hosts that give machines the devices that images and flavors ask for.
const TraitHardware = "CUSTOM_STRONGROOM_HARDWARE"

// Hardware is what a server's machine has where its image or flavor says it. The zero value is that of a server of which neither says
// anything.
type Hardware struct {
	NIC        NIC       // of each interface
	Video      string    // the model of its video card, none for none; "": vga
	VideoMB    int       // memory of that; 0: what the model has by itself
	Watchdog   string    // what its watchdog does when the guest is silent; "": it has none
	GuestAgent bool      // it has the channel that QEMU's guest agent looks for
	Tablet     string    // the bus of its absolute pointer, usb or virtio; "": it has a PS/2 mouse
	Windows    bool      // its clock is local time, and it has the hypervisor that Windows knows
	Topology   *Topology // of its CPUs; nil: each is a socket
}

// NIC is a model of interfaces.
type NIC struct {
	Model  string `json:"model,omitempty"`  // "": virtio
	Queues int    `json:"queues,omitempty"` // of virtio; 0: one
}

// ModelOf is the model by its name.
func (n NIC) ModelOf() string { return cmp.Or(n.Model, defaultNIC) }

// IsNIC reports whether interfaces may be of the model.
func IsNIC(model string) bool { return slices.Contains(nicModels, model) }

// VideoOf gives a model of video cards that is offered, "" for another one.
func VideoOf(model string) string {
	if slices.Contains(videoCards, model) {
		return model
	}
	return ""
}

// mostQueues is how many queues an interface has at most: more cost a host more than they give.
const mostQueues = 16

// videoMemory is how many MiB a video card may have, by its model. The others have what QEMU gives them.
var videoMemory = map[string]struct{ least, most int }{defaultVideo: {1, 256}, "bochs": {4, 256}}

// Hardware is that of the server. What is not offered counts as nothing: CheckImage and CheckHardware refuse it before.
func (s Server) Hardware() Hardware {
	if !s.Image.Devices {
		return Hardware{}
	}
	return hardwareOf(s.Flavor, s.Image)
}

func hardwareOf(f Flavor, img Image) Hardware {
	ask := func(property string, offered ...string) string {
		if word := spelled(property, img.Properties[property]); slices.Contains(offered, word) {
			return word
		}
		return ""
	}
	h := Hardware{
		NIC: NIC{Model: ask("hw_vif_model", nicModels[1:]...)}, Video: ask("hw_video_model", videoCards[1:]...), Watchdog: watchdogOf(f, img),
		GuestAgent: isTrue(img.Properties["hw_qemu_guest_agent"]), Windows: ask("os_type", "windows") != "",
	}
	if many, err := manyQueues(f, img); err == nil && many && h.NIC.Model == "" && f.VCPUs > 1 {
		h.NIC.Queues = min(f.VCPUs, mostQueues)
	}
	if _, sized := videoMemory[cmp.Or(h.Video, defaultVideo)]; sized {
		h.VideoMB = number(img.Properties["hw_video_ram"])
	}
	h.Tablet, _ = tabletOf(f, img)
	h.Topology, _ = topologyOf(f, img)
	return h
}

// number is a number above 0 that a property or an extra spec has, 0 for anything else.
func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0
	}
	return max(0, n)
}

func isTrue(text string) bool {
	is, err := ParseBool(text)
	return err == nil && is
}

// watchdogOf is the action of a watchdog: the image says it, or else the flavor.
func watchdogOf(f Flavor, img Image) string {
	for _, word := range []string{img.Properties["hw_watchdog_action"], f.ExtraSpecs["hw:watchdog_action"]} {
		switch {
		case word == noWatchdog:
			return ""
		case slices.Contains(watchdogActions, word):
			return word
		}
	}
	return ""
}

// tabletOf is the bus of an absolute pointer: hw_pointer_model asks for one on USB, and hw_input_bus for one on any bus. Conflict: flavor and image
// name different ones.
func tabletOf(f Flavor, img Image) (string, error) {
	bus, err := agreed(f, img, "input_bus", func(text string) (string, error) { return oneOf(text, nil, text, inputBuses) })
	switch {
	case err != nil:
		return "", err
	case bus != nil:
		return *bus, nil
	case img.Properties["hw_pointer_model"] == "usbtablet":
		return "usb", nil
	}
	return "", nil
}

// manyQueues reports whether flavor and image ask for a queue for each CPU. Conflict: they disagree.
func manyQueues(f Flavor, img Image) (bool, error) {
	many, err := agreed(f, img, "vif_multiqueue_enabled", ParseBool)
	return err == nil && many != nil && *many, err
}

// DiskBus is the bus of a server's disks, by its image's hw_disk_bus.
func DiskBus(img Image) string {
	if !img.Devices {
		return BusVirtio
	}
	return busSaid(img, "hw_disk_bus")
}

// rescueBus is the bus of a rescue disk that is made of the image.
func rescueBus(img Image) string {
	if img.Properties["hw_rescue_bus"] != "" {
		return busSaid(img, "hw_rescue_bus")
	}
	return busSaid(img, "hw_disk_bus")
}

func busSaid(img Image, property string) string {
	if bus := img.Properties[property]; slices.Contains(diskBuses, bus) {
		return bus
	}
	return BusVirtio
}

// CheckHardware refuses what flavor and image together cannot have. Invalid: more video memory than the flavor allows or the card can have,
// CPUs in an order of which there is none, or memory on pages that there are not or that the flavor leaves to no image. Conflict: flavor and image disagree. Servers of an earlier release have none of it, whatever
// their image asks for, and are refused nothing.
func CheckHardware(f Flavor, img Image) error {
	if !img.Devices {
		return nil
	}
	if err := checkVideoMemory(f, img); err != nil {
		return err
	}
	if _, err := manyQueues(f, img); err != nil {
		return err
	}
	if _, err := tabletOf(f, img); err != nil {
		return err
	}
	if img.Pages {
		if err := checkPages(f, img); err != nil {
			return err
		}
	}
	_, err := topologyOf(f, img)
	return err
}

func checkVideoMemory(f Flavor, img Image) error {
	mb := number(img.Properties["hw_video_ram"])
	if mb == 0 {
		return nil
	}
	if most := number(f.ExtraSpecs["hw_video:ram_max_mb"]); mb > most {
		return Errorf(Invalid, "The requested amount of video memory %d is higher than the maximum allowed by flavor %d.", mb, most)
	}
	card := cmp.Or(VideoOf(img.Properties["hw_video_model"]), defaultVideo)
	switch can, sized := videoMemory[card]; {
	case !sized:
		return Errorf(Invalid, "Image %s asks for what servers cannot have here: hw_video_ram=%d of a video card %s.", img.Name, mb, card)
	case mb < can.least || mb > can.most:
		return Errorf(Invalid, "Image %s: its property hw_video_ram is %d, and a video card %s has %d to %d MiB.", img.Name, mb, card, can.least, can.most)
	}
	return nil
}

// hardwareTraits are those that the server's host must have for its devices, and for the pages of its memory.
func (s Server) hardwareTraits() (traits []string) {
	others := slices.ContainsFunc(s.Disks, func(d Disk) bool { return d.Bus == BusSCSI || d.Bus == BusSATA })
	if others || s.Hardware() != (Hardware{}) {
		traits = append(traits, TraitHardware)
	}
	if kib, huge := s.OnHugePages(); huge && s.Image.Pages {
		traits = append(traits, HugePagesTrait(kib))
	}
	return traits
}
