package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"strongroom/deploy/dev/stack"
)

// reach shows that the server is reached at the address that `openstack server show` prints: the tiny guest greets
// who connects to its port 80, and a cloud image lets who has the server's key log in over ssh. A stack with several hosts has no networks of projects.
func (d demoCommand) reach(ctx context.Context, layout stack.Layout, s *servers.Server) error {
	at := addressOf(s)
	if at == "" && d.SSH != "" {
		return errors.New("the project has no network here, so nobody logs in: leave out --ssh")
	}
	if at == "" {
		fmt.Println("address   none: the project has no network here")
		return nil
	}
	if d.SSH != "" {
		return d.login(ctx, layout, at)
	}
	if d.Image != "" {
		fmt.Printf("address   %s\n", at)
		return nil
	}
	if _, err := guestLine(ctx, filepath.Join(layout.Instances(), s.ID, "console.log"), regexp.MustCompile(`TG (dhcp .* err=<nil>)`)); err != nil {
		return err
	}
	said, err := greeting(ctx, net.JoinHostPort(at, "80"))
	if err != nil {
		return fmt.Errorf("the guest does not answer at %s: %w", at, err)
	}
	fmt.Printf("address   %s, which the guest got by DHCP; over TCP it says: %s\n", at, said)
	return nil
}

// addressOf is a server's address, "" for none.
func addressOf(s *servers.Server) string {
	for _, network := range s.Addresses {
		list, _ := network.([]any)
		for _, one := range list {
			entry, _ := one.(map[string]any)
			if address, ok := entry["addr"].(string); ok {
				return address
			}
		}
	}
	return ""
}

// greeting reads the line that a guest writes to who connects, for half a minute.
func greeting(ctx context.Context, address string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		line, err := greetingOnce(ctx, address)
		if err == nil {
			return line, nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond): // the host lets it through once it has the rules of its address
		}
	}
}

func greetingOnce(ctx context.Context, address string) (string, error) {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line), err
}
