package compute

import (
	"fmt"
	"strings"
	"time"
)

// OpBackUpTPM is the kind of a backup of a vTPM's state that nobody asks for: its time has come.
const OpBackUpTPM OperationKind = "backUpTPM"

// BackUpTPM keeps a copy of the state of a server's vTPM as an object, while the guest runs or is
// off, so that an evacuate has it (TPM-30).
var BackUpTPM = declare(Action[None]{Facts: Facts{
	Kind:       OpBackUpTPM,
	Transition: Transition{Task: TaskBackingUpTPM, From: []VMState{VMActive, VMPaused, VMStopped}},
	ReadsNoKey: true, // it begins by itself, whenever a host says that the guest runs
}})

// TPMBackup is an object that has the state of a server's vTPM as it was at a time.
type TPMBackup struct {
	StoredTPM
	Of         TPM       `json:"of"`              // the vTPM, with its secret
	Generation int64     `json:"generation"`      // counts the server's backups, from 1
	At         time.Time `json:"at"`              // nothing that the vTPM stored before this is missing; by the database's clock
	Final      bool      `json:"final,omitempty"` // the guest has been off since

	Operation OperationID `json:"operation"` // that has seen it last
}

// Backup gives the backup from which the server's vTPM can be restored; nil: there is none, or
// it is of another vTPM than the server has now.
func (s Server) Backup() *TPMBackup {
	b := s.TPMBackup
	if b == nil || !s.SameTPM(Server{TPM: &b.Of}) || s.TPM.Secret == nil || b.Of.Secret == nil || *s.TPM.Secret != *b.Of.Secret {
		return nil
	}
	return b
}

// WithTPMLost is the server with a vTPM that has no state, and with no backup of one.
func (s Server) WithTPMLost() Server {
	s.TPMBackup = nil
	return s.WithNewTPM(s.TPM != nil)
}

// BackupCredential is the credential for the backups of the server's vTPM, which are its owner's.
func (s Server) BackupCredential(asked Credential) Credential {
	if s.Delegates() {
		return s.Delegated()
	}
	return s.OwnersCredential(asked)
}

// TPMRestored tells a server's user that its vTPM went back in time, and how far.
func (s Server) TPMRestored(b TPMBackup) string {
	return fmt.Sprintf("The vTPM of server %s has the state of its backup %d, of %s: what the guest changed in it since is undone, "+
		"and counters in it may have gone back.", s.ID, b.Generation, b.At.UTC().Format(time.RFC3339))
}

// TPMBackupObject names the object in which an operation backs up the state of the server's vTPM.
func TPMBackupObject(s ServerID, op OperationID) string {
	return tpmBackupPrefix + s.String() + "/" + op.Derive("object/tpm-backup/"+s.String()).String()
}

const tpmBackupPrefix = "tpm-backup/"

// isTPMBackup reports whether an object is a backup, by its name.
func isTPMBackup(object string) bool { return strings.HasPrefix(object, tpmBackupPrefix) }
