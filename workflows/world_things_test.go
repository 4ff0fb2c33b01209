package workflows_test

import (
	"context"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"strongroom/activities/disk"
	"strongroom/activities/domain"
	"strongroom/activities/key"
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
}

func (w *world) registerCloud(r registry) {
	add := func(name string, f any) { r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	add(key.Create, act(w, key.Create, func(_ context.Context, in key.CreateInput) (key.CreateResult, error) {
		w.made(compute.ThingKeySecret, compute.PlaceKeyManager, in.Name)
		w.secrets[in.Name] = in.ID
		return key.CreateResult{Secret: in.ID}, nil
	}))
	add(key.Copy, act(w, key.Copy, func(_ context.Context, in key.CopyInput) (key.CreateResult, error) {
		if !w.has(&in.From) {
			return key.CreateResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		w.made(compute.ThingKeySecret, compute.PlaceKeyManager, in.Name)
		w.secrets[in.Name] = in.ID
		return key.CreateResult{Secret: in.ID}, nil
	}))
	add(key.Look, act(w, key.Look, func(_ context.Context, in key.LookInput) (none, error) {
		if !w.has(&in.Secret) {
			return none{}, compute.Errorf(compute.Forbidden, "not yours")
		}
		return none{}, nil
	}))
	add(key.Delete, act(w, key.Delete, func(_ context.Context, in key.DeleteInput) (none, error) {
		return none{}, w.with(in.Credential, in.Others, func() {
			if strings.HasPrefix(in.Name, "strongroom image ") {
				w.imageLeaned()
			} else {
				w.locked(in.Name)
				w.slotted(in.Name)
			}
			delete(w.secrets, in.Name)
		})
	}))
	add(key.Inventory, act(w, key.Inventory, func(context.Context, key.InventoryInput) (key.InventoryResult, error) {
		out := key.InventoryResult{All: true}
		for name, id := range w.secrets {
			out.Items = append(out.Items, key.Item{ID: id, Name: name, ProjectID: project})
		}
		return out, nil
	}))
	add(trust.Create, act(w, trust.Create, func(_ context.Context, in trust.CreateInput) (trust.CreateResult, error) {
		w.made(compute.ThingTrust, compute.PlaceIdentity, in.Name)
		w.trusts[in.Name] = "trust-" + in.Name
		return trust.CreateResult{Trust: w.trusts[in.Name]}, nil
	}))
	add(trust.Delete, act(w, trust.Delete, func(_ context.Context, in trust.DeleteInput) (none, error) {
		return none{}, w.with(in.Credential, in.Others, func() {
			if len(w.secrets) > 0 {
				w.leaned("a trust")
			}
			delete(w.trusts, in.Name)
		})
	}))
	inventory := act(w, trust.Inventory, func(context.Context, none) ([]trust.Item, error) {
		var out []trust.Item
		for name, id := range w.trusts {
			out = append(out, trust.Item{ID: id, Name: name, ProjectID: project})
		}
		return out, nil
	})
	add(trust.Inventory, func(ctx context.Context) ([]trust.Item, error) { return inventory(ctx, none{}) })
}

// with does something with the first credential that is not refused.
func (w *world) with(first compute.Credential, others []compute.Credential, do func()) error {
	for _, c := range append([]compute.Credential{first}, others...) {
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
	add := func(name string, f any) { r.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	add(disk.CacheImage, act(w, disk.CacheImage, func(ctx context.Context, in disk.CacheImageInput) (none, error) {
		if in.Use != "" {
			w.made(compute.ThingCachedImage, hostOf(ctx), in.Use)
			w.uses[hostOf(ctx)+" "+in.Use] = true
		}
		return none{}, nil
	}))
	add(disk.ReleaseImage, act(w, disk.ReleaseImage, func(ctx context.Context, in disk.ReleaseImageInput) (none, error) {
		w.unused(hostOf(ctx), in.Use)
		delete(w.uses, hostOf(ctx)+" "+in.Use)
		return none{}, nil
	}))
	add(disk.Create, act(w, disk.Create, w.createDisk))
	add(disk.CreateConfigDrive, act(w, disk.CreateConfigDrive, w.createConfigDrive))
	add(disk.Delete, act(w, disk.Delete, func(ctx context.Context, in disk.DeleteInput) (none, error) {
		name := hostOf(ctx) + " " + compute.InstanceName(in.Server)
		if in.File == rescueFile && w.domains[name] == compute.PowerRunning && w.booted[name] == compute.RescueDisk {
			w.broken = append(w.broken, "a rescue disk went before the machine that runs from it")
		}
		delete(w.files, hostOf(ctx)+" "+in.Server.String()+"/"+in.File)
		return none{}, nil
	}))
	add(disk.Inventory, w.inventory(disk.Inventory, func(host string) any {
		return disk.InventoryResult{Files: w.on(host, compute.ThingDiskFile), CachedImages: w.on(host, compute.ThingCachedImage)}
	}))
	start := act(w, domain.Start, w.startDomain)
	add(domain.Start, func(ctx context.Context, in domain.StartInput) (domain.PowerResult, error) {
		// What is lent is taken back at the end, unless the worker dies before it.
		out, err := start(ctx, in)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			clear(w.lent)
		}
		return out, err
	})
	add(domain.Stop, act(w, domain.Stop, func(ctx context.Context, in domain.StopInput) (domain.PowerResult, error) {
		name := hostOf(ctx) + " " + compute.InstanceName(in.Server)
		if _, defined := w.domains[name]; defined {
			w.domains[name], w.locks[name] = compute.PowerShutdown, nil
		}
		return domain.PowerResult{PowerState: compute.PowerShutdown}, nil
	}))
	add(domain.Destroy, act(w, domain.Destroy, func(ctx context.Context, in domain.DestroyInput) (none, error) {
		delete(w.domains, hostOf(ctx)+" "+compute.InstanceName(in.Server))
		if !in.KeepTPM {
			delete(w.tpms, hostOf(ctx)+" "+in.Server.String())
		}
		return none{}, nil
	}))
	add(domain.ForgetSecrets, act(w, domain.ForgetSecrets, func(ctx context.Context, in domain.ForgetSecretsInput) (none, error) {
		for _, id := range in.Secrets {
			delete(w.lent, hostOf(ctx)+" "+id.String())
		}
		return none{}, nil
	}))
	add(domain.Inventory, w.inventory(domain.Inventory, func(host string) any {
		return domain.InventoryResult{Domains: w.on(host, compute.ThingDomain), Secrets: w.on(host, compute.ThingHypervisorSecret)}
	}))
	add(tpm.Delete, act(w, tpm.Delete, func(ctx context.Context, in tpm.DeleteInput) (none, error) {
		delete(w.tpms, hostOf(ctx)+" "+in.Server.String())
		return none{}, nil
	}))
	add(tpm.Inventory, w.inventory(tpm.Inventory, func(host string) any {
		return tpm.InventoryResult{Servers: w.on(host, compute.ThingTPMState)}
	}))
}

func (w *world) inventory(name string, list func(host string) any) func(context.Context) (any, error) {
	look := act(w, name, func(ctx context.Context, _ none) (any, error) { return list(hostOf(ctx)), nil })
	return func(ctx context.Context) (any, error) { return look(ctx, none{}) }
}

func (w *world) on(host string, kind compute.ThingKind) []string {
	var out []string
	for _, s := range w.things() {
		if s.Kind == kind && s.Place == host {
			out = append(out, s.Name)
		}
	}
	return out
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
	w.made(compute.ThingDiskFile, hostOf(ctx), in.Server.String()+"/"+in.Disk.Name())
	file := hostOf(ctx) + " " + in.Server.String() + "/" + in.Disk.Name()
	w.files[file] = true
	if in.Disk.Encrypted {
		w.locks[file] = []compute.SecretID{*in.Disk.Secret}
	}
	if in.Disk.BackingSecret != nil {
		w.locks[file] = append(w.locks[file], *in.Disk.BackingSecret)
	}
	return disk.CreateResult{EncryptionOptions: map[string]string{"cipher-alg": "aes-256"}}, nil
}

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
	host := hostOf(ctx)
	name := host + " " + in.Server.InstanceName()
	if w.domains[name] == compute.PowerRunning {
		return domain.PowerResult{PowerState: compute.PowerRunning}, nil
	}
	for _, d := range in.Server.Attached() {
		if !w.files[host+" "+in.Server.ID.String()+"/"+d.Name()] {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such disk file")
		}
		if d.Encrypted && !w.has(d.Secret) {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		for _, id := range []*compute.SecretID{d.Secret, d.BackingSecret} {
			if id != nil {
				w.made(compute.ThingHypervisorSecret, host, id.String())
				w.lent[host+" "+id.String()] = true
			}
		}
	}
	if root, _ := in.Server.RootDisk(); in.Server.ConfigDrive &&
		(w.drive != root.ID || !w.files[host+" "+in.Server.ID.String()+"/"+compute.ConfigDriveFile]) {
		return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no config drive that the root disk's secret opens")
	}
	w.made(compute.ThingDomain, host, in.Server.InstanceName())
	w.made(compute.ThingDiskFile, host, consoleLog(in.Server.ID))
	w.domains[name], w.locks[name], w.runs = compute.PowerRunning, in.Server.Secrets(), in.Server.Image.ID
	w.booted[name] = in.Server.Attached()[0].Role
	w.files[host+" "+consoleLog(in.Server.ID)] = true
	if in.Server.TPM != nil {
		state := host + " " + in.Server.ID.String()
		if !w.has(in.Server.TPM.Secret) {
			return domain.PowerResult{}, compute.Errorf(compute.NotFound, "no such secret")
		}
		if known := w.locks[state]; w.tpms[state] && !slices.Equal(known, []compute.SecretID{*in.Server.TPM.Secret}) {
			return domain.PowerResult{}, compute.Errorf(compute.Corrupt, "the passphrase does not open the state of the TPM")
		}
		w.made(compute.ThingTPMState, host, in.Server.ID.String())
		w.tpms[state], w.locks[state] = true, []compute.SecretID{*in.Server.TPM.Secret}
	}
	return domain.PowerResult{PowerState: compute.PowerRunning}, nil
}
