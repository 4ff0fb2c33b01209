// Package keytest is the suite that every adapter of key.Manager passes.
package keytest

import (
	"context"
	"encoding/base64"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/activities/key"
	"strongroom/activities/secret"
	"strongroom/compute"
)

// Harness is an adapter ready to be tried.
type Harness struct {
	Manager key.Manager
	Again   key.Manager        // a second client of the same manager, as another process would have
	Owner   compute.Credential // may make secrets in its project
	Other   compute.Credential // may make secrets in another project
}

// bench is one test's harness and words.
type bench struct {
	*testing.T
	Harness
	ctx context.Context
}

// Run runs the suite. open is called once per test and cleans up after itself.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for name, test := range map[string]func(b bench){
		"create is idempotent by name":       createTwice,
		"create at once makes one":           createAtOnce,
		"create refuses nonsense":            createNonsense,
		"names are per project":              namesPerProject,
		"the value is stable and long":       valueStable,
		"a wiped value harms nobody":         wiped,
		"an unknown secret is not found":     unknown,
		"another project is refused":         otherProject,
		"delete is idempotent":               deleteTwice,
		"delete by name alone":               deleteByName,
		"delete at once with create settles": deleteAtOnce,
		"list gives what is there":           list,
		"list in parts misses nothing":       listInParts,
		"a name is free again after delete":  recreate,
		"no error carries a value":           silentErrors,
		"check makes nothing":                checkMakesNothing,
		"copy is idempotent by name":         copyTwice,
		"copy at once makes one":             copyAtOnce,
		"copy across projects":               copyAcross,
		"copy refuses":                       copyRefused,
		"the name of a secret":               names,
		"activity: check":                    checkActivity,
		"activity: remove":                   remove,
		"activity: seen":                     seen,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(bench{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

func (b bench) input(name string) key.CreateInput {
	return key.CreateInput{
		Credential: b.Owner,
		ID:         compute.SecretID{UUID: uuid.New()},
		Name:       name,
		Bytes:      compute.DiskPassphraseBytes,
	}
}

func (b bench) create(in key.CreateInput) compute.SecretID {
	b.Helper()
	id, err := b.Manager.Create(b.ctx, in)
	require.NoError(b, err)
	b.cleanUp(in.Credential, in.Name, id)
	return id
}

func (b bench) cleanUp(cred compute.Credential, name string, id compute.SecretID) {
	b.Cleanup(func() {
		err := b.Manager.Delete(context.Background(), key.DeleteInput{Credential: cred, Name: name, ID: &id})
		require.NoError(b, err)
	})
}

func (b bench) value(m key.Manager, cred compute.Credential, id compute.SecretID) string {
	b.Helper()
	p, err := m.Passphrase(b.ctx, cred, id)
	require.NoError(b, err)
	defer p.Wipe()
	return reveal(b, p)
}

func (b bench) gone(cred compute.Credential, id compute.SecretID) {
	b.Helper()
	for _, m := range []key.Manager{b.Manager, b.Again} {
		_, err := m.Passphrase(b.ctx, cred, id)
		require.Equal(b, compute.NotFound, compute.KindOf(err), "%v", err)
	}
}

// reveal copies a value out, which only a test may do.
func reveal(t testing.TB, p *secret.Passphrase) string {
	t.Helper()
	var out string
	require.NoError(t, p.Use(func(v []byte) error { out = string(v); return nil }))
	return out
}

func valueStable(b bench) {
	for name, bytes := range map[string]int{"disk": compute.DiskPassphraseBytes, "tpm": compute.TPMPassphraseBytes} {
		in := b.input("stable " + name)
		in.Bytes = bytes
		id := b.create(in)
		first := b.value(b.Manager, b.Owner, id)
		raw, err := base64.StdEncoding.DecodeString(first)
		require.NoError(b, err)
		require.Len(b, raw, bytes)
		require.Equal(b, first, b.value(b.Again, b.Owner, id))
		require.Equal(b, first, b.value(b.Manager, b.Owner, id))
	}
	one, two := b.create(b.input("one")), b.create(b.input("two"))
	require.NotEqual(b, b.value(b.Manager, b.Owner, one), b.value(b.Manager, b.Owner, two))
}

func wiped(b bench) {
	id := b.create(b.input("wiped"))
	before := b.value(b.Manager, b.Owner, id) // wipes what it read
	p, err := b.Manager.Passphrase(b.ctx, b.Owner, id)
	require.NoError(b, err)
	p.Wipe()
	require.ErrorIs(b, p.Use(func([]byte) error { return nil }), secret.ErrWiped)
	require.Equal(b, before, b.value(b.Manager, b.Owner, id))
}

func unknown(b bench) {
	b.gone(b.Owner, compute.SecretID{UUID: uuid.New()})
}

// atOnce calls fn n times together, half through each client.
func (b bench) atOnce(n int, fn func(i int, m key.Manager)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		m := b.Manager
		if i%2 == 1 {
			m = b.Again
		}
		wg.Go(func() {
			<-start
			fn(i, m)
		})
	}
	close(start)
	wg.Wait()
}
