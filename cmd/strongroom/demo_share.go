package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/activities/share/local"
	own "strongroom/client"
	"strongroom/compute"
	"strongroom/deploy/dev/stack"
)

// proveShare attaches a share to the server and has its guest write into it what is then read on the host.
func (d demoCommand) proveShare(ctx context.Context, layout stack.Layout, s *servers.Server) error {
	client, err := (&cloud{OSCloud: stack.CloudName}).compute(ctx)
	if err != nil {
		return err
	}
	folders := filepath.Join(layout.State, "shares")
	service, err := local.Open(folders)
	if err != nil {
		return err
	}
	share, err := service.Create(ctx, compute.Credential{ProjectID: s.TenantID}, s.Name, 1)
	if err != nil {
		return err
	}
	fmt.Println()
	say("attaching share %s, for which the server has to be off", share.ID)
	if err := d.act(ctx, client, s, "os-stop"); err != nil {
		return err
	}
	if err := attachShare(ctx, client, s.ID, share.ID, d.Timeout); err != nil {
		return err
	}
	if err := d.act(ctx, client, s, "os-start"); err != nil {
		return err
	}
	if err := tellGuest(ctx, layout.ConsoleSocket(s.ID), d.Timeout, "share data", "write /share/letter from "+s.Name); err != nil {
		return err
	}
	letter := filepath.Join(folders, share.ID.String(), "data", "letter")
	text, err := os.ReadFile(letter)
	if err != nil {
		return fmt.Errorf("what the guest wrote is not there: %w", err)
	}
	fmt.Printf("\nshare     mounted in the guest with mount -t virtiofs data\nwritten   by the guest, read on the host: %q in %s\n", text, letter)
	return nil
}

// act asks for an action and waits for its end.
func (d demoCommand) act(ctx context.Context, client *gophercloud.ServiceClient, s *servers.Server, action string) error {
	operation, err := own.Act(ctx, client, s.ID, map[string]any{action: nil})
	if err != nil {
		return explain(err)
	}
	_, err = (wait{Timeout: d.Timeout}).under(ctx, own.Extend(client), s.ID, s.Name, operation)
	return err
}

// attachShare attaches a share with the tag data and waits until the server has it.
func attachShare(ctx context.Context, client *gophercloud.ServiceClient, server string, id compute.ShareID, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	with := *client
	with.Microversion = "2.97"
	address := with.ServiceURL("servers", server, "shares")
	var got struct {
		Share struct{ Status string }
	}
	ask := func(method, address string, opts *gophercloud.RequestOpts) error {
		response, err := with.Request(ctx, method, address, opts)
		if response != nil {
			_ = response.Body.Close()
		}
		return explain(err)
	}
	if err := ask("POST", address, &gophercloud.RequestOpts{
		JSONBody: map[string]any{"share": map[string]string{"share_id": id.String(), "tag": "data"}}, OkCodes: []int{201},
	}); err != nil {
		return err
	}
	for {
		if err := ask("GET", address+"/"+id.String(), &gophercloud.RequestOpts{JSONResponse: &got, OkCodes: []int{200}}); err != nil {
			return err
		}
		switch got.Share.Status {
		case "inactive":
			return nil
		case "error":
			return fmt.Errorf("share %s was not attached: strongroom server events %s says why", id, server)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("share %s is %s: gave up waiting after %s", id, got.Share.Status, timeout)
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// tellGuest types commands on the serial line of the tiny guest, once it has come up, and waits until each is
// done.
func tellGuest(ctx context.Context, socket string, timeout time.Duration, commands ...string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	line, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer func() { _ = line.Close() }()
	defer context.AfterFunc(ctx, func() { _ = line.Close() })()
	said := bufio.NewScanner(line)
	hears := func(prefix string) (string, error) {
		for said.Scan() {
			if _, after, ok := strings.Cut(said.Text(), prefix); ok {
				return after, nil
			}
		}
		return "", fmt.Errorf("the guest did not answer within %s: %w", timeout, said.Err())
	}
	if _, err := hears("TG tick="); err != nil {
		return err
	}
	for _, command := range commands {
		if _, err := fmt.Fprintln(line, command); err != nil {
			return err
		}
		verb, _, _ := strings.Cut(command, " ")
		answer, err := hears("TG " + verb + " ")
		if err != nil {
			return err
		}
		if !strings.Contains(answer, "err=<nil>") {
			return fmt.Errorf("the guest could not %q: %s", command, answer)
		}
	}
	return nil
}
