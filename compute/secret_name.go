package compute

import (
	"strings"

	"github.com/google/uuid"
)

// SecretPlan is a key-manager secret before it is made. Name and ID come from
// the operation, so that a step that runs twice makes one secret and an undo
// finds what its own operation made, and nothing else.
type SecretPlan struct {
	ID    SecretID
	Name  string
	Bytes int // random bytes behind the passphrase
}

// SecretNamePrefix begins the name of every secret that strongroom makes.
const SecretNamePrefix = "strongroom "

const (
	secretPrefix = SecretNamePrefix + "server "
	tpmThing     = "vtpm"
	diskThing    = "disk "
	backingThing = "source of disk "
)

// DiskSecret plans the secret of one disk (EE-09): one secret for one disk.
func DiskSecret(server ServerID, op OperationID, d Disk) SecretPlan {
	return plan(server, op, diskThing+diskLabel(d), DiskPassphraseBytes)
}

// BackingSecret plans the copy of an image's secret with which one disk opens the
// image under it (EE-11): it goes with the disk, and nobody else uses it.
func BackingSecret(server ServerID, op OperationID, d Disk) SecretPlan {
	return plan(server, op, backingThing+diskLabel(d), DiskPassphraseBytes)
}

// TPMSecret plans the secret of a server's vTPM (TPM-09).
func TPMSecret(server ServerID, op OperationID) SecretPlan {
	return plan(server, op, tpmThing, TPMPassphraseBytes)
}

func plan(server ServerID, op OperationID, thing string, bytes int) SecretPlan {
	return SecretPlan{
		ID:    SecretID{op.Derive("secret/" + server.String() + "/" + thing)},
		Name:  secretPrefix + server.String() + " " + thing + " " + string(op),
		Bytes: bytes,
	}
}

// SecretOwner gives whose secret a key manager's name says it is; ok is false
// for a name that is not of this form, which is not ours to touch.
func SecretOwner(name string) (server ServerID, op OperationID, ok bool) {
	rest, ours := strings.CutPrefix(name, secretPrefix)
	words := strings.Fields(rest)
	if !ours || len(words) < 3 || !strings.HasPrefix(words[len(words)-1], "req-") {
		return ServerID{}, "", false
	}
	id, err := uuid.Parse(words[0])
	if err != nil {
		return ServerID{}, "", false
	}
	return ServerID{id}, OperationID(words[len(words)-1]), true
}

// SecretUse says, for people, what a secret or a trust of ours is for: "disk root",
// "vtpm", "trust", "image <id>". Another name is given as it is.
func SecretUse(name string) string {
	rest, ours := strings.CutPrefix(name, SecretNamePrefix)
	words := strings.Fields(rest)
	if !ours || len(words) < 3 || !strings.HasPrefix(words[len(words)-1], "req-") {
		return name
	}
	words = words[:len(words)-1]
	if words[0] == "server" && len(words) > 2 {
		words = words[2:]
	}
	return strings.Join(words, " ")
}

// TrustName names the trust that a server's owner gives when the server is
// created.
func TrustName(server ServerID, op OperationID) string {
	return secretPrefix + server.String() + " trust " + string(op)
}
