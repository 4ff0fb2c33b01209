package pki

import (
	"crypto/x509"
	"errors"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"strongroom/compute"
)

// Name is whom a certificate was issued to.
type Name string

// The names of what there may be several of, all alike.
const (
	Gateway      Name = "gateway"
	API          Name = "api"
	ConsoleProxy Name = "console-proxy"
	Control      Name = "control"  // control workers, and commands on machines with the authority
	Temporal     Name = "temporal" // the Temporal server
	UI           Name = "ui"       // a Temporal UI on another machine: it may read
	Operator     Name = "operator" // a person with Temporal's command line
)

const scheme = "strongroom"

// HostName names a compute host.
func HostName(id compute.HostID) Name { return Name("host/" + id.String()) }

// Host gives the host that the name is of.
func (n Name) Host() (compute.HostID, bool) {
	text, ok := strings.CutPrefix(string(n), "host/")
	id, err := uuid.Parse(text)
	return compute.HostID{UUID: id}, ok && err == nil
}

func (n Name) url() *url.URL {
	host, path, _ := strings.Cut(string(n), "/")
	if path != "" {
		path = "/" + path
	}
	return &url.URL{Scheme: scheme, Host: host, Path: path}
}

// NameOf reads the name in a certificate.
func NameOf(cert *x509.Certificate) (Name, error) {
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			return Name(u.Host + u.Path), nil
		}
	}
	return "", errors.New("the certificate names none of strongroom's processes")
}
