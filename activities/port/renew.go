package port

import (
	"context"
	"reflect"
	"slices"

	"strongroom/compute"
)

// Renew gives a server's interfaces with what the service says of their ports now; nil: as they were. With an error, too, it may give
// what the service said before it failed. strongroom's own user looks. A port that somebody deleted there has no addresses any more:
// they may be another server's by now.
func Renew(ctx context.Context, s Service, projectID string, server compute.ServerID, known []compute.Network) ([]compute.Network, error) {
	has, err := s.Attached(ctx, compute.Credential{ProjectID: projectID}, server)
	if err != nil {
		return nil, err
	}
	now := slices.Clone(known)
	for i, k := range now {
		if !k.PortExists() {
			continue
		}
		at := slices.IndexFunc(has, func(p Port) bool { return p.ID == *k.Port.ID })
		if at < 0 {
			if k.Port.Type != "" { // else it is not bound yet
				now[i] = Deleted(k)
			}
			continue
		}
		now[i] = has[at].Plugged(k)
	}
	reached, failure := Reached(ctx, s, now)
	if failure == nil { // else those that are known stay
		now = reached
	}
	if reflect.DeepEqual(now, known) {
		now = nil
	}
	return now, failure
}
