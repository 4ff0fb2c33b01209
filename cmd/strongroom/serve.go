package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
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
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return listener, nil
}

// stopPatience bounds how long a service that is told to stop sees things through.
const stopPatience = 10 * time.Second

func serveOn(r *run, name string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan struct{})
	disarm := context.AfterFunc(r, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r), stopPatience)
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
