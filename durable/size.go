package durable

import (
	"encoding/json"

	"strongroom/compute"
)

// MostBytes is how much of an activity's input or result goes through Temporal, as JSON. Its server takes 2 MiB; a workflow that sends more is
// terminated, without its undo, and a result that is larger is made again without end (K15).
const MostBytes = 1 << 20

// Fits fails if an activity's input or result is larger than MostBytes. Invalid: what it is, and how large.
func Fits(what string, body any) error {
	// Whether it fits depends on the value alone: a workflow may ask.
	//workflowcheck:ignore
	text, err := json.Marshal(body)
	if err == nil && len(text) > MostBytes {
		err = compute.Errorf(compute.Invalid, "%s has %d KiB, and at most %d go through Temporal", what, (len(text)+1023)>>10, MostBytes>>10)
	}
	return err
}
