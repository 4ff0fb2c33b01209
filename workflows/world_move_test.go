package workflows_test

import (
	"context"
	"slices"
	"time"

	"strongroom/activities/disk"
	"strongroom/activities/placement"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/compute"
)

// registerMoves registers what resizes and migrations use.
func (w *world) registerMoves(r registry) {
	register(w, r, record.ConfirmResize, func(_ context.Context, in record.DecideMoveInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() { w.decideMove(in, false) })
	})
	register(w, r, record.RevertResize, func(_ context.Context, in record.DecideMoveInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() { w.decideMove(in, true) })
	})
	register(w, r, placement.HostAgent, func(_ context.Context, in compute.HostID) (compute.Agent, error) {
		return compute.Agent{Host: in, Name: "host-" + in.String()[:4]}, nil
	})
	w.registerRoom(r)
	registerOnHost(w, r, disk.Resize, func(ctx context.Context, in disk.ResizeInput) (none, error) {
		return none{}, w.copyDisk(ctx, hostOf(ctx), in.Server, in.From, in.Disk)
	})
	registerOnHost(w, r, disk.Receive, func(ctx context.Context, in disk.ReceiveInput) (none, error) {
		name := in.Server.String() + "/" + in.Disk.Name()
		if row := w.ledger[compute.Sighting{Kind: compute.ThingDiskFile, Place: hostOf(ctx), Name: name}]; row.State != compute.ThingIntended || row.Operation != in.Operation {
			return none{}, compute.Errorf(compute.Forbidden, "no ticket")
		}
		return none{}, w.copyDisk(ctx, in.From.Host.String(), in.Server, in.Disk, in.Disk)
	})
	w.registerKept(r)
	w.registerTPMStorage(r)
}

// diskBytes are those of each disk that is to be copied, nvramBytes those of UEFI variables.
const (
	diskBytes  = 1 << 20
	nvramBytes = 540672
)

func (w *world) registerRoom(r registry) {
	takes := func(ctx context.Context, bytes int64) error {
		for host, room := range w.room {
			if host.String() == hostOf(ctx) && bytes > room {
				return compute.Errorf(compute.NoHost, "no room for %d bytes", bytes)
			}
		}
		return nil
	}
	registerOnHost(w, r, disk.CheckMove, func(ctx context.Context, in disk.CheckMoveInput) (disk.CheckMoveResult, error) {
		out := disk.CheckMoveResult{Bytes: int64(len(in.Disks)) * diskBytes}
		if in.NVRAM == "" {
			return out, nil
		}
		if !w.files[hostOf(ctx)+" "+in.Server.String()+"/"+in.NVRAM] {
			return out, compute.Errorf(compute.Corrupt, "its UEFI variables are missing")
		}
		out.NVRAMBytes = nvramBytes
		return out, nil
	})
	registerOnHost(w, r, disk.CheckRoom, func(ctx context.Context, in disk.CheckRoomInput) (none, error) {
		if err := w.absent(ctx, disk.PingInput{Server: in.Server, Absent: in.Absent}); err != nil {
			return none{}, err
		}
		for host := range w.other {
			if host.String() == hostOf(ctx) && in.NVRAM != nil && in.NVRAM.Bytes == nvramBytes {
				return none{}, compute.Errorf(compute.NoHost, "its UEFI variables have another size")
			}
		}
		return none{}, takes(ctx, in.Bytes)
	})
	registerOnHost(w, r, disk.CheckExport, func(ctx context.Context, in disk.CheckExportInput) (none, error) {
		if in.NVRAM != "" && !w.files[hostOf(ctx)+" "+in.Server.String()+"/"+in.NVRAM] {
			return none{}, compute.Errorf(compute.Corrupt, "its UEFI variables are missing")
		}
		return none{}, takes(ctx, int64(len(in.Copies))*diskBytes)
	})
}

// copyDisk makes a disk of one that is on a host, and off.
func (w *world) copyDisk(ctx context.Context, from string, server compute.ServerID, was, d compute.Disk) error {
	if w.domains[from+" "+compute.InstanceName(server)] == compute.PowerRunning {
		return compute.Errorf(compute.Conflict, "it runs")
	}
	old, file := from+" "+server.String()+"/"+was.Name(), hostOf(ctx)+" "+server.String()+"/"+d.Name()
	if !w.files[old] {
		return compute.Errorf(compute.Corrupt, "no such disk")
	}
	w.made(compute.ThingDiskFile, hostOf(ctx), server.String()+"/"+d.Name())
	w.files[file], w.locks[file] = true, w.locks[old]
	return nil
}

func (w *world) registerKept(r registry) {
	registerOnHost(w, r, tpm.Keep, func(ctx context.Context, in tpm.KeepInput) (none, error) {
		key := w.tpmKey(hostOf(ctx), in.Server.String())
		if w.states[key] == "" && !in.New {
			return none{}, compute.Errorf(compute.Corrupt, "it has no state")
		}
		w.made(compute.ThingTPMState, hostOf(ctx), in.Kept)
		if kept := w.tpmKey(hostOf(ctx), in.Kept); !w.tpms[kept] {
			w.layState(kept, w.states[key], w.locks[key], w.marks[key])
		}
		return none{}, nil
	})
	registerOnHost(w, r, tpm.PutBack, func(ctx context.Context, in tpm.PutBackInput) (none, error) {
		key, kept := w.tpmKey(hostOf(ctx), in.Server.String()), w.tpmKey(hostOf(ctx), in.Kept)
		if in.Kept != "" && !w.tpms[kept] {
			return none{}, compute.Errorf(compute.Corrupt, "no such copy")
		}
		want := w.marks[key]
		done := in.Kept + " " + string(in.Operation)
		if want.putBack == done {
			return none{}, nil
		}
		if want.putBack = done; in.Kept != "" {
			want.op, want.laidDown = w.marks[kept].op, w.marks[kept].laidDown
		}
		w.layState(key, w.states[kept], w.locks[kept], want)
		return none{}, nil
	})
	registerOnHost(w, r, tpm.Receive, func(ctx context.Context, in tpm.ReceiveInput) (none, error) {
		key, old := hostOf(ctx)+" "+in.Server.String(), in.From.Host.String()+" "+in.Server.String()
		if w.marks[key].op == in.Operation {
			return none{}, nil
		}
		if w.sharedTPMs {
			w.broken = append(w.broken, "a state was copied onto itself")
		}
		if !w.tpms[old] || w.domains[in.From.Host.String()+" "+compute.InstanceName(in.Server)] == compute.PowerRunning {
			return none{}, compute.Errorf(compute.Conflict, "it runs, or has no state")
		}
		w.made(compute.ThingTPMState, hostOf(ctx), in.Server.String())
		w.layState(key, w.states[old], w.locks[old], mark{op: in.Operation, laidDown: true, began: in.Began})
		return none{}, nil
	})
}

// mark is what a host notes in a folder of TPM state.
type mark struct {
	op       compute.OperationID
	laidDown bool      // the state came from elsewhere; else it is a new one
	began    time.Time // when the operation did
	putBack  string
}

// layState makes a state what another one is.
func (w *world) layState(key, state string, locks []compute.SecretID, by mark) {
	w.tpms[key], w.states[key], w.locks[key], w.marks[key] = true, state, locks, by
}

// removeTPM removes a state that no operation made since that was asked for, or a copy of one,
// which is put back while nothing is decided.
func (w *world) removeTPM(host string, in compute.Removal) {
	server, _ := in.Thing.Server()
	key, state := w.tpmKey(host, in.Thing.Name), w.tpmKey(host, server.String())
	switch {
	case key == state && in.Precedes(w.marks[key].began):
		return
	case in.Thing.Reference == compute.KeptUndecided && w.tpms[key]:
		if w.usesTPM(host, server) {
			w.broken = append(w.broken, "the state of a vTPM was put back under its guest")
		}
		w.layState(state, w.states[key], w.locks[key], w.marks[key])
	}
	if key == state && w.sharedTPMs && w.usesTPM(host, server) {
		w.broken = append(w.broken, "the state of a vTPM went under its guest")
	}
	delete(w.tpms, key)
	delete(w.states, key)
	delete(w.marks, key)
}

// now is the database's clock.
func (w *world) now() time.Time {
	w.clock += time.Second
	return time.Unix(0, 0).UTC().Add(w.clock)
}

// moved is what the record does when an operation has moved the server.
func (w *world) saveMove(op compute.OperationID, m record.Move) {
	s := &w.row.server
	former := s.FormerOf(op, "host-"+s.Host.String()[:4], "")
	state, task, power := s.VMState, s.TaskState, s.PowerState
	if former.SharedTPM = m.SharedTPM; m.SharedTPM {
		w.passTPM(former.Host, *m.To.Host)
	}
	*s = m.To
	s.VMState, s.TaskState, s.PowerState, s.Former = state, task, power, &former
	s.Disks = slices.Clone(s.Disks)
	w.decideKept()
}

func (w *world) decideMove(in record.DecideMoveInput, revert bool) {
	s := &w.row.server
	if s.Former == nil {
		return
	}
	for op := range w.claims {
		if (op == s.Former.Operation) == revert {
			delete(w.claims, op)
		}
	}
	if revert {
		state, task := s.VMState, s.TaskState
		if s.Former.SharedTPM {
			w.passTPM(*s.Host, s.Former.Host)
		}
		*s = s.Before()
		s.VMState, s.TaskState = state, task
	}
	w.decideKept()
	s.Former = nil
	w.forgetBackup()
}

func (w *world) decideKept() {
	for key, t := range w.ledger {
		if t.Kind == compute.ThingTPMState {
			t.Reference = ""
			w.ledger[key] = t
		}
	}
}
