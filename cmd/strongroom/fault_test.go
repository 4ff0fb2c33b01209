package main

import (
	"errors"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"
)

func TestExplainGivesTheFaultsOwnWords(t *testing.T) {
	t.Parallel()
	answered := func(code int, body string) error {
		return gophercloud.ErrUnexpectedResponseCode{Actual: code, Body: []byte(body)}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a fault":        {answered(409, `{"conflictingRequest": {"code": 409, "message": "it is \"busy\""}}`), `it is "busy" (HTTP 409)`},
		"no fault":       {answered(502, `<html>`), "the cloud answered HTTP 502 Bad Gateway"},
		"another object": {answered(500, `{"a": {}}`), "the cloud answered HTTP 500 Internal Server Error"},
		"no answer":      {errors.New("connection refused"), "connection refused"},
	} {
		require.EqualError(t, explain(c.err), c.want, name)
	}
	require.NoError(t, explain(nil))
}
