package main

import (
	"context"
	"log/slog"
	"os"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// logger is Temporal's log, in ours.
type logger struct{ to *slog.Logger }

var _ log.Logger = logger{}

func (l logger) Debug(msg string, tags ...tag.Tag)  { l.log(slog.LevelDebug, msg, tags) }
func (l logger) Info(msg string, tags ...tag.Tag)   { l.log(slog.LevelInfo, msg, tags) }
func (l logger) Warn(msg string, tags ...tag.Tag)   { l.log(slog.LevelWarn, msg, tags) }
func (l logger) Error(msg string, tags ...tag.Tag)  { l.log(slog.LevelError, msg, tags) }
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.log(slog.LevelError, msg, tags) }

func (l logger) Panic(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal ends the process: Temporal relies on it.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.log(slog.LevelError, msg, tags)
	os.Exit(1)
}

func (l logger) log(level slog.Level, msg string, tags []tag.Tag) {
	if !l.to.Enabled(context.Background(), level) {
		return
	}
	attributes := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attributes[i] = slog.Any(t.Key(), t.Value())
	}
	l.to.LogAttrs(context.Background(), level, msg, attributes...) //nolint:sloglint // it is Temporal's
}
