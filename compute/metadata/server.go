package metadata

import (
	"strings"

	"strongroom/compute"
)

// Server is what a guest may know of itself.
type Server struct {
	ID          compute.ServerID
	Number      int64 // of its row: EC2's ids are numbers
	ProjectID   string
	Name        string
	Hostname    string
	LaunchIndex int
	Zone        string
	Reservation string
	Flavor      string
	Image       *compute.ImageID
	Metadata    map[string]string
	KeyName     string // "" for none
	PublicKey   string
	UserData    []byte // as its owner wrote it; nil for none
	Networks    []compute.Network
	Disks       []Disk                 // in the order of their device names
	Shares      []compute.ShareMapping // in the order in which they were attached; their ids and tags
}

// Disk is a local disk with the tag that its owner gave it, "" for none.
type Disk struct {
	compute.Disk
	Tag string `json:"tag"`
}

// keyType tells the kinds of keypairs apart by what is in them.
func (s Server) keyType() string {
	if strings.HasPrefix(s.PublicKey, "-----BEGIN CERTIFICATE-----") {
		return "x509"
	}
	return "ssh"
}
