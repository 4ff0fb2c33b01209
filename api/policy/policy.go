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

// base has the rules that the checks above name, and the base rules of Nova, which operators' policy files refer to (K5).
var base = Rules{
	"context_is_admin":         "role:admin",
	"project_reader":           "rule:project_reader_api",
	"project_member":           "rule:project_member_api",
	"project_reader_or_admin":  "rule:project_reader or rule:context_is_admin",
	"project_member_or_admin":  "rule:project_member or rule:context_is_admin",
	"user_or_admin":            "user_id:%(user_id)s or rule:context_is_admin",
	"admin_or_owner":           "rule:context_is_admin or project_id:%(project_id)s",
	"admin_api":                "rule:context_is_admin",
	"project_reader_api":       "(role:reader or role:member or role:admin) and project_id:%(project_id)s",
	"project_member_api":       "(role:member or role:admin) and project_id:%(project_id)s",
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
		if _, err := all.compile(all.node(name, false)); err != nil {
			return nil, fmt.Errorf("policy: %s: %w", path, err)
		}
	}
	return all, nil
}

// reference is a check that names another rule.
var reference = regexp.MustCompile(`\brule:([^\s()]+)`)

// byContext is a check of what Nova's context says of the user.
var byContext = regexp.MustCompile(`\bis_admin:(?:"(True|False)"|'(True|False)'|(True|False)\b)`)

// node is a rule. making: it is evaluated for context_is_admin, when is_admin is not known yet.
type node struct {
	name   string
	making bool
}

func (r Rules) node(name string, making bool) node { return node{name, making || name == isAdmin} }

// known is the name by which the library knows the node. It reads a reference up to its first colon, and the names of rules have several.
func (n node) known() string {
	name := strings.ReplaceAll(n.name, ":", "|")
	if n.making && n.name != isAdmin {
		name += "|making"
	}
	return name
}

// read returns a rule's text, with is_admin replaced by a reference to context_is_admin. An error if it refers to a rule that does not exist.
func (r Rules) read(n node) (string, error) {
	yes, no := "rule:"+isAdmin, "(not rule:"+isAdmin+")"
	if _, ok := r[isAdmin]; !ok || n.making {
		yes, no = Nobody, Nobody
	}
	text := byContext.ReplaceAllStringFunc(r[n.name], func(check string) string {
		if strings.Contains(check, "True") {
			return yes
		}
		return no
	})
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if _, ok := r[m[1]]; !ok {
			return "", fmt.Errorf("rule %s refers to rule %s, which does not exist; there are %s, and those of requests (docs/api.md)", n.name, m[1], strings.Join(r.shared(), ", "))
		}
	}
	return text, nil
}

// compile returns a rule in the library's syntax.
func (r Rules) compile(n node) (string, error) {
	text, err := r.read(n)
	if err != nil {
		return "", err
	}
	if by := r.circle(n, nil); by != nil {
		return "", fmt.Errorf("rule %s refers to itself: %s", n.name, strings.Join(by, ", which refers to "))
	}
	text = reference.ReplaceAllStringFunc(text, func(check string) string {
		return "rule:" + r.node(strings.TrimPrefix(check, "rule:"), n.making).known()
	})
	if err := wellFormed(text); err != nil {
		return "", fmt.Errorf("rule %s: %w", n.name, err)
	}
	return text, nil
}

// circle returns the names of a cycle of references that begins with n, nil where there is none. path has the rules that led to n.
func (r Rules) circle(n node, path []node) (names []string) {
	if at := slices.Index(path, n); at >= 0 {
		for _, by := range append(slices.Clone(path[at:]), n) {
			names = append(names, by.name)
		}
		return names
	}
	text, err := r.read(n)
	if err != nil {
		return nil // it is told of that rule
	}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		if by := r.circle(r.node(m[1], n.making), append(slices.Clone(path), n)); by != nil {
			return by
		}
	}
	return nil
}

// shared returns the names of the rules that belong to no request.
func (r Rules) shared() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r)), func(name string) bool { return strings.Contains(name, ":") })
}

// Enforcer compiles the rules.
func (r Rules) Enforcer() (*goslo.Enforcer, error) {
	compiled := make(Rules, 3*len(r))
	for _, name := range slices.Sorted(maps.Keys(r)) {
		for _, n := range []node{r.node(name, true), r.node(name, false)} {
			text, err := r.compile(n)
			if err != nil {
				return nil, fmt.Errorf("policy: %w", err)
			}
			compiled[n.known()] = text
			if !n.making || name == isAdmin {
				compiled[name] = text
			}
		}
	}
	e, err := goslo.NewEnforcer(compiled)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return e, nil
}
