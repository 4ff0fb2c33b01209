package api

import (
	"context"

	"strongroom/compute"
	"strongroom/schema"
)

// projectQuota is what holds for a project: the quota of every project or Keystone's, and before it what was written for this one.
type projectQuota struct {
	compute.Quota
	written writtenQuotas
}

// writtenQuotas are a project's limits that os-quota-sets wrote, by the compute API's names of resources.
type writtenQuotas map[string]int64

// quotaOf gives the quota of a project.
func (a *API) quotaOf(ctx context.Context, project string) (projectQuota, error) {
	written, err := a.writtenQuotas(ctx, a.db, project)
	if err != nil {
		return projectQuota{}, err
	}
	quota := a.config.Quotas.Of(ctx, project)
	counts := counted(&quota)
	for name, most := range written {
		if limit, ok := counts[name]; ok {
			*limit = most
		}
	}
	return projectQuota{quota, written}, nil
}

// defaultQuota is that of projects for which nothing was written.
func (a *API) defaultQuota(ctx context.Context) projectQuota {
	return projectQuota{Quota: a.config.Quotas.Default(ctx)}
}

// writtenQuotas are none where the quotas are Keystone's, whatever was written before they were.
func (a *API) writtenQuotas(ctx context.Context, q *schema.Queries, project string) (writtenQuotas, error) {
	written := writtenQuotas{}
	if a.config.Quotas.AreElsewhere() {
		return written, nil
	}
	rows, err := q.ProjectQuotas(ctx, project)
	for _, row := range rows {
		written[row.Resource] = row.Most
	}
	return written, err
}

// counted are the limits of what is counted, by the compute API's names.
func counted(q *compute.Quota) map[string]*int64 {
	return map[string]*int64{
		"instances": &q.Instances, "cores": &q.Cores, "ram": &q.MemoryMB, "key_pairs": &q.KeyPairs,
		"server_groups": &q.Groups, "server_group_members": &q.GroupMembers,
	}
}

// limit is a limit by the compute API's name of the resource.
func (q projectQuota) limit(name string) int64 {
	if most, ok := q.written[name]; ok {
		return most
	}
	if most, ok := counted(&q.Quota)[name]; ok {
		return max(*most, compute.Unlimited) // each limit that is none alike
	}
	switch name {
	case "metadata_items":
		return maxMetadata
	case "injected_files", "injected_file_content_bytes", "injected_file_path_bytes":
		return 0 // not offered
	default:
		return compute.Unlimited // the networks' are kept elsewhere
	}
}

// checkMetadata asks how many items the metadata of a server may have; no quota lets it have more than maxMetadata.
func (w writtenQuotas) checkMetadata(items int) error {
	most, ok := w["metadata_items"]
	if !ok || most < 0 {
		most = maxMetadata
	}
	if most = min(most, maxMetadata); int64(items) > most {
		return tooMuchMetadata(most)
	}
	return nil
}

// checkMoreMetadata is checkMetadata of a server that has some. What does not grow is not looked at, for a limit may be lowered below what is used.
func (a *API) checkMoreMetadata(ctx context.Context, q *schema.Queries, s schema.Server, items int) error {
	if items <= len(s.Metadata) {
		return nil
	}
	written, err := a.writtenQuotas(ctx, q, s.ProjectID)
	if err != nil {
		return err
	}
	return written.checkMetadata(items)
}
