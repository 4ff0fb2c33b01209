package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"strongroom/deploy/cloud"
	"strongroom/deploy/dev/postgres"
)

// service is something that tests find by an environment variable. start gives
// the variable's value, and what stops the service and leaves nothing of it.
type service struct {
	variable string
	start    func(ctx context.Context) (value string, stop func() error, err error)
}

var database = service{"STRONGROOM_TEST_POSTGRES", startDatabase}

// openstack is a cloud without some of its services.
func openstack(without []string) service {
	return service{"STRONGROOM_TEST_CLOUD", func(ctx context.Context) (string, func() error, error) { return startCloud(ctx, without) }}
}

func startDatabase(ctx context.Context) (string, func() error, error) {
	dir, err := folder(inMemory(), "sr-pg-")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	server, err := postgres.Start(ctx, postgres.Config{Dir: dir, Volatile: true, MaxConnections: 500})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return server.URL(), func() error {
		return errors.Join(server.Stop(context.Background()), os.RemoveAll(dir))
	}, nil
}

func startCloud(ctx context.Context, without []string) (string, func() error, error) {
	dir, err := folder("/tmp", "sr-cloud-")
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	services := cloud.Default()
	if os.Getenv("STRONGROOM_TEST_FULL") != "" {
		services = append(services, cloud.Cinder)
	}
	services = slices.DeleteFunc(services, func(name string) bool { return slices.Contains(without, name) })
	c, err := cloud.Start(ctx, cloud.Config{
		Dir: dir, Services: services, TokenCache: cloud.TestTokenCache, ManilaRoot: os.Getenv(cloud.ManilaRootVariable), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c.CloudsFile(), func() error {
		return errors.Join(c.Stop(context.Background()), os.RemoveAll(dir))
	}, nil
}

// folder makes a folder that other users can pass through. Its path is short:
// unix sockets are below it.
func folder(in, prefix string) (string, error) {
	dir, err := os.MkdirTemp(in, prefix)
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o711)
}

// memory is the folder for files in memory. Each run has one of its own.
const memory = "/dev/shm"

// memoryNeeded is what the databases of tests that run at once take at most.
const memoryNeeded = 4 << 30

// inMemory gives the folder for what need not outlive the command: in memory where
// there is enough of it. A new database is hundreds of files.
func inMemory() string {
	var room unix.Statfs_t
	if err := unix.Statfs(memory, &room); err != nil || int64(room.Bavail)*room.Bsize < memoryNeeded {
		return "/tmp"
	}
	return memory
}
