package compute

// OpStart is the kind of a start.
const OpStart OperationKind = "start"

// Start boots a stopped server.
var Start = declare(Action[None]{Facts: Facts{
	Kind:          OpStart,
	Transition:    Transition{Task: TaskPoweringOn, From: []VMState{VMStopped}},
	Boots:         true,
	Notifications: notifications("power_on"),
}})

// StartsUnattended reports whether the server can be started when nobody asks for it: it
// needs no key, or only such as its owner delegated or strongroom has itself (TPM-15).
func (s Server) StartsUnattended() bool {
	nobody := Credential{}
	keys := s.Keyring(nobody)
	for _, d := range s.Attached() {
		if (d.Encrypted || d.BackingSecret != nil) && keys.OfDisk(d) == nobody {
			return false
		}
	}
	return s.TPM == nil || keys.TPM != nobody
}
