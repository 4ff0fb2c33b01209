package main

import (
	"reflect"
	"slices"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// K7: a flag of several values is given several times. Those are excepted of whose values none can have a comma in it: ids, and words of a list; and the
// initializer's, which are environment variables.
func TestK7NoFlagIsCut(t *testing.T) {
	t.Parallel()
	var c cli
	k, err := parser(&c)
	require.NoError(t, err)
	excepted, seen := []string{"column", "disk", "remove-unknown", "project", "device", "owner"}, 0
	require.NoError(t, kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && !slices.Contains(excepted, f.Name) {
			switch f.Target.Kind() {
			case reflect.Slice:
				assert.Equal(t, rune(-1), f.Tag.Sep, f.Name)
				seen++
			case reflect.Map:
				assert.Equal(t, rune(-1), f.Tag.MapSep, f.Name)
				seen++
			}
		}
		return next(nil)
	}))
	require.Greater(t, seen, 5)
}

// K7: one flag is one value, with all of its text.
func TestK7AFlagIsOneValue(t *testing.T) {
	t.Parallel()
	parse := func(args ...string) *cli {
		t.Helper()
		var c cli
		k, err := parser(&c)
		require.NoError(t, err)
		_, err = k.Parse(args)
		require.NoError(t, err)
		return &c
	}
	const dsn = "host=a;port=5432,b"
	want := map[string]string{"dsn": dsn, "more": "x"}
	properties := []string{"--property", "dsn=" + dsn, "--property", "more=x"}
	c := parse(append([]string{"server", "create", "a", "--flavor", "f", "--image", "i", "--network", "lan, a", "--network", "b;c"}, properties...)...)
	require.Equal(t, want, c.Server.Create.Property)
	require.Equal(t, []string{"lan, a", "b;c"}, c.Server.Create.Network)
	require.Equal(t, []string{"auto"}, parse("server", "create", "a", "--flavor", "f", "--image", "i").Server.Create.Network)
	require.Equal(t, want, parse(append([]string{"server", "image", "create", "a", "copy"}, properties...)...).Server.Image.Create.Property)
	require.Equal(t, want, parse(append([]string{"server", "rebuild", "a", "--image", "i"}, properties...)...).Server.Rebuild.Property)
	require.Equal(t, want, parse(append([]string{"volume-type", "set", "a"}, properties...)...).VolumeType.Set.Property)
	require.Equal(t, []string{"a,b"}, parse("volume-type", "unset", "a", "--property", "a,b").VolumeType.Unset.Property)
}
