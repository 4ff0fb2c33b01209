package mount

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"strongroom/compute"
)

// ShieldShares has the host keep guests from the storages that it remembers: the rules end with a restart of the host, and whoever loads its
// firewall anew may take them away (S6).
func (a *Activities) ShieldShares(ctx context.Context) error {
	if a.Dir == "" {
		return nil
	}
	known, err := a.storages()
	if err != nil {
		return fmt.Errorf("storages of shares: %w", err)
	}
	return keepGuestsFrom(ctx, known...)
}

// shield has the host keep guests from the storage of a share, at each of its addresses, and remember them before.
func (a *Activities) shield(ctx context.Context, id compute.ShareID, storage ...string) error {
	addresses := make([]netip.Addr, len(storage))
	for i, s := range storage {
		address, err := netip.ParseAddr(s)
		if err != nil { // which names the address
			return compute.Errorf(compute.Unavailable, "share %s: the address of its storage cannot be read", id)
		}
		addresses[i] = address.Unmap().WithZone("")
	}
	if err := a.remember(ctx, addresses...); err != nil {
		return failed(id, "note its storage", err)
	}
	if err := keepGuestsFrom(ctx, addresses...); err != nil {
		return compute.Errorf(compute.Unavailable, "share %s: this host cannot keep guests from its storage: %w", id, err)
	}
	return nil
}

// shielding lets one at a time change the host's rules.
var shielding sync.Mutex

// keepGuestsFrom has the host forward nothing to storages, for which a guest would be the host itself: guests of networks behind address translation
// send with the host's address, and an export is opened to that (S6). The rules stand before those of libvirt. The addresses are in no argument of a
// program.
func keepGuestsFrom(ctx context.Context, storages ...netip.Addr) error {
	var four, six []string
	for _, s := range storages {
		rule := fmt.Sprintf(`FORWARD -d %s -m comment --comment "strongroom: guests do not reach the storage of shares" -j DROP`, netip.PrefixFrom(s, s.BitLen()))
		if s.Is4() {
			four = append(four, rule)
		} else {
			six = append(six, rule)
		}
	}
	shielding.Lock()
	defer shielding.Unlock()
	return errors.Join(ensureRules(ctx, "iptables", four), ensureRules(ctx, "ip6tables", six))
}

// ensureRules ensures that the table mangle has rules. It asks no program where there are none to have.
func ensureRules(ctx context.Context, program string, rules []string) error {
	if len(rules) == 0 {
		return nil
	}
	saved, err := exec.CommandContext(ctx, program+"-save", "-t", "mangle").Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) { // as where the kernel has no such filter
		said := strings.ReplaceAll(strings.TrimSpace(string(ended.Stderr)), "\n", "; ")
		return fmt.Errorf("%s-save: %w: %s", program, err, said)
	}
	if err != nil {
		return fmt.Errorf("%s-save: %w", program, err)
	}
	for line := range strings.Lines(string(saved)) {
		rules = slices.DeleteFunc(rules, func(rule string) bool { return strings.TrimSpace(line) == "-A "+rule })
	}
	if len(rules) == 0 {
		return nil
	}
	add := exec.CommandContext(ctx, program+"-restore", "--wait", "10", "--noflush")
	add.Stdin = strings.NewReader("*mangle\n-I " + strings.Join(rules, "\n-I ") + "\nCOMMIT\n")
	if err := add.Run(); err != nil {
		return fmt.Errorf("%s-restore: %w", program, err)
	}
	return nil
}
