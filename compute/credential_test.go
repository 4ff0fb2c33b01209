package compute_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"strongroom/compute"
)

func TestLookInto(t *testing.T) {
	t.Parallel()
	refused, broken, good := compute.Credential{ID: uuid.New()}, compute.Credential{ID: uuid.New()}, compute.Credential{ID: uuid.New()}
	var tried []compute.Credential
	look := func(c compute.Credential) error {
		tried = append(tried, c)
		switch c {
		case refused:
			return compute.Errorf(compute.Forbidden, "no")
		case broken:
			return compute.Errorf(compute.Unavailable, "later")
		}
		return nil
	}
	projects := []compute.Access{
		{Project: "closed", Credentials: []compute.Credential{refused}}, {Project: "nobody's"},
		{Project: "open", Credentials: []compute.Credential{refused, good, broken}},
	}
	got, err := compute.LookInto(projects, look)
	require.NoError(t, err)
	require.Equal(t, compute.Looks{Projects: []string{"open"}, Closed: []string{"closed", "nobody's"}}, got)
	require.Equal(t, []compute.Credential{refused, refused, good}, tried)

	projects[1].Credentials = []compute.Credential{refused, broken, good}
	_, err = compute.LookInto(projects, look)
	require.Equal(t, compute.Unavailable, compute.KindOf(err), "what is broken is not closed: %v", err)
}
