package access

import (
	"crypto/x509"
	"strings"

	"github.com/google/uuid"
)

// Name is whom a certificate of strongroom's authority was issued to: the URI
// strongroom://host/<uuid> names host/<uuid>.
type Name string

// The names that Temporal knows beside those of hosts.
const (
	Server   Name = "temporal" // a Temporal server, to another one and to clients
	Control  Name = "control"  // control workers, and commands on machines with the authority
	API      Name = "api"
	UI       Name = "ui"       // a Temporal UI of its own
	Operator Name = "operator" // a person with Temporal's own command line
	gateway  Name = "gateway"
)

const scheme = "strongroom"

// nameOf reads the name in a certificate; "" is none.
func nameOf(cert *x509.Certificate) Name {
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			return Name(u.Host + u.Path)
		}
	}
	return ""
}

// host gives the uuid of the host that the name is of.
func (n Name) host() (string, bool) {
	text, ok := strings.CutPrefix(string(n), "host/")
	if !ok {
		return "", false
	}
	id, err := uuid.Parse(text)
	return id.String(), err == nil && id.String() == text
}

// queues are those that a host may take tasks from.
func (n Name) queues() []string {
	id, ok := n.host()
	if !ok {
		return nil
	}
	return []string{"host/" + id, "host/" + id + "/bulk", "host/" + id + "/state"}
}
