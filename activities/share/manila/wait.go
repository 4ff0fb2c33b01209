package manila

import (
	"context"
	"time"

	"strongroom/compute"
)

// The pauses between two looks.
const (
	shortest = 100 * time.Millisecond
	longest  = time.Second
)

// until takes turns until one is the last, or fails. late says what is still
// missing when patience ends.
func (s *Service) until(ctx context.Context, turn func(context.Context) (done bool, err error), late func() string) error {
	patience := s.Patience
	if patience == 0 {
		patience = 40 * time.Second
	}
	// A turn is not cut off when the time is over: what it makes would come later.
	end := time.Now().Add(patience)
	for wait := shortest; ; wait = min(wait*3/2, longest) {
		done, err := turn(ctx)
		if err == nil && !done {
			if time.Now().After(end) {
				return compute.Errorf(compute.Unavailable, "%s: %w", late(), context.DeadlineExceeded)
			}
			err = pause(ctx, wait)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return compute.Errorf(compute.Unavailable, "%s: %w", late(), ctx.Err())
		case err != nil || done:
			return err
		}
	}
}

func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}
