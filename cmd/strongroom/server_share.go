package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"

	own "strongroom/client"
)

// askedShare is a share that a create names; tag "": its id.
type askedShare struct{ id, tag string }

// readShares reads UUID and UUID=TAG. No two are the same, or have the same tag.
func readShares(texts []string) (all []askedShare, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		id, tag, tagged := strings.Cut(text, "=")
		parsed, err := uuid.Parse(id)
		if err != nil || tagged && tag == "" {
			return nil, usage("--share is UUID or UUID=TAG, not %q", text)
		}
		s := askedShare{parsed.String(), tag}
		if seen[s.id] || seen[cmp.Or(s.tag, s.id)] {
			return nil, usage("--share: %q is another one's share or tag", text)
		}
		seen[s.id], seen[cmp.Or(s.tag, s.id)] = true, true
		all = append(all, s)
	}
	return all, nil
}

// startsAgain is how long a request may take that starts a server again which was stopped for its shares.
const startsAgain = 30 * time.Second

// giveShares attaches shares to a server that runs. One whose guest takes none while it runs is stopped for them, and started again whatever
// became of them.
func (w wait) giveShares(ctx context.Context, compute *gophercloud.ServiceClient, server, name string, shares []askedShare) (err error) {
	extended := own.Extend(compute)
	stopped := false
	defer func() {
		if stopped {
			err = errors.Join(err, w.startAgain(ctx, extended, server, name))
		}
	}()
	attach := func(s askedShare) error {
		_, operation, err := own.AttachShare(ctx, extended, server, s.id, s.tag)
		if err == nil {
			_, err = w.under(ctx, extended, server, name, operation)
		}
		return explain(err)
	}
	for i, s := range shares {
		err := attach(s)
		if err != nil && !stopped && strings.Contains(err.Error(), "while it is in vm_state active") {
			fmt.Fprintf(os.Stderr, "%s takes no shares while it runs: it is stopped for them, and started again\n", name)
			operation, failure := own.Act(ctx, compute, server, map[string]any{"os-stop": nil})
			if stopped = failure == nil; stopped {
				_, failure = w.under(ctx, extended, server, name, operation)
			}
			if err = explain(failure); err == nil {
				err = attach(s)
			}
		}
		if err != nil {
			var missing []string
			for _, s := range shares[i:] {
				missing = append(missing, s.id)
			}
			return fmt.Errorf("server %s was created, without %s: %w", server, strings.Join(missing, ", "), err)
		}
	}
	return nil
}

// startAgain starts a server also where the command was interrupted, and says so where that fails.
func (w wait) startAgain(ctx context.Context, extended *gophercloud.ServiceClient, server, name string) error {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), startsAgain)
	defer cancel()
	operation, err := own.Act(asking, extended, server, map[string]any{"os-start": nil})
	if err == nil {
		_, err = w.under(ctx, extended, server, name, operation)
	}
	if err != nil {
		return fmt.Errorf("server %s may be left off (strongroom server start %s): %w", server, server, explain(err))
	}
	return nil
}

type serverShares struct {
	Attach serverShareAttach `cmd:"" help:"Give a server a share, which its guest mounts."`
	Detach serverShareDetach `cmd:"" help:"Take a share from a server."`
	List   serverShareList   `cmd:"" help:"List a server's shares."`
}

// Help is shown by --help.
func (serverShares) Help() string {
	return `A share is one of Manila's, or of "strongroom share create", of the server's project. The server is off while one is attached or
detached, unless its guest's memory is shared (trait:CUSTOM_STRONGROOM_SHARES_LIVE=required); when it runs, its guest mounts the share by its
tag (docs/shares.md):

  strongroom server stop vault --wait
  strongroom server share attach vault 6a1c… --tag documents --wait
  strongroom server start vault --wait
  mount -t virtiofs documents /mnt     # in the guest`
}

// onShare is what is asked for one share of one server.
type onShare struct {
	cloud
	output
	wait
	Server string `arg:"" help:"Server, by id or name."`
	Share  string `arg:"" help:"Share, by UUID."`
}

type serverShareAttach struct {
	onShare
	Tag string `help:"Tag by which the guest mounts it; the share's UUID by default."`
}

func (c serverShareAttach) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	extended := own.Extend(client)
	attached, operation, err := own.AttachShare(r, extended, s.ID, c.Share, c.Tag)
	if err != nil {
		return explain(err)
	}
	if c.Wait {
		if _, err := c.under(r, extended, s.ID, s.Name, operation); err != nil {
			return err
		}
		if attached, err = own.GetShare(r, extended, s.ID, c.Share); err != nil {
			return explain(err)
		}
	}
	return printShares(c.output, []own.Share{attached})
}

type serverShareDetach struct{ onShare }

func (c serverShareDetach) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	extended := own.Extend(client)
	operation, err := own.DetachShare(r, extended, s.ID, c.Share)
	if err != nil {
		return explain(err)
	}
	if c.Wait {
		if _, err := c.under(r, extended, s.ID, s.Name, operation); err != nil {
			return err
		}
	}
	left, err := own.ListShares(r, extended, s.ID)
	if err != nil {
		return explain(err)
	}
	return printShares(c.output, left)
}

type serverShareList struct {
	cloud
	output
	Server string `arg:"" help:"Server, by id or name."`
}

func (c serverShareList) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	all, err := own.ListShares(r, own.Extend(client), s.ID)
	if err != nil {
		return explain(err)
	}
	return printShares(c.output, all)
}

func printShares(o output, all []own.Share) error {
	return o.print(all, func(w *sheet) {
		w.header("SHARE", "STATUS", "TAG", "FAULT")
		for _, s := range all {
			fault := ""
			if s.Fault != nil {
				fault = s.Fault.Message
			}
			w.row(s.ID, s.Status, s.Tag, fault)
		}
	})
}
