package main

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

const example = "../../deploy/config/strongroom.yaml"

// The example that ships loads, and explains every key there is.
func TestTheExampleIsComplete(t *testing.T) {
	t.Parallel()
	cfg, err := loadConfig(example)
	require.NoError(t, err)
	require.Equal(t, "barbican", cfg.Keys.Backend)
	require.Equal(t, []string{"creator"}, cfg.Credentials.Roles)

	text, err := os.ReadFile(example)
	require.NoError(t, err)
	var shown map[string]any
	require.NoError(t, yaml.Unmarshal(text, &shown))
	var missing []string
	missingKeys(reflect.TypeFor[Config](), shown, "", &missing)
	require.ElementsMatch(t, []string{
		"devcloud",                                                                              // of strongroom dev alone
		"keys.path", "keys.master", "images.path", "objects.path", "shares.path", "trusts.path", // of the local back ends, as comments
	}, missing)
	for _, key := range []string{"# path:", "# master:"} {
		require.Contains(t, string(text), key)
	}
}

// missingKeys lists the keys of a struct that a document does not have.
func missingKeys(t reflect.Type, document map[string]any, path string, missing *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("koanf")
		value, ok := document[key]
		if !ok {
			*missing = append(*missing, path+key)
			continue
		}
		if below, ok := value.(map[string]any); ok && f.Type.Kind() == reflect.Struct {
			missingKeys(f.Type, below, path+key+".", missing)
		}
		if list, ok := value.([]any); ok && f.Type.Elem().Kind() == reflect.Struct && len(list) == 0 {
			*missing = append(*missing, path+key)
		}
	}
}

// EE-49, TPM-35: what a key has that is left out is what stands in the example, from which the tables of
// documentation have it, but for those keys whose comments say otherwise: addresses, and which back end a cloud has.
func TestEE49TheExampleHasTheDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := loadConfig(example)
	require.NoError(t, err)
	var other []string
	otherKeys(reflect.ValueOf(*cfg), reflect.ValueOf(*defaults()), "", &other)
	require.ElementsMatch(t, []string{
		"database.url", "temporal.address", "temporal.ui", "identity.auth_url", "identity.username", "identity.password_file", "identity.project",
		"api.listen", "metadata.listen", "console_proxy.listen", "console_proxy.public_url", "gateway.listen",
		"host.name", "host.gateway", "host.address", "host.agent_listen", "host.agent_url", "host.networks", "networks.local", // of this cloud
		"temporal.tls.own", "identity.interface", "quota.backend", "keys.backend", "images.backend", "objects.backend", "trusts.backend", // as clouds have it
		"api.proxy_header", "api.max_image_disk_gb", // empty and 0 are the same
	}, other)
}

// EE-49: where the tables of encryption and of vTPMs have the back end of a service, they have each of its settings
// that there is, also those that the example has as comments alone.
func TestEE49TablesHaveEverySettingOfAService(t *testing.T) {
	t.Parallel()
	var keys []string
	allKeys(reflect.TypeFor[Config](), "", &keys)
	name := regexp.MustCompile("`([a-z_.]+)`")
	for page, least := range map[string]int{"encryption.md": 1, "vtpm.md": 3} {
		text, err := os.ReadFile("../../docs/" + page)
		require.NoError(t, err)
		has, services := map[string]bool{}, map[string]bool{}
		for line := range strings.Lines(string(text)) {
			section := ""
			for _, m := range name.FindAllStringSubmatch(line, -1) {
				is := m[1]
				if strings.HasPrefix(is, ".") {
					is = section + is
				}
				if before, last, found := strings.Cut(is, "."); found && strings.HasPrefix(line, "|") {
					section, has[is] = before, true
					services[section] = services[section] || last == "backend"
				}
			}
		}
		found := 0
		for service, is := range services {
			if is {
				found++
				for _, key := range keys {
					if strings.HasPrefix(key, service+".") {
						assert.True(t, has[key], "docs/%s: %s", page, key)
					}
				}
			}
		}
		require.GreaterOrEqual(t, found, least, page)
	}
}

// allKeys lists the keys that are no sections.
func allKeys(t reflect.Type, path string, keys *[]string) {
	for i := range t.NumField() {
		key := path + t.Field(i).Tag.Get("koanf")
		if t.Field(i).Type.Kind() == reflect.Struct {
			allKeys(t.Field(i).Type, key+".", keys)
		} else {
			*keys = append(*keys, key)
		}
	}
}

// otherKeys lists the keys that have another value in one configuration than in another.
func otherKeys(a, b reflect.Value, path string, other *[]string) {
	for i := range a.NumField() {
		key := path + a.Type().Field(i).Tag.Get("koanf")
		one, two := a.Field(i), b.Field(i)
		switch {
		case one.Kind() == reflect.Struct:
			otherKeys(one, two, key+".", other)
		case one.Kind() == reflect.Slice && one.Len()+two.Len() == 0:
		case !reflect.DeepEqual(one.Interface(), two.Interface()):
			*other = append(*other, key)
		}
	}
}

func TestAKeyThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/strongroom.yaml"
	for _, text := range []string{"api: {lisen: '127.0.0.1:1'}\n", "host: {networks: [{uid: u}]}\n", "kyes: {}\n"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := loadConfig(path)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "no such key")
	}
}
