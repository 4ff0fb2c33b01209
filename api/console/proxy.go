package console

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"strongroom/compute"
)

// Console is what a token opens.
type Console struct {
	Server compute.ServerID
	Type   compute.ConsoleType
	Host   compute.Agent // on which the server was when its user asked
}

// Config is what the proxy needs.
type Config struct {
	// Use takes a token, which opens a console once. NotFound: it opens nothing.
	Use func(ctx context.Context, token string) (Console, error)
	// Open connects to a console for as long as its server is on its host. NotFound: there is none.
	Open    func(ctx context.Context, of Console) (net.Conn, error)
	Host    string   // of the address at which browsers reach the proxy
	Origins []string // hosts, with * for parts, of other pages that may open consoles and show them in a frame
	XTerm   string   // folder of Debian's node-xterm
	NoVNC   string   // folder of Debian's novnc
	Logger  *slog.Logger
}

// Subprotocol is what clients of consoles speak: the bytes of the line, in messages of any length.
const Subprotocol = "binary"

const (
	// mostMessage bounds one message of a client: it may paste that much.
	mostMessage = 1 << 20
	// pingEvery is how often a client is asked whether it is there, and answerWithin how long it may take to answer or to take
	// what the machine says.
	pingEvery    = 20 * time.Second
	answerWithin = 10 * time.Second
)

type proxy struct{ Config }

// New makes the proxy's handler. Its listener must not limit how long a request takes once it was hijacked, as net/http's does not.
func New(cfg Config) http.Handler {
	if cfg.Host != "" { // a load balancer may name another host
		cfg.Origins = append(slices.Clone(cfg.Origins), cfg.Host)
	}
	p := proxy{cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.root)
	mux.Handle("GET /terminal/", newTerminal(cfg.XTerm))
	mux.Handle("GET /novnc/", p.screen())
	return p.guarded(mux)
}

// guarded sets what all answers say to browsers: a page of a console shows nothing but what is here, and no other site learns
// its address, which has a token in it.
func (p proxy) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", p.policy(r, "'self'"))
		next.ServeHTTP(w, r)
	})
}

// policy is what a page may do whose scripts come from there: a dashboard whose origin may open consoles may have it in a frame. It
// connects to this proxy alone: noVNC's page would show the screen of any host that a link to it names.
func (p proxy) policy(r *http.Request, scripts string) string {
	connect := "'self'" // older browsers take it for http alone
	for _, host := range slices.Compact([]string{r.Host, p.Host}) {
		if plainHost.MatchString(host) {
			connect += " ws://" + host + " wss://" + host
		}
	}
	return "default-src 'self'; base-uri 'none'; script-src " + scripts + "; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src " + connect +
		"; " + strings.Join(append([]string{"frame-ancestors 'self'"}, p.Origins...), " ")
}

// plainHost is a host that a policy can name.
var plainHost = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?$`)

// root is where consoles are: for a WebSocket the console itself, for a browser the page with a terminal.
func (p proxy) root(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		p.page(w, r)
		return
	}
	accept := &websocket.AcceptOptions{Subprotocols: []string{Subprotocol}, OriginPatterns: p.Origins}
	if !p.wouldAccept(w, r, accept) {
		return
	}
	of, err := p.Use(r.Context(), r.URL.Query().Get("token"))
	if err != nil {
		p.refuse(w, r, err, "The token was used, has expired, or its server has moved. Ask for a new one.")
		return
	}
	log := p.Logger.With("server", of.Server, "type", of.Type, "host", of.Host.Name, "client", r.RemoteAddr)
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	line, err := p.Open(ctx, of)
	if err != nil {
		log.WarnContext(ctx, "a console could not be opened", "error", err)
		p.refuse(w, r, err, "The server has no machine that runs, or that has no such console.")
		return
	}
	defer func() { _ = line.Close() }()
	client, err := websocket.Accept(w, r, accept)
	if err != nil {
		log.WarnContext(ctx, "a console was refused", "error", err)
		return // it was answered
	}
	client.SetReadLimit(mostMessage)
	began := time.Now()
	log.InfoContext(ctx, "a console was opened")
	why := join(ctx, client, line)
	log.InfoContext(ctx, "a console was closed", "after", time.Since(began).Round(time.Second), "why", why)
}

// trial takes a handshake's answer, and cannot be hijacked.
type trial struct {
	header http.Header
	status int
	text   bytes.Buffer
}

func (t *trial) Header() http.Header         { return t.header }
func (t *trial) WriteHeader(status int)      { t.status = status }
func (t *trial) Write(p []byte) (int, error) { return t.text.Write(p) }

// wouldAccept tells whether a request is a handshake, and from no page of another site; else it answers it. What is refused takes no
// token, and ends no session that is open.
func (p proxy) wouldAccept(w http.ResponseWriter, r *http.Request, with *websocket.AcceptOptions) bool {
	t := &trial{header: http.Header{}}
	_, _ = websocket.Accept(t, r, with) // the last thing that it looks at is whether the connection can be taken over
	if t.status == http.StatusNotImplemented {
		return true
	}
	why := strings.TrimSpace(t.text.String())
	p.Logger.WarnContext(r.Context(), "a console was refused", "client", r.RemoteAddr, "why", why)
	http.Error(w, why, t.status)
	return false
}

func (p proxy) refuse(w http.ResponseWriter, r *http.Request, err error, missing string) {
	switch {
	case compute.Is(err, compute.NotFound):
		http.Error(w, missing, http.StatusForbidden)
	default:
		p.Logger.ErrorContext(r.Context(), "a console could not be opened", "error", err)
		http.Error(w, "The console does not answer. Ask for a new one.", http.StatusServiceUnavailable)
	}
}

// join copies between a client and a console until one of them ends or takes nothing any more, and closes both. It gives the
// reason.
func join(ctx context.Context, client *websocket.Conn, line net.Conn) string {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type end struct {
		why string
		say func() error
	}
	ended := make(chan end, 3)
	gone := func(err error) end { return end{"the client went: " + err.Error(), client.CloseNow} }
	over := func(err error) end {
		return end{"the host closed it: " + err.Error(), func() error { return client.Close(websocket.StatusGoingAway, "The console has ended.") }}
	}
	go func() {
		for {
			_, p, err := client.Read(ctx)
			if err != nil {
				ended <- gone(err)
				return
			}
			_ = line.SetWriteDeadline(time.Now().Add(answerWithin))
			if _, err := line.Write(p); err != nil {
				ended <- over(err)
				return
			}
		}
	}()
	go func() {
		p := make([]byte, 32<<10)
		for {
			n, err := line.Read(p)
			if n > 0 {
				if err := within(ctx, func(ctx context.Context) error { return client.Write(ctx, websocket.MessageBinary, p[:n]) }); err != nil {
					ended <- gone(err)
					return
				}
			}
			if err != nil {
				ended <- over(err)
				return
			}
		}
	}()
	go func() { // a client that is cut off the network says nothing
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if err := within(ctx, client.Ping); err != nil {
				ended <- gone(err)
				return
			}
		}
	}()
	first := <-ended
	_ = line.Close()
	_ = first.say()
	return first.why
}

func within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	return do(ctx)
}
