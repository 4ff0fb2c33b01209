package main

import (
	"fmt"

	"strongroom/activities/legacy"
	"strongroom/compute"
)

type legacyCommand struct {
	Import  legacyImport  `cmd:"" help:"Take over servers that Nova ran, with the volumes and the keys of their disks."`
	Migrate legacyMigrate `cmd:"" help:"Move legacy keys to the disks that they open."`
	Status  legacyStatus  `cmd:"" help:"Report servers whose key is still to be moved."`
}

// Exit codes of the legacy commands, as operators know them from nova-status and
// nova-manage.
const (
	codeMore  = 1 // something is left that migrate moves
	codeStuck = 2 // something is left that migrate cannot move
)

func (r *run) legacy() (*legacy.Keys, func(), error) {
	cfg, err := r.config()
	if err != nil {
		return nil, nil, exit{err, codeStuck}
	}
	how := legacyEncryption(cfg)
	if _, err := how.Options(); err != nil {
		return nil, nil, exit{err, codeStuck}
	}
	pool, err := openDatabase(r, cfg)
	if err != nil {
		return nil, nil, exit{err, codeStuck}
	}
	return &legacy.Keys{Pool: pool, Encryption: how}, pool.Close, nil
}

func legacyEncryption(cfg *Config) compute.DMCrypt {
	return compute.DMCrypt{Cipher: cfg.Legacy.Cipher, KeySize: cfg.Legacy.KeySize, Hash: cfg.Legacy.Hash}
}

type legacyMigrate struct {
	output
	MaxCount int `help:"Move at most so many; 0 is all." placeholder:"N"`
}

// Help is shown by --help.
func (legacyMigrate) Help() string {
	return `Servers of the legacy implementation (dm-crypt on LVM) have one key for all of
their disks, in servers.ephemeral_key_uuid. This gives each of their disks the
key and the format plain, and takes the key from the server, in one transaction
for each server. A disk that was imported keeps its own cipher, key size and
hash; others get those of legacy.cipher, legacy.key_size and legacy.hash. The
key goes on the ledger, and is deleted with the server.

It may be killed, run again, and run from several places at once. A server that
is started before it comes to it is moved by its start.

Exit code 0: nothing is left; 1: --max-count was reached, run it again; 2: the
disks of some servers contradict their key, or it could not work at all.`
}

// migrated is what migrate prints.
type migrated struct {
	Moved int               `json:"moved"`
	Left  []legacy.Leftover `json:"left"`
}

func (c legacyMigrate) Run(r *run) error {
	if c.MaxCount < 0 {
		return exit{fmt.Errorf("--max-count %d: it must be 0 or more", c.MaxCount), codeStuck}
	}
	keys, done, err := r.legacy()
	if err != nil {
		return err
	}
	defer done()
	all, err := keys.Leftovers(r)
	if err != nil {
		return exit{err, codeStuck}
	}
	result := migrated{Left: []legacy.Leftover{}}
	for _, l := range all {
		if l.Why != "" || c.MaxCount > 0 && result.Moved == c.MaxCount {
			result.Left = append(result.Left, l)
			continue
		}
		moved, err := keys.Move(r, l.Server)
		switch {
		case compute.Is(err, compute.Conflict):
			l.Why = err.Error()
			result.Left = append(result.Left, l)
		case err != nil:
			return exit{fmt.Errorf("%d moved, then: %w", result.Moved, err), codeStuck}
		case moved:
			result.Moved++
		}
	}
	if err := c.print(result, func(w *sheet) {
		w.note(fmt.Sprintf("%d servers moved, %d left", result.Moved, len(result.Left)))
		leftoverTable(w, result.Left)
	}); err != nil {
		return err
	}
	return leftoverError(result.Left)
}

type legacyStatus struct{ output }

// Help is shown by --help.
func (legacyStatus) Help() string {
	return `Changes nothing. Beside the servers whose key is still to be moved it says what is
deprecated, and until when, and how many disks have the legacy encryption.

Exit code 0: no server has a legacy key; 1: some have, and strongroom legacy
migrate moves them; 2: the disks of some contradict their key, or the database
could not be asked.`
}

func (c legacyStatus) Run(r *run) error {
	keys, done, err := r.legacy()
	if err != nil {
		return err
	}
	defer done()
	left, err := keys.Leftovers(r)
	if err != nil {
		return exit{err, codeStuck}
	}
	disks, err := keys.Disks(r)
	if err != nil {
		return exit{err, codeStuck}
	}
	if err := c.print(map[string]any{"left": left, "disks": disks, "deprecated": legacy.Deprecated}, func(w *sheet) {
		w.note(fmt.Sprintf("%d servers have a legacy key", len(left)))
		leftoverTable(w, left)
		w.note(fmt.Sprintf("%d disks have the legacy encryption", disks))
		for _, d := range legacy.Deprecated {
			w.note("deprecated: " + d.What + ", until " + d.Until + ": " + d.Instead)
		}
	}); err != nil {
		return err
	}
	return leftoverError(left)
}

func leftoverTable(w *sheet, left []legacy.Leftover) {
	if len(left) > 0 {
		w.header("SERVER", "WHY")
	}
	for _, l := range left {
		why := l.Why
		if why == "" {
			why = "not moved yet"
		}
		w.row(l.Server, why)
	}
}

// leftoverError is nil when nothing is left.
func leftoverError(left []legacy.Leftover) error {
	stuck := 0
	for _, l := range left {
		if l.Why != "" {
			stuck++
		}
	}
	switch {
	case stuck > 0:
		return exit{fmt.Errorf("%d of %d servers cannot be moved", stuck, len(left)), codeStuck}
	case len(left) > 0:
		return exit{fmt.Errorf("%d servers are left: run strongroom legacy migrate", len(left)), codeMore}
	}
	return nil
}
