package notification

import "time"

// object is a versioned object as oslo.versionedobjects serialises it.
type object struct {
	Name      string         `json:"nova_object.name"`
	Namespace string         `json:"nova_object.namespace"`
	Version   string         `json:"nova_object.version"`
	Data      map[string]any `json:"nova_object.data"`
}

func versioned(name, version string, data map[string]any) object {
	return object{Name: name, Namespace: "nova", Version: version, Data: data}
}

// seconds is a time as such an object has it; nil for none.
func seconds(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

// orNull is nil for the zero value.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func orEmpty[M ~map[string]string](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
