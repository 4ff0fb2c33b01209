//go:build !faultpoints

package main

import "go.temporal.io/sdk/interceptor"

// faultPoints are where a test kills a worker; a release has none.
func faultPoints() []interceptor.WorkerInterceptor { return nil }
