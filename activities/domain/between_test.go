package domain_test

import (
	"encoding/binary"
	"io"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	libvirt "github.com/digitalocean/go-libvirt"
	"github.com/stretchr/testify/require"
)

// The numbers of libvirt's calls, from its remote_protocol.x.
const (
	callSecretLookupByUUID  = 141
	callSecretDefineXML     = 142
	callSecretSetValue      = 144
	callSecretUndefine      = 146
	callSecretLookupByUsage = 147
	callGetLibVersion       = 157
	callDomainUndefineFlags = 231
	callListAllSecrets      = 287
)

// between stands between a client and its libvirtd, counts calls, and can make it look
// older than it is.
type between struct {
	version uint64 // what libvirt answers that it is; 0: what it really is

	mu    sync.Mutex
	calls map[uint32]int
	flags []libvirt.DomainUndefineFlagsValues // that domains were undefined with
}

// serve gives the socket.
func (b *between) serve(t *testing.T, libvirtd string) string {
	t.Helper()
	b.calls = map[uint32]int{}
	path := filepath.Join(newDir(t), "sock")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", libvirtd)
			if err != nil {
				_ = client.Close()
				continue
			}
			go b.relay(server, client)
			go b.relay(client, server)
		}
	}()
	return path
}

// relay passes messages on: a length of four bytes, which counts itself, and a header of
// six numbers: program, version, call, type (0 call, 1 reply), serial, status.
func (b *between) relay(to, from net.Conn) {
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
		b.see(body)
		if _, err := to.Write(slices.Concat(size, body)); err != nil {
			return
		}
	}
}

func (b *between) see(message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	call, isCall := binary.BigEndian.Uint32(message[8:]), binary.BigEndian.Uint32(message[12:]) == 0
	if isCall {
		b.calls[call]++
	}
	switch {
	case call == callGetLibVersion && !isCall && b.version != 0:
		binary.BigEndian.PutUint64(message[24:], b.version)
	case call == callDomainUndefineFlags && isCall:
		b.flags = append(b.flags, libvirt.DomainUndefineFlagsValues(binary.BigEndian.Uint32(message[len(message)-4:])))
	}
}

// taken gives what was counted since the last time.
func (b *between) taken() map[uint32]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := maps.Clone(b.calls)
	clear(b.calls)
	return got
}
