package workflows_test

import (
	"context"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
	"strongroom/activities/record"
	"strongroom/activities/tpm"
	"strongroom/activities/trust"
	"strongroom/compute"
)

// register registers all activities of the world under their real names.
func (w *world) register(r registry) {
	w.registerRecord(r)
	w.registerCloud(r)
	w.registerHost(r)
	w.registerImages(r)
	w.registerRotation(r)
	w.registerAudit(r)
	w.registerShelved(r)
	w.registerMoves(r)
	w.registerLive(r)
	w.registerTPMBackup(r)
}

func (w *world) registerCloud(r registry) {
	register(w, r, key.Create, func(_ context.Context, in key.CreateInput) (key.CreateResult, error) {
		w.private = in.Private
		return w.keep(in.Name, in.ID), nil
	})
	register(w, r, key.Copy, func(_ context.Context, in key.CopyInput) (key.CreateResult, error) {
		if !w.has(&in.From) {
			return key.CreateResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		return w.keep(in.Name, in.ID), nil
	})
	register(w, r, key.Check, func(_ context.Context, in key.CheckInput) (none, error) {
		w.checked[in.Secret] = in.Credential
		if w.unreadable || w.unread[in.Secret] || in.Credential == w.row.server.Delegated() && len(w.trusts) == 0 {
			return none{}, compute.Errorf(compute.Forbidden, "not yours")
		}
		if !w.has(&in.Secret) {
			return none{}, key.Missing(in.Secret)
		}
		return none{}, nil
	})
	register(w, r, key.Name, func(_ context.Context, in key.CheckInput) (key.NameResult, error) {
		for name, id := range w.secrets {
			if id == in.Secret {
				return key.NameResult{Name: name}, nil
			}
		}
		return key.NameResult{}, compute.Errorf(compute.NotFound, "no such secret")
	})
	register(w, r, record.UseSecret, func(_ context.Context, in record.UseSecretInput) (none, error) {
		if _, _, ofServer := compute.SecretOwner(in.Name); ofServer {
			return none{}, compute.ErrSecretOfServer(in.Secret)
		}
		w.used = append(w.used, in.Secret)
		return none{}, nil
	})
	register(w, r, trust.Create, func(_ context.Context, in trust.CreateInput) (trust.CreateResult, error) {
		w.made(compute.ThingTrust, compute.PlaceIdentity, in.Name)
		w.trusts[in.Name] = "trust-" + in.Name
		return trust.CreateResult{Trust: w.trusts[in.Name]}, nil
	})
	register(w, r, key.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		name := in.Thing.Name
		return none{}, w.with(in.Credentials, func() {
			if strings.HasPrefix(name, "strongroom image ") {
				w.checkImage(name)
			} else {
				w.locked(name)
				w.slotted(name)
			}
			delete(w.secrets, name)
		})
	})
	register(w, r, trust.Remove, func(_ context.Context, in compute.Removal) (none, error) {
		return none{}, w.with(in.Credentials, func() {
			if len(w.secrets) > 0 {
				w.checkDependents("a trust")
			}
			delete(w.trusts, in.Thing.Name)
		})
	})
}

// keep makes a secret, or finds the one of that name.
func (w *world) keep(name string, id compute.SecretID) key.CreateResult {
	w.made(compute.ThingKeySecret, compute.PlaceKeyManager, name)
	if known, made := w.secrets[name]; made && known != id {
		w.broken = append(w.broken, name+" was to be made once more, as another one")
	}
	w.secrets[name] = id
	return key.CreateResult{Secret: id}
}

// with does something with the first credential that is not refused.
func (w *world) with(credentials []compute.Credential, do func()) error {
	for _, c := range credentials {
		if c.ProjectID == project && !w.refuses(c) {
			do()
			return nil
		}
	}
	return compute.Errorf(compute.Forbidden, "you may not")
}

// hostOf is the host whose queue an activity came by.
func hostOf(ctx context.Context) string {
	queue := strings.TrimPrefix(activity.GetInfo(ctx).TaskQueue, "host/")
	return strings.TrimSuffix(queue, "/bulk")
}

func (w *world) registerHost(r registry) {
	registerOnHost(w, r, disk.CacheImage, func(ctx context.Context, in disk.CacheImageInput) (none, error) {
		if f := in.Former; w.imageGone && (f == nil || f.Server != w.row.server.ID || f.Agent.Host.String() == hostOf(ctx) || w.claims[f.Operation].String() != hostOf(ctx)) {
			return none{}, compute.Errorf(compute.NotFound, "the image store has no image %s", in.Image.ID)
		}
		if in.Use != "" {
			w.made(compute.ThingCachedImage, hostOf(ctx), in.Use)
			w.uses[hostOf(ctx)+" "+in.Use] = true
		}
		return none{}, nil
	})
	w.registerDiskStorage(r)
	w.registerRemovals(r)
	w.registerShares(r)
	w.registerPorts(r)
	registerOnHost(w, r, disk.Create, w.createDisk)
	registerOnHost(w, r, disk.CreateCopy, w.createDisk)
	registerOnHost(w, r, disk.CreateConfigDrive, w.createConfigDrive)
	w.registerNVRAM(r)
	registerOnHost(w, r, disk.Adopt, func(_ context.Context, in disk.AdoptInput) (none, error) {
		w.adopted = in
		return none{}, nil
	})
	start := act(w, domain.Start.Name, w.startDomainHere)
	domain.Start.Register(r, func(ctx context.Context, in domain.StartInput) (domain.PowerResult, error) {
		// What is lent is taken back at the end, unless the worker dies before it.
		out, err := start(ctx, in)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			clear(w.lent)
		}
		return out, err
	})
	registerOnHost(w, r, disk.CheckImage, func(context.Context, disk.CheckImageInput) (none, error) {
		w.touched--
		return none{}, nil
	})
	registerOnHost(w, r, domain.Stop, func(ctx context.Context, in domain.StopInput) (domain.PowerResult, error) {
		name := hostOf(ctx) + " " + compute.InstanceName(in.Server)
		if _, defined := w.domains[name]; defined {
			w.domains[name], w.locks[name] = compute.PowerShutdown, nil
		}
		clear(w.plugged)
		return domain.PowerResult{PowerState: compute.PowerShutdown}, nil
	})
	registerOnHost(w, r, domain.Pause, w.switchPower(compute.PowerRunning, compute.PowerPaused))
	registerOnHost(w, r, domain.Unpause, w.switchPower(compute.PowerPaused, compute.PowerRunning))
	registerOnHost(w, r, domain.Suspend, func(ctx context.Context, in domain.SuspendInput) (none, error) {
		name := hostOf(ctx) + " " + compute.InstanceName(in.Server)
		if in.Encrypted && !w.encrypts {
			return none{}, compute.Errorf(compute.Conflict, "its memory would lie in clear")
		}
		if now := w.domains[name]; now == compute.PowerRunning || now == compute.PowerPaused {
			w.domains[name], w.suspended[name] = compute.PowerShutdown, true
		}
		if !w.suspended[name] {
			return none{}, compute.Errorf(compute.Conflict, "it is off")
		}
		return none{}, nil
	})
	registerOnHost(w, r, domain.InjectNMI, func(ctx context.Context, in domain.InjectNMIInput) (none, error) {
		now := w.domains[hostOf(ctx)+" "+compute.InstanceName(in.Server)]
		if now != compute.PowerRunning && now != compute.PowerPaused {
			return none{}, compute.Errorf(compute.Conflict, "it is off")
		}
		return none{}, nil
	})
}

func (w *world) switchPower(from, to compute.PowerState) func(context.Context, domain.PauseInput) (none, error) {
	return func(ctx context.Context, in domain.PauseInput) (none, error) {
		name := hostOf(ctx) + " " + compute.InstanceName(in.Server)
		if now := w.domains[name]; now != from && now != to {
			return none{}, compute.Errorf(compute.Conflict, "it is off")
		}
		w.domains[name] = to
		return none{}, nil
	}
}

func (w *world) createDisk(ctx context.Context, in disk.CreateInput) (disk.CreateResult, error) {
	if in.Disk.Encrypted && !w.has(in.Disk.Secret) {
		return disk.CreateResult{}, compute.Errorf(compute.NotFound, "no such secret")
	}
	copies := in.Image != nil && in.Disk.OnDevice()
	if copies != strings.HasSuffix(activity.GetInfo(ctx).TaskQueue, "/bulk") {
		return disk.CreateResult{}, compute.Errorf(compute.Invalid, "it copies an image: %t, and came by %s", copies, activity.GetInfo(ctx).TaskQueue)
	}
	if in.Image != nil && in.Image.IsEncrypted() {
		use, err := in.Image.CacheUse(in.Project, in.Server, in.Disk)
		if err != nil || !w.uses[hostOf(ctx)+" "+use] {
			return disk.CreateResult{}, compute.Errorf(compute.Unavailable, "the image is not on the host: %v", err)
		}
		if !w.has(in.Disk.BackingSecret) {
			return disk.CreateResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
	}
	if !slices.Contains(w.madeWith, in.Credential) {
		w.madeWith = append(w.madeWith, in.Credential)
	}
	w.made(compute.ThingDiskFile, hostOf(ctx), in.Server.String()+"/"+in.Disk.Name())
	file := hostOf(ctx) + " " + in.Server.String() + "/" + in.Disk.Name()
	w.files[file] = true
	if in.Disk.Encrypted {
		w.locks[file] = []compute.SecretID{*in.Disk.Secret}
	}
	if in.Disk.BackingSecret != nil && !w.pool {
		w.locks[file] = append(w.locks[file], *in.Disk.BackingSecret)
	}
	return disk.CreateResult{EncryptionOptions: map[string]string{"cipher-alg": "aes-256"}, Whole: in.Image != nil && (w.pool || in.Disk.OnDevice())}, nil
}

// rescueFile is what the names of rescue disks begin with.
const rescueFile = "disk.rescue"

func (w *world) createConfigDrive(ctx context.Context, in disk.ConfigDriveInput) (none, error) {
	if key := in.Server.ConfigDriveSecret(); key != nil && !w.has(key) {
		return none{}, compute.Errorf(compute.NotFound, "no such secret")
	}
	name := in.Server.ID.String() + "/" + compute.ConfigDriveFile
	w.made(compute.ThingDiskFile, hostOf(ctx), name)
	w.files[hostOf(ctx)+" "+name] = true
	root, _ := in.Server.RootDisk()
	w.drive = root.ID
	return none{}, nil
}

// has reports whether the key manager has the secret.
func (w *world) has(id *compute.SecretID) bool {
	for _, known := range w.secrets {
		if id != nil && known == *id {
			return true
		}
	}
	return false
}

func (w *world) startDomain(ctx context.Context, in domain.StartInput) (domain.PowerResult, error) {
	w.plugs(hostOf(ctx), in.Server.Networks, false)
	host := hostOf(ctx)
	name := host + " " + in.Server.InstanceName()
	w.startedBy[name] = in.Operation
	for _, n := range in.Server.Networks {
		if n.PortExists() {
			w.plugged[n.Port.ID.String()] = true
		}
	}
	if w.domains[name] == compute.PowerRunning {
		return domain.PowerResult{PowerState: compute.PowerRunning}, nil
	}
	if in.Suspended && !w.suspended[name] {
		return domain.PowerResult{}, compute.Errorf(compute.Conflict, "its memory is not there")
	}
	if in.Server.TPM != nil && !in.NewTPM && w.states[w.tpmKey(host, in.Server.ID.String())] == "" {
		return domain.PowerResult{}, compute.Errorf(compute.Corrupt, "its TPM state is not on this host")
	}
	if in.Server.TPM != nil && w.states[w.tpmKey(host, in.Server.ID.String())] == damagedState {
		return domain.PowerResult{}, compute.Errorf(compute.Corrupt, "its TPM state on this host is damaged")
	}
	if root, ok := in.Server.RootDisk(); ok && w.touched > 0 {
		return domain.PowerResult{PowerState: compute.PowerShutdown, Unchecked: []compute.DiskID{root.ID}}, nil
	}
	for _, d := range in.Server.Attached() {
		if !w.files[host+" "+in.Server.ID.String()+"/"+d.Name()] {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such disk file")
		}
		if d.Encrypted && !w.has(d.Secret) {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		for _, id := range (compute.Server{Disks: []compute.Disk{d}}).OpeningSecrets() {
			w.made(compute.ThingHypervisorSecret, host, id.String())
			w.lent[host+" "+id.String()] = true
		}
	}
	if err := w.bootNVRAM(host, in.Server); err != nil {
		return domain.PowerResult{}, err
	}
	if root, _ := in.Server.RootDisk(); in.Server.ConfigDrive &&
		(w.drive != root.ID || !w.files[host+" "+in.Server.ID.String()+"/"+compute.ConfigDriveFile]) {
		return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no config drive that the root disk's secret opens")
	}
	for _, m := range in.Server.Shares {
		if !w.mounts[host+" "+compute.ShareUse(m.Share, in.Server.ID)] {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "share %s is not mounted", m.Share)
		}
		w.plugged[host+" "+compute.ShareUse(m.Share, in.Server.ID)] = true
	}
	for other, power := range w.domains {
		where, instance, _ := strings.Cut(other, " ")
		off := slices.ContainsFunc(w.hosts, func(id compute.HostID) bool { return id.String() == where && w.fencedOff[id] })
		if other != name && !off && power == compute.PowerRunning && instance == in.Server.InstanceName() {
			w.broken = append(w.broken, "a second copy was started at "+name+" beside "+other)
		}
	}
	w.made(compute.ThingDomain, host, in.Server.InstanceName())
	w.made(compute.ThingDiskFile, host, consoleLog(in.Server.ID))
	delete(w.suspended, name)
	w.domains[name], w.locks[name], w.runs = compute.PowerRunning, in.Server.Secrets(), in.Server.Image.ID
	w.booted[name], w.runsOn[name] = in.Server.Attached()[0].Role, nil
	for _, d := range in.Server.Attached() {
		w.runsOn[name] = append(w.runsOn[name], host+" "+in.Server.ID.String()+"/"+d.Name())
	}
	if file := in.Server.NVRAM(); file != "" {
		w.runsOn[name] = append(w.runsOn[name], host+" "+in.Server.ID.String()+"/"+file)
	}
	w.files[host+" "+consoleLog(in.Server.ID)] = true
	if in.Server.TPM != nil {
		state := w.tpmKey(host, in.Server.ID.String())
		if !w.has(in.Server.TPM.Secret) {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		if known := w.locks[state]; w.tpms[state] && w.states[state] != "" && !slices.Equal(known, []compute.SecretID{*in.Server.TPM.Secret}) {
			return domain.PowerResult{}, compute.Errorf(compute.Corrupt, "the state of the TPM is damaged, or its passphrase does not open it")
		}
		w.made(compute.ThingTPMState, w.tpmPlace(host, in.Server.ID.String()), in.Server.ID.String())
		if w.sharedTPMs && w.usesTPM(host, in.Server.ID, name) {
			w.broken = append(w.broken, "the state of a vTPM is used twice")
		}
		if in.NewTPM {
			w.marks[state] = mark{op: in.Operation, began: in.Began, putBack: w.marks[state].putBack}
		}
		if !w.tpms[state] || w.states[state] == "" {
			w.states[state] = "made by " + string(in.Operation)
		}
		w.tpms[state], w.locks[state] = true, []compute.SecretID{*in.Server.TPM.Secret}
	}
	return domain.PowerResult{PowerState: compute.PowerRunning}, nil
}

// registerRemovals registers what removes things of hosts.
func (w *world) registerRemovals(r registry) {
	registerOnHost(w, r, domain.Remove, func(ctx context.Context, in compute.Removal) (none, error) {
		if name := hostOf(ctx) + " " + in.Thing.Name; in.Thing.Kind == compute.ThingRunningDomain {
			elsewhose := in.Thing.State == compute.ThingWaiting && w.startedBy[name] != in.Thing.Operation
			if _, defined := w.domains[name]; defined && !elsewhose {
				w.domains[name], w.locks[name] = compute.PowerShutdown, nil
			}
			return none{}, nil
		}
		if in.Thing.Kind == compute.ThingPluggedPort { // a guest that keeps the device has no link
			id, _, _ := strings.Cut(in.Thing.Name, "/")
			delete(w.interfaces, id)
			return none{}, nil
		}
		delete(w.domains, hostOf(ctx)+" "+in.Thing.Name)
		delete(w.lent, hostOf(ctx)+" "+in.Thing.Name)
		return none{}, nil
	})
	registerOnHost(w, r, tpm.Remove, func(ctx context.Context, in compute.Removal) (none, error) {
		w.removeTPM(hostOf(ctx), in)
		return none{}, nil
	})
	registerOnHost(w, r, disk.Remove, func(ctx context.Context, in compute.Removal) (none, error) {
		key := hostOf(ctx) + " " + in.Thing.Name
		switch in.Thing.Kind {
		case compute.ThingCachedImage:
			w.unused(hostOf(ctx), in.Thing.Name)
			delete(w.uses, key)
		case compute.ThingKeySlot:
			return none{}, w.eraseSlots(hostOf(ctx), in.Thing)
		case compute.ThingDiskFile:
			server, _ := in.Thing.Server()
			name := hostOf(ctx) + " " + compute.InstanceName(server)
			if strings.Contains(key, "/"+rescueFile) && w.domains[name] == compute.PowerRunning && w.booted[name] == compute.RescueDisk {
				w.broken = append(w.broken, "a rescue disk went before the machine that runs from it")
			}
			if w.domains[name] == compute.PowerRunning && slices.Contains(w.runsOn[name], key) {
				w.broken = append(w.broken, "a disk went under the domain that runs from it: "+key)
			}
			delete(w.files, key)
			delete(w.nvram, key)
			delete(w.exports, key)
		}
		return none{}, nil
	})
}
