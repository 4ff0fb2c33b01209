package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"strongroom/activities/ledger"
	"strongroom/activities/legacy"
	"strongroom/compute"
	"strongroom/durable"
	"strongroom/durable/outbox"
	"strongroom/worker/pki"
)

type legacyImport struct {
	output
	File         string        `arg:"" optional:"" name:"file" type:"existingfile" help:"What Nova's database says of the servers, as YAML or JSON (docs/legacy.md)."`
	NovaDatabase string        `type:"existingfile" placeholder:"FILE" help:"Instead, a file with the URL of that database, as [database]/connection of nova.conf has it."`
	NovaHost     string        `placeholder:"NAME" help:"Of that database, the servers of this host alone."`
	Force        bool          `help:"Use the volumes even if nothing that is known is found in them."`
	DryRun       bool          `help:"Check the file and the hosts, and change nothing."`
	Timeout      time.Duration `default:"10m" help:"How long to wait for the hosts. The imports go on after it."`
}

// Help is shown by --help.
func (legacyImport) Help() string {
	return `For servers whose disks have the legacy encryption of Nova's libvirt driver (dm-crypt
on LVM, [ephemeral_storage_encryption]). Each is shut down in Nova before, and nova-compute
of its host stopped: the host's worker takes its volumes over where they are. Nothing is
copied, and nothing written to them.

A server keeps its id, owner, key and addresses, and is off. strongroom legacy migrate, or
its start, gives the key to its disks. Before a volume is used for the first time, the
host opens it for reading alone and looks for a file system, a partition table, swap or LVM:
with a wrong cipher, key size, hash or key there is none, and the start is refused with
nothing written. Correct the file and import it again. With --force nothing is looked for.

  strongroom legacy import servers.yaml --dry-run
  strongroom legacy import servers.yaml
  strongroom legacy migrate

Nova's database says all of it but how the disks are encrypted. Read from there, the servers have
legacy.cipher, legacy.key_size and legacy.hash of the configuration:

  strongroom legacy import --nova-database nova-cell1.url --nova-host compute1 --dry-run

The file holds one line, mysql+pymysql://USER:PASSWORD@HOST/nova or postgresql://…; nothing is
written to that database, and a user who may read is enough.

It may be repeated, also for servers that are imported already and with another key, until
their first boot here. Volumes and keys of imported servers are theirs, and are deleted with
them.

Exit code 0: all are imported; 1: some are not, and the last column says why.`
}

// importedServer is what import prints of a server.
type importedServer struct {
	ID        compute.ServerID    `json:"id"`
	Name      string              `json:"name"`
	Operation compute.OperationID `json:"operation_id,omitempty"`
	Result    string              `json:"result"` // imported, could be, importing or failed
	Why       string              `json:"why,omitempty"`
}

func (c legacyImport) Run(r *run) error {
	described, err := c.described(r)
	if err != nil {
		return err
	}
	b, err := r.openBackends(pki.Control, durable.DialLazily)
	if err != nil {
		return err
	}
	defer b.close()
	keys := legacy.Keys{Pool: b.pool, Encryption: legacyEncryption(b.Config)}
	servers := make([]legacy.Imported, len(described)) // the whole file makes sense, or nothing is done
	for i, d := range described {
		host, err := ledger.FindHost(r, b.pool, d.Host)
		if err != nil {
			return fmt.Errorf("server %s: %w", d.ID, err)
		}
		if servers[i], err = d.Server(host.ID, keys.Encryption); err != nil {
			return err
		}
		servers[i].Force = c.Force
	}
	launcher := outbox.Launcher{Starter: durable.Starter{Client: b.temporal}, Logger: r.log}
	results, failed := c.begin(r, keys, servers, func(op compute.Operation) { launcher.Launch(r, []compute.Operation{op}) }), 0
	launcher.Wait(r) // what is not started now is by a control worker
	c.await(r, keys, results)
	for _, result := range results {
		if result.Result != "imported" && result.Result != "could be" {
			failed++
		}
	}
	if err := c.print(results, func(w *sheet) {
		w.header("SERVER", "NAME", "RESULT", "WHY")
		for _, result := range results {
			w.row(result.ID, result.Name, result.Result, result.Why)
		}
	}); err != nil || failed == 0 {
		return err
	}
	return fmt.Errorf("%d of %d servers are not imported", failed, len(results))
}

// described reads what Nova has of the servers, of a file or of its database.
func (c legacyImport) described(r *run) ([]legacy.Description, error) {
	switch {
	case (c.File == "") == (c.NovaDatabase == ""):
		return nil, compute.Errorf(compute.Invalid, "either a file that describes the servers, or --nova-database")
	case c.NovaDatabase != "":
		at, err := os.ReadFile(c.NovaDatabase)
		if err != nil {
			return nil, err
		}
		return legacy.ReadNova(r, string(at), c.NovaHost)
	case c.NovaHost != "":
		return nil, compute.Errorf(compute.Invalid, "--nova-host goes with --nova-database")
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return legacy.ReadFile(file)
}

// begin begins the imports.
func (c legacyImport) begin(r *run, keys legacy.Keys, servers []legacy.Imported, launch func(compute.Operation)) []importedServer {
	results := make([]importedServer, len(servers))
	for i, s := range servers {
		results[i] = importedServer{ID: s.ID, Name: s.Name, Result: "could be"}
		if c.DryRun {
			continue
		}
		op, err := keys.Import(r, s)
		if err != nil {
			results[i].Result, results[i].Why = "failed", err.Error()
			continue
		}
		results[i].Operation, results[i].Result = op.ID, "importing"
		launch(op)
	}
	return results
}

// await waits until the imports that were begun have ended, or for as long as it may take.
func (c legacyImport) await(r *run, keys legacy.Keys, results []importedServer) {
	ctx, cancel := context.WithTimeout(r, c.Timeout)
	defer cancel()
	for i := range results {
		for result := &results[i]; result.Result == "importing"; {
			state, message, err := keys.Ended(ctx, result.Operation)
			switch {
			case ctx.Err() != nil:
				result.Why = "it goes on: see the server's os-instance-actions"
			case err != nil:
				result.Why = err.Error()
			case state == compute.OperationSucceeded:
				result.Result = "imported"
				continue
			case state != "":
				result.Result, result.Why = "failed", message
				continue
			default:
				select {
				case <-ctx.Done():
				case <-time.After(300 * time.Millisecond):
				}
				continue
			}
			break
		}
	}
}
