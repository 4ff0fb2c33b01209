package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"

	"strongroom/deploy/await"
	"strongroom/deploy/dev/process"
	"strongroom/deploy/dev/stack"
)

// What moves while a test waits.

// lookTime bounds one look of a witness.
const lookTime = 5 * time.Second

// progress tells how far the newest operation on a server of the demo project is. Who looks is a reader: a look of an owner's would
// bring a credential for what waits for one.
func (c *testCloud) progress(id string) await.Witness { return c.progressAs("-reader", id) }

// progressAs is progress, seen by a user.
func (c *testCloud) progressAs(user, id string) await.Witness {
	return await.Witness{Name: "server " + id, Look: func() string {
		client, err := c.looksAs(user)
		if err != nil {
			return ""
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		s, err := servers.Get(ctx, client, id).Extract()
		if err != nil {
			return ""
		}
		var shown struct {
			Operations []struct {
				Kind, State, Message string
				Progress             struct {
					Phase string
					Done  int64
				}
				Events []struct{ Event, Result string }
			}
		}
		client.Microversion = "" // the header below says it
		response, err := client.Get(ctx, client.ServiceURL("servers", id, "operations"), &shown, &gophercloud.RequestOpts{MoreHeaders: extended})
		if err != nil || response.Body.Close() != nil || len(shown.Operations) == 0 {
			return fmt.Sprintf("%s %s %d%%", s.Status, s.TaskState, s.Progress)
		}
		newest := shown.Operations[0]
		step := ""
		if n := len(newest.Events); n > 0 {
			step = newest.Events[n-1].Event + " " + newest.Events[n-1].Result
		}
		return fmt.Sprintf("%s %s %d%%; %s is %s %s, at step %d, %s; %s %d", s.Status, s.TaskState, s.Progress,
			newest.Kind, newest.State, newest.Message, len(newest.Events), step, newest.Progress.Phase, newest.Progress.Done)
	}}
}

// looksAs is compute for who must not fail the test.
func (c *testCloud) looksAs(user string) (*gophercloud.ServiceClient, error) {
	s, err := c.session(user)
	if err != nil {
		return nil, err
	}
	client, err := openstack.NewComputeV2(s.provider, s.endpoint)
	if err == nil {
		client.Microversion = microversion
	}
	return client, err
}

const (
	// worksFor is how much time of its virtual CPUs counts as work of a guest: an idle one takes less in the time for which it may stand still.
	worksFor = 5 * time.Second
	// bootsWithin is more than a boot takes. A kernel that has panicked takes all that it gets, for ever.
	bootsWithin = 10 * time.Minute
)

var ticking = regexp.MustCompile(`TG tick=\d+\r?\n`)

// guestProgress tells what a server's guest has said, on whatever host, and how much it has done while it boots. That it ticks is
// no progress.
func (c *testCloud) guestProgress(id string) await.Witness {
	return await.Witness{Name: "guest of server " + id, Look: func() string {
		var now []string
		var newest time.Time
		ticks := false
		for n := range c.hosts {
			file := filepath.Join(c.Host(n+1).Instances(), id, "console.log")
			about, err := os.Stat(file)
			if err != nil {
				continue
			}
			log, _ := os.ReadFile(file) // gone meanwhile: it said nothing
			if about.ModTime().After(newest) {
				newest, ticks = about.ModTime(), strings.HasPrefix(lastLine(log), "TG tick=")
			}
			said := ticking.ReplaceAll(log, nil)
			now = append(now, fmt.Sprintf("host %d: %d bytes, the last %.80q", n+1, len(said), lastLine(said)))
		}
		if !ticks {
			var worked time.Duration
			for _, pid := range machines()[id] {
				worked += min(vCPUTime(pid), bootsWithin)
			}
			now = append(now, fmt.Sprintf("at work for %v", worked.Truncate(worksFor)))
		}
		return strings.Join(now, "; ")
	}}
}

func lastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// hostProgress tells what runs on a host, and what the API says of it.
func (c *testCloud) hostProgress(h stack.Host) await.Witness {
	return await.Witness{Name: fmt.Sprintf("host %d", h.Number), Look: func() string {
		_, worker := process.Named(c.PIDFile(h.Part("host")))
		_, libvirtd := process.Named(c.PIDFile(h.Part("libvirtd")))
		now := fmt.Sprintf("worker runs: %v, libvirtd runs: %v", worker, libvirtd)
		name, err := h.Name()
		client, refused := c.looksAs("-admin") // whose project has nothing that waits for a credential
		if err != nil || refused != nil {
			return now
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		pages, err := services.List(client, services.ListOpts{Host: name, Binary: "nova-compute"}).AllPages(ctx)
		if err != nil {
			return now
		}
		all, err := services.ExtractServices(pages)
		if err != nil || len(all) != 1 {
			return now
		}
		return fmt.Sprintf("%s; it is %s, %s %s, forced down: %v", now, all[0].State, all[0].Status, all[0].DisabledReason, all[0].ForcedDown)
	}}
}

// logs tells how much the parts of a stack have said that starts or ends. One that runs says something now and then.
func (c *testCloud) logs() await.Witness {
	return await.Witness{Name: "logs of " + c.dir, Look: func() string {
		parts, _ := filepath.Glob(filepath.Join(c.State, "log", "*")) // the pattern is a good one
		var sizes []string
		for _, file := range append(parts, filepath.Join(c.dir, "dev.log")) {
			if about, err := os.Stat(file); err == nil {
				sizes = append(sizes, fmt.Sprintf("%s %d", filepath.Base(file), about.Size()))
			}
		}
		return strings.Join(sizes, ", ")
	}}
}
