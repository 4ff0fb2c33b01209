package compute

// OpResetState is the kind of an os-resetState.
const OpResetState OperationKind = "resetState"

// ResetState sets a server's vm_state. An operation that runs loses the server.
var ResetState = declare(Action[None]{Facts: Facts{
	Kind: OpResetState, Transition: Transition{Always: true}, EvenLocked: true, InRequest: true,
}})
