package integration_test

import (
	"strings"
	"testing"
	"time"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/stack"
)

// What dies in the middle of a move between two hosts: a part, the network between them, or the
// power of one.
const (
	control            = "control"
	gateway            = "gateway"
	sourceWorker       = "the source's worker"
	destinationWorker  = "the destination's worker"
	sourceLibvirt      = "the source's libvirtd"
	destinationLibvirt = "the destination's libvirtd"
	sourcePower        = "the source's power"
	destinationPower   = "the destination's power"
	network            = "the network"
	sourceReturns      = "the source's return"
)

// partsOfAMove are all parts of a move, and the network. Of the gateway hosts get passphrases, and each
// asks it what it may hand to the other.
var partsOfAMove = []string{control, "temporal", gateway, network, sourceWorker, destinationWorker, sourceLibvirt, destinationLibvirt}

// cutFor is how long the network between the hosts is cut, or a host without power. It stands for no event: an operation that goes
// on without the other host has none.
const cutFor = 10 * time.Second

// meets has an operation meet its trouble: a worker that dies at an activity, whichever it is, or a
// part that dies, or is cut off, when the operation has come to one. strike waits for that, while something of the operation moves.
func (c *testCloud) meets(t *testing.T, point string, source, destination stack.Host, operation ...await.Witness) (strike func()) {
	t.Helper()
	part, activity, inTheMiddle := strings.Cut(point, " at ")
	if !inTheMiddle {
		c.arm(t, point)
		return func() {}
	}
	h := c.hold(t, activity+before)
	return func() {
		h.waits(t, operation...)
		c.fails(t, part, source, destination, h.release)
		h.release()
	}
}

// fails has a part fail, and comes back when what does not do so by itself has been mended. What it
// happens in goes on by release: the parts do not wait for each other.
func (c *testCloud) fails(t *testing.T, part string, source, destination stack.Host, release func()) {
	t.Helper()
	switch part {
	case network:
		c.link(t, c.Host(2), false)
		release()
		await.Quiet(t, cutFor, "the network between the hosts is cut")
		c.link(t, c.Host(2), true)
	case sourcePower:
		c.losesPower(t, source, release)
	case destinationPower:
		c.losesPower(t, destination, release)
	case sourceReturns:
		c.powerOn(t, source)
	case sourceWorker:
		c.kill(t, source.Part("host"))
	case destinationWorker:
		c.kill(t, destination.Part("host"))
	case sourceLibvirt:
		c.kill(t, source.Part("libvirtd"))
	case destinationLibvirt:
		c.kill(t, destination.Part("libvirtd"))
	default:
		c.kill(t, part)
	}
}

func (c *testCloud) losesPower(t *testing.T, h stack.Host, release func()) {
	t.Helper()
	c.powerOff(t, h)
	release()
	await.Quiet(t, cutFor, "a host has no power")
	c.powerOn(t, h)
}
