package compute

// The kinds of a lock and of its removal.
const (
	OpLock   OperationKind = "lock"
	OpUnlock OperationKind = "unlock"
)

// Lock refuses a server's other actions to who is no administrator.
var Lock = declare(Action[None]{Facts: Facts{
	Kind: OpLock, Transition: Transition{Always: true}, EvenLocked: true, InRequest: true,
}})

// Unlock takes a lock off.
var Unlock = declare(Action[None]{Facts: Facts{
	Kind: OpUnlock, Transition: Transition{Always: true}, EvenLocked: true, InRequest: true,
}})
