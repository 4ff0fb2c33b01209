package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.temporal.io/sdk/client"

	"strongroom/activities/domain"
	"strongroom/activities/volume"
	"strongroom/compute"
	"strongroom/worker"
	"strongroom/worker/gateway"
)

// checkState refuses folders that cannot be where they are: what opens the volume cannot be on it, and what it is for
// must be.
func (h HostConfig) checkState() error {
	if h.SecureState == "" {
		return nil
	}
	if !filepath.IsAbs(h.SecureState) {
		return fmt.Errorf("host.secure_state: %s is no absolute path", h.SecureState)
	}
	for name, path := range map[string]string{"instances": h.Instances, "image_cache": h.ImageCache} {
		if !isBelow(path, h.SecureState) {
			return fmt.Errorf("host.%s: %s must be below host.secure_state, %s", name, path, h.SecureState)
		}
	}
	if h.SuspendState != "" && !filepath.IsAbs(h.SuspendState) {
		return fmt.Errorf("host.suspend_state: %s is no absolute path", h.SuspendState)
	}
	for _, s := range h.shownOfVolume() {
		if isBelow(h.SecureState, s.At) || filepath.Clean(h.SecureState) == filepath.Clean(s.At) {
			return fmt.Errorf("host.secure_state: %s cannot be in %s, where a folder of it is mounted", h.SecureState, s.At)
		}
	}
	for name, path := range map[string]string{"id_file": h.IDFile, "certificate": h.Certificate, "run": h.Run} {
		if isBelow(path, h.SecureState) {
			return fmt.Errorf("host.%s: %s cannot be on the volume at host.secure_state, which is opened with it", name, path)
		}
	}
	return nil
}

// shownOfVolume are the folders of libvirt that are to be on the volume, and are not there anyway.
func (h HostConfig) shownOfVolume() (shown []volume.Shown) {
	if h.SecureState == "" {
		return nil
	}
	if h.SwtpmEnabled && h.SwtpmOnVolume && !isBelow(h.SwtpmState, h.SecureState) {
		shown = append(shown, volume.Shown{Name: "swtpm", At: h.SwtpmState, Without: "host.swtpm_on_volume: false"})
	}
	if h.SuspendState != "" && !isBelow(h.SuspendState, h.SecureState) {
		shown = append(shown, volume.Shown{Name: "save", At: h.SuspendState, Without: `host.suspend_state: ""`})
	}
	return shown
}

func isBelow(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != "." && rel != ".." && !strings.HasPrefix(rel, "../")
}

// useState opens the volume with the host's state, where it has one: it comes back when that is open, with the context of
// what uses it. Without one that is at once.
func (h HostConfig) useState(r *run, id compute.HostID, temporal client.Client, from *gateway.Client, keys volume.Keys) (_ *run, release func(), err error) {
	libvirt := &domain.Client{Socket: h.LibvirtSocket}
	volumes, err := volume.New(volume.Config{
		Host: id, Mount: h.SecureState, Shown: h.shownOfVolume(), Run: h.Run, Keys: keys, Logger: r.log,
		Guests: func(ctx context.Context) (int, error) {
			running, err := (&domain.Activities{Config: domain.Config{Client: libvirt}}).PowerStates(ctx)
			return len(running), err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(r)
	go func() {
		err := worker.State{ID: id, Name: h.Name, Temporal: temporal, Volume: volumes, Logger: r.log, Interceptors: faultPoints(h.Name)}.Run(r)
		if err != nil && h.SecureState == "" { // an older strongroom-temporal, say, which lets hosts have no such queue
			r.log.WarnContext(r, "this host is not asked for volumes that are open here", "error", err)
			return
		}
		cancel(err)
	}()
	outer := &run{Context: ctx, cli: r.cli, log: r.log}
	if h.SecureState == "" {
		return outer, func() { cancel(nil) }, nil
	}
	if err := awaitState(outer, volumes, from); err != nil {
		return nil, nil, err
	}
	inner, let, err := volumes.Use(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &run{Context: inner, cli: r.cli, log: r.log}, let, nil
}

// stateAsked is how often a worker whose volume is not open asks for it.
const stateAsked = 2 * time.Second

// awaitState waits until the volume is open and is to be.
func awaitState(r *run, volumes *volume.Activities, from *gateway.Client) error {
	said := ""
	for {
		open, err := volumes.IsOpen()
		var is gateway.StateVolume
		if err == nil {
			is, err = from.StateVolume(r, open)
		}
		var why string
		switch {
		case err != nil:
			why = err.Error()
		case open && is.Wanted:
			return nil
		case !is.Known:
			why = "none was ever opened: strongroom host secure-state HOST open --device DEVICE"
		case !is.Wanted:
			why = "it was closed: strongroom host secure-state HOST open"
		default:
			why = "it is being opened"
			if is.Message != "" {
				why += "; the last operation: " + is.Message
			}
		}
		if why != said {
			r.log.InfoContext(r, "this host waits for the volume with its state, and takes nothing else", "why", why)
			said = why
		}
		select {
		case <-r.Done():
			return context.Cause(r)
		case <-time.After(stateAsked):
		}
	}
}
