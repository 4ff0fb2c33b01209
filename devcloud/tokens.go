package devcloud

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// claims is what a token says. The token itself is the claims and a signature
// over them: it outlives a restart, and nothing is kept per token.
type claims struct {
	AuditID   string    `json:"a"`
	UserID    string    `json:"u"`
	ProjectID string    `json:"p,omitempty"` // empty: unscoped
	Logins    int       `json:"l,omitempty"` // the user's when the password was looked at
	Methods   []string  `json:"m"`
	IssuedAt  time.Time `json:"i"`
	ExpiresAt time.Time `json:"e"`
}

// tokens makes and checks tokens.
type tokens struct {
	key     []byte
	revoked *revocations
	now     func() time.Time
}

const tokenKeyBytes = 32

func openTokens(keyFile string, now func() time.Time) (*tokens, error) {
	key, err := readTokenKey(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, tokenKeyBytes)
		if _, err = rand.Read(key); err == nil {
			err = writeFile(keyFile, key)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("devcloud: token key: %w", err)
	}
	revoked, err := openRevocations(keyFile+".revoked", now)
	if err != nil {
		return nil, err
	}
	return &tokens{key: key, revoked: revoked, now: now}, nil
}

func readTokenKey(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others (mode %04o): make it 0600", file, info.Mode().Perm())
	}
	key, err := os.ReadFile(file)
	if err == nil && len(key) != tokenKeyBytes {
		err = fmt.Errorf("%s should hold %d bytes", file, tokenKeyBytes)
	}
	return key, err
}

func (t *tokens) sign(text string) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// issue gives the token of the claims, which get an audit id and times: they
// last until ends, or for life from now if ends is zero.
func (t *tokens) issue(c claims, life time.Duration, ends time.Time) (string, claims, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return "", c, err
	}
	c.AuditID = base64.RawURLEncoding.EncodeToString(id)
	c.IssuedAt = t.now().UTC().Truncate(time.Microsecond)
	c.ExpiresAt = ends
	if ends.IsZero() {
		c.ExpiresAt = c.IssuedAt.Add(life).Truncate(time.Second)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", c, err
	}
	body := base64.RawURLEncoding.EncodeToString(text)
	return body + "." + base64.RawURLEncoding.EncodeToString(t.sign(body)), c, nil
}

// check gives the claims of a token that is genuine, not revoked, and expired
// for no longer than grace.
func (t *tokens) check(token string, grace time.Duration) (claims, bool) {
	var c claims
	body, signature, _ := strings.Cut(token, ".")
	mac, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil || !hmac.Equal(mac, t.sign(body)) {
		return c, false
	}
	text, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || json.Unmarshal(text, &c) != nil {
		return c, false
	}
	return c, t.now().Before(c.ExpiresAt.Add(grace)) && !t.revoked.has(c.AuditID)
}
