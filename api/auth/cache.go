package auth

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// The bounds of the caches of validated and of refused tokens.
const (
	CacheSize  = 4096
	CacheTTL   = 5 * time.Minute
	RefusedTTL = 5 * time.Second // a token that is refused may have been made a moment ago
)

// Cache keeps what the identity service said of tokens, for a while.
// Its keys are hashes, so no token is a key. It implements gopherpolicy.Cacher.
type Cache struct {
	now func() time.Time
	ttl time.Duration

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element
	recent  list.List // of entry, the most recently used first
}

type entry struct {
	key     [sha256.Size]byte
	payload []byte
	until   time.Time
}

// NewCache makes an empty cache.
func NewCache(now func() time.Time, ttl time.Duration) *Cache {
	return &Cache{now: now, ttl: ttl, entries: map[[sha256.Size]byte]*list.Element{}}
}

// StoreTokenPayload keeps a payload; the least recently used one gives way.
func (c *Cache) StoreTokenPayload(_ context.Context, credentials string, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := sha256.Sum256([]byte(credentials))
	if old, ok := c.entries[key]; ok {
		c.recent.Remove(old)
	}
	c.entries[key] = c.recent.PushFront(entry{key: key, payload: payload, until: c.now().Add(c.ttl)})
	if c.recent.Len() > CacheSize {
		c.drop(c.recent.Back())
	}
}

// LoadTokenPayload gives a payload that is still fresh, or nil.
func (c *Cache) LoadTokenPayload(_ context.Context, credentials string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[sha256.Sum256([]byte(credentials))]
	if !ok {
		return nil
	}
	kept := e.Value.(entry)
	if !c.now().Before(kept.until) {
		c.drop(e)
		return nil
	}
	c.recent.MoveToFront(e)
	return kept.payload
}

// Len is how many payloads are kept.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recent.Len()
}

func (c *Cache) drop(e *list.Element) {
	c.recent.Remove(e)
	delete(c.entries, e.Value.(entry).key)
}
