package watchdog

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Moment is a time of one boot of the machine. It goes on while the machine is suspended, and nobody
// sets it.
type Moment struct {
	Boot  string        `json:"boot"`
	Since time.Duration `json:"since"`
}

// Clock tells the time.
type Clock func() (Moment, error)

// Machine is the kernel's clock.
func Machine() (Moment, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Moment{}, err
	}
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return Moment{}, err
	}
	return Moment{Boot: strings.TrimSpace(string(boot)), Since: time.Duration(t.Nano())}, nil
}
