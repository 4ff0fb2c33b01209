package gateway

import (
	"context"
	"net/http"
	"time"

	"strongroom/compute"
	"strongroom/schema"
)

// Evacuated is a server that left a host while that was down, or is about to: the host must not
// run it. What was started there after Since runs by right.
type Evacuated struct {
	Server compute.ServerID `json:"server"`
	Since  time.Time        `json:"since"`
}

// Evacuated gives the servers that the host must not run any more.
func (r Records) Evacuated(ctx context.Context) ([]Evacuated, error) {
	rows, err := schema.New(r.Pool).Evacuated(ctx, &r.Host)
	if err != nil {
		return nil, unavailable(err)
	}
	out := make([]Evacuated, len(rows))
	for i, row := range rows {
		out[i] = Evacuated{Server: row.ServerID, Since: row.Since}
	}
	return out, nil
}

// Evacuated gives the servers that the host must not run any more.
func (c *Client) Evacuated(ctx context.Context) (out []Evacuated, err error) {
	return out, c.ask(ctx, http.MethodGet, pathEvacuated, nil, &out)
}

func evacuated(c *call) (any, error) { return c.Evacuated(c.Context()) }
