package main

import (
	"fmt"
	"os"
)

// batch does something for each of several things. What fails is told at once and keeps nobody from the others.
type batch struct {
	what   string // "server"
	total  int
	failed map[string]error
}

func newBatch(what string, names []string) *batch {
	return &batch{what: what, total: len(names), failed: map[string]error{}}
}

// each does something for each name that has not failed yet.
func (b *batch) each(names []string, do func(name string) error) {
	for _, name := range names {
		if b.failed[name] != nil {
			continue
		}
		err := do(name)
		if err == nil {
			continue
		}
		b.failed[name] = err
		if b.total > 1 {
			fmt.Fprintf(os.Stderr, "%s %s: %v\n", b.what, printable(name), err)
		}
	}
}

// err says how many failed; of one thing alone it is its own error.
func (b *batch) err() error {
	for _, err := range b.failed {
		if b.total == 1 {
			return err
		}
		return fmt.Errorf("%d of %d %ss failed", len(b.failed), b.total, b.what)
	}
	return nil
}
