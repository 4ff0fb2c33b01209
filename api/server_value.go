package api

import (
	"net/netip"
	"time"
)

// The forms in which the API writes values down.

// seconds is a time as most of the API has it.
func seconds(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// microseconds is a time, or null, as the API's older parts have it: without a zone.
func microseconds(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000")
}

// orNull is a text, or null for none.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func orNone[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// shortAddress is an IPv6 address in its short form, and any other text as it is.
func shortAddress(text *string) *string {
	if text == nil {
		return nil
	}
	address, err := netip.ParseAddr(*text)
	if err != nil {
		return text
	}
	short := address.String()
	return &short
}
