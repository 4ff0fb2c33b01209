// Package policy decides who may do what: oslo.policy rules with defaults in
// code, which a file may override.
package policy

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	goslo "github.com/databus23/goslo.policy"
	"go.yaml.in/yaml/v3"
)

// Rules are policy rules by name, in oslo.policy's language.
type Rules map[string]string

// Checks that resources use for their rules. A token may come without the
// roles that its own implies (admin, member, reader), so each check names them.
const (
	Anyone               = "@"
	Nobody               = "!"
	Admin                = "rule:context_is_admin"
	ProjectReader        = "rule:project_reader"
	ProjectMember        = "rule:project_member"
	ProjectReaderOrAdmin = "rule:project_reader_or_admin"
	ProjectMemberOrAdmin = "rule:project_member_or_admin"
	UserOrAdmin          = "rule:user_or_admin"
)

// base are the rules that the checks above name.
var base = Rules{
	"context_is_admin":        "role:admin",
	"project_reader":          "(role:reader or role:member or role:admin) and project_id:%(project_id)s",
	"project_member":          "(role:member or role:admin) and project_id:%(project_id)s",
	"project_reader_or_admin": "rule:project_reader or rule:context_is_admin",
	"project_member_or_admin": "rule:project_member or rule:context_is_admin",
	"user_or_admin":           "user_id:%(user_id)s or rule:context_is_admin",
	"admin_or_owner":          "rule:context_is_admin or project_id:%(project_id)s",
	"admin_api":               "rule:context_is_admin",
}

// Merge joins the rules of resources. The same name twice is a defect.
func Merge(sets ...Rules) (Rules, error) {
	all := maps.Clone(base)
	for _, set := range sets {
		for name, check := range set {
			if _, twice := all[name]; twice {
				return nil, fmt.Errorf("policy: rule %s is defined twice", name)
			}
			all[name] = check
		}
	}
	return all, nil
}

// Override replaces rules with those of a YAML or JSON file. Rules that this
// release does not know are kept: others may refer to them. path "" changes nothing.
func (r Rules) Override(path string) (Rules, error) {
	if path == "" {
		return r, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var file map[string]string
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("policy: %s: %w", path, err)
	}
	all := maps.Clone(r)
	maps.Copy(all, file)
	return all, nil
}

// reference is a check that names another rule.
var reference = regexp.MustCompile(`\brule:([^\s()]+)`)

// Enforcer compiles the rules. A reference to a rule that does not exist is
// refused: it would deny silently.
func (r Rules) Enforcer() (*goslo.Enforcer, error) {
	compiled := make(Rules, 2*len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		for _, m := range reference.FindAllStringSubmatch(r[name], -1) {
			if _, ok := r[m[1]]; !ok {
				return nil, fmt.Errorf("policy: rule %s refers to rule %s, which does not exist", name, m[1])
			}
		}
		// The library reads a reference up to its first colon, and the names of
		// rules have several: they are known by a name without, too.
		text := reference.ReplaceAllStringFunc(r[name], func(check string) string {
			return "rule:" + plain(strings.TrimPrefix(check, "rule:"))
		})
		if err := wellFormed(text); err != nil {
			return nil, fmt.Errorf("policy: rule %s: %w", name, err)
		}
		compiled[name], compiled[plain(name)] = text, text
	}
	e, err := goslo.NewEnforcer(compiled)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return e, nil
}

func plain(name string) string { return strings.ReplaceAll(name, ":", "|") }
