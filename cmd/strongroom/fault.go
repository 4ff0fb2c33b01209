package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// explain takes the fault's own message out of a client's error.
func explain(err error) error {
	var answered gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &answered) {
		return err
	}
	var fault map[string]struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answered.Body, &fault) == nil {
		for _, f := range fault {
			if f.Message != "" {
				return fmt.Errorf("%s (HTTP %d)", f.Message, answered.Actual)
			}
		}
	}
	return fmt.Errorf("the cloud answered HTTP %d %s", answered.Actual, http.StatusText(answered.Actual))
}
