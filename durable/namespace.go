package durable

import (
	"context"
	"fmt"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// NamespaceID gives the id of a namespace: it tells one from another of the same name.
func NamespaceID(ctx context.Context, c client.Client, namespace string) (string, error) {
	got, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		return "", fmt.Errorf("looking at namespace %s: %w", namespace, err)
	}
	return got.GetNamespaceInfo().GetId(), nil
}
