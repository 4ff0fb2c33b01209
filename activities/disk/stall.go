package disk

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"

	"strongroom/activities/imagefile"
	"strongroom/compute"
)

// An image that could not be read in time is tried again, since that says nothing of the
// image: with the limits of imagefile three times in half an hour. Then the activity fails
// for this host, for its storage may never answer.
const mostStalls = 3

var stallWaits = [mostStalls - 1]time.Duration{4 * time.Minute, 8 * time.Minute}

// forgetStall is when a call that stalled is taken for one that was given up.
const forgetStall = time.Hour

// stalls counts how often the calls of activities met a storage that did not answer. A worker
// that starts anew counts anew.
type stalls struct {
	mu sync.Mutex
	of map[string]stall
}

type stall struct {
	times int
	last  time.Time
}

// callOf names the call that an activity is an attempt of; "" is no activity's.
func callOf(ctx context.Context) string {
	if !activity.IsActivity(ctx) {
		return ""
	}
	info := activity.GetInfo(ctx)
	return info.WorkflowExecution.RunID + "/" + info.ActivityID
}

// judge gives what a command's error says of the storage its kind: Unavailable, to be tried
// again after a while, or NoHost where it was tried often enough.
func (s *stalls) judge(ctx context.Context, err error) error {
	if !errors.Is(err, imagefile.ErrTime) {
		return err
	}
	call := callOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for other, seen := range s.of {
		if now.Sub(seen.last) > forgetStall {
			delete(s.of, other)
		}
	}
	times := s.of[call].times + 1
	if times >= mostStalls {
		delete(s.of, call)
		return compute.Errorf(compute.NoHost, "%w, %d times", err, times)
	}
	if s.of == nil {
		s.of = map[string]stall{}
	}
	s.of[call] = stall{times, now}
	return stalled{compute.Errorf(compute.Unavailable, "%w, and will be tried again", err), stallWaits[times-1]}
}

// stalled is an error about a storage that did not answer.
type stalled struct {
	error
	wait time.Duration
}

func (s stalled) Unwrap() error { return s.error }

// RetryAfter becomes the retry delay (durable.Boundary).
func (s stalled) RetryAfter() time.Duration { return s.wait }

// ours is the failure of a command on a file that strongroom has just made and no guest or
// user has written to: what it costs is no word on anything of theirs.
type ours struct{ error }

func (o ours) Unwrap() error { return o.error }

func isOurs(err error) bool {
	var o ours
	return errors.As(err, &o)
}

// ofOurs marks a failure on a file that strongroom has just made.
func ofOurs(i imageInfo, err error) (imageInfo, error) {
	if err != nil {
		err = ours{err}
	}
	return i, err
}
