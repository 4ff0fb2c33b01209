package durable

import (
	"crypto/tls"
	"log/slog"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
)

// ClientConfig says where Temporal is.
type ClientConfig struct {
	Address   string // host:port
	Namespace string
	TLS       *tls.Config // nil: clear text
	Keys      Keys        // with which what is said through Temporal is authenticated
	Logger    *slog.Logger
}

// Dial connects to Temporal.
func Dial(cfg ClientConfig) (client.Client, error) {
	return client.Dial(clientOptions(cfg))
}

// DialLazily gives a client that connects at its first call, for processes
// that must start while Temporal is away.
func DialLazily(cfg ClientConfig) (client.Client, error) {
	return client.NewLazyClient(clientOptions(cfg))
}

func clientOptions(cfg ClientConfig) client.Options {
	return client.Options{
		HostPort:          cfg.Address,
		Namespace:         cfg.Namespace,
		Logger:            log.NewStructuredLogger(cfg.Logger),
		DataConverter:     DataConverter(cfg.Keys),
		FailureConverter:  FailureConverter(cfg.Keys),
		Interceptors:      []interceptor.ClientInterceptor{&numbering{}},
		ConnectionOptions: client.ConnectionOptions{TLS: cfg.TLS},
	}
}
