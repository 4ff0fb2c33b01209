package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"strongroom/compute"
)

// bootMark is the file in a server's folder that says when the operation began that started
// the server here last. Its console log and its config drive have the same names after each
// boot: a removal that waited since before leaves them alone.
func bootMark(dir string) string { return hidden(filepath.Join(dir, ConsoleLog), ".boot") }

// NoteBoot notes when the operation began that is about to start a server. It makes no folder
// for one that has none here.
func (a *Activities) NoteBoot(ctx context.Context, id compute.ServerID, began time.Time) error {
	dir, err := a.serverDir(id)
	if err != nil || began.IsZero() {
		return err
	}
	unlock, err := lockFile(ctx, filepath.Join(dir, ConsoleLog), false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(bootMark(dir), []byte(began.UTC().Format(time.RFC3339Nano)), 0o600)
		unlock()
	}
	if err != nil {
		return failed(ctx, err, "server %s: mark of its boot", id)
	}
	return nil
}

// bootedAt reads the mark, zero where there is none.
func bootedAt(dir string) time.Time {
	text, err := os.ReadFile(bootMark(dir))
	if err != nil {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339Nano, string(text))
	return at
}
