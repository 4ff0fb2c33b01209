package devcloud

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/google/uuid"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/bcrypt"
)

// The one domain.
const (
	domainID   = "default"
	domainName = "Default"
)

// directory is the content of the users' file.
type directory struct {
	Projects []project `yaml:"projects"`
	Users    []user    `yaml:"users"`
	Roles    []string  `yaml:"roles,omitempty"` // besides those that strongroom knows and those that somebody has

	unnumbered bool   // the file has projects without the number of their network
	nobody     []byte // a hash that costs as much to check as the most costly of a user
}

type project struct {
	ID          string   `yaml:"id"`
	Name        string   `yaml:"name"`
	Description text     `yaml:"description,omitempty"`
	Disabled    bool     `yaml:"disabled,omitempty"`
	Tags        []string `yaml:"tags,omitempty"`
	Network     int      `yaml:"network,omitempty"` // see Project.Network; given to those that have none when the file is read
}

type user struct {
	ID             string              `yaml:"id"`
	Name           string              `yaml:"name"`
	Description    text                `yaml:"description,omitempty"`
	Email          text                `yaml:"email,omitempty"`
	PasswordHash   string              `yaml:"password_hash"`    // bcrypt
	Logins         int                 `yaml:"logins,omitempty"` // goes up when the tokens of the user end: with another password, and with being disabled
	Disabled       bool                `yaml:"disabled,omitempty"`
	DefaultProject string              `yaml:"default_project,omitempty"` // its id, for clients to ask; a login does not look at it
	Roles          map[string][]string `yaml:"roles"`                     // project's name to roles' names
}

// text is what people write. It is quoted in the file: YAML's other forms lose spaces and breaks of lines.
type text string

// MarshalYAML implements yaml.Marshaler.
func (t text) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: string(t)}, nil
}

type role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// newID makes an id in Keystone's form: a uuid without dashes.
func newID() string { return plainID(uuid.New()) }

func plainID(id uuid.UUID) string { return hex.EncodeToString(id[:]) }

// roleNamed gives the role of a name; its id follows from the name.
func roleNamed(name string) role {
	return role{ID: plainID(uuid.NewSHA1(uuid.NameSpaceOID, []byte("strongroom role "+name))), Name: name}
}

// loadUsers reads the users' file, which holds password hashes and is therefore
// refused when others can read it.
func loadUsers(path string) (*directory, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("devcloud: users file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("devcloud: the users file %s is open to others (mode %04o): make it 0600", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("devcloud: users file: %w", err)
	}
	d := &directory{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(d); err != nil {
		return nil, fmt.Errorf("devcloud: users file %s: %w", path, err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("devcloud: users file %s: %w", path, err)
	}
	for n := range d.Users {
		if d.Users[n].Roles == nil {
			d.Users[n].Roles = map[string][]string{}
		}
	}
	d.unnumbered = d.number()
	return d, d.makeNobody()
}

// makeNobody makes the hash that is checked where there is no such user.
func (d *directory) makeNobody() (err error) {
	d.nobody, err = bcrypt.GenerateFromPassword([]byte(newID()), d.cost())
	return err
}

func (d *directory) check() error {
	type key struct{ kind, of, value string }
	seen := map[key]bool{}
	unique := func(kind, id, name string) error {
		if id == "" || name == "" || seen[key{kind, "id", id}] || seen[key{kind, "name", name}] {
			return fmt.Errorf("%s %q: id and name must be there and be the only ones", kind, name)
		}
		seen[key{kind, "id", id}], seen[key{kind, "name", name}] = true, true
		return nil
	}
	for _, p := range d.Projects {
		if err := unique("project", p.ID, p.Name); err != nil {
			return err
		}
		network := key{"project", "network", fmt.Sprint(p.Network)}
		if p.Network < 0 || p.Network > 0 && seen[network] {
			return fmt.Errorf("project %q: its network must be a number above 0 that no other project has", p.Name)
		}
		seen[network] = true
	}
	for _, u := range d.Users {
		if err := unique("user", u.ID, u.Name); err != nil {
			return err
		}
		if _, err := bcrypt.Cost([]byte(u.PasswordHash)); err != nil {
			return fmt.Errorf("user %q: password_hash is not a bcrypt hash", u.Name)
		}
		for name := range u.Roles {
			if d.projectNamed(name) == nil {
				return fmt.Errorf("user %q: there is no project %q", u.Name, name)
			}
		}
	}
	return nil
}

// number gives each project that users have the number of its network. It reports whether one had none.
func (d *directory) number() (changed bool) {
	taken := map[int]bool{}
	for _, p := range d.Projects {
		taken[p.Network] = true
	}
	next := 1
	for n := range d.Projects {
		p := &d.Projects[n]
		if p.Name == ServiceProject || p.Network != 0 {
			continue
		}
		for taken[next] {
			next++
		}
		p.Network, taken[next], changed = next, true, true
	}
	return changed
}

func (d *directory) cost() int {
	cost := bcrypt.MinCost
	for _, u := range d.Users {
		c, _ := bcrypt.Cost([]byte(u.PasswordHash)) // checked
		cost = max(cost, c)
	}
	return cost
}

func find[T any](all []T, match func(*T) bool) *T {
	for i := range all {
		if match(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

func (d *directory) project(id string) *project {
	return find(d.Projects, func(p *project) bool { return p.ID == id })
}

func (d *directory) projectNamed(name string) *project {
	return find(d.Projects, func(p *project) bool { return p.Name == name })
}

func (d *directory) user(id string) *user {
	return find(d.Users, func(u *user) bool { return u.ID == id })
}

func (d *directory) userNamed(name string) *user {
	return find(d.Users, func(u *user) bool { return u.Name == name })
}

// rolesOn gives a user's roles on a project, in the file's order.
func (u *user) rolesOn(p *project) []role {
	var out []role
	for _, name := range u.Roles[p.Name] {
		out = append(out, roleNamed(name))
	}
	return out
}

// projectsOf gives the projects on which a user has a role.
func (d *directory) projectsOf(u *user) []project {
	return slices.DeleteFunc(slices.Clone(d.Projects), func(p project) bool { return len(u.Roles[p.Name]) == 0 })
}

// knownRoles are those that strongroom's policies name.
var knownRoles = []string{"admin", "creator", "manager", "member", "reader", "service"}

// roles gives the roles that strongroom knows and those that somebody has, by name.
func (d *directory) roles() []role {
	names := map[string]bool{}
	for _, name := range slices.Concat(knownRoles, d.Roles) {
		names[name] = true
	}
	for _, u := range d.Users {
		for _, roles := range u.Roles {
			for _, name := range roles {
				names[name] = true
			}
		}
	}
	var out []role
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, roleNamed(name))
	}
	return out
}

// checkPassword takes the same time whether there is such a user or not.
func (d *directory) checkPassword(u *user, password string) bool {
	hash := d.nobody
	if u != nil {
		hash = []byte(u.PasswordHash)
	}
	right := bcrypt.CompareHashAndPassword(hash, []byte(password)) == nil
	if cost, err := bcrypt.Cost(hash); err == nil && cost < d.cost() {
		_ = bcrypt.CompareHashAndPassword(d.nobody, []byte(password))
	}
	return right && u != nil && !u.Disabled
}
