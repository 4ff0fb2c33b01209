package domain

import (
	"context"
	"encoding/xml"
	"errors"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// InjectNMIInput asks that the guest of a server gets a non-maskable interrupt because of an operation.
type InjectNMIInput struct {
	Server    compute.ServerID    `json:"server"`
	Operation compute.OperationID `json:"operation"`
}

// A domain's metadata notes the operation that interrupted it last, before it does, and whether it has.
const (
	nmiURI    = "urn:strongroom:nmi:1"
	nmiPrefix = "strongroom-nmi"
)

// interruption is what a domain's metadata says of its last interrupt.
type interruption struct {
	Operation compute.OperationID `xml:",chardata"`
	Sent      bool                `xml:"sent,attr"`
}

// InjectNMI is the activity domain.InjectNMI: it ensures that a guest got an operation's interrupt, once: a
// second one would hit the kernel that writes the dump, or the one that has booted after it.
//
// Conflict: the machine is off, or is not there, or an attempt was cut off of which it is not known whether
// the guest got it.
func (a *Activities) InjectNMI(ctx context.Context, in InjectNMIInput) error {
	unlock, err := a.lock(ctx, in.Server)
	if err != nil {
		return err
	}
	defer unlock()
	return a.Client.Finish(ctx, func(l *libvirt.Libvirt) error {
		dom, found, err := lookup(l, in.Server)
		if err != nil {
			return err
		}
		last := interruption{}
		if found {
			if last, err = lastInterruption(l, dom); err != nil {
				return err
			}
		}
		switch {
		case last == (interruption{Operation: in.Operation, Sent: true}):
			return nil
		case last.Operation == in.Operation:
			return compute.Errorf(compute.Conflict, "server %s: it is not known whether its guest got the interrupt. Look before you ask again.", in.Server)
		}
		state := compute.PowerNone
		if found {
			if state, err = power(l, dom); err != nil {
				return err
			}
		}
		if state != compute.PowerRunning && state != compute.PowerPaused {
			return compute.Errorf(compute.Conflict, "server %s: its machine neither runs nor is paused", in.Server)
		}
		return interrupt(l, dom, in)
	})
}

// interrupt notes what it is about to do, does it, and notes that it is done. What libvirt refuses is not
// noted: it was not done.
func interrupt(l *libvirt.Libvirt, dom libvirt.Domain, in InjectNMIInput) error {
	note := `<operation sent="false">` + escaped(string(in.Operation)) + "</operation>"
	if err := noteInterruption(l, dom, libvirt.OptString{note}); err != nil {
		return off(in.Server, err)
	}
	err := l.DomainInjectNmi(dom, 0)
	if refused := (libvirt.Error{}); errors.As(err, &refused) {
		if err := gone(noteInterruption(l, dom, nil)); err != nil {
			return err
		}
		return off(in.Server, err)
	}
	if err != nil {
		return err
	}
	note = `<operation sent="true">` + escaped(string(in.Operation)) + "</operation>"
	return gone(noteInterruption(l, dom, libvirt.OptString{note}))
}

// off is the refusal where a machine has gone off meanwhile.
func off(server compute.ServerID, err error) error {
	if err != nil && gone(err) == nil {
		return compute.Errorf(compute.Conflict, "server %s: its machine neither runs nor is paused", server)
	}
	return err
}

func noteInterruption(l *libvirt.Libvirt, dom libvirt.Domain, text libvirt.OptString) error {
	return l.DomainSetMetadata(dom, int32(libvirt.DomainMetadataElement), text,
		libvirt.OptString{nmiPrefix}, libvirt.OptString{nmiURI}, libvirt.DomainAffectLive|libvirt.DomainAffectConfig)
}

func lastInterruption(l *libvirt.Libvirt, dom libvirt.Domain) (last interruption, err error) {
	text, err := l.DomainGetMetadata(dom, int32(libvirt.DomainMetadataElement), libvirt.OptString{nmiURI}, libvirt.DomainAffectCurrent)
	if isCode(err, libvirt.ErrNoDomainMetadata) || isCode(err, libvirt.ErrNoDomain) {
		return last, nil
	}
	if err == nil {
		err = xml.Unmarshal([]byte(text), &last)
	}
	return last, err
}
