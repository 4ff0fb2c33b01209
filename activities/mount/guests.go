package mount

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
)

// shielding lets one at a time change the host's rules.
var shielding sync.Mutex

// keepGuestsFrom has the host forward nothing to a storage, for which a guest would be the host itself: guests of networks behind address translation
// send with the host's address, and an export is opened to that (S6). The rule stands before those of libvirt and stays until the host restarts; each mount
// looks for it again. The address is in no argument of a program.
func keepGuestsFrom(ctx context.Context, storage string) error {
	address, err := netip.ParseAddr(storage)
	if err != nil {
		return err
	}
	program, address := "iptables", address.Unmap()
	if address.Is6() {
		program = "ip6tables"
	}
	rule := fmt.Sprintf(`FORWARD -d %s -m comment --comment "strongroom: guests do not reach the storage of shares" -j DROP`, netip.PrefixFrom(address, address.BitLen()))
	shielding.Lock()
	defer shielding.Unlock()
	rules, err := exec.CommandContext(ctx, program+"-save", "-t", "mangle").Output()
	if err != nil {
		return fmt.Errorf("%s-save: %w", program, err)
	}
	for line := range strings.Lines(string(rules)) {
		if strings.TrimSpace(line) == "-A "+rule {
			return nil
		}
	}
	add := exec.CommandContext(ctx, program+"-restore", "--wait", "10", "--noflush")
	add.Stdin = strings.NewReader("*mangle\n-I " + rule + "\nCOMMIT\n")
	if err := add.Run(); err != nil {
		return fmt.Errorf("%s-restore: %w", program, err)
	}
	return nil
}
