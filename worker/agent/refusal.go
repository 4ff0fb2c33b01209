package agent

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"strongroom/compute"
)

// statuses are the kinds of errors on their way to another host.
var statuses = map[compute.Kind]int{
	compute.Invalid: http.StatusBadRequest, compute.Conflict: http.StatusConflict, compute.NotFound: http.StatusNotFound,
	compute.Forbidden: http.StatusForbidden, compute.Corrupt: http.StatusUnprocessableEntity, compute.Unavailable: http.StatusServiceUnavailable,
}

// refuse answers another host with an error.
func refuse(w http.ResponseWriter, err error) {
	status, ok := statuses[compute.KindOf(err)]
	if !ok {
		status = http.StatusInternalServerError
	}
	http.Error(w, err.Error(), status)
}

// refusal is the error that another host answered: its kind, Unavailable where that is not told,
// and what it said.
func refusal(resp *http.Response) (compute.Kind, error) {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	kind := compute.Unavailable
	for k, status := range statuses {
		if status == resp.StatusCode {
			kind = k
		}
	}
	return kind, errors.New(strings.TrimSpace(string(said)))
}
