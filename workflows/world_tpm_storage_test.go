package workflows_test

import (
	"context"
	"slices"

	"strongroom/activities/placement"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// sharedStorage is in the place of the host in the keys of TPM states that all hosts share.
const sharedStorage = "shared"

// registerTPMStorage registers what finds out whether hosts share the storage of TPM states.
func (w *world) registerTPMStorage(r registry) {
	register(w, r, placement.TPMPeers, func(_ context.Context, id compute.HostID) ([]compute.HostID, error) {
		if !w.sharedTPMs && !w.sayShared {
			return nil, nil
		}
		return slices.DeleteFunc(slices.Clone(w.hosts), func(h compute.HostID) bool { return h == id }), nil
	})
	registerOnHost(w, r, tpm.Show, func(ctx context.Context, in tpm.ShowInput) (none, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if !w.tpms[key] {
			return none{}, compute.Errorf(compute.Corrupt, "it has no state")
		}
		if in.Version != "" && (w.states[key] == "" || w.states[key] == damagedState) {
			return none{}, compute.Errorf(compute.Corrupt, "its TPM state is not on this host")
		}
		w.shown[key] = in.Operation
		return none{}, nil
	})
	registerOnHost(w, r, tpm.Shown, func(ctx context.Context, in tpm.ShowInput) (tpm.ShownResult, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		is := w.tpms[key] && w.states[key] != ""
		if in.Version != "" && w.sayShared && !w.sharedTPMs {
			return tpm.ShownResult{}, compute.Errorf(compute.Conflict, "the folder of TPM states is not on the storage that it was on")
		}
		if in.Version != "" && w.states[key] == damagedState {
			return tpm.ShownResult{Damaged: true}, nil
		}
		return tpm.ShownResult{Shown: in.Operation == "" && is || in.Operation != "" && w.shown[key] == in.Operation}, nil
	})
}

// damagedState is a state that is shorter than swtpm wrote it.
const damagedState = "damaged"

// tpmKey is where a host has a TPM state.
func (w *world) tpmKey(host, name string) string {
	if w.sharedTPMs {
		host = sharedStorage
	}
	return host + " " + name
}

// tpmPlace is where the ledger has a TPM state that a host has: one that hosts share is on any of them.
func (w *world) tpmPlace(host, name string) string {
	if !w.sharedTPMs {
		return host
	}
	for _, h := range w.hosts {
		if _, known := w.ledger[compute.Sighting{Kind: compute.ThingTPMState, Place: h.String(), Name: name}]; known {
			return h.String()
		}
	}
	return w.hosts[0].String()
}

// usesTPM reports whether a guest of the server runs that uses the state that a host has. One that
// is about to be started is not named.
func (w *world) usesTPM(host string, server compute.ServerID, not ...string) bool {
	key := w.locks[w.tpmKey(host, server.String())]
	for _, h := range w.hosts {
		name := h.String() + " " + compute.InstanceName(server)
		if len(key) == 0 || !slices.Contains(w.locks[name], key[0]) { // it has no vTPM
			continue
		}
		if (w.sharedTPMs || h.String() == host) && !w.fencedOff[h] && !slices.Contains(not, name) && w.domains[name] == compute.PowerRunning {
			return true
		}
	}
	return false
}

// passTPM is what the record does when a state that hosts share is another one's.
func (w *world) passTPM(from, to compute.HostID) {
	was := compute.Sighting{Kind: compute.ThingTPMState, Place: from.String(), Name: w.row.server.ID.String()}
	t, has := w.ledger[was]
	if !has {
		return
	}
	delete(w.ledger, was)
	was.Place, t.Place = to.String(), to.String()
	w.ledger[was] = t
}
