package api

import (
	"bytes"
	"net/http"
	"strings"

	"strongroom/api/fault"
	"strongroom/api/policy"
	"strongroom/api/validation"
	"strongroom/compute"
)

const ruleConsole = "os_compute_api:os-console-output"

var consoleOutputBody = validation.Always(validation.Object([]string{"os-getConsoleOutput"}, validation.Properties{
	"os-getConsoleOutput": validation.Object(nil, validation.Properties{
		"length": {"type": []string{"integer", "string", "null"}, "pattern": "^-?[0-9]+$", "minimum": -1},
	}),
}))

func (a *API) consoleOutputAction() Resource {
	route := actionRoute("os-getConsoleOutput", consoleOutputBody, a.consoleOutput)
	route.Status = http.StatusOK
	return Resource{Rules: policy.Rules{ruleConsole: policy.ProjectMemberOrAdmin}, Routes: []Route{route}}
}

// consoleOutput reads a server's console log from its host. It is not an
// operation: nothing changes, and the text is nowhere kept.
func (a *API) consoleOutput(r *Request) (any, error) {
	var body struct {
		Console struct{ Length *validation.Integer } `json:"os-getConsoleOutput"`
	}
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	row, err := a.findServer(r, ruleConsole)
	if err != nil {
		return nil, err
	}
	if row.Server.HostID == nil || deref(row.HostAgent) == "" {
		return nil, fault.Conflict("Instance %s is not ready", row.Server.ID)
	}
	lines := -1
	if body.Console.Length != nil {
		lines = int(*body.Console.Length)
	}
	text, err := a.config.Hosts.Console(r.Context(), *row.Server.HostID, *row.HostAgent, row.Server.ID, lines)
	switch {
	case compute.Is(err, compute.NotFound) && row.Server.LaunchedAt == nil:
		return nil, fault.Conflict("Instance %s is not ready", row.Server.ID)
	case compute.Is(err, compute.NotFound):
		return nil, fault.NotFound("Guest does not have a console available.")
	case err != nil:
		return nil, err
	case lines == 0: // where hosts give all
		text = nil
	}
	return map[string]any{"output": printable(text)}, nil
}

// printable leaves the control characters out that clients cannot show; a guest
// writes what it likes.
func printable(text []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, string(bytes.ToValidUTF8(text, []byte("\uFFFD"))))
}
