package workflows_test

import (
	"context"
	"maps"
	"slices"

	"strongroom/activities/domain"
	"strongroom/activities/record"
	"strongroom/compute"
)

// registerLive registers what live migrations use. A guest that was told to leave is halted where
// it was: neither runs until it is decided.
func (w *world) registerLive(r registry) {
	register(w, r, record.LiveMigrated, func(_ context.Context, in record.LiveMigratedInput) (none, error) {
		w.close(in.OperationInput, in.Close)
		return none{}, w.fenced(in.OperationInput, func() {
			s := &w.row.server
			state, task, power := s.VMState, s.TaskState, s.PowerState
			*s = in.To
			s.VMState, s.TaskState, s.PowerState = state, task, power
			maps.DeleteFunc(w.claims, func(op compute.OperationID, _ compute.HostID) bool { return op != in.Operation })
		})
	})
	registerOnHost(w, r, domain.Expect, func(ctx context.Context, in domain.ExpectInput) (domain.ExpectResult, error) {
		for _, d := range in.Server.Disks {
			if !w.files[hostOf(ctx)+" "+in.Server.ID.String()+"/"+d.Name()] {
				return domain.ExpectResult{}, compute.Errorf(compute.NotFound, "no such disk file")
			}
		}
		if file := in.Server.NVRAM(); file != "" && !w.files[hostOf(ctx)+" "+in.Server.ID.String()+"/"+file] {
			return domain.ExpectResult{}, compute.Errorf(compute.Corrupt, "its UEFI variables are missing")
		}
		w.plugs(hostOf(ctx), in.Server.Networks, true)
		w.expectedBy = in.Keys
		w.expected = in.From.String()
		return domain.ExpectResult{}, nil
	})
	registerOnHost(w, r, domain.Keeps, func(_ context.Context, in domain.KeepsInput) (none, error) {
		if !slices.Contains(w.keeps, in.Part) {
			return none{}, compute.NotKept(in.Server, in.Part, in.Secrets[0])
		}
		return none{}, nil
	})
	registerOnHost(w, r, domain.Migrate, w.liveMigrate)
	registerOnHost(w, r, domain.Arrived, func(ctx context.Context, in domain.ArrivedInput) (domain.ArrivedResult, error) {
		w.expected = ""
		power, there := w.domains[hostOf(ctx)+" "+in.Server.InstanceName()]
		return domain.ArrivedResult{Arrived: there, PowerState: power}, nil
	})
	registerOnHost(w, r, domain.Departed, func(ctx context.Context, in domain.DepartedInput) (domain.DepartedResult, error) {
		return w.departed(hostOf(ctx)+" "+compute.InstanceName(in.Server), in.Resume), nil
	})
	register(w, r, record.NoteFenced, func(_ context.Context, in record.NoteFencedInput) (none, error) {
		return none{}, w.fencedOrElse(in.OperationInput, func() error {
			if !w.fencedOff[in.Host] {
				return compute.Errorf(compute.Conflict, "Compute service of %s is still in use.", in.Host)
			}
			w.notThere[in.Host] = true
			return nil
		})
	})
}

// departed is how a domain is that was to leave. One that is off may have gone on elsewhere.
func (w *world) departed(name string, resume bool) domain.DepartedResult {
	if resume && w.halted[name] {
		w.domains[name] = compute.PowerRunning
		delete(w.halted, name)
	}
	power, there := w.domains[name]
	if !there || !resume && power != compute.PowerRunning {
		return domain.DepartedResult{Departure: domain.Halted, PowerState: power}
	}
	return domain.DepartedResult{Departure: domain.Stayed, PowerState: power}
}

func (w *world) liveMigrate(ctx context.Context, in domain.MigrateInput) (domain.MigrateResult, error) {
	host, to := hostOf(ctx), in.To.Host.String()
	from, there := host+" "+compute.InstanceName(in.Server), to+" "+compute.InstanceName(in.Server)
	if w.domains[from] != compute.PowerRunning || w.expected != host {
		return domain.MigrateResult{}, compute.Errorf(compute.Forbidden, "it does not run, or nobody expects it")
	}
	w.domains[from], w.halted[from] = compute.PowerPaused, true
	if w.lost { // on its way
		return domain.MigrateResult{}, compute.Errorf(compute.Unavailable, "the other host does not answer")
	}
	w.made(compute.ThingDomain, to, compute.InstanceName(in.Server))
	w.made(compute.ThingDiskFile, to, consoleLog(in.Server))
	w.domains[from] = compute.PowerShutdown
	delete(w.halted, from)
	w.domains[there], w.locks[there], w.startedBy[there] = compute.PowerRunning, w.locks[from], in.Operation
	w.booted[there], w.runsOn[there] = w.booted[from], nil
	w.files[to+" "+consoleLog(in.Server)] = true
	for _, f := range w.runsOn[from] {
		moved := to + f[len(host):]
		w.runsOn[there] = append(w.runsOn[there], moved)
		if text, ok := w.nvram[f]; ok {
			w.nvram[moved] = text // QEMU writes what came
		}
	}
	for _, id := range w.row.server.OpeningSecrets() {
		w.made(compute.ThingHypervisorSecret, to, id.String())
	}
	if w.row.server.TPM != nil {
		was, now := host+" "+in.Server.String(), to+" "+in.Server.String()
		w.made(compute.ThingTPMState, to, in.Server.String())
		w.tpms[now], w.states[now], w.locks[now] = true, w.states[was], w.locks[was]
	}
	return domain.MigrateResult{Arrived: true}, nil
}

// runsOn gives the hosts on which the server runs.
func (b *bench) hostsOfGuest() (out []string) {
	for name, power := range b.domains {
		if power == compute.PowerRunning {
			out = append(out, name[:len(name)-len(" "+b.row.server.InstanceName())])
		}
	}
	slices.Sort(out)
	return out
}
