package watchdog

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

const (
	// lookEvery is how often a watchdog looks.
	lookEvery = time.Second
	// aliveFor is how long a watchdog counts as one that looks after it has looked.
	aliveFor = 10 * time.Second
	// mostUnread is how often in a row a promise may be unreadable of which nothing was ever read.
	mostUnread = 10
)

// Watchdog stops a host's guests when its promise is due, again and again: something may start one.
type Watchdog struct {
	Note    Note
	Now     Clock
	StopAll func(ctx context.Context) error // a guest that cannot be stopped keeps no other one running
	Alive   Alive                           // where it says that it looks; "": nowhere
	Logger  *slog.Logger

	known   Promise // as it was read last
	read    bool    // that there was anything to know
	unread  int     // reads since then that failed
	problem string  // that was told last
	due     bool
}

// Run looks until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *Watchdog) look(ctx context.Context) {
	now, err := w.Now()
	if err == nil {
		err = w.lookAt(ctx, now)
	}
	if ctx.Err() != nil {
		return
	}
	if problem := message(err); problem != w.problem { // once, and not each second
		if w.problem = problem; problem != "" {
			w.Logger.ErrorContext(ctx, "the watchdog cannot do all of its work", "error", problem)
		}
	}
}

func (w *Watchdog) lookAt(ctx context.Context, now Moment) error {
	promise, err := w.Note.Read()
	if err == nil {
		w.known, w.read, w.unread = promise, true, 0
	} else {
		w.unread++
	}
	// A note that cannot be read is one of a promise, and what was read last holds still.
	due := w.known.Due(now) || !w.read && w.unread >= mostUnread
	if due != w.due {
		if w.due = due; due {
			w.Logger.WarnContext(ctx, "no gateway has answered this host for as long as it promised: its guests are stopped", "seconds", w.known.After.Seconds())
		} else {
			w.Logger.InfoContext(ctx, "a gateway has answered this host again: its guests may run")
		}
	}
	if due {
		if failed := w.StopAll(ctx); failed != nil {
			return failed // it is none that does its work
		}
	}
	if err != nil { // it does not see what the host promises: nothing is to be promised because of it
		return err
	}
	return w.Alive.note(now)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Alive is the file by which a watchdog says that it looks. It is of this boot, and need not be
// durable.
type Alive string

func (a Alive) note(now Moment) error {
	if a == "" {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(string(a)), 0o711); err != nil {
		return err
	}
	if err := os.WriteFile(string(a)+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(string(a)+".new", string(a))
}

// Looks reports whether a watchdog has looked a moment ago.
func (a Alive) Looks(now Moment) bool {
	text, err := os.ReadFile(string(a))
	var at Moment
	return err == nil && json.Unmarshal(text, &at) == nil && at.Boot == now.Boot && now.Since-at.Since < aliveFor
}
