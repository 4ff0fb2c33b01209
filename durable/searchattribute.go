package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"strongroom/compute"
)

// The search attributes of operations: by them operators find executions in the
// Temporal UI. Their values are ids and names, never more: Temporal keeps them in
// clear. All are keywords, which match as a whole or by their beginning
// (STARTS_WITH). That goes for a server's name too, since names have dashes and dots
// in them, where a text would be cut into words; and Temporal's SQL back ends have
// room for three texts, ten keywords and three lists in a namespace.
var (
	AttributeServer     = temporal.NewSearchAttributeKeyKeyword("Server")     // the server's uuid
	AttributeServerName = temporal.NewSearchAttributeKeyKeyword("ServerName") // its name when the operation began
	AttributeProject    = temporal.NewSearchAttributeKeyKeyword("Project")    // of whoever asked for the operation
	AttributeHosts      = temporal.NewSearchAttributeKeyKeywordList("Hosts")  // names of the hosts that the operation works on
	AttributeRequest    = temporal.NewSearchAttributeKeyKeyword("Request")    // the request id that the client was given
	AttributePhase      = temporal.NewSearchAttributeKeyKeyword("Phase")
)

// Phase is what a running operation does.
type Phase string

// The phases of an operation.
const (
	PhaseRunning Phase = "running"
	PhaseUndoing Phase = "undoing"
	PhaseWaiting Phase = "waiting" // for the step's host, which is down
)

// searchAttributes are all keys, as Temporal's operator service is told of them.
func searchAttributes() map[string]enumspb.IndexedValueType {
	all := map[string]enumspb.IndexedValueType{}
	for _, key := range []temporal.SearchAttributeKey{
		AttributeServer, AttributeServerName, AttributeProject, AttributeHosts, AttributeRequest, AttributePhase,
	} {
		all[key.GetName()] = key.GetValueType()
	}
	return all
}

// started are the attributes with which an operation's workflow is started: what
// the operation itself says. The workflow adds the rest when it has read the record.
func started(op compute.Operation) temporal.SearchAttributes {
	updates := []temporal.SearchAttributeUpdate{
		AttributeRequest.ValueSet(string(op.ID)), AttributePhase.ValueSet(string(PhaseRunning)),
	}
	if op.ServerID != (compute.ServerID{}) {
		updates = append(updates, AttributeServer.ValueSet(op.ServerID.String()))
	}
	if op.Credential.ProjectID != "" {
		updates = append(updates, AttributeProject.ValueSet(op.Credential.ProjectID))
	}
	return temporal.NewSearchAttributes(updates...)
}

// DescribeServer says whose server the operation of this workflow is about, and on which
// hosts it is, by name.
func DescribeServer(ctx workflow.Context, name, project string, hosts ...string) error {
	updates := []temporal.SearchAttributeUpdate{AttributeServerName.ValueSet(name), AttributeProject.ValueSet(project)}
	if len(hosts) > 0 {
		updates = append(updates, AttributeHosts.ValueSet(hosts))
	}
	return workflow.UpsertTypedSearchAttributes(ctx, updates...)
}

// DescribeHosts says on which hosts the operation of this workflow works, by name.
func DescribeHosts(ctx workflow.Context, hosts ...string) error {
	return workflow.UpsertTypedSearchAttributes(ctx, AttributeHosts.ValueSet(hosts))
}

// DescribePhase shows the phase of this workflow's operation. Each change is an
// event of the history.
func DescribePhase(ctx workflow.Context, phase Phase) error {
	return workflow.UpsertTypedSearchAttributes(ctx, AttributePhase.ValueSet(string(phase)))
}

// isUnregistered reports whether Temporal refused an execution because it does not
// know an attribute. It says so in words only.
func isUnregistered(err error) bool {
	var invalid *serviceerror.InvalidArgument
	return errors.As(err, &invalid) && strings.Contains(strings.ToLower(invalid.Message), "search attribute")
}

// RegisterSearchAttributes makes the attributes known to a namespace. Those that it
// knows already stay as they are, so it may be called at any time, by several
// processes at once.
func RegisterSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	const attempts = 5 // of several that register at once, all but one may be refused
	var last error
	for range attempts {
		missing, err := unregistered(ctx, c, namespace)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			return nil
		}
		_, last = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("registering search attributes in namespace %s: %w", namespace, last)
}

// unregistered are the attributes that a namespace does not know.
func unregistered(ctx context.Context, c client.Client, namespace string) (map[string]enumspb.IndexedValueType, error) {
	known, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, fmt.Errorf("listing the search attributes of namespace %s: %w", namespace, err)
	}
	missing := searchAttributes()
	for name, kind := range missing {
		switch found, ok := known.GetCustomAttributes()[name]; {
		case ok && found != kind:
			return nil, fmt.Errorf("namespace %s has a search attribute %s of the type %s, strongroom's is of the type %s: give strongroom a namespace of its own", namespace, name, found, kind)
		case ok:
			delete(missing, name)
		}
	}
	return missing, nil
}
