// Package libvirttest stands between clients and their libvirtd in tests.
package libvirttest

import (
	"context"
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
)

// The numbers of libvirt's calls, from its remote_protocol.x.
const (
	SecretLookupByUUID    = 141
	SecretDefineXML       = 142
	SecretSetValue        = 144
	SecretUndefine        = 146
	SecretLookupByUsage   = 147
	ListAllSecrets        = 287
	getVersion            = 4
	getLibVersion         = 157
	domainCreateWithFlags = 196
	domainUndefineFlags   = 231
)

// OfSecrets are the calls about secrets that a start makes.
var OfSecrets = []uint32{SecretLookupByUUID, SecretLookupByUsage, SecretDefineXML, SecretSetValue, SecretUndefine, ListAllSecrets}

// Relay passes calls on to a libvirtd, counts them, can make it look older than it is, and can
// hold the starts of domains.
type Relay struct {
	mu     sync.Mutex
	claims map[uint32]uint64 // by the call that asks for the version
	calls  map[uint32]int
	flags  []libvirt.DomainUndefineFlagsValues
	held   *Held
}

// Held are starts of domains that wait.
type Held struct {
	Reached chan struct{} // closed when the first one waits
	release chan struct{}
	once    sync.Once
}

// Listen passes on what comes to a socket until the test ends.
func Listen(t testing.TB, socket, libvirtd string) *Relay {
	t.Helper()
	r := &Relay{claims: map[uint32]uint64{}, calls: map[uint32]int{}}
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx := context.WithoutCancel(t.Context())
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := new(net.Dialer).DialContext(ctx, "unix", libvirtd)
			if err != nil {
				_ = client.Close()
				continue
			}
			go r.pass(server, client)
			go r.pass(client, server)
		}
	}()
	return r
}

// Claim has libvirt answer that it is of a version, 8009000 for 8.9.0; 0: what it really is.
func (r *Relay) Claim(version uint64) { r.claim(getLibVersion, version) }

// ClaimQEMU is Claim for the version of QEMU.
func (r *Relay) ClaimQEMU(version uint64) { r.claim(getVersion, version) }

func (r *Relay) claim(call uint32, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[call] = version
}

// Taken gives how often each call was made since the last time.
func (r *Relay) Taken() map[uint32]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := maps.Clone(r.calls)
	clear(r.calls)
	return got
}

// TakenOfSecrets is Taken of OfSecrets, in their order.
func (r *Relay) TakenOfSecrets() (counts []int) {
	made := r.Taken()
	for _, call := range OfSecrets {
		counts = append(counts, made[call])
	}
	return counts
}

// Undefined gives the flags with which domains were undefined.
func (r *Relay) Undefined() []libvirt.DomainUndefineFlagsValues {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.flags)
}

// HoldStarts has each domain that is to start wait, until Release or the end of the test.
func (r *Relay) HoldStarts(t testing.TB) *Held {
	t.Helper()
	h := &Held{Reached: make(chan struct{}), release: make(chan struct{})}
	r.mu.Lock()
	r.held = h
	r.mu.Unlock()
	t.Cleanup(func() { r.Release(h) })
	return h
}

// Release lets the starts go on.
func (r *Relay) Release(h *Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == h {
		r.held = nil
		close(h.release)
	}
}

// pass passes messages on: a length of four bytes, which counts itself, and a header of
// six numbers: program, version, call, type (0 call, 1 reply), serial, status.
func (r *Relay) pass(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	for {
		size := make([]byte, 4)
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(size)-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		if h := r.see(body); h != nil {
			h.once.Do(func() { close(h.Reached) })
			<-h.release
		}
		if _, err := to.Write(slices.Concat(size, body)); err != nil {
			return
		}
	}
}

// see counts a message, changes it where that was asked for, and gives what it has to wait for.
func (r *Relay) see(message []byte) *Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	call, isCall := binary.BigEndian.Uint32(message[8:]), binary.BigEndian.Uint32(message[12:]) == 0
	if isCall {
		r.calls[call]++
	}
	switch {
	case !isCall && r.claims[call] != 0:
		binary.BigEndian.PutUint64(message[24:], r.claims[call])
	case call == domainUndefineFlags && isCall:
		r.flags = append(r.flags, libvirt.DomainUndefineFlagsValues(binary.BigEndian.Uint32(message[len(message)-4:])))
	case call == domainCreateWithFlags && isCall:
		return r.held
	}
	return nil
}
