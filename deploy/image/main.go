// Command image builds the container image of the initializer: a folder in the layout of OCI, which
// skopeo, crane and podman read. It has files of Debian's packages and the program, and neither a
// shell nor a package manager. The same packages and program give the same digest.
//
//	go run ./deploy/image --program .bin/strongroom-initializer --to .bin/initializer
//
// It prints the digest.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Program string `required:"" type:"existingfile" placeholder:"FILE" help:"The program, which needs no library: cmd/strongroom-initializer, built with CGO_ENABLED=0."`
	To      string `required:"" type:"path" placeholder:"DIR" help:"The folder that is written; one that is there is replaced."`
}

func main() {
	var c cli
	kong.Parse(&c, kong.Description("Build the container image of the initializer from Debian's packages, and print its digest."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	digest, err := build(ctx, c.Program, c.To)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image: "+err.Error())
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
	_, _ = fmt.Fprintln(os.Stdout, digest)
}
