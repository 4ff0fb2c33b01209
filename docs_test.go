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
	// The same of vTPMs.
	tpmName  = regexp.MustCompile(`"(hw[:_]tpm_[a-z_]+|tpm_(?:secret|object)_[a-z0-9_]+)"`)
	tpmTrait = regexp.MustCompile(`"COMPUTE_SECURITY_TPM(?:_SECRET_SECURITY)?(_[A-Z0-9_]+)"`)
	ofTPMs   = regexp.MustCompile(`(?i)tpm`)
)

// setting is one key of the example of a configuration, with the value that it has there.
type setting struct {
	key, value string
	about      bool // it, its section or a comment of either says so
}

// settingsOf lists the settings in a section.
func settingsOf(path string, section *yaml.Node, about *regexp.Regexp, within bool) (all []setting) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		name, value := section.Content[i], section.Content[i+1]
		key := strings.TrimPrefix(path+"."+name.Value, ".")
		is := within || about.MatchString(key+name.HeadComment+name.LineComment+value.LineComment)
		if value.Kind == yaml.MappingNode {
			all = append(all, settingsOf(key, value, about, is)...)
		} else {
			all = append(all, setting{key, value.Value, is})
		}
	}
	return all
}

// everyOption reads a table of options: the values of each name, which are in the third column, and the names that the
// fourth mentions. A name that begins with a dot is of the section of the one before it.
func everyOption(t *testing.T, table string, names int) (rows map[string]string, mentioned map[string]bool) {
	t.Helper()
	rows, mentioned = map[string]string{}, map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		section := ""
		for _, m := range quoted.FindAllStringSubmatch(cells[names], -1) {
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
	return rows, mentioned
}

// part of a page is what follows a heading, up to the next one.
func part(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, found, heading)
	table, _, _ = strings.Cut(table, "\n##")
	return table
}

// inRules gives what the rules name, by the first group of a pattern.
func inRules(t *testing.T, pattern *regexp.Regexp) (names []string) {
	t.Helper()
	files, err := filepath.Glob("compute/*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range pattern.FindAllStringSubmatch(string(source), -1) {
			names = append(names, m[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// saysEverySetting requires that a table has each setting of the example that is about its subject, with its value there, and
// no setting that there is not.
func saysEverySetting(t *testing.T, about *regexp.Regexp, rows map[string]string, mentioned map[string]bool, elsewhere map[string]string) {
	t.Helper()
	example, err := os.ReadFile("deploy/config/strongroom.yaml")
	require.NoError(t, err)
	var document yaml.Node
	require.NoError(t, yaml.Unmarshal(example, &document))
	keys := []string{}
	for _, s := range settingsOf("", document.Content[0], about, false) {
		keys = append(keys, s.key)
		if _, has := rows[s.key]; !has {
			assert.True(t, !s.about && !mentioned[s.key] || elsewhere[s.key] != "", s.key)
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

// EE-49: one table has every extra spec, image property and setting that is about encryption, settings with
// their values of the example, and none that there is not.
func TestEE49OneTableOfEncryption(t *testing.T) {
	t.Parallel()
	rows, mentioned := everyOption(t, part(t, "docs/encryption.md", "## All options"), 2)
	named := inRules(t, encryptionName)
	require.Greater(t, len(named), 10)
	for _, name := range named {
		assert.Contains(t, rows, name)
	}
	saysEverySetting(t, ofEncryption, rows, mentioned, map[string]string{"gateway.listen": "docs/security.md", "gateway.authority": "docs/security.md", "gateway.endorser": "docs/vtpm.md"})
}

// EE-49, TPM-42: one table has every extra spec, image property, trait, system metadata and setting that is about vTPMs.
func TestEE49OneTableOfVTPMs(t *testing.T) {
	t.Parallel()
	table := part(t, "docs/vtpm.md", "### Every option, property and policy")
	rows, _ := everyOption(t, table, 1)
	named := inRules(t, tpmName)
	require.Len(t, named, 8)
	for _, name := range named {
		assert.Contains(t, rows, name)
	}
	traits := inRules(t, tpmTrait)
	require.Len(t, traits, 7)
	for _, trait := range traits {
		assert.Regexp(t, "`(COMPUTE_SECURITY_TPM|COMPUTE_SECURITY_TPM_SECRET_SECURITY|…)"+trait+"`", table)
	}
	saysEverySetting(t, ofTPMs, rows, nil, map[string]string{"host.secure_state": "docs/deploy.md", "host.suspend_state": "docs/deploy.md"})
}
