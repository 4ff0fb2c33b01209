package domain

import (
	"bytes"
	"context"
	"encoding/xml"
	"time"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// A domain's metadata names the operation that started it and when that began, so that who
// has to stop what an operation started stops nothing that another one has started since.
const (
	markURI    = "urn:strongroom:start:1"
	markPrefix = "strongroom-start"
)

// starter is who started a domain, and when the operation began that booted its guest: a resume boots none. began is zero
// where it does not say.
type starter struct {
	op    compute.OperationID
	began time.Time
}

// markXML is the mark as the domain's document has it.
func (s starter) markXML() string {
	return "<" + markPrefix + `:operation xmlns:` + markPrefix + `="` + markURI + `"` + s.attribute() + ">" + escaped(string(s.op)) + "</" + markPrefix + ":operation>"
}

func (s starter) attribute() string {
	if s.began.IsZero() {
		return ""
	}
	return ` began="` + s.began.UTC().Format(time.RFC3339Nano) + `"`
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // never fails on a buffer
	return b.String()
}

// startedBy gives the operation that started a domain, an empty one if the domain does not say.
func (a *Activities) startedBy(ctx context.Context, server compute.ServerID) (by starter, err error) {
	err = a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		text, err := l.DomainGetMetadata(domainOf(server), int32(libvirt.DomainMetadataElement), libvirt.OptString{markURI}, libvirt.DomainAffectCurrent)
		if isCode(err, libvirt.ErrNoDomainMetadata) || isCode(err, libvirt.ErrNoDomain) {
			return nil
		}
		if err != nil {
			return err
		}
		var mark struct {
			Operation string `xml:",chardata"`
			Began     string `xml:"began,attr"`
		}
		err = xml.Unmarshal([]byte(text), &mark)
		by.op = compute.OperationID(mark.Operation)
		by.began, _ = time.Parse(time.RFC3339Nano, mark.Began)
		return err
	})
	return by, err
}

// mark notes that a domain runs because of an operation: one that ran already has the mark
// of whoever started it. Without a time, its guest is one that was booted before.
func (a *Activities) mark(ctx context.Context, server compute.ServerID, by starter) error {
	known, err := a.startedBy(ctx, server)
	if err != nil || known.op == by.op || by.op == "" {
		return err
	}
	if by.began.IsZero() {
		by.began = known.began
	}
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		text := "<operation" + by.attribute() + ">" + escaped(string(by.op)) + "</operation>"
		err := l.DomainSetMetadata(domainOf(server), int32(libvirt.DomainMetadataElement), libvirt.OptString{text},
			libvirt.OptString{markPrefix}, libvirt.OptString{markURI}, libvirt.DomainAffectLive|libvirt.DomainAffectConfig)
		return gone(err)
	})
}

func domainOf(server compute.ServerID) libvirt.Domain {
	return libvirt.Domain{UUID: libvirt.UUID(server.UUID), Name: compute.InstanceName(server)}
}
