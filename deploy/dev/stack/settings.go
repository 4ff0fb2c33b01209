package stack

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"strongroom/activities/port/local"
)

// CloudName is the cloud of clouds.yaml that the standard clients name.
const CloudName = "strongroom-dev"

// sameKeys fails when the servers of the folder have their keys elsewhere: an
// earlier start depended on something else.
func (l Layout) sameKeys(openstack bool) error {
	text, err := os.ReadFile(l.ConfigFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var last struct{ Keys struct{ Backend string } }
	if err := yaml.Unmarshal(text, &last); err != nil {
		return fmt.Errorf("%s: %w", l.ConfigFile(), err)
	}
	if (last.Keys.Backend == keysInCloud) != openstack {
		return fmt.Errorf("the servers in %s have their keys in the back end %q: choose another folder with --state", l.State, last.Keys.Backend)
	}
	return nil
}

// keysInCloud is the back end of the keys where a cloud keeps them.
const keysInCloud = "barbican"

// surroundings are what a start finds or makes.
type surroundings struct {
	database  string // its URL
	hosts     []hypervisor
	account   account
	networks  []local.Network // of the projects; none: servers have networks of their hosts
	openstack bool            // keys, images and the rest are kept by the account's cloud
}

// hypervisor is what a host has: libvirtd's socket, swtpm's folder, and libvirtd's with the memory of suspended guests.
type hypervisor struct{ socket, swtpm, save string }

// own is temporal.tls: everybody speaks to Temporal with a certificate of strongroom's authority.
var own = map[string]any{"own": true}

// settings is strongroom.yaml: what `strongroom api`, metadata, control, gateway
// and devcloud read. Keys are those of the shipped example.
func (l Layout) settings(in surroundings) map[string]any {
	identity := map[string]any{
		"auth_url": in.account.authURL, "username": in.account.username, "password_file": l.passwordFile(),
		"project": in.account.project, "domain": in.account.domain, "region": in.account.region,
	}
	maps.Copy(identity, in.account.connection)
	all := map[string]any{
		"database":      map[string]any{"url": in.database},
		"temporal":      map[string]any{"address": l.TemporalAddress(), "namespace": "default", "ui": l.TemporalUI(), "tls": own},
		"identity":      identity,
		"api":           map[string]any{"listen": l.apiAddr(), "allow_resize_to_same_host": len(in.hosts) <= 1},
		"metadata":      map[string]any{"listen": l.MetadataAddr(), "proxy_shared_secret": l.MetadataSecret(), "local_port": l.PortBase + metadataPort},
		"console_proxy": map[string]any{"listen": l.consoleAddr(), "public_url": "http://" + l.consoleAddr(), "identity": l.consoleIdentity()},
		"keys":          map[string]any{"backend": "local", "path": l.path("keys"), "master": l.path("master.key")},
		"images":        map[string]any{"backend": "local", "path": l.path("images")},
		"objects":       map[string]any{"backend": "local", "path": l.path("objects")},
		"shares":        map[string]any{"backend": "local", "path": l.path("shares")},
		"trusts":        map[string]any{"backend": "local", "path": l.path("trusts")},
		"credentials":   map[string]any{"key": l.path("credentials.key")},
		"networks":      networkSettings(in.networks),
		"gateway":       map[string]any{"listen": l.gatewayAddr(), "authority": l.Authority(), "endorser": l.path("endorser")},
		// The machine is its user's own: all of it may be used.
		"quota": map[string]any{"instances": -1, "cores": -1, "ram": -1, "disk": -1},
	}
	if !in.openstack {
		all["devcloud"] = map[string]any{
			"listen": l.cloudAddr(), "users": l.path("users.yaml"), "token_key": l.path("token.key"),
		}
		return all
	}
	for key, backend := range map[string]string{"keys": keysInCloud, "images": "glance", "objects": "swift", "trusts": "keystone"} {
		all[key] = map[string]any{"backend": backend}
	}
	all["shares"] = map[string]any{"backend": "none"}
	if in.account.shares {
		all["shares"] = map[string]any{"backend": "manila"}
	}
	return all
}

// settings is host.yaml.
func (h Host) settings(in surroundings) (map[string]any, error) {
	has, agent := in.hosts[h.Number-1], h.agentAddr(len(in.hosts))
	host := map[string]any{
		"id_file": h.path("host.id"), "instances": h.Instances(), "image_cache": h.path("cache"), "shares": h.path("mounts"), "run": h.path("run"),
		"libvirt_socket": has.socket, "swtpm_enabled": true, "swtpm_state": has.swtpm, "suspend_state": has.save, "traffic_filter": "optional",
		"agent_listen": agent, "agent_url": "https://" + agent,
		"gateway": "https://" + h.gatewayAddr(), "certificate": h.certificate(),
	}
	if len(in.hosts) > 1 {
		name, err := h.Name()
		if err != nil {
			return nil, err
		}
		host["name"], host["address"] = name, h.address().String()
	}
	return map[string]any{
		"temporal": map[string]any{"address": h.TemporalAddress(), "namespace": "default", "tls": own},
		"host":     host,
	}, nil
}

// clouds is clouds.yaml for the passwords of a first start: the administrator
// in the demo project and in one of his own, and ordinary users.
func (l Layout) clouds(passwords map[string]string) map[string]any {
	entry := func(user, project string) map[string]any {
		return map[string]any{
			"auth": map[string]any{
				"auth_url": l.AuthURL(), "username": user, "password": passwords[user],
				"project_name": project, "user_domain_name": "Default", "project_domain_name": "Default",
			},
			"region_name": "RegionOne", "identity_api_version": 3, "interface": "public",
			// Networks may be "auto", which clients make of nothing said, or "none", from 2.37 on.
			"compute_api_version": "2.90",
		}
	}
	return map[string]any{"clouds": map[string]any{
		CloudName:             entry("admin", "demo"),
		CloudName + "-admin":  entry("admin", "admin"),
		CloudName + "-demo":   entry("demo", "demo"),
		CloudName + "-reader": entry("reader", "demo"),
		CloudName + "-alt":    entry("alt", "alt"),
	}}
}

// writeYAML writes a file that only its owner may read.
func writeYAML(path string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// ensureKey makes a file with 32 random bytes as hex, once.
func ensureKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return os.WriteFile(path, []byte(hex.EncodeToString(key)+"\n"), 0o600)
}

// refreshClouds tells the clients where the identity service is this time: a
// later start may use other ports.
func (l Layout) refreshClouds() error {
	all, err := readClouds(l.CloudsFile())
	if err != nil {
		return err
	}
	clouds, _ := all["clouds"].(map[string]any)
	for _, entry := range clouds {
		cloud, _ := entry.(map[string]any)
		if auth, ok := cloud["auth"].(map[string]any); ok {
			auth["auth_url"] = l.AuthURL()
		}
	}
	return writeYAML(l.CloudsFile(), all)
}

// mergeClouds puts the stack's clouds into a clouds.yaml that may hold others.
func mergeClouds(target, source string) error {
	ours, err := readClouds(source)
	if err != nil {
		return err
	}
	all, err := readClouds(target)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if all == nil {
		all = map[string]any{}
	}
	clouds, _ := all["clouds"].(map[string]any)
	if clouds == nil {
		clouds = map[string]any{}
		all["clouds"] = clouds
	}
	for name, entry := range ours["clouds"].(map[string]any) {
		clouds[name] = entry
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return writeYAML(target, all)
}

func readClouds(path string) (map[string]any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, yaml.Unmarshal(text, &out)
}
