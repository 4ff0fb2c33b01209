package stack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"go.yaml.in/yaml/v3"

	"strongroom/activities/openstack"
	"strongroom/devcloud"
)

// ServiceEntry is the entry of a cloud's clouds.yaml with which strongroom itself
// logs in.
const ServiceEntry = "strongroom"

// account is how strongroom itself logs in.
type account struct {
	authURL, username, project, domain, region string
	shares                                     bool           // the catalog names a shared file systems service
	connection                                 map[string]any // how the cloud is reached: more of strongroom.yaml's identity
}

// devAccount is strongroom's user in the stack's own devcloud.
func (l Layout) devAccount() account {
	return account{l.AuthURL(), devcloud.ServiceUser, devcloud.ServiceProject, "Default", "RegionOne", false, nil}
}

// cloudAccount is strongroom's user in the cloud of a clouds.yaml. It logs in,
// leaves the password in the stack's folder, and checks that the catalog sends
// clients to this stack's api.
func (l Layout) cloudAccount(ctx context.Context, file string) (account, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(ServiceEntry))
	if err != nil {
		return account{}, fmt.Errorf("%s: %w", file, err)
	}
	client, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return account{}, openstack.Error(err, "log in at "+auth.IdentityEndpoint+" as "+auth.Username)
	}
	endpoint.Type, endpoint.Availability = "compute", gophercloud.AvailabilityPublic
	named, err := client.EndpointLocator(endpoint)
	if err != nil {
		return account{}, fmt.Errorf("the catalog at %s names no compute service in region %s: %w", auth.IdentityEndpoint, endpoint.Region, err)
	}
	if err := l.serves(named); err != nil {
		return account{}, err
	}
	result, ok := client.GetAuthResult().(tokens.CreateResult)
	if !ok {
		return account{}, errors.New("the identity service speaks another API than version 3")
	}
	user, err := result.ExtractUser()
	if err != nil {
		return account{}, err
	}
	project, err := result.ExtractProject()
	if err != nil {
		return account{}, err
	}
	if project == nil {
		return account{}, fmt.Errorf("%s: entry %s names no project", file, ServiceEntry)
	}
	endpoint.Type = "sharev2"
	_, none := client.EndpointLocator(endpoint)
	reached, err := connection(file)
	if err != nil {
		return account{}, err
	}
	a := account{auth.IdentityEndpoint, user.Name, project.Name, user.Domain.Name, endpoint.Region, none == nil, reached}
	return a, os.WriteFile(l.passwordFile(), []byte(auth.Password+"\n"), 0o600)
}

// connection reads how a clouds.yaml says that the cloud is reached: cacert, cert, key and verify, by their names in strongroom.yaml. Files are named from the
// folder in which the stack is started, as they are for all who read a clouds.yaml.
func connection(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all clouds.Clouds
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	entry, out := all.Clouds[ServiceEntry], map[string]any{}
	for key, path := range map[string]string{"cafile": entry.CACertFile, "certfile": entry.ClientCertFile, "keyfile": entry.ClientKeyFile} {
		if path == "" {
			continue
		}
		if out[key], err = filepath.Abs(path); err != nil {
			return nil, err
		}
	}
	if entry.Verify != nil && !*entry.Verify {
		out["insecure"] = true
	}
	return out, nil
}

// serves reports whether the compute API that a catalog names is the one of this
// stack.
func (l Layout) serves(named string) error {
	ours := l.APIURL() + "/v2.1"
	if named = strings.TrimSuffix(named, "/"); named == ours {
		return nil
	}
	problem := fmt.Sprintf("the catalog names the compute API as %s, and this one is going to be at %s", named, ours)
	there, err := url.Parse(named)
	if err == nil {
		if port, err := strconv.Atoi(there.Port()); err == nil && there.Hostname() == "127.0.0.1" && port != l.apiPort() {
			return fmt.Errorf("%s: use --port-base %d", problem, port-apiPort)
		}
	}
	return errors.New(problem)
}
