package compute

// OpLiveMigrate is the kind of a live migration.
const OpLiveMigrate OperationKind = "live-migration"

// LiveMigrate moves a server to another host while its guest runs, or is paused.
var LiveMigrate = declare(Action[LiveMigrateArguments]{Facts: Facts{
	Kind:       OpLiveMigrate,
	Word:       "os-migrateLive",
	Transition: Transition{Task: TaskMigrating, From: []VMState{VMActive, VMPaused}},
	Resumes:    true,
}})

// LiveMigrateArguments are the arguments of a live migration.
type LiveMigrateArguments struct {
	Host *HostID `json:"host,omitempty"` // nil: any other than it is on
}
