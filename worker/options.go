package worker

import (
	"time"

	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/worker"

	"strongroom/durable"
)

// drain is how long a stopping worker lets its running activities finish. What
// does not finish is retried by the next worker: every activity is made for that.
const drain = 20 * time.Second

// heartbeatThrottle is below a quarter of durable.HeartbeatTimeout: no beat of
// durable.Boundary is held back.
const heartbeatThrottle = time.Second

// options are the options of every worker; extra interceptors run inside the boundary.
func options(identity string, slots int, extra []interceptor.WorkerInterceptor) sdk.Options {
	return sdk.Options{
		Identity:                           identity,
		MaxConcurrentActivityExecutionSize: slots,
		MaxHeartbeatThrottleInterval:       heartbeatThrottle,
		DefaultHeartbeatThrottleInterval:   heartbeatThrottle,
		WorkerStopTimeout:                  drain,
		DisableRegistrationAliasing:        true,
		Interceptors:                       append([]interceptor.WorkerInterceptor{&durable.Boundary{}}, extra...),
	}
}
