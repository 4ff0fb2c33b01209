package compute

import (
	"fmt"
	"strings"
)

// String says what the removal does, for people.
func (r Removal) String() string {
	name := r.Thing.Name
	switch r.Thing.Kind {
	case ThingDomain:
		return "delete domain " + name
	case ThingRunningDomain:
		return "stop domain " + name
	case ThingHypervisorSecret:
		return "delete libvirt secret " + name
	case ThingKeySlot:
		disk, _, _ := strings.Cut(name, "#")
		return "erase key slots of disk " + disk
	case ThingDiskFile:
		return "delete disk file " + name
	case ThingCachedImage:
		return "release cached image " + name
	case ThingTPMState:
		return "delete TPM state of server " + name
	case ThingShareMount:
		share, _, _ := strings.Cut(name, "/")
		return "unmount share " + share
	case ThingVolumeMapping:
		return "close volume " + name
	case ThingVolumeMount:
		return "unmount volume " + name
	case ThingShareAccess:
		share, _, _ := strings.Cut(name, "/")
		return "deny access to share " + share
	case ThingPort:
		if id, server, err := ParsePortUse(name); err == nil {
			return "unbind port " + id.String() + " of server " + server.String()
		}
		return "delete port " + name
	case ThingImage:
		return "delete image " + name
	case ThingObject:
		return "delete object " + name
	case ThingKeySecret:
		return "delete secret for " + SecretUse(name)
	case ThingTrust:
		return "delete " + SecretUse(name)
	}
	return fmt.Sprintf("delete %s %s", r.Thing.Kind, name)
}

// OfServer gives the server whose thing is to be removed. Invalid: no server owns it.
func (r Removal) OfServer() (ServerID, error) {
	server, ok := r.Thing.Server()
	if !ok || server == (ServerID{}) {
		return server, Errorf(Invalid, "%s %s belongs to no server", r.Thing.Kind, r.Thing.Name)
	}
	return server, nil
}

// Misdirected is the refusal of a removal by whoever has no things of its kind.
func (r Removal) Misdirected() error {
	return Errorf(Invalid, "%s %s is not removed here", r.Thing.Kind, r.Thing.Name)
}
