package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// A service that does not come up is started once more, and no third time.
func TestAServiceIsStartedOnceMore(t *testing.T) {
	t.Parallel()
	for failures, ok := range map[int]bool{0: true, 1: true, 2: false} {
		tries := 0
		variables, stop, err := start(t.Context(), []service{{"STRONGROOM_TEST_NOTHING", func(context.Context) (string, func() error, error) {
			if tries++; tries <= failures {
				return "", nil, errors.New("a port is taken")
			}
			return "here", func() error { return nil }, nil
		}}})
		require.NoError(t, stop())
		require.Equal(t, ok, err == nil)
		require.LessOrEqual(t, tries, 2)
		if ok {
			require.Equal(t, []string{"STRONGROOM_TEST_NOTHING=here"}, variables)
		}
	}
}
