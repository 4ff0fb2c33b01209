package compute

import (
	"encoding/json"
	"reflect"
)

// Action is one kind of operation: what is the same for every operation of the kind.
// A is the type of its arguments, as its workflow is given them.
type Action[A any] struct {
	Facts
	// Variant gives the transition where it depends on the arguments; nil: it does not.
	Variant func(A) Transition
}

// Facts are what is known of an action without its arguments.
type Facts struct {
	Kind       OperationKind
	Word       string // names it in a refusal; "": the kind
	Transition Transition
	EvenLocked bool // a lock on the server keeps nobody from it
	Boots      bool // it boots the server, so a legacy key is moved into the disks first (EE-35)
	Resumes    bool // a guest that may have moved goes on by it: refused, as a boot is, where another host may run it
	ReadsNoKey bool // no host reads a key of the server for it: a gateway gives none (H1)
	NoShares   bool // refused for a server that has shares (SH-22)
	InRequest  bool // it ends inside its request: a row in the trail, no workflow

	Notifications Notifications // of its start and its end; none: nobody is notified
}

// RunsGuest reports whether the server's guest runs by it, or goes on: then no other host may run it.
func (f Facts) RunsGuest() bool { return f.Boots || f.Resumes }

// None is the type of the arguments of an action that has none.
type None struct{}

// Actions are all actions: each is on the list by being declared. A kind without one is
// refused by record.Begin and found by TestEveryKindIsListedOnce.
var Actions []AnyAction

// declare makes an action one of Actions. It is called where package variables are
// initialized and nowhere else, so that the list does not change once the program runs.
func declare[A any](a Action[A]) Action[A] {
	Actions = append(Actions, AnyAction{Facts: a.Facts, Arguments: reflect.TypeFor[A](), Keep: a.keep})
	return a
}

// AnyAction is an Action whose kind is known at run time only.
type AnyAction struct {
	Facts
	Arguments reflect.Type
	// Keep gives of an operation's arguments what their type holds, as JSON; nil for
	// None. What else a request said has no place in a history. Invalid: there are no
	// such arguments.
	Keep func(json.RawMessage) (json.RawMessage, error)
}

// ActionOf finds the action of a kind. Invalid: there is none.
func ActionOf(kind OperationKind) (AnyAction, error) {
	for _, a := range Actions {
		if a.Kind == kind {
			return a, nil
		}
	}
	return AnyAction{}, Errorf(Invalid, "There is no such action: %s", kind)
}

// With gives the facts of the action with these arguments.
func (a Action[A]) With(in A) Facts {
	facts := a.Facts
	if a.Variant != nil {
		facts.Transition = a.Variant(in)
	}
	return facts
}

// Read reads arguments. Invalid: there are none of the type.
func (a Action[A]) Read(text json.RawMessage) (in A, err error) {
	if _, none := any(in).(None); none {
		return in, nil
	}
	// The same text gives the same value: a workflow may read it.
	//workflowcheck:ignore
	err = json.Unmarshal(text, &in)
	if string(text) == "null" || err != nil {
		return in, Errorf(Invalid, "these are no arguments of a %s", a.Kind)
	}
	return in, nil
}

func (a Action[A]) keep(text json.RawMessage) (json.RawMessage, error) {
	in, err := a.Read(text)
	if _, none := any(in).(None); none || err != nil {
		return nil, err
	}
	return json.Marshal(in)
}
