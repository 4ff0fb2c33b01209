//go:build !faultpoints

package main

import "go.temporal.io/sdk/interceptor"

// faultPoints are where a test kills a worker; a release has none.
func faultPoints(string) []interceptor.WorkerInterceptor { return nil }
