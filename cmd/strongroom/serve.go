package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"
)

// serve answers HTTP until the context ends, and lets what is under way finish.
func serve(r *run, name, address string, handler http.Handler) error {
	listener, err := listen(name, address)
	if err != nil {
		return err
	}
	return serveOn(r, name, listener, handler)
}

func listen(name, address string) (net.Listener, error) {
	return listenFor(name, address, maxConnections)
}

// listenFor lets so many connections in at once; those beyond wait until one ends.
func listenFor(name, address string, connections int) (net.Listener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return netutil.LimitListener(listener, connections), nil
}

// stopPatience bounds how long a service that is told to stop sees things through.
const stopPatience = 10 * time.Second

// The limits of a service that anybody can reach (M10).
const (
	maxConnections = 4096
	maxHeaderBytes = 64 << 10 // a token is some hundred bytes
)

// newServer makes a server that waits for no client without end.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: maxHeaderBytes,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
}

func serveOn(r *run, name string, listener net.Listener, handler http.Handler, with ...func(*http.Server)) error {
	return serveUntil(r, name, stopPatience, listener, handler, with...)
}

// serveUntil answers HTTP until the context ends, and then for so long what is under way.
func serveUntil(r *run, name string, patience time.Duration, listener net.Listener, handler http.Handler, with ...func(*http.Server)) error {
	server := newServer(handler)
	for _, change := range with {
		change(server)
	}
	stopped := make(chan struct{})
	disarm := context.AfterFunc(r, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r), patience)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	defer disarm()
	r.log.Info("ready", "service", name, "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped // Serve returns when the stop begins
	return nil
}
