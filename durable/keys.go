package durable

import (
	"crypto/hkdf"
	"crypto/sha256"
	"strings"
	"sync"

	"strongroom/compute"
)

// Keys authenticate what strongroom's processes say to each other through Temporal (C1):
// each payload carries a MAC. There is one key for the control plane alone and one for each
// host, which that host and the control plane have. The zero value has none: it sends and
// believes nothing.
type Keys struct {
	control []byte
	host    func(queue Queue) []byte // of the host whose queue it is; nil: no key
}

const keyBytes = sha256.Size

// ControlKeys are the keys of a process of the control plane, all derived from one secret.
func ControlKeys(secret []byte) Keys {
	var hosts sync.Map // by queue
	return Keys{
		control: derive(secret, "strongroom control plane"),
		host: func(queue Queue) []byte {
			if key, ok := hosts.Load(queue); ok {
				return key.([]byte)
			}
			key := derive(secret, "strongroom "+queue)
			hosts.Store(queue, key)
			return key
		},
	}
}

// HostKeys are the key of one host, as Host gave it.
func HostKeys(id compute.HostID, key []byte) Keys {
	return Keys{host: func(queue Queue) []byte {
		if queue != HostQueue(id) {
			return nil
		}
		return key
	}}
}

// Host is the key that a host is given.
func (k Keys) Host(id compute.HostID) []byte { return k.host(HostQueue(id)) }

// of is the key for what an activity of that queue says or is told; nil: there is none.
func (k Keys) of(queue Queue) []byte {
	if !isHostQueue(queue) {
		return k.control
	}
	if k.host == nil {
		return nil
	}
	return k.host(strings.TrimSuffix(strings.TrimSuffix(queue, bulk), state))
}

func derive(secret []byte, purpose string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, keyBytes)
	if err != nil {
		panic(err) // of a length that is constant
	}
	return key
}
