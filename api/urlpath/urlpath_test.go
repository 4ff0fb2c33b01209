package urlpath_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/api/urlpath"
)

func TestK3APathThatGoesOn(t *testing.T) {
	t.Parallel()
	require.False(t, urlpath.GoesOn(nil))
	require.False(t, urlpath.GoesOn([]string{"a", "b"}))
	require.False(t, urlpath.GoesOn([]string{"a%2Fb"}), "it is a part of one name")
	require.True(t, urlpath.GoesOn([]string{"a", "b/c"}))
}

func TestS8APathThatClimbs(t *testing.T) {
	t.Parallel()
	for path, climbs := range map[string]bool{
		"/v3/a": false, "/v3/..a/b..": false, "/v3/...": false, "/v3/a%2Fb": false, "/v3/..": true, "/v3/./a": true, "/v3/%2e%2E/a": true, "/v3/a..%2f..%2fb": true, "/v3/%zz": true,
	} {
		require.Equal(t, climbs, urlpath.Climbs(path), path)
	}
}
