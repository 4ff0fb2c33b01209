package watchdog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// beatsFor is how long a watchdog counts as one that does its work after its last heartbeat.
const beatsFor = 10 * time.Second

// Heartbeat is the file by which a watchdog says that it knows the lease and does its work. It is of this
// boot, and need not be durable. "" is of none.
type Heartbeat string

func (h Heartbeat) beat(now Moment) error {
	if h == "" {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(string(h)), 0o711); err != nil {
		return err
	}
	if err := os.WriteFile(string(h)+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(string(h)+".new", string(h))
}

// Beats reports whether there was a heartbeat a moment ago.
func (h Heartbeat) Beats(now Moment) bool {
	text, err := os.ReadFile(string(h))
	var at Moment
	return err == nil && json.Unmarshal(text, &at) == nil && at.Boot == now.Boot && now.Since-at.Since < beatsFor
}
