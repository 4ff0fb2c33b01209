package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"strongroom/client"
)

// wait is for commands that can wait for the end of what they asked for.
type wait struct {
	Wait    bool          `help:"Wait until it is done, with progress. Exit code 1: it failed; 3: it goes on after --timeout."`
	Timeout time.Duration `default:"10m" help:"How long to wait."`
}

// under waits for the end of an operation of a server, and says how far it is; name is the server's.
func (w wait) under(ctx context.Context, own *gophercloud.ServiceClient, server, name, operation string) (client.Operation, error) {
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	line := newProgressLine()
	defer line.end()
	op, err := client.WaitForOperation(limited, own, server, operation, func(op client.Operation) { line.operation(name, op) })
	var failed *client.OperationError
	switch {
	case errors.As(err, &failed):
		return op, err
	case limited.Err() != nil:
		text := fmt.Sprintf("gave up waiting after %s", w.Timeout)
		if ctx.Err() != nil {
			text = "stopped waiting"
		}
		return op, exit{fmt.Errorf("%s: the operation %s goes on: strongroom operation watch %s %s", text, operation, server, operation), codeGoesOn}
	case gophercloud.ResponseCodeIs(err, 404):
		return op, fmt.Errorf("the cloud knows nothing of the operation %s", operation)
	}
	return op, explain(err)
}

// poll looks twice a second until look is done or fails. inTime is false where the time was over before.
func poll(ctx context.Context, timeout time.Duration, look func(context.Context) (done bool, err error)) (inTime bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		done, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil || done:
			return true, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// progressLine is one line that is written over on a terminal, with a bar for what can be counted; elsewhere it is
// a new line for each step and each tenth of what is counted.
type progressLine struct {
	out      io.Writer
	terminal bool
	last     string
	bar      *progressbar.ProgressBar
	phase    string
}

func newProgressLine() *progressLine {
	return &progressLine{out: os.Stderr, terminal: term.IsTerminal(int(os.Stderr.Fd()))}
}

// operation shows how far an operation is.
func (p *progressLine) operation(name string, op client.Operation) {
	step := ""
	if n := len(op.Events); n > 0 && op.Events[n-1].FinishTime == nil {
		step = " " + op.Events[n-1].Event
	}
	what := fmt.Sprintf("%s: %s%s", name, op.Kind, step)
	at := op.Progress
	if at == nil || at.Total <= 0 {
		p.dropBar()
		p.since(fmt.Sprintf("%s, %s", what, op.State), op.AcceptedAt.Time)
		return
	}
	what = fmt.Sprintf("%s: %s %s", name, op.Kind, at.Phase)
	if !p.terminal {
		p.show(fmt.Sprintf("%s %d%% of %s", what, min(at.Done, at.Total)*10/at.Total*10, total(*at)))
		return
	}
	if p.bar == nil || p.phase != what {
		p.dropBar()
		p.phase, p.bar = what, newBar(p.out, what, *at)
	}
	p.bar.ChangeMax64(max(at.Total, at.Done))
	_ = p.bar.Set64(at.Done)
}

// newBar shows bytes, their rate, and how long the rest takes at that.
func newBar(out io.Writer, what string, at client.Progress) *progressbar.ProgressBar {
	return progressbar.NewOptions64(at.Total,
		progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(at.Unit == "bytes"),
		progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(true), progressbar.OptionUseIECUnits(true), progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(30), progressbar.OptionClearOnFinish())
}

// dropBar takes the bar off the terminal.
func (p *progressLine) dropBar() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar, p.phase = nil, ""
	}
}

// since shows what is under way, and, on a terminal, for how long.
func (p *progressLine) since(text string, begun time.Time) {
	if p.terminal {
		text = fmt.Sprintf("%s, %.0f s", text, time.Since(begun).Seconds())
	}
	p.show(text)
}

// show writes one line; elsewhere than on a terminal only where it says something new.
func (p *progressLine) show(text string) {
	if text = printable(text); p.terminal {
		_, _ = fmt.Fprintf(p.out, "\r\033[K%s", text)
	} else if text != p.last {
		_, _ = fmt.Fprintln(p.out, text)
	}
	p.last = text
}

func (p *progressLine) end() {
	p.dropBar()
	if p.terminal && p.last != "" {
		_, _ = fmt.Fprint(p.out, "\r\033[K")
	}
}

// amount is how much of something is done.
func amount(p client.Progress) string {
	if p.Unit != "bytes" {
		return fmt.Sprintf("%d of %d %s", p.Done, p.Total, p.Unit)
	}
	return fmt.Sprintf("%s of %s", mebibytes(p.Done), mebibytes(p.Total))
}

func total(p client.Progress) string {
	if p.Unit != "bytes" {
		return fmt.Sprintf("%d %s", p.Total, p.Unit)
	}
	return mebibytes(p.Total)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
