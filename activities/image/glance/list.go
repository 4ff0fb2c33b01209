package glance

import (
	"context"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"strongroom/activities/image"
	"strongroom/activities/openstack"
	"strongroom/compute"
)

// pageSize is how many images are asked for at once, at most.
const pageSize = 200

// List implements image.Library, the oldest first unless the newest are wanted. Images that another
// project shared with the credential's are among them.
//
// A marker is the id of the last image and when that was made. Glance knows no place
// after an image that was deleted meanwhile; then it is asked for all that were made in
// that second or since; where the newest come first, in that second or before.
func (l *Library) List(ctx context.Context, cred compute.Credential, in image.ListInput) (image.ListResult, error) {
	client, err := l.client(ctx, cred)
	if err != nil {
		return image.ListResult{}, err
	}
	options := query(cred, in)
	last, created, goesOn := strings.Cut(in.Marker, "@")
	options.Marker = last
	docs, more, err := page(ctx, client, options)
	if goesOn && compute.Is(err, compute.Invalid) {
		since, parseErr := time.Parse(time.RFC3339, created)
		if parseErr != nil {
			return image.ListResult{}, err
		}
		options.Marker = ""
		options.CreatedAtQuery = &images.ImageDateQuery{Date: since, Filter: images.FilterGTE}
		if in.Newest {
			// Glance keeps fractions of a second, and shows whole ones.
			options.CreatedAtQuery = &images.ImageDateQuery{Date: since.Add(time.Second), Filter: images.FilterLT}
		}
		docs, more, err = page(ctx, client, options)
	}
	if err != nil {
		return image.ListResult{}, err
	}
	var out image.ListResult
	for i := range docs {
		r, err := recordOf(&docs[i])
		if err != nil {
			return image.ListResult{}, err
		}
		out.Last = r.ID
		// An administrator of a project sees others' private images.
		foreign := cred.ProjectID != "" && r.Visibility == image.Private && !image.Owns(cred, r.Image)
		if !foreign && in.Wants(cred, r.Image) {
			out.Images = append(out.Images, r.Image)
		}
	}
	if more {
		end := docs[len(docs)-1]
		out.Next = end.ID + "@" + end.CreatedAt.UTC().Format(time.RFC3339)
	}
	return out, nil
}

func query(cred compute.Credential, in image.ListInput) images.ListOpts {
	options := images.ListOpts{Limit: in.Limit, Sort: "created_at:asc,id:asc"}
	if in.Newest {
		options.Sort = "created_at:desc,id:desc"
	}
	if in.Limit <= 0 || in.Limit > pageSize {
		options.Limit = pageSize
	}
	if cred.ProjectID == "" {
		options.Visibility = "all" // with other projects' community images
	}
	if in.Own {
		options.Owner = cred.ProjectID
	}
	if in.IDs != nil {
		ids := make([]string, len(in.IDs))
		for i, id := range in.IDs {
			ids[i] = id.String()
		}
		options.ID = "in:" + strings.Join(ids, ",")
	}
	if in.Name != "" {
		options.Name = "eq:" + in.Name // what a name has before a colon would be Glance's operator
	}
	if in.Statuses != nil {
		options.Status = images.ImageStatus("in:" + strings.Join(in.Statuses, ","))
	}
	return options
}

// page gives one page of a list, and whether there is another one.
func page(ctx context.Context, client *gophercloud.ServiceClient, options images.ListOpts) (docs []images.Image, more bool, err error) {
	err = images.List(client, options).EachPage(ctx, func(_ context.Context, p pagination.Page) (bool, error) {
		if docs, err = images.ExtractImages(p); err != nil {
			return false, err
		}
		next, err := p.NextPageURL()
		more = next != ""
		return false, err
	})
	return docs, more, openstack.Error(err, "list images")
}
