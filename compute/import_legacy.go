package compute

// OpImportLegacy is the kind of the import of a server that Nova ran, whose disks have its
// legacy encryption. An administrator asks for it on the command line.
const OpImportLegacy OperationKind = "importLegacy"

// ImportLegacy takes over the volumes of such a server on its host. Before it, and where it
// fails, they are Nova's: what deletes the server leaves them.
var ImportLegacy = declare(Action[ImportLegacyArguments]{Facts: Facts{
	Kind:       OpImportLegacy,
	EvenLocked: true,
	Transition: Transition{Task: TaskBlockDevice, From: []VMState{VMBuilding, VMError, VMStopped}},
}})

// ImportLegacyArguments are the arguments of an import.
type ImportLegacyArguments struct {
	Key   SecretID `json:"key"`             // of all its disks
	Force bool     `json:"force,omitempty"` // what the volumes decrypt to is not looked at before they are used
}

// LegacyKeyPrefix begins the name of the ledger's row of a key that Nova made. The key manager
// lists no such secret as one of strongroom's: the audit does not look for it.
const LegacyKeyPrefix = "strongroom legacy key "

// LegacyKey is the ledger's row of the one key of all disks of a server that Nova made. It
// goes with the server (EE-48).
func (op Operation) LegacyKey(s Server, key SecretID) Thing {
	op.Credential = MemberCredential(s.ProjectID)
	op.Credential.UserID = s.UserID
	t := op.Thing(ThingKeySecret, PlaceKeyManager, LegacyKeyPrefix+key.String()+" of server "+s.ID.String())
	t.Reference = key.String()
	return t
}

// ImportedThings are the ledger's rows of what a server had that Nova ran: the volumes on its
// host, and its key.
func (op Operation) ImportedThings(s Server, key SecretID) []Thing {
	var out []Thing
	for _, d := range s.Disks {
		out = append(out, op.Thing(ThingDiskFile, s.Host.String(), s.ID.String()+"/"+d.Name()))
	}
	return append(out, op.LegacyKey(s, key))
}
