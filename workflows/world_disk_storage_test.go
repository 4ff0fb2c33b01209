package workflows_test

import (
	"context"
	"maps"
	"slices"
	"strings"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/compute"
)

// registerDiskStorage registers what finds out whether hosts share servers' folders.
func (w *world) registerDiskStorage(r registry) {
	registerOnHost(w, r, disk.Ping, func(ctx context.Context, in disk.PingInput) (none, error) { return none{}, w.absent(ctx, in) })
	registerOnHost(w, r, disk.Find, func(ctx context.Context, in disk.FindInput) (disk.FindResult, error) {
		for _, file := range in.Files {
			if !w.files[hostOf(ctx)+" "+in.Server.String()+"/"+file] {
				return disk.FindResult{}, compute.Errorf(compute.Conflict, "it is not there")
			}
		}
		return disk.FindResult{Backing: w.backing}, nil
	})
	registerOnHost(w, r, disk.TakeOver, func(ctx context.Context, in disk.TakeOverInput) (none, error) {
		if w.backing = hostOf(ctx); in.Backing != "" {
			w.backing = in.Backing
		}
		return none{}, nil
	})
}

// absent is what a host says of files that are to come.
func (w *world) absent(ctx context.Context, in disk.PingInput) error {
	for _, file := range in.Absent {
		if w.files[hostOf(ctx)+" "+in.Server.String()+"/"+file] {
			return compute.Errorf(compute.Conflict, "it has %s", file)
		}
	}
	return nil
}

// shareDisks has all hosts have servers' folders on one storage.
func (w *world) shareDisks() {
	w.sharedDisks, w.saysSharedDisks, w.backing = true, true, w.row.server.Host.String()
	w.mirror(w.row.server.Host.String())
}

// mirror shows to all hosts what one did to the storage that they share.
func (w *world) mirror(host string) {
	for _, other := range w.hosts {
		there := other.String() + " "
		if there == host+" " {
			continue
		}
		for key := range maps.Clone(w.files) {
			if name, is := strings.CutPrefix(key, there); is && !w.files[host+" "+name] {
				server, _, _ := strings.Cut(name, "/")
				domain := there + "instance-" + server
				if w.domains[domain] == compute.PowerRunning && !w.fencedOff[other] && slices.Contains(w.runsOn[domain], key) {
					w.broken = append(w.broken, "a disk went under the domain that runs from it: "+key)
				}
				delete(w.files, key)
				delete(w.locks, key)
				delete(w.nvram, key)
			}
		}
		for key := range maps.Clone(w.files) {
			name, is := strings.CutPrefix(key, host+" ")
			if !is {
				continue
			}
			w.files[there+name] = true
			if opens, locked := w.locks[key]; locked {
				w.locks[there+name] = opens
			}
			if text, has := w.nvram[key]; has {
				w.nvram[there+name] = text
			}
		}
	}
}

// diskPlace is where the ledger has a file that a host has: one that hosts share is on any of them.
func (w *world) diskPlace(host, name string) string {
	if !w.sharedDisks {
		return host
	}
	for _, h := range w.hosts {
		if _, known := w.ledger[compute.Sighting{Kind: compute.ThingDiskFile, Place: h.String(), Name: name}]; known {
			return h.String()
		}
	}
	return w.hosts[0].String()
}

// passDisks is what the record does when the files of a server, on storage that hosts share, are another one's.
func (w *world) passDisks(from, to compute.HostID) {
	for key, t := range maps.Clone(w.ledger) {
		if t.Place != from.String() || t.Kind != compute.ThingDiskFile && t.Kind != compute.ThingKeySlot {
			continue
		}
		delete(w.ledger, key)
		key.Place, t.Place = to.String(), to.String()
		if _, has := w.ledger[key]; !has {
			w.ledger[key] = t
		}
	}
}

// startDomainHere starts a domain, and shows what that made to the hosts that share the folder.
func (w *world) startDomainHere(ctx context.Context, in domain.StartInput) (domain.PowerResult, error) {
	out, err := w.startDomain(ctx, in)
	if w.sharedDisks {
		w.mirror(hostOf(ctx))
	}
	return out, err
}
