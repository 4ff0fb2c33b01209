package main

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"
)

// The exit codes beside 0, it is done.
const (
	codeFailed = 1 // it failed or was refused; of several things, at least one
	codeUsage  = 2 // what was asked for was not understood
	codeGoesOn = 3 // the operation goes on: waiting for it ended first
)

// exit is an error with an exit code of its own.
type exit struct {
	error
	code int
}

// ExitCode implements kong.ExitCoder.
func (e exit) ExitCode() int { return e.code }

func (e exit) Unwrap() error { return e.error }

// usage is the error of what was not understood.
func usage(format string, args ...any) error { return exit{fmt.Errorf(format, args...), codeUsage} }

// exitCode is 1 for an error that does not ask for another one.
func exitCode(err error) int {
	var asks kong.ExitCoder
	if errors.As(err, &asks) {
		return asks.ExitCode()
	}
	return codeFailed
}

// misread is the error of a command line that could not be read, in one line.
func misread(err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) {
		return exit{err, codeUsage}
	}
	command := "strongroom"
	if parse.Context != nil {
		if at := parse.Context.Selected(); at != nil {
			command = at.FullPath()
		} else if path := parse.Context.Path; len(path) > 0 && path[len(path)-1].Node() != nil {
			command = path[len(path)-1].Node().FullPath()
		}
	}
	return usage("%v: see %s --help", err, command)
}
