package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"golang.org/x/term"
)

// await polls a server until it has the status, with a progress line on a
// terminal. An empty status waits until the server is gone.
func await(ctx context.Context, client *gophercloud.ServiceClient, id string, timeout time.Duration, statuses ...string) (*servers.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	line := newProgressLine()
	defer line.end()
	for begun := time.Now(); ; {
		s, err := servers.Get(ctx, client, id).Extract()
		switch {
		case slices.Contains(statuses, "") && gophercloud.ResponseCodeIs(err, 404):
			return nil, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("server %s: gave up waiting after %s", id, timeout)
		case err != nil:
			return nil, explain(err)
		case s.Status == "ERROR" && s.TaskState == "":
			return nil, fmt.Errorf("server %s is in ERROR: %s", id, s.Fault.Message)
		case slices.Contains(statuses, s.Status) && s.TaskState == "":
			return s, nil
		}
		line.show(fmt.Sprintf("%s: %s %s, %.0f s", s.Name, s.Status, s.TaskState, time.Since(begun).Seconds()))
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// progressLine is one line that is written over on a terminal, and a new line
// for each change elsewhere.
type progressLine struct {
	terminal bool
	last     string
}

func newProgressLine() *progressLine {
	return &progressLine{terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

func (p *progressLine) show(text string) {
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r\033[K%s", text)
		p.last = text
	}
}

func (p *progressLine) end() {
	if p.terminal && p.last != "" {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
}
