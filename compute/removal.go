package compute

import "fmt"

// String says what the removal does, for people.
func (r Removal) String() string {
	if says := of(r.Thing.Kind).removal; says != nil {
		return says(r.Thing.Name)
	}
	return fmt.Sprintf("delete %s %s", r.Thing.Kind, r.Thing.Name)
}

// OfServer gives the server whose thing is to be removed. Invalid: no server owns it.
func (r Removal) OfServer() (ServerID, error) {
	server, ok := r.Thing.Server()
	if !ok || server == (ServerID{}) {
		return server, Errorf(Invalid, "%s %s belongs to no server", r.Thing.Kind, r.Thing.Name)
	}
	return server, nil
}

// Misdirected is the refusal of a removal by whoever has no things of its kind.
func (r Removal) Misdirected() error {
	return Errorf(Invalid, "%s %s is not removed here", r.Thing.Kind, r.Thing.Name)
}
