package main

import (
	"bytes"
	"encoding/json"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// demoCloud is the cloud of strongroom dev in clouds.yaml.
const demoCloud = "strongroom-dev"

// defaultDomain is the id of the domain that is meant where none is named, as the openstack client has it.
const defaultDomain = "default"

// credentials are where a client command logs in and as whom, as the openstack client reads them: a cloud that is
// named is one of clouds.yaml, in this folder, ~/.config/openstack or /etc/openstack, or the file that
// OS_CLIENT_CONFIG_FILE names. Without a name, the variables OS_AUTH_URL and so on say all of it; without those
// it is the cloud of strongroom dev. name is for messages.
func credentials(cloud string, env func(string) string) (name string, from []clouds.ParseOption) {
	if cloud == "" && env("OS_AUTH_URL") != "" {
		text, err := json.Marshal(clouds.Clouds{Clouds: map[string]clouds.Cloud{"environment": fromEnvironment(env)}})
		if err != nil {
			panic(err) // of texts alone
		}
		return "the cloud of OS_AUTH_URL", []clouds.ParseOption{clouds.WithCloudName("environment"), clouds.WithCloudsYAML(bytes.NewReader(text))}
	}
	if cloud == "" {
		cloud = demoCloud
	}
	return `cloud "` + cloud + `"`, []clouds.ParseOption{clouds.WithCloudName(cloud)}
}

// fromEnvironment reads the variables of one cloud. An application credential has its project; Keystone refuses to
// be told another one.
func fromEnvironment(env func(string) string) clouds.Cloud {
	first := func(names ...string) string {
		for _, name := range names {
			if value := env(name); value != "" {
				return value
			}
		}
		return ""
	}
	auth := &clouds.AuthInfo{
		AuthURL: env("OS_AUTH_URL"), Token: first("OS_TOKEN", "OS_AUTH_TOKEN"), Username: env("OS_USERNAME"), UserID: first("OS_USER_ID", "OS_USERID"),
		Password: env("OS_PASSWORD"), UserDomainID: env("OS_USER_DOMAIN_ID"), UserDomainName: env("OS_USER_DOMAIN_NAME"),
		ApplicationCredentialID: env("OS_APPLICATION_CREDENTIAL_ID"), ApplicationCredentialName: env("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: env("OS_APPLICATION_CREDENTIAL_SECRET"),
		DomainID:                    env("OS_DOMAIN_ID"), DomainName: env("OS_DOMAIN_NAME"),
	}
	domain := first("OS_DEFAULT_DOMAIN")
	if domain == "" {
		domain = defaultDomain
	}
	nowhere := auth.DomainID == "" && auth.DomainName == ""
	if auth.Username != "" && auth.UserDomainID == "" && auth.UserDomainName == "" && nowhere {
		auth.UserDomainID = domain
	}
	if auth.ApplicationCredentialID == "" && auth.ApplicationCredentialName == "" {
		auth.SystemScope, auth.TrustID = env("OS_SYSTEM_SCOPE"), env("OS_TRUST_ID")
		auth.ProjectID, auth.ProjectName = first("OS_PROJECT_ID", "OS_TENANT_ID"), first("OS_PROJECT_NAME", "OS_TENANT_NAME")
		auth.ProjectDomainID, auth.ProjectDomainName = env("OS_PROJECT_DOMAIN_ID"), env("OS_PROJECT_DOMAIN_NAME")
		if auth.ProjectName != "" && auth.ProjectDomainID == "" && auth.ProjectDomainName == "" && nowhere {
			auth.ProjectDomainID = domain
		}
	}
	out := clouds.Cloud{
		AuthInfo: auth, RegionName: env("OS_REGION_NAME"), EndpointType: env("OS_ENDPOINT_TYPE"), Interface: env("OS_INTERFACE"),
		CACertFile: env("OS_CACERT"), ClientCertFile: env("OS_CERT"), ClientKeyFile: env("OS_KEY"),
	}
	if env("OS_INSECURE") == "true" || env("OS_INSECURE") == "1" {
		verify := false
		out.Verify = &verify
	}
	return out
}
