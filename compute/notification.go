package compute

// Notifications are the event types of what is told about an operation, as Nova names
// them (SH-24): of its start, of its success, and of any other end.
type Notifications struct{ Start, End, Error string }

// notifications gives those of an action on a server: instance.NAME.start, .end and .error.
func notifications(name string) Notifications {
	prefix := "instance." + name
	return Notifications{Start: prefix + ".start", End: prefix + ".end", Error: prefix + ".error"}
}
