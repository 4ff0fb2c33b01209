package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
	"strongroom/schema"
)

const (
	ruleShareIndex  = "os_compute_api:os-server-shares:index"
	ruleShareShow   = "os_compute_api:os-server-shares:show"
	ruleShareCreate = "os_compute_api:os-server-shares:create"
	ruleShareDelete = "os_compute_api:os-server-shares:delete"

	// sharesSince is the version that has shares (SH-31).
	sharesSince = 97
	// liveSharesSince is the version of the extensions in which shares come to guests that run, and go.
	liveSharesSince = 1
)

// Shares is the shared file systems service.
type Shares interface {
	// Look gives how a share is mounted, and from where. NotFound: it is not there, or not the
	// credential's; Conflict: it cannot be mounted now.
	Look(ctx context.Context, cred compute.Credential, id compute.ShareID) (protocol, location string, err error)
}

// serverShares are the shares that servers have; none where there is no such service.
func (a *API) serverShares() []Resource {
	if a.config.Shares == nil {
		return nil
	}
	const (
		path = "/servers/:id/shares"
		one  = path + "/:share_id"
	)
	nothing := validation.Always(validation.Object(nil, validation.Properties{}))
	return []Resource{{
		Rules: policy.Rules{
			ruleShareIndex: policy.ProjectReaderOrAdmin, ruleShareShow: policy.ProjectReaderOrAdmin,
			ruleShareCreate: policy.ProjectMemberOrAdmin, ruleShareDelete: policy.ProjectMemberOrAdmin,
		},
		Routes: []Route{
			{Method: http.MethodGet, Path: path, Min: sharesSince, Query: nothing, Handle: a.listShares},
			{Method: http.MethodGet, Path: one, Min: sharesSince, Query: nothing, Handle: a.showShare},
			{Method: http.MethodPost, Path: path, Status: http.StatusCreated, Min: sharesSince, Query: nothing, Body: shareBody(255), Extended: shareBody(64), Handle: a.attachShare},
			{Method: http.MethodDelete, Path: one, Min: sharesSince, Query: nothing, Handle: a.detachShare},
		},
	}}
}

// shareBody is what an attachment says. Either spelling of the share's id is taken (decision 1).
func shareBody(longestTag int) validation.Versions {
	id := map[string]any{"type": "string", "format": "uuid"}
	return validation.Always(validation.Object([]string{"share"}, validation.Properties{
		"share": {
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{
				"share_id": id, "shareId": id,
				"tag": map[string]any{"type": "string", "pattern": "^[a-zA-Z0-9-]*$", "minLength": 1, "maxLength": longestTag},
			},
			"oneOf": []any{map[string]any{"required": []any{"share_id"}}, map[string]any{"required": []any{"shareId"}}},
		},
	}))
}

func (a *API) listShares(r *Request) (any, error) {
	row, err := a.findServer(r, ruleShareIndex)
	if err != nil {
		return nil, err
	}
	shares, err := a.db.ServerShares(r.Context(), row.Server.ID)
	if err != nil {
		return nil, err
	}
	views := []map[string]any{}
	for _, s := range shares {
		views = append(views, shareView(r, s))
	}
	return map[string]any{"shares": views}, nil
}

func (a *API) showShare(r *Request) (any, error) {
	row, err := a.findServer(r, ruleShareShow)
	if err != nil {
		return nil, err
	}
	s, err := a.shareOf(r, a.db, row.Server.ID)
	if err != nil {
		return nil, err
	}
	view := shareView(r, s)
	if r.IsAdmin() { // SH-02: the cloud's, not a project's (decision 20)
		view[spelled(r, "uuid", "attachmentId")], view["export_location"] = s.ID, ""
		// One whose key is gone keeps nobody from looking; the watch logs it (credential.Store.Reseal).
		if location, err := a.config.Seal.Unseal(s.SealedFor(), s.ExportLocation); err == nil {
			view["export_location"] = string(location)
		}
	}
	return map[string]any{"share": view}, nil
}

// attachShare writes a share down as attaching and lets an operation get access to it.
func (a *API) attachShare(r *Request) (any, error) {
	var body struct {
		Share struct {
			ID   *compute.ShareID `json:"share_id"`
			Also *compute.ShareID `json:"shareId"`
			Tag  string           `json:"tag"`
		} `json:"share"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	asked := schema.ServerShare{ID: r.ID.Derive("share"), Status: compute.ShareAttaching, Tag: body.Share.Tag}
	if body.Share.ID != nil {
		asked.ShareID = *body.Share.ID
	} else {
		asked.ShareID = *body.Share.Also
	}
	if asked.Tag == "" {
		asked.Tag = asked.ShareID.String()
	}
	if err := compute.CheckShareTag(asked.Tag); err != nil {
		return nil, err
	}
	arguments := &compute.ShareArguments{Share: asked.ShareID}
	var err error
	if arguments.Live, err = a.isLive(r, ruleShareCreate); err != nil {
		return nil, err
	}
	_, err = a.launch(r, action{
		Facts: compute.ShareAttach.With(*arguments), rule: ruleShareCreate, arguments: arguments,
		early: func(row serverRow) error { return a.hasNot(r, row.Server.ID, asked) },
		check: func(row serverRow) error {
			if arguments.Live {
				if err := a.checkLive(r, row.Server, compute.ShareAttach, compute.Server.CanShareLive); err != nil {
					return err
				}
			}
			return a.checkAttachment(r, row.Server, &asked, arguments)
		},
		also: func(q *schema.Queries) error {
			// What the server had of the share before goes first: its removal would take this along.
			if waits, err := q.ShareWaits(r.Context(), compute.ShareUse(asked.ShareID, asked.ServerID)); err != nil || waits {
				return orElse(err, fault.Conflict("Share %s is still being detached from this server. Try again later.", asked.ShareID))
			}
			if has, err := q.CountServerShares(r.Context(), asked.ServerID); err != nil || has >= compute.MostShares {
				return orElse(err, fault.Forbidden("The server has %d shares, and may not have more.", compute.MostShares))
			}
			err := q.AttachShare(r.Context(), schema.AttachShareParams{
				ID: asked.ID, ServerID: asked.ServerID, ShareID: asked.ShareID, Status: asked.Status, Tag: asked.Tag,
				ShareProto: asked.ShareProto, ExportLocation: asked.ExportLocation,
			})
			if strings.HasPrefix(violated(err), "server_shares_") {
				return associated(asked)
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	view := map[string]any{"share": shareView(r, asked)}
	if r.Extended {
		return Answer{Status: http.StatusAccepted, Body: view}, nil
	}
	return view, nil
}

// isLive reports whether a request is for a guest that runs: from "strongroom 1.1" on.
func (a *API) isLive(r *Request, rule string) (bool, error) {
	if r.Extensions < liveSharesSince {
		return false, nil
	}
	row, err := a.findServer(r, rule)
	return err == nil && row.Server.VMState == compute.VMActive, err
}

// checkLive refuses, as the document does, what is asked for a guest that runs on a host that cannot do it, or that
// cannot have it.
func (a *API) checkLive(r *Request, row schema.Server, of compute.Action[compute.ShareArguments], can func(s compute.Server, traits []string) bool) error {
	s, err := schema.LoadServer(r.Context(), a.db, row.ID)
	if err != nil {
		return err
	}
	if traits, err := a.hostTraits(r, s); err != nil || can(s, traits) {
		return err
	}
	return of.Check(compute.Situation{Server: row.ID, VM: row.VMState, Task: row.TaskState, Launched: true})
}

// hostTraits are those of a server's host, none while it has no host.
func (a *API) hostTraits(r *Request, s compute.Server) ([]string, error) {
	if s.Host == nil {
		return nil, nil
	}
	host, err := a.db.HostOffers(r.Context(), *s.Host)
	return host.Traits, err
}

// checkAttachment refuses a share that the server cannot have, and completes what is asked for.
func (a *API) checkAttachment(r *Request, row schema.Server, asked *schema.ServerShare, arguments *compute.ShareArguments) error {
	s, err := a.withDisks(r, row)
	if err != nil {
		return err
	}
	if s.Host == nil {
		return s.CheckSharesOn(nil)
	}
	host, err := a.db.HostOffers(r.Context(), *s.Host)
	if err != nil {
		return err
	}
	if err := a.checkHostsShare(r.Context()); err != nil {
		return err
	}
	if err := s.CheckSharesOn(host.Traits); err != nil {
		return err
	}
	protocol, location, err := a.config.Shares.Look(r.Context(), r.Credential(), asked.ShareID)
	if err != nil {
		return shareRefusal(err, asked.ShareID)
	}
	if err := a.hasNot(r, row.ID, *asked); err != nil {
		return err
	}
	if err := compute.CheckShareProtocol(protocol, host.Traits); err != nil {
		return err
	}
	asked.ServerID, asked.ShareProto, arguments.Address = row.ID, protocol, host.Address
	if protocol == compute.NFSShare {
		arguments.Address = host.ShareAddress
	}
	asked.ExportLocation = a.config.Seal.Seal(asked.SealedFor(), []byte(location))
	return nil
}

// hasNot refuses a share that the server has, or whose tag another one has.
func (a *API) hasNot(r *Request, server compute.ServerID, asked schema.ServerShare) error {
	has, err := a.db.ServerShares(r.Context(), server)
	if err != nil {
		return err
	}
	for _, other := range has {
		if other.ShareID == asked.ShareID || other.Tag == asked.Tag {
			return associated(asked)
		}
	}
	return nil
}

// checkHostsShare refuses attachments as long as hosts run a release that knows of no shares (SH-26).
func (a *API) checkHostsShare(ctx context.Context) error {
	older, err := a.db.HostsBeforeShares(ctx)
	if err == nil && older > 0 {
		err = fault.Forbidden("Feature not supported until computes have not been updated.")
	}
	return err
}

// detachShare takes a share from a server. Asked again meanwhile it has nothing to add (T1).
func (a *API) detachShare(r *Request) (any, error) {
	id, err := shareParam(r)
	if err != nil {
		return nil, err
	}
	arguments := compute.ShareArguments{Share: id}
	if arguments.Live, err = a.isLive(r, ruleShareDelete); err != nil {
		return nil, err
	}
	_, err = a.launch(r, action{
		Facts: compute.ShareDetach.With(arguments), rule: ruleShareDelete, arguments: arguments,
		check: func(row serverRow) error {
			if arguments.Live {
				if err := a.checkLive(r, row.Server, compute.ShareDetach, compute.Server.CanDetachLive); err != nil {
					return err
				}
			}
			_, err := a.shareOf(r, a.db, row.Server.ID)
			return err
		},
		also: func(q *schema.Queries) error {
			server, _ := uuid.Parse(r.Param("id")) // it was found
			s, err := a.shareOf(r, q, compute.ServerID{UUID: server})
			if err != nil {
				return err
			}
			_, err = q.SetShareStatus(r.Context(), schema.SetShareStatusParams{
				ServerID: s.ServerID, ShareID: s.ShareID, Status: s.Status.After(compute.ShareUnwanted),
			})
			return err
		},
		isUnderWay: func(row serverRow) (bool, error) {
			return isDetaching(r, a, row.Server, compute.ShareDetach, func(in compute.ShareArguments) bool { return in.Share == id })
		},
	})
	if err != nil && !errors.Is(err, errRepeated) {
		return nil, err
	}
	if r.Extended {
		return Answer{Status: http.StatusAccepted}, nil
	}
	return nil, nil
}

// shareOf gives the share of a server that the path names.
func (a *API) shareOf(r *Request, q *schema.Queries, server compute.ServerID) (schema.ServerShare, error) {
	id, err := shareParam(r)
	if err != nil {
		return schema.ServerShare{}, err
	}
	s, err := q.GetServerShare(r.Context(), schema.GetServerShareParams{ServerID: server, ShareID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		err = noShare(id.String())
	}
	return s, err
}

func shareParam(r *Request) (compute.ShareID, error) {
	id, err := uuid.Parse(r.Param("share_id"))
	if err != nil {
		return compute.ShareID{}, noShare(r.Param("share_id"))
	}
	return compute.ShareID{UUID: id}, nil
}

func noShare(id string) error { return fault.NotFound("Share %s could not be found.", id) }

func associated(s schema.ServerShare) error {
	return fault.Conflict("Share '%s' or tag '%s' already associated to this server.", s.ShareID, s.Tag)
}

// shareRefusal is the service's refusal as the API tells it: what it thinks of the id, or of who
// asks, is that there is no such share.
func shareRefusal(err error, id compute.ShareID) error {
	if compute.Is(err, compute.NotFound) || compute.Is(err, compute.Invalid) {
		return noShare(id.String())
	}
	return err
}

// shareView is a share as everybody reads it (SH-01), in the shipped form or the documents'. Why one was taken
// away (SH-09) is strongroom's own to tell.
func shareView(r *Request, s schema.ServerShare) map[string]any {
	view := map[string]any{spelled(r, "share_id", "shareId"): s.ShareID, "status": s.Status, "tag": s.Tag}
	if r.Extended && s.Lost != "" && s.LostAt != nil {
		view["fault"] = map[string]any{"message": s.Lost.Message(s.ShareID, s.ServerID), "created": s.LostAt.UTC().Format(time.RFC3339)}
	}
	return view
}

func spelled(r *Request, shipped, documents string) string {
	if r.Extended {
		return documents
	}
	return shipped
}

// checkShares refuses what cannot be done with a server that has shares (SH-22).
func checkShares(ctx context.Context, q *schema.Queries, of compute.Facts, server compute.ServerID) error {
	if !of.NoShares {
		return nil
	}
	shares, err := q.CountServerShares(ctx, server)
	if err != nil {
		return err
	}
	return compute.CheckHasNoShares(int(shares))
}

func orElse(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
