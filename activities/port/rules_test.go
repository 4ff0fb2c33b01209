package port_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"strongroom/activities/port"
)

// A hostname that Neutron would refuse names no port, and keeps no server from its network.
func TestHostnamesThatNeutronTakes(t *testing.T) {
	t.Parallel()
	for hostname, name := range map[string]string{
		"web": "web", "Web-1": "web-1", "web.example": "web.example", "10": "10", "ubuntu-22.04": "", "v1.2": "", "a..b": "", "-a": "", "a-": "", "": "",
		"a.b-": "", "4th": "4th", strings.Repeat("a", 63): strings.Repeat("a", 63), strings.Repeat("a", 64): "",
	} {
		require.Equal(t, name, port.DNSName(hostname), hostname)
	}
}
