package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/remoteconsoles"
	"golang.org/x/term"

	"strongroom/api/console"
)

type serverConsole struct {
	cloud
	Server string `arg:"" help:"Server, by id or name."`
}

// Help is shown by --help.
func (serverConsole) Help() string {
	return `Connects the terminal to the server's first serial port, through the cloud's console proxy. What the guest said before is
not repeated: strongroom server console-log has it. Of a serial line there is one session; a newer one ends it.

Ctrl-] ends the session, and so does the end of the server's machine: a stop, a hard reboot, a move, a delete.
Where the input is no terminal, all of it is typed, and the session goes on until it is ended.

  strongroom server console vault
  echo uptime | timeout 5 strongroom server console vault`
}

// escape ends a session at a terminal: Ctrl-].
const escape = 0x1d

func (c serverConsole) Run(r *run) error {
	client, s, err := c.server(r, c.Server)
	if err != nil {
		return err
	}
	got, err := remoteconsoles.Create(r, client, s.ID, remoteconsoles.CreateOpts{
		Protocol: remoteconsoles.ConsoleProtocolSerial, Type: remoteconsoles.ConsoleTypeSerial,
	}).Extract()
	if err != nil {
		return explain(err)
	}
	line, err := dialConsole(r, &client.HTTPClient, got.URL)
	if err != nil {
		return err
	}
	if in := int(os.Stdin.Fd()); term.IsTerminal(in) {
		fmt.Fprintf(os.Stderr, "Connected to %s. Ctrl-] ends the session.\n", s.Name)
		before, err := term.MakeRaw(in)
		if err != nil {
			return err
		}
		defer func() {
			_ = term.Restore(in, before)
			fmt.Fprintln(os.Stderr)
		}()
	}
	return attach(r, line, os.Stdin, os.Stdout)
}

// dialConsole connects to a console of the proxy, which is trusted as the API is: with the same authorities, by the same way.
func dialConsole(ctx context.Context, by *http.Client, url string) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	line, resp, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: by, Subprotocols: []string{console.Subprotocol}})
	if resp != nil && resp.Body != nil {
		defer func() { _ = resp.Body.Close() }()
	}
	if err == nil {
		line.SetReadLimit(1 << 20)
		return line, nil
	}
	if resp != nil && resp.Body != nil {
		if said, readErr := io.ReadAll(io.LimitReader(resp.Body, 1000)); readErr == nil && len(said) > 0 {
			return nil, errors.New("the console proxy: " + strings.TrimSpace(string(said)))
		}
	}
	return nil, fmt.Errorf("the console proxy does not answer: %w", withoutToken(err))
}

// withoutToken is an error that does not tell the address of a console, which has a token in it.
func withoutToken(err error) error {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err
}

// attach types what comes in, until Ctrl-], and shows what the guest says, until the console ends.
func attach(ctx context.Context, line *websocket.Conn, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	go func() {
		p := make([]byte, 4096)
		for {
			n, err := in.Read(p)
			typed, _, stop := bytes.Cut(p[:n], []byte{escape})
			if len(typed) > 0 {
				if err := line.Write(ctx, websocket.MessageBinary, typed); err != nil {
					ended <- err
					return
				}
			}
			if stop {
				ended <- nil
				return
			}
			if err != nil { // all was typed
				return
			}
		}
	}()
	go func() {
		for {
			_, said, err := line.Read(ctx)
			if err != nil {
				ended <- err
				return
			}
			if _, err := out.Write(said); err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case <-ctx.Done():
	case err := <-ended:
		var closed websocket.CloseError
		switch {
		case errors.As(err, &closed):
			_ = line.CloseNow()
			return fmt.Errorf("the console has ended: its machine stopped or moved, or a newer session took it (%s)", closed.Reason)
		case err != nil && ctx.Err() == nil:
			_ = line.CloseNow()
			return fmt.Errorf("the connection to the console proxy ended: %w", err)
		}
	}
	return line.Close(websocket.StatusNormalClosure, "")
}
