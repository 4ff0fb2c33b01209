package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"strongroom/activities/ledger"
	"strongroom/compute"
	"strongroom/durable"
)

type hostForget struct {
	output
	Host string `arg:"" name:"host" help:"Its name or uuid."`
	Yes  bool   `short:"y" help:"Do not ask."`
}

// Help is shown by --help.
func (hostForget) Help() string {
	return `For a compute host that is lost for good. What is to be removed on it waits on the
ledger until it answers, so the audit reports it for ever. This releases what waits
for the host and lists it: it may still be on the machine's disks, so destroy or erase
them. Encrypted disks cannot be opened any more, since the keys of deleted servers
are deleted as soon as their host is forced down or forgotten. So is the key of the
encrypted volume that has the host's own state, if it has one: what is on it is lost.

Before it, mark the host as down (this needs no answer from it), list the servers that
are on it, and delete them:

    openstack compute service set --down HOST nova-compute
    openstack server list --all-projects --host HOST
    openstack server delete SERVER

A host that has servers, or on which an operation is at work, is not forgotten, nor is
one that reported itself in the last minute and is not forced down; the error says
what to do. Nothing is placed on a forgotten host, its certificate is revoked, and tokens
for it that were not used yet are refused. If the machine comes back after all, enroll it
again; then it is a host like any other.

Exit code 0: the host is forgotten; 1: it is not, and nothing was changed.`
}

// forgotten is what forget prints.
type forgotten struct {
	Host   durable.Host    `json:"host"`
	Things []compute.Thing `json:"things"`
}

func (c hostForget) Run(r *run) error {
	_, pool, err := r.database()
	if err != nil {
		return err
	}
	defer pool.Close()
	host, err := ledger.FindForgettable(r, pool, c.Host)
	if err != nil {
		return err
	}
	if !c.Yes {
		things, err := ledger.Forgettable(r, pool, host.ID)
		if err != nil {
			return err
		}
		if err := ask(os.Stdin, os.Stderr, forgetWarning(host, things)); err != nil {
			return err
		}
	}
	things, err := ledger.Forget(r, pool, host.ID)
	if err != nil {
		return err
	}
	result := forgotten{Host: host, Things: append([]compute.Thing{}, things...)}
	return c.print(result, func(w *sheet) {
		if len(things) > 0 {
			w.header("KIND", "NAME", "OWNER")
		}
		for _, t := range things {
			w.row(t.Kind, t.Name, t.Owner)
		}
		w.note(fmt.Sprintf("host %s is forgotten; things that may still be on its disks: %d", host.Name, len(things)))
	})
}

func forgetWarning(host durable.Host, things []compute.Thing) string {
	return fmt.Sprintf("Host %s (%s) will be forgotten. What waits to be removed there stays on its disks: %s. The key of the encrypted volume with its own state is deleted, if it has one.", host.Name, host.ID, kindsOf(things))
}

// kindsOf counts things by kind, as people are told.
func kindsOf(things []compute.Thing) string {
	count := map[compute.ThingKind]int{}
	for _, t := range things {
		count[t.Kind]++
	}
	var kinds []string
	for _, kind := range compute.TeardownOrder {
		if count[kind] > 0 {
			kinds = append(kinds, fmt.Sprintf("%d %s", count[kind], kind))
		}
	}
	if len(kinds) == 0 {
		return "nothing"
	}
	return strings.Join(kinds, ", ")
}

// ask asks a person at the terminal; an error means no.
func ask(in *os.File, out io.Writer, question string) error {
	if !term.IsTerminal(int(in.Fd())) {
		return errors.New("there is no terminal to ask at: say --yes")
	}
	return confirm(in, out, question)
}

func confirm(in io.Reader, out io.Writer, question string) error {
	_, _ = fmt.Fprintf(out, "%s\nGo on? [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was done")
}
