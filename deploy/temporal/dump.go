package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// keepOutOfDumps keeps the certificate's key, that of the tokens of tasks, and the folder of the authority, of whose keys all others are derived, out of
// core dumps (S12). With a limit of one byte no file is written, and unlike with 0 no program gets the core through a pipe.
func keepOutOfDumps() error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	if err == nil {
		least := min(1, limit.Max)
		err = errors.Join(unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: least, Max: least}), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	}
	if err != nil {
		return fmt.Errorf("core dumps, which would have secrets in them, cannot be turned off: %w", err)
	}
	return nil
}
