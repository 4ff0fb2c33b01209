// Package project asks the identity service which projects there are.
package project

import (
	"context"
	"fmt"

	"strongroom/durable"
)

// Registry is where projects are.
type Registry interface {
	// GoneProjects gives those of the projects that the identity service does not know any
	// more, in the order in which they are named. One that is disabled, or of which it gives
	// no clear answer, is not gone. Forbidden: strongroom may not look at projects.
	GoneProjects(ctx context.Context, ids []string) ([]string, error)
}

// Gone tells which of some projects were deleted; it runs on the cloud queue.
var Gone = durable.Activity[GoneInput, GoneResult]{
	Name: "project.Gone", Queue: durable.CloudQueue,
	Summary: func(in GoneInput) string { return fmt.Sprintf("look for %d projects", len(in.Projects)) },
}

// GoneInput names projects.
type GoneInput struct {
	Projects []string `json:"projects"`
}

// GoneResult names those of them that are gone.
type GoneResult struct {
	Projects []string `json:"projects,omitempty"`
}

// Activities are what workflows ask about projects.
type Activities struct {
	Registry Registry // nil: the identity service is strongroom's own, which forgets no project
}

// Register registers the activities.
func (a *Activities) Register(r durable.Registry) { Gone.Register(r, a.Gone) }

// Gone is the activity project.Gone.
func (a *Activities) Gone(ctx context.Context, in GoneInput) (GoneResult, error) {
	if a.Registry == nil {
		return GoneResult{}, nil
	}
	gone, err := a.Registry.GoneProjects(ctx, in.Projects)
	return GoneResult{Projects: gone}, err
}
