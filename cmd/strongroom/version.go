package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"strongroom"
)

type versionCommand struct{ output }

// Help is shown by --help.
func (versionCommand) Help() string {
	return `The version is also the build id under which Temporal knows the control workers of
this release. The commit is that of a build from a git checkout, if the build kept it.`
}

// build is what this binary was made of.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

func thisBuild() build {
	b := build{Version: strongroom.Version(), Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value + b.Commit
		case s.Key == "vcs.modified" && s.Value == "true":
			b.Commit += "+changes"
		}
	}
	return b
}

func (v versionCommand) Run() error {
	b := thisBuild()
	return v.print(b, func(w *sheet) {
		w.row("strongroom", b.Version)
		w.row("commit", cmp.Or(b.Commit, "unknown"))
		w.row("go", b.Go)
	})
}
