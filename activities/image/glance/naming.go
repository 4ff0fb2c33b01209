package glance

import (
	"context"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/openstack"
	"strongroom/compute"
)

// naming asks for images with a property, as Glance lets clients filter by any. It has hidden
// images in a list of their own.
type naming url.Values

// ToImageListQuery implements images.ListOptsBuilder.
func (n naming) ToImageListQuery() (string, error) { return "?" + url.Values(n).Encode(), nil }

// Naming implements image.Library. Some databases of Glance tell letters' case apart; a uuid
// has two usual spellings.
func (l *Library) Naming(ctx context.Context, cred compute.Credential, secret compute.SecretID) (found []compute.ImageID, err error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return nil, err
	}
	for _, property := range compute.NamingProperties() {
		for _, id := range []string{secret.String(), strings.ToUpper(secret.String())} {
			for _, hidden := range []string{"false", "true"} {
				options := naming{property: {id}, "os_hidden": {hidden}, "limit": {"25"}}
				err := images.List(client, options).EachPage(ctx, func(_ context.Context, p pagination.Page) (bool, error) {
					docs, err := images.ExtractImages(p)
					for i := range docs {
						r, parseErr := recordOf(&docs[i])
						if parseErr != nil {
							return false, parseErr
						}
						if r.Names(secret) { // a store that knows no such filter gives all
							found = append(found, r.ID)
						}
					}
					return err == nil && len(found) == 0, err
				})
				if err != nil || len(found) > 0 {
					return found, openstack.Error(err, "list images that name a secret")
				}
			}
		}
	}
	return found, nil
}
