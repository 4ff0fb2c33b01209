package secret

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// KeepOutOfDumps keeps what this process has in its memory out of core dumps, and from other processes of its user (S12). Programs that it starts
// dump no core either.
func KeepOutOfDumps() error {
	// With a limit of one byte no file is written, and unlike with 0 no program gets the core through a pipe. Children inherit it. A process is
	// dumpable again once it has started a child that runs as another user.
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
