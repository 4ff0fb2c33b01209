package schema

import "github.com/pressly/goose/v3/lock"

// newLocker makes migrations of several processes queue up on an advisory lock.
func newLocker() (lock.SessionLocker, error) { return lock.NewPostgresSessionLocker() }
