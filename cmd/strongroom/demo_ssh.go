package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/keypairs"
	"golang.org/x/crypto/ssh"

	"strongroom/deploy/dev/stack"
)

// keyFile is where the demo keeps the private key with which it logs in to servers.
func keyFile(layout stack.Layout) string { return filepath.Join(layout.State, "demo.key") }

// demoKey gives the key with which the demo logs in to servers, made at its first use.
func demoKey(layout stack.Layout) (ssh.Signer, error) {
	text, err := os.ReadFile(keyFile(layout))
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		block, err := ssh.MarshalPrivateKey(key, "strongroom demo")
		if err != nil {
			return nil, err
		}
		text = pem.EncodeToMemory(block)
		draft := keyFile(layout) + ".new"
		if err := os.WriteFile(draft, text, 0o600); err != nil {
			return nil, err
		}
		if err := os.Rename(draft, keyFile(layout)); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	return ssh.ParsePrivateKey(text)
}

// keypair makes sure that the demo's key is a keypair of its user's, and gives that one's name.
func (d demoCommand) keypair(ctx context.Context, client *gophercloud.ServiceClient, layout stack.Layout) (string, error) {
	key, err := demoKey(layout)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(key.PublicKey().Marshal())
	name := fmt.Sprintf("demo-%x", sum[:4])
	_, err = keypairs.Create(ctx, client, keypairs.CreateOpts{Name: name, PublicKey: string(ssh.MarshalAuthorizedKey(key.PublicKey()))}).Extract()
	if gophercloud.ResponseCodeIs(err, http.StatusConflict) { // it is there
		err = nil
	}
	return name, explain(err)
}

// login logs in to a server over ssh, as soon as its guest lets it, and shows what the guest says of itself.
func (d demoCommand) login(ctx context.Context, layout stack.Layout, address string) error {
	key, err := demoKey(layout)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	line := newProgressLine()
	defer line.end()
	for begun := time.Now(); ; {
		said, err := d.runOver(ctx, key, address, "uname -n; . /etc/os-release; echo $PRETTY_NAME")
		if err == nil {
			line.end()
			fmt.Printf("address   %s; over ssh the guest says: %s\n", address, strings.Join(strings.Fields(said), " "))
			return nil
		}
		line.since("the guest boots", begun)
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s@%s lets nobody in: %w", d.SSH, address, errors.Join(ctx.Err(), err))
		case <-time.After(time.Second):
		}
	}
}

// runOver runs a command in a guest.
func (d demoCommand) runOver(ctx context.Context, key ssh.Signer, address, command string) (string, error) {
	at := net.JoinHostPort(address, "22")
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", at)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	connection, channels, requests, err := ssh.NewClientConn(conn, at, &ssh.ClientConfig{
		User: d.SSH, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // the guest has made its key a moment ago, on this machine
	})
	if err != nil {
		return "", err
	}
	client := ssh.NewClient(connection, channels, requests)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	session.Stdout = &out
	err = session.Run(command)
	return out.String(), err
}
