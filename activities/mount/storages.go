package mount

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"strongroom/activities/folder"
)

// storagesName is the file of the storages of NFS that the host remembers: an address on each line and no export, that of the last mount at
// the end.
const storagesName = "storages"

// maxStorages bounds them, since whatever the host forwards is compared with the rule of each. The one that was not mounted from for the longest
// time is forgotten: its rule stays until the host restarts, and its next mount has it remembered again.
const maxStorages = 256

// remember notes a storage's addresses. The note outlives the host's power.
func (a *Activities) remember(ctx context.Context, storage ...netip.Addr) error {
	unlock, err := a.folder.LockPart(ctx, storagesName)
	if err != nil {
		return err
	}
	defer unlock()
	known, err := a.storages()
	if err != nil || len(known) >= len(storage) && slices.Equal(known[len(known)-len(storage):], storage) {
		return err
	}
	known = append(slices.DeleteFunc(known, func(k netip.Addr) bool { return slices.Contains(storage, k) }), storage...)
	var text []byte
	for _, k := range known[max(0, len(known)-maxStorages):] {
		text = append(k.AppendTo(text), '\n')
	}
	return a.folder.Write(storagesName, text)
}

// storages gives those that the host remembers. A line that somebody made something else of than an address is passed over: the others count.
func (a *Activities) storages() (known []netip.Addr, err error) {
	text, err := os.ReadFile(a.folder.File(storagesName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, folder.WithoutPath(err)
	}
	for line := range strings.Lines(string(text)) {
		if address, err := netip.ParseAddr(strings.TrimSpace(line)); err == nil {
			known = append(known, address)
		}
	}
	return known, nil
}
