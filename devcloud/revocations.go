package devcloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"sync"
	"time"
)

// revocations are the tokens that ended before their time, by audit id, in a
// file. Each is kept until the token could not be used any more.
type revocations struct {
	file string
	now  func() time.Time

	mu    sync.Mutex
	until map[string]time.Time
}

func openRevocations(file string, now func() time.Time) (*revocations, error) {
	r := &revocations{file: file, now: now, until: map[string]time.Time{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.until)
	}
	if err != nil {
		return nil, fmt.Errorf("devcloud: list of revoked tokens %s: %w", file, err)
	}
	return r, nil
}

func (r *revocations) has(auditID string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, revoked := r.until[auditID]
	return revoked
}

// add revokes a token, lastingly, until the time after which it is worthless.
func (r *revocations) add(auditID string, until time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := maps.Clone(r.until)
	maps.DeleteFunc(next, func(_ string, until time.Time) bool { return until.Before(r.now()) })
	next[auditID] = until
	text, err := json.Marshal(next)
	if err == nil {
		err = writeFile(r.file, text)
	}
	if err != nil {
		return fmt.Errorf("devcloud: revoke a token: %w", err)
	}
	r.until = next
	return nil
}
