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

func serveOn(r *run, name string, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(r, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r), 10*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
	defer stopped()
	r.log.Info("ready", "service", name, "address", listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
