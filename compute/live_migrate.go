package compute

import "slices"

// OpLiveMigrate is the kind of a live migration.
const OpLiveMigrate OperationKind = "live-migration"

// LiveMigrate moves a server to another host while its guest runs, or is paused.
var LiveMigrate = declare(Action[LiveMigrateArguments]{Facts: Facts{
	Kind:       OpLiveMigrate,
	Word:       "os-migrateLive",
	Transition: Transition{Task: TaskMigrating, From: []VMState{VMActive, VMPaused}},
	NoShares:   true,
	Resumes:    true,
	Notifications: Notifications{
		Start: "instance.live_migration_pre.start", End: "instance.live_migration_post.end", Error: "instance.live_migration_rollback.end",
	},
}})

// KeyPart is which of a server's keys: those of its disks, or that of its vTPM.
type KeyPart string

// The parts.
const (
	KeysOfDisks KeyPart = "disks"
	KeyOfTPM    KeyPart = "tpm"
)

// OpeningParts are the server's OpeningSecrets, by part, those of its disks first.
func (s Server) OpeningParts() []PartOfKeys {
	disks, tpm := s, s
	disks.TPM, tpm.Disks = nil, nil
	return slices.DeleteFunc([]PartOfKeys{{KeysOfDisks, disks.OpeningSecrets()}, {KeyOfTPM, tpm.OpeningSecrets()}}, func(p PartOfKeys) bool { return len(p.Secrets) == 0 })
}

// PartOfKeys is one part of a server's keys.
type PartOfKeys struct {
	Part    KeyPart
	Secrets []SecretID
}

// NotKept is why a running server cannot be moved by who may not read one of its keys. Forbidden for the key of a disk: by default hosts keep none of
// these, and a move takes the access of whoever asks (EE-30). Conflict for that of a vTPM (TPM-20).
func NotKept(server ServerID, part KeyPart, secret SecretID) error {
	if part == KeyOfTPM {
		return Errorf(Conflict, "Server %s cannot be moved while it runs: whoever asks may not read key %s of its vTPM, and its host does not keep it. "+
			"Its owner can move it, or start it anew on a host that keeps keys of guests (host.keep_guest_keys).", server, secret)
	}
	return Errorf(Forbidden, "Server %s cannot be moved while it runs: whoever asks may not read key %s of its disks, and its host does not keep it. "+
		"Who may read it can move the server, or start it anew on a host that keeps keys of disks (host.keep_guest_keys: all).", server, secret)
}

// LiveMigrateArguments are the arguments of a live migration.
type LiveMigrateArguments struct {
	Host *HostID `json:"host,omitempty"` // nil: any other than it is on
}
