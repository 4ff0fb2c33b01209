package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"strongroom/activities/domain"
)

// bootID changes with every boot of the machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// virtType gives how guests run on this host. Where it is not configured, KVM is
// tried with a real guest, once per boot: the answer is kept beside the host's id.
func virtType(ctx context.Context, client *domain.Client, h HostConfig) (string, error) {
	if h.VirtType != "" {
		return client.ChooseVirtType(ctx, h.VirtType, h.Instances)
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return "", err
	}
	kept := filepath.Join(filepath.Dir(h.IDFile), "host.virt_type")
	if text, err := os.ReadFile(kept); err == nil {
		if chosen, of, ok := strings.Cut(string(text), " "); ok && of == string(boot) {
			return chosen, nil
		}
	}
	chosen, err := client.ChooseVirtType(ctx, "", h.Instances)
	if err != nil {
		return "", err
	}
	return chosen, os.WriteFile(kept, []byte(chosen+" "+string(boot)), 0o644)
}
