package compute

import (
	"encoding/json"
	"slices"
	"strings"
)

// The kinds of an attachment of an interface and of its end, by Nova's names of them.
const (
	OpInterfaceAttach OperationKind = "attach_interface"
	OpInterfaceDetach OperationKind = "detach_interface"
)

var interfaceFrom = []VMState{VMActive, VMPaused, VMStopped}

// InterfaceAttach gives a server a port more, its guest at once where that runs.
var InterfaceAttach = declare(Action[InterfaceAttachArguments]{Facts: Facts{
	Kind:          OpInterfaceAttach,
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskAttachingInterface, From: interfaceFrom},
	Notifications: notifications("interface_attach"),
}})

// InterfaceDetach takes one of a server's ports from it.
var InterfaceDetach = declare(Action[InterfaceDetachArguments]{Facts: Facts{
	Kind:          OpInterfaceDetach,
	ReadsNoKey:    true,
	Transition:    Transition{Task: TaskDetachingInterface, From: interfaceFrom},
	Notifications: notifications("interface_detach"),
}})

// InterfaceAttachArguments are the arguments of an attachment.
type InterfaceAttachArguments struct {
	Network Network `json:"network"` // as it is asked for, with its port
	Zone    string  `json:"availability_zone"`
}

// InterfaceDetachArguments are the arguments of its end.
type InterfaceDetachArguments struct {
	Port PortID `json:"port_id"`
}

// MaxInterfaces is how many a server has at most.
const MaxInterfaces = 16

// CheckAttaches refuses an interface that the server cannot have beside those that it has. Invalid: there
// are too many, or one has the tag; Conflict: it has the port.
func (s Server) CheckAttaches(n Network) error {
	if len(s.Networks) >= MaxInterfaces {
		return Errorf(Invalid, "A server has at most %d networks.", MaxInterfaces)
	}
	for _, has := range s.Networks {
		if n.PortExists() && has.PortExists() && *has.Port.ID == *n.Port.ID {
			return PortInUse(*n.Port.ID)
		}
		if n.Tag != "" && has.Tag == n.Tag {
			return Errorf(Invalid, "The tag '%s' is given to two networks.", n.Tag)
		}
	}
	return s.CheckMAC(n)
}

// mostNetworkBytes is how much of its interfaces, with their subnets, routes and name servers, a server's record has, as JSON (K15).
const mostNetworkBytes = 128 << 10

// CheckNetworkText refuses interfaces that are more than a server's record has. Invalid.
func CheckNetworkText(networks []Network) error {
	text, err := json.Marshal(networks)
	if err == nil && len(text) > mostNetworkBytes {
		err = Errorf(Invalid, "The networks of the server have %d KiB of subnets, routes and name servers; it keeps %d KiB at most.", len(text)>>10, mostNetworkBytes>>10)
	}
	return err
}

// CheckMAC refuses an interface with the MAC address of one that the server has, which ports of two networks can have: machines and
// guests tell interfaces apart by it. Conflict.
func (s Server) CheckMAC(n Network) error {
	if n.MAC != "" && slices.ContainsFunc(s.Networks, func(has Network) bool { return strings.EqualFold(has.MAC, n.MAC) }) {
		return Errorf(Conflict, "The MAC address %s is that of another interface of the instance.", n.MAC)
	}
	return nil
}

// InterfaceOn gives the server's interface on a port. NotFound: it has none.
func (s Server) InterfaceOn(id PortID) (Network, error) {
	at := slices.IndexFunc(s.Networks, func(n Network) bool { return n.PortExists() && *n.Port.ID == id })
	if at < 0 {
		return Network{}, Errorf(NotFound, "Port id %s could not be found.", id)
	}
	return s.Networks[at], nil
}
