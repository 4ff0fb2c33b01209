package record

import "strongroom/compute"

// ownOperation is an operation without arguments that nobody asked for. There is no token (outbox.Accept).
func ownOperation(kind compute.OperationKind, server compute.ServerID, project string) compute.Operation {
	return compute.Operation{
		ID: compute.NewOperationID(), ServerID: server, Kind: kind, State: compute.OperationAccepted,
		Credential: compute.MemberCredential(project), Arguments: []byte("{}"),
	}
}
