package strongroom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var (
	// The extra specs and properties of encryption, as code names them.
	encryptionName = regexp.MustCompile(`"(hw[:_]ephemeral_encryption(?:_[a-z]+)*|os_(?:en|de)crypt(?:_[a-z]+)+|cinder_encryption(?:_[a-z]+)+)"`)
	// What a setting, or the comment of it, says if it is about encryption.
	ofEncryption = regexp.MustCompile(`(?i)encrypt|passphrase|luks|image_key`)
)

// elsewhere are the settings whose comments speak of encryption, and which docs/encryption.md leaves to another page.
var elsewhere = map[string]string{
	"gateway.listen": "docs/security.md", "gateway.authority": "docs/security.md",
}

// setting is one key of the example of a configuration, with the value that it has there.
type setting struct {
	key, value string
	encryption bool // it, its section or a comment of either says so
}

// settingsOf lists the settings in a section.
func settingsOf(path string, section *yaml.Node, encryption bool) (all []setting) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		name, value := section.Content[i], section.Content[i+1]
		key := strings.TrimPrefix(path+"."+name.Value, ".")
		is := encryption || ofEncryption.MatchString(key+name.HeadComment+name.LineComment+value.LineComment)
		if value.Kind == yaml.MappingNode {
			all = append(all, settingsOf(key, value, is)...)
		} else {
			all = append(all, setting{key, value.Value, is})
		}
	}
	return all
}

// EE-49: one table has every extra spec, image property and setting that is about encryption, settings with
// their values of the example, and none that there is not.
func TestEE49OneTableOfEncryption(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/encryption.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## All options\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n##")
	rows, mentioned := map[string]string{}, map[string]bool{} // values of each name; names in what rows say
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		section := ""
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			name := m[1]
			if strings.HasPrefix(name, ".") {
				name = section + name
			}
			if at := strings.LastIndex(name, "."); at >= 0 {
				section = name[:at]
			}
			require.NotContains(t, rows, name, "it is there twice")
			rows[name] = cells[3]
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[4], -1) {
			mentioned[m[1]] = true
		}
	}

	files, err := filepath.Glob("compute/*.go")
	require.NoError(t, err)
	named := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range encryptionName.FindAllStringSubmatch(string(source), -1) {
			named[m[1]] = true
			assert.Contains(t, rows, m[1], file)
		}
	}
	require.Greater(t, len(named), 10)

	example, err := os.ReadFile("deploy/config/strongroom.yaml")
	require.NoError(t, err)
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(example, &document))
	keys := []string{}
	for _, s := range settingsOf("", document.Content[0], false) {
		keys = append(keys, s.key)
		if _, has := rows[s.key]; !has {
			assert.True(t, !s.encryption && !mentioned[s.key] || elsewhere[s.key] != "", s.key)
		} else if s.value != "" {
			assert.Contains(t, rows[s.key], s.value, s.key)
		}
	}
	for name := range rows {
		switch section, _, _ := strings.Cut(name, "."); section {
		case "host", "control", "legacy":
			assert.True(t, slices.Contains(keys, name), "%s: there is no such setting", name)
		}
	}
}
