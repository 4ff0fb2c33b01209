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

// isAdmin is who Nova takes for an administrator, whatever else a rule asks.
const isAdmin = "context_is_admin"

// base are the rules that the checks above name, and those of Nova's releases, which the policy files of operators refer to (K5).
var base = Rules{
	"context_is_admin":         "role:admin",
	"project_reader":           "(role:reader or role:member or role:admin) and project_id:%(project_id)s",
	"project_member":           "(role:member or role:admin) and project_id:%(project_id)s",
	"project_reader_or_admin":  "rule:project_reader or rule:context_is_admin",
	"project_member_or_admin":  "rule:project_member or rule:context_is_admin",
	"user_or_admin":            "user_id:%(user_id)s or rule:context_is_admin",
	"admin_or_owner":           "rule:context_is_admin or project_id:%(project_id)s",
	"admin_api":                "rule:context_is_admin",
	"project_reader_api":       "rule:project_reader",
	"project_member_api":       "rule:project_member",
	"project_manager_api":      "(role:manager or role:admin) and project_id:%(project_id)s",
	"project_admin_api":        "role:admin and project_id:%(project_id)s",
	"project_manager_or_admin": "rule:project_manager_api or rule:context_is_admin",
	"system_admin_api":         "role:admin and system_scope:all",
	"system_reader_api":        "(role:reader or role:member or role:admin) and system_scope:all",
	"system_admin_or_owner":    "rule:system_admin_api or rule:project_member_api",
	"system_or_project_reader": "rule:system_reader_api or rule:project_reader_api",
	"service_api":              "role:service",
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
// release does not know are kept: others may refer to them. path "" changes nothing. A rule that cannot be read, or
// refers to one that does not exist, is refused: it would deny silently.
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
	for _, name := range slices.Sorted(maps.Keys(file)) {
		if _, err := all.compile(name); err != nil {
			return nil, fmt.Errorf("policy: %s: %w", path, err)
		}
	}
	return all, nil
}

// reference is a check that names another rule.
var reference = regexp.MustCompile(`\brule:([^\s()]+)`)

// byContext is a check of what Nova's context says of the user.
var byContext = regexp.MustCompile(`\bis_admin:(?:"(True|False)"|'(True|False)'|(True|False)\b)`)

// compile gives a rule as the library reads it.
func (r Rules) compile(name string) (string, error) {
	text, err := r.read(name)
	if err != nil {
		return "", err
	}
	if by := r.circle(name, nil); by != nil {
		return "", fmt.Errorf("rule %s refers to itself: %s", name, strings.Join(by, ", which refers to "))
	}
	// The library reads a reference up to its first colon, and the names of
	// rules have several: they are known by a name without, too.
	text = reference.ReplaceAllStringFunc(text, func(check string) string {
		return "rule:" + plain(strings.TrimPrefix(check, "rule:"))
	})
	if err := wellFormed(text); err != nil {
		return "", fmt.Errorf("rule %s: %w", name, err)
	}
	return text, nil
}

// circle gives the rules from the last of on to the one that refers to one of on again, nil where none does.
func (r Rules) circle(name string, on []string) []string {
	if at := slices.Index(on, name); at >= 0 {
		return append(slices.Clone(on[at:]), name)
	}
	text, err := r.read(name)
	if err != nil {
		return nil // it is told of that rule
	}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if by := r.circle(m[1], append(slices.Clone(on), name)); by != nil {
			return by
		}
	}
	return nil
}

// read gives a rule with what Nova's context says in rules' words. What it refers to exists.
func (r Rules) read(name string) (string, error) {
	// Nova's context is an administrator's where context_is_admin says so, and is not yet made where that is asked.
	yes, no := "rule:"+isAdmin, "(not rule:"+isAdmin+")"
	if _, ok := r[isAdmin]; !ok || name == isAdmin {
		yes, no = Nobody, Anyone
	}
	text := byContext.ReplaceAllStringFunc(r[name], func(check string) string {
		if strings.Contains(check, "True") {
			return yes
		}
		return no
	})
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if _, ok := r[m[1]]; !ok {
			return "", fmt.Errorf("rule %s refers to rule %s, which does not exist; there are %s, and those of requests (docs/api.md)", name, m[1], strings.Join(r.shared(), ", "))
		}
	}
	return text, nil
}

// shared are the names of rules that are no request's.
func (r Rules) shared() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(name string) bool { return strings.Contains(name, ":") })
}

// Enforcer compiles the rules.
func (r Rules) Enforcer() (*goslo.Enforcer, error) {
	compiled := make(Rules, 2*len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		text, err := r.compile(name)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
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
