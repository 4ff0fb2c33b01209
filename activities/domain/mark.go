package domain

import (
	"bytes"
	"context"
	"encoding/xml"

	libvirt "github.com/digitalocean/go-libvirt"

	"strongroom/compute"
)

// A domain's metadata names the operation that started it, so that who has to stop what an
// operation started stops nothing that another one has started since.
const (
	markURI    = "urn:strongroom:start:1"
	markPrefix = "strongroom-start"
)

// markXML is the mark as the domain's document has it.
func markXML(op compute.OperationID) string {
	return "<" + markPrefix + `:operation xmlns:` + markPrefix + `="` + markURI + `">` + escaped(string(op)) + "</" + markPrefix + ":operation>"
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // never fails on a buffer
	return b.String()
}

// startedBy gives the operation that started a domain, "" if the domain does not say.
func (a *Activities) startedBy(ctx context.Context, server compute.ServerID) (op compute.OperationID, err error) {
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
		}
		err = xml.Unmarshal([]byte(text), &mark)
		op = compute.OperationID(mark.Operation)
		return err
	})
	return op, err
}

// mark notes that a domain runs because of an operation: one that ran already has the mark
// of whoever started it.
func (a *Activities) mark(ctx context.Context, server compute.ServerID, op compute.OperationID) error {
	known, err := a.startedBy(ctx, server)
	if err != nil || known == op || op == "" {
		return err
	}
	return a.Client.Do(ctx, func(l *libvirt.Libvirt) error {
		text := "<operation>" + escaped(string(op)) + "</operation>"
		err := l.DomainSetMetadata(domainOf(server), int32(libvirt.DomainMetadataElement), libvirt.OptString{text},
			libvirt.OptString{markPrefix}, libvirt.OptString{markURI}, libvirt.DomainAffectLive|libvirt.DomainAffectConfig)
		return gone(err)
	})
}

func domainOf(server compute.ServerID) libvirt.Domain {
	return libvirt.Domain{UUID: libvirt.UUID(server.UUID), Name: compute.InstanceName(server)}
}
