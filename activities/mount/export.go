package mount

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"

	"strongroom/activities/secret"
)

// Export is where a share is exported, and who may mount it from there. It is for the mount
// alone (SH-25): it prints as a placeholder and is written nowhere.
type Export struct {
	Path string             // a folder for LOCAL, "<host>:/<path>" for NFS, "<monitor>[,<monitor>…]:/<path>" for CEPHFS
	User string             // CEPHFS: the Ceph user, without "client."
	Key  *secret.Passphrase // CEPHFS: the user's key, which whoever has the Export wipes
}

const unsaid = "[export]"

// String gives a placeholder.
func (e Export) String() string { return unsaid }

// Format prints a placeholder for every verb and flag.
func (e Export) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, unsaid) }

// LogValue gives a placeholder.
func (e Export) LogValue() slog.Value { return slog.StringValue(unsaid) }

// MarshalText always fails, so that no encoder takes it.
func (e Export) MarshalText() ([]byte, error) {
	return nil, fmt.Errorf("mount: where a share is exported is not written down")
}

// digest tells exports apart.
func (e Export) digest() string {
	sum := sha256.Sum256([]byte(e.Path + "\n" + e.User))
	return hex.EncodeToString(sum[:])
}
