package initializer

import (
	"errors"
	"fmt"
)

// Refused says that a device holds what the initializer does not use, and does not overwrite.
type Refused struct {
	Device string
	Why    error
}

func (e *Refused) Error() string {
	return fmt.Sprintf("%s: refused, and left as it is: %v", e.Device, e.Why)
}

func (e *Refused) Unwrap() error { return e.Why }

// ErrWrongKey says that a volume is encrypted with another secret.
var ErrWrongKey = errors.New("the workload's secret does not open this volume")

// ErrBusy says that something still uses a volume.
var ErrBusy = errors.New("it is in use")

func refused(device, format string, args ...any) error {
	return &Refused{device, fmt.Errorf(format, args...)}
}
