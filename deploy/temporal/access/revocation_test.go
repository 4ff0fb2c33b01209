package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"strongroom/deploy/temporal/access"
)

// said is what was logged.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(p))
	return len(p), nil
}

func (s *said) has(lines ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(lines) != len(s.lines) {
		return false
	}
	for i, line := range lines {
		if !strings.Contains(s.lines[i], line) {
			return false
		}
	}
	return true
}

// That the list of revoked certificates cannot be had is told once, not at each look, and so is that it is
// there again.
func TestThatRevocationsAreNotKnownIsTold(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	list, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), NextUpdate: time.Now().Add(time.Hour)}, ca, key)
	if err != nil {
		t.Fatal(err)
	}
	var log said
	file := filepath.Join(t.TempDir(), "revoked")
	go (&access.Revocations{}).Follow(t.Context(), access.Source{File: file, Keep: t.TempDir(), Every: time.Millisecond},
		&access.Identity{CA: ca, Log: slog.New(slog.NewTextHandler(&log, nil))})
	const fails, again = `level=WARN msg="which certificates are revoked is known as of before"`, `level=INFO msg="which certificates are revoked is known again"`
	var told []string
	for range 2 {
		told = append(told, fails)
		within(t, func() bool { return log.has(told...) })
		time.Sleep(50 * time.Millisecond) // for many looks
		if !log.has(told...) {
			t.Fatalf("%q", log.lines)
		}
		if err := os.WriteFile(file+".new", list, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		told = append(told, again)
		within(t, func() bool { return log.has(told...) })
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// C1: a server that asks nobody which certificates were revoked says so when it starts.
func TestC1ThatNoRevocationsAreConfiguredIsTold(t *testing.T) {
	t.Parallel()
	var log said
	(&access.Revocations{}).Follow(t.Context(), access.Source{Every: time.Hour}, &access.Identity{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if !log.has("level=WARN msg=\"certificates of hosts are good here until they end") {
		t.Fatalf("%q", log.lines)
	}
}

// within waits until something is so.
func within(t *testing.T, so func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it did not become so")
		}
	}
}
