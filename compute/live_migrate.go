package compute

// OpLiveMigrate is the kind of a live migration.
const OpLiveMigrate OperationKind = "live-migration"

// LiveMigrate moves a server to another host while its guest runs, or is paused.
var LiveMigrate = declare(Action[LiveMigrateArguments]{Facts: Facts{
	Kind:       OpLiveMigrate,
	Word:       "os-migrateLive",
	Transition: Transition{Task: TaskMigrating, From: []VMState{VMActive, VMPaused}},
	NoShares:   true,
	Resumes:    true,
	Notifications: Notifications{
		Start: "instance.live_migration_pre.start", End: "instance.live_migration_post.end", Error: "instance.live_migration_rollback.end",
	},
}})

// NotKept is why a running server cannot be moved by who may not read one of its keys. Conflict.
func NotKept(server ServerID, secret SecretID) error {
	return Errorf(Conflict, "Server %s cannot be moved while it runs: whoever asks may not read key %s, and its host does not keep it. "+
		"Its owner can move it, or start it anew on a host that keeps keys of guests (host.keep_guest_keys).", server, secret)
}

// LiveMigrateArguments are the arguments of a live migration.
type LiveMigrateArguments struct {
	Host *HostID `json:"host,omitempty"` // nil: any other than it is on
}
