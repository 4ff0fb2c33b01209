package api

import (
	"strongroom/api/fault"
	"strongroom/api/microversion"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const ruleRebuild = "os_compute_api:servers:rebuild"

func rebuildSchema(v microversion.Version) validation.Schema {
	p := validation.Properties{
		"imageRef": validation.UUID, "name": validation.Name, "adminPass": validation.Text, "metadata": validation.Metadata(),
		"preserve_ephemeral": validation.BooleanOrText, "OS-DCF:diskConfig": diskConfig, "accessIPv4": ipv4, "accessIPv6": ipv6,
	}
	if v >= 19 {
		p["description"] = validation.Description
	}
	if v >= 54 {
		p["key_name"] = validation.Schema{"oneOf": []validation.Schema{validation.Name, validation.Null}}
	}
	if v < 57 {
		p["personality"] = personality
	} else {
		p["user_data"] = validation.Schema{"oneOf": []validation.Schema{
			{"type": "string", "format": "base64", "maxLength": maxUserData}, validation.Null,
		}}
	}
	if v >= 63 {
		p["trusted_image_certificates"] = trustedCertificates
	}
	if v >= 90 {
		p["hostname"] = hostnameSchema(v)
	}
	return validation.Object([]string{"rebuild"}, validation.Properties{"rebuild": validation.Object([]string{"imageRef"}, p)})
}

var rebuildBody = validation.Since(rebuildSchema, 1, 19, 54, 57, 63, 90, 94)

func (a *API) rebuildAction() Resource {
	return Resource{
		Rules:  policy.Rules{ruleRebuild: policy.ProjectMemberOrAdmin},
		Routes: []Route{actionRoute("rebuild", rebuildBody, a.rebuildServer)},
	}
}

// rebuildRequest is the body of a rebuild, below "rebuild".
type rebuildRequest struct {
	ImageRef     string             `json:"imageRef"`
	AdminPass    string             `json:"adminPass"`
	Preserve     validation.Boolean `json:"preserve_ephemeral"`
	Name         *string            `json:"name"`
	Hostname     *string            `json:"hostname"`
	Metadata     map[string]string  `json:"metadata"`
	DiskConfig   *string            `json:"OS-DCF:diskConfig"`
	AccessIPv4   *string            `json:"accessIPv4"`
	AccessIPv6   *string            `json:"accessIPv6"`
	Description  *string            `json:"description"`
	KeyName      *string            `json:"key_name"`
	UserData     *string            `json:"user_data"`
	Personality  []any              `json:"personality"`
	TrustedCerts []string           `json:"trusted_image_certificates"`
}

// rebuildServer rebuilds a server from an image. What can be refused is refused
// before anything changes (EE-34, TPM-29).
func (a *API) rebuildServer(r *Request) (any, error) {
	in, err := readRebuild(r)
	if err != nil {
		return nil, err
	}
	var row serverRow // that was rebuilt
	var asked compute.RebuildRequest
	if _, err := a.act(r, action{
		Facts: compute.Rebuild.Facts, rule: ruleRebuild, arguments: &asked,
		check: func(found serverRow) (err error) {
			row = found
			if asked, err = a.rebuildArguments(r, in); err != nil {
				return err
			}
			if err := a.checkMoreMetadata(r.Context(), a.db, row.Server, len(in.Metadata)); err != nil {
				return err
			}
			return a.mayRebuild(r, row.Server, asked.RebuildArguments)
		},
		grows: func(found serverRow) (*growth, error) {
			// The root disk of a flavor without a size is as large as the image.
			return a.growthOf(r.Context(), found.Server, compute.Use{DiskGB: compute.UseOf(found.Server.Flavor, asked.Image).DiskGB - found.Server.DiskGB})
		},
	}); err != nil {
		return nil, err
	}
	r.SetHeader("Location", r.URL("servers", row.Server.ID.String()))
	row.Server.TaskState = compute.Rebuild.Transition.Task
	return map[string]any{"server": a.serverView(r, row.Server.Networks).rebuilt(willBe(row, asked), adminPassword(in.AdminPass))}, nil
}

func readRebuild(r *Request) (rebuildRequest, error) {
	var body struct{ Rebuild rebuildRequest }
	if err := r.Decode(&body); err != nil {
		return body.Rebuild, err
	}
	switch {
	case len(body.Rebuild.Personality) > 0:
		return body.Rebuild, noPersonality()
	case len(body.Rebuild.TrustedCerts) > 0:
		return body.Rebuild, noCertificates()
	case len(body.Rebuild.Metadata) > maxMetadata:
		return body.Rebuild, tooMuchMetadata(maxMetadata)
	}
	return body.Rebuild, nil
}

func (a *API) rebuildArguments(r *Request, in rebuildRequest) (compute.RebuildRequest, error) {
	image, err := a.imageOf(r, in.ImageRef)
	if err != nil {
		return compute.RebuildRequest{}, err
	}
	data, err := a.keyOf(r, in.KeyName)
	if err != nil {
		return compute.RebuildRequest{}, err
	}
	setting := func(key string, text *string) compute.Setting {
		return compute.Setting{Set: r.Has("rebuild", key), Text: text}
	}
	return compute.RebuildRequest{
		RebuildArguments: compute.RebuildArguments{Image: image, PreserveEphemeral: bool(in.Preserve)},
		Change: compute.ServerChange{
			Name: in.Name, Hostname: in.Hostname, Metadata: in.Metadata, DiskConfig: in.DiskConfig, AccessIPv4: in.AccessIPv4, AccessIPv6: shortAddress(in.AccessIPv6),
			Description: setting("description", in.Description), KeyName: setting("key_name", in.KeyName), KeyData: data,
			UserData: setting("user_data", in.UserData),
		},
	}, nil
}

// mayRebuild asks the rules of a create for the image, and those of a rebuild for
// who asks and for what the server and its host have.
func (a *API) mayRebuild(r *Request, s schema.Server, in compute.RebuildArguments) error {
	plan := &serverPlan{flavor: s.Flavor, image: in.Image}
	if err := a.decide(plan); err != nil {
		return err
	}
	disks, err := a.db.GetServerDisks(r.Context(), s.ID)
	if err != nil {
		return err
	}
	was, err := s.WithDisks(disks)
	if err != nil {
		return err
	}
	var host schema.ClaimedHostRow
	if s.HostID != nil {
		if host, err = a.db.ClaimedHost(r.Context(), *s.HostID); err != nil {
			return err
		}
	}
	will, err := was.RebuiltAs(r.ID, in, compute.Host{Default: host.DefaultFormat}.DefaultFormat())
	if err != nil {
		return err
	}
	if err := was.CheckStaysEncrypted(will, s.EphemeralKey != nil); err != nil {
		return err
	}
	if err := was.CheckRebuilder(will, r.Credential()); err != nil {
		return err
	}
	if s.HostID != nil {
		will.Traits, will.Forbidden = plan.traits.Required, plan.traits.Forbidden
		if why := compute.RequestOf(will).Traits.Unmet(host.Traits); why != "" {
			return fault.Conflict("The host of instance %s %s, so it cannot take image %s.", s.ID, why, in.Image.ID)
		}
	}
	plan.delegated = was.Delegates()
	if was.TPM != nil {
		plan.tpm = nil // none is made
	}
	return a.probe(r, plan)
}

// willBe is the row as it is going to be: what the answer shows.
func willBe(row serverRow, in compute.RebuildRequest) serverRow {
	s, c := &row.Server, in.Change
	s.Image, s.ImageID = in.Image, &in.Image.ID
	for _, change := range []struct{ to, from *string }{
		{&s.Name, c.Name}, {&s.Hostname, c.Hostname}, {&s.DiskConfig, c.DiskConfig}, {&s.AccessIPv4, c.AccessIPv4}, {&s.AccessIPv6, c.AccessIPv6},
	} {
		if change.from != nil {
			*change.to = *change.from
		}
	}
	for _, change := range []struct {
		to   **string
		from compute.Setting
	}{{&s.Description, c.Description}, {&s.KeyName, c.KeyName}, {&s.UserData, c.UserData}} {
		if change.from.Set {
			*change.to = change.from.Text
		}
	}
	if c.Metadata != nil {
		s.Metadata = c.Metadata
	}
	return row
}
