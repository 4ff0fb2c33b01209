package volume

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"strongroom/api/auth"
	"strongroom/api/fault"
	"strongroom/api/origin"
	"strongroom/api/urlpath"
	"strongroom/compute"
)

// maxTypes is the largest answer with volume types that is read, in bytes.
const maxTypes = 16 << 20

// cinderPatience is how long a Cinder may think about a request before it answers.
const cinderPatience = 2 * time.Minute

// ProxyConfig is what a proxy needs.
type ProxyConfig struct {
	// Endpoint of the Cinder, without a project: http://10.0.0.20:8776/v3.
	Endpoint  *url.URL
	TLS       *tls.Config     // nil: Go's own
	Validator *auth.Validator // its enforcer knows Rules
	Origin    origin.Origin   // where clients reach it: Cinder writes links of the Host that it is asked for
	Logger    *slog.Logger    // one line for each request
	Now       func() time.Time
}

// CheckEndpoint says why an address is no Endpoint.
func CheckEndpoint(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		!strings.HasSuffix(strings.TrimRight(u.Path, "/"), Root) {
		return errors.New("it must be like http://10.0.0.20:8776" + Root)
	}
	return nil
}

// proxy passes the block storage API on to a Cinder, with the caller's token as it came. What it answers with volume types is filtered
// as the document of volume types says (VT-01, VT-11): a Cinder before Xena, or one with another policy, does not. It is an http.Handler.
type proxy struct {
	config ProxyConfig
	reach  httputil.ReverseProxy
}

// NewProxy makes a proxy.
func NewProxy(config ProxyConfig) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout, transport.Proxy, transport.TLSClientConfig = cinderPatience, nil, config.TLS
	p := &proxy{config: config}
	p.reach = httputil.ReverseProxy{
		Transport: transport, Rewrite: p.rewrite, ModifyResponse: p.filter, ErrorHandler: p.fails, ErrorLog: slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
	}
	return p
}

// specsAsked is the path of a type's extra specs, or of one of them, below the endpoint.
var specsAsked = regexp.MustCompile(`^(?:/[^/]+)?/types/([^/]+)/extra_specs(?:/([^/]+))?$`)

// look is a read that may tell of extra specs, by who may not read them all.
type look struct {
	id, key string // where one extra spec is asked for: its type's, and its own
}

// lookAt gives what a request looks at; nil: nothing that tells of extra specs. It is not known how exactly a Cinder reads paths
// (types.json, ../types): what only might be one of types is taken for one.
func lookAt(r *http.Request) (*look, error) {
	written := below(urlpath.Written(r))
	switch plain := r.URL.Path; {
	case strings.Contains(plain, "extra_specs"):
	case strings.Contains(plain, "types"):
		return &look{}, nil
	default:
		return nil, nil //nolint:nilnil // there is none
	}
	asked := specsAsked.FindStringSubmatch(written)
	if asked == nil {
		return nil, fault.NotFound("The resource could not be found.")
	}
	key, err := url.PathUnescape(asked[2])
	if err != nil {
		return nil, fault.NotFound("The resource could not be found.")
	}
	return &look{asked[1], key}, nil
}

// below gives what a path has below Root, as it was written.
func below(written string) string {
	if isBelow(written, Service) {
		written = strings.TrimPrefix(written, Service)
	}
	return strings.TrimPrefix(written, Root)
}

// discovers reports whether a path is that of the list of versions, which lies above Root.
func discovers(written string) bool { return written == Service }

// isRoot reports whether a path is that of an endpoint: the API's, or a project's own.
func isRoot(written string) bool {
	rest := strings.TrimPrefix(below(written), "/")
	_, err := uuid.Parse(rest)
	return rest == "" || discovers(written) || err == nil
}

// ServeHTTP answers a request.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start, out := p.config.Now(), &passed{ResponseWriter: w}
	var err error
	if urlpath.TrimSlash(r.URL) && !isRoot(urlpath.Written(r)) { // no resource has an empty name (K33)
		err = fault.NotFound("The resource could not be found.")
	} else {
		err = p.pass(out, r)
	}
	if err != nil {
		answerAlone(out, r)
		_ = fault.From(err).Write(out) // a client that is gone is not told
	}
	p.config.Logger.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("to", "cinder"), slog.String("request_id", out.Header().Get(requestHeader)),
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", out.status), slog.Duration("took", p.config.Now().Sub(start)))
}

func (p *proxy) pass(w http.ResponseWriter, asked *http.Request) error {
	r := asked
	if urlpath.Climbs(urlpath.Written(r)) {
		return fault.BadRequest("Malformed request url")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		at, err := lookAt(r)
		if (err != nil || at != nil) && !p.readsAll(r) {
			if err != nil {
				return err
			}
			if r, err = askedByHidden(r); err != nil {
				return err
			}
			if r == nil {
				answerAlone(w, asked)
				w.Header().Set("Content-Type", "application/json")
				_, err := io.WriteString(w, `{"volume_types": []}`)
				return err
			}
			r = r.WithContext(context.WithValue(r.Context(), looking{}, at))
		}
	}
	p.reach.ServeHTTP(w, r)
	return nil
}

const requestHeader = "x-openstack-request-id"

// answerAlone sets the headers of an answer that the Cinder does not give.
func answerAlone(w http.ResponseWriter, r *http.Request) {
	s := &state{id: compute.NewOperationID()}
	s.negotiate(r.Header)
	s.writeHeaders(w.Header())
}

// looking is the key of the look in the context of a request whose answer is filtered.
type looking struct{}

func lookOf(ctx context.Context) *look {
	at, _ := ctx.Value(looking{}).(*look)
	return at
}

// passed notes the status of an answer.
type passed struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (p *passed) WriteHeader(status int) {
	p.status = status
	p.ResponseWriter.WriteHeader(status)
}

// Write is of an answer with the status 200, where none was said.
func (p *passed) Write(b []byte) (int, error) {
	if p.status == 0 {
		p.status = http.StatusOK
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p *passed) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// readsAll reports whether the caller may read every extra spec. One whose token cannot be looked at may not: it is for the Cinder to
// refuse it.
func (p *proxy) readsAll(r *http.Request) bool {
	token, err := p.config.Validator.Token(r)
	if err != nil {
		return false
	}
	asked := &request{state: &state{token: token}}
	return asked.allowed(ruleReadSensitive)
}

// askedByHidden looks for filters by extra specs that the caller may not read, whose answer would tell of their values (VT-11). From
// filterVersion on nothing is answered by them (nil), and what cannot be understood is refused; below, where they are ignored, the request
// goes on without them.
func askedByHidden(r *http.Request) (*http.Request, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // a Cinder may read more of it
		return nil, fault.BadRequest("Malformed request url")
	}
	var spoken state
	spoken.negotiate(r.Header)
	dropped := false
	for name, texts := range query {
		if !strings.HasPrefix(name, "extra_specs") { // extra_specs~ is like it
			continue
		}
		for _, text := range texts {
			specs, ok := parseSpecs(text)
			switch hidden := slices.ContainsFunc(slices.Collect(maps.Keys(specs)), func(key string) bool { return !visible(key) }); {
			case ok && !hidden:
			case spoken.version < filterVersion:
				query.Del(name)
				dropped = true
			case !ok:
				return nil, fault.BadRequest("Invalid extra_specs filter [%s]: it must map keys to texts", text)
			default:
				return nil, nil //nolint:nilnil // no type has it
			}
		}
	}
	if !dropped {
		return r, nil
	}
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return r, nil
}

func visible(key string) bool { return slices.Contains(VisibleExtraSpecs, key) }

// rewrite points a request at the Cinder. Its links begin with what the caller knows, as it is asked for under the caller's name of it.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	endpoint := *p.config.Endpoint
	endpoint.Path = strings.TrimRight(endpoint.Path, "/")
	written := urlpath.Written(r.In)
	if discovers(written) {
		endpoint.Path = strings.TrimSuffix(endpoint.Path, Root) + "/"
	} else if rest := below(written); rest != "" {
		if at := lookOf(r.In.Context()); at != nil && at.key != "" { // of all of them, as one that is hidden is like one that is not there
			rest = rest[:strings.LastIndex(rest, "/")]
		}
		endpoint.RawPath = endpoint.EscapedPath() + rest
		if plain, err := url.PathUnescape(endpoint.RawPath); err == nil {
			endpoint.Path = plain
		}
	} else {
		endpoint.Path += "/"
	}
	endpoint.RawQuery = r.In.URL.RawQuery
	r.Out.URL = &endpoint
	r.SetXForwarded()
	if from, err := url.Parse(p.config.Origin.Of(r.In)); err == nil {
		r.Out.Host = from.Host
		r.Out.Header.Set("X-Forwarded-Host", from.Host)
		r.Out.Header.Set("X-Forwarded-Proto", from.Scheme)
		r.Out.Header.Del("X-Forwarded-Port") // it is in the host
		if r.Out.Header.Del("X-Forwarded-Prefix"); from.Path != "" {
			r.Out.Header.Set("X-Forwarded-Prefix", from.Path)
		}
	}
	if lookOf(r.In.Context()) != nil {
		r.Out.Header.Del("Accept-Encoding") // it is read here
	}
}

// filter takes extra specs out of an answer whose caller may not read them.
func (p *proxy) filter(answer *http.Response) error {
	at := lookOf(answer.Request.Context())
	if at == nil || answer.StatusCode >= http.StatusBadRequest {
		return nil
	}
	if answer.Request.Method == http.MethodHead {
		answer.Header.Del("Content-Length") // of what is not filtered
		answer.ContentLength = -1
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxTypes+1))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	if len(body) > maxTypes {
		return fmt.Errorf("its answer has more than %d bytes", maxTypes)
	}
	document, err := withoutHidden(body)
	if err != nil {
		return err
	}
	if at.key != "" {
		specs, _ := document["extra_specs"].(map[string]any)
		value, has := specs[at.key]
		document = map[string]any{at.key: value}
		if !has {
			f := noSpec(at.id, at.key)
			answer.StatusCode, answer.Status = f.Code, ""
			document = map[string]any{f.Name(): map[string]any{"code": f.Code, "message": f.Message}}
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // "<is> True" stays readable
	if err := e.Encode(document); err != nil {
		return err
	}
	answer.Body, answer.ContentLength = io.NopCloser(&out), int64(out.Len())
	answer.Header.Set("Content-Length", strconv.Itoa(out.Len()))
	answer.Header.Set("Content-Type", "application/json")
	return nil
}

// withoutHidden takes the extra specs that not everybody may read out of an answer, wherever it has some.
func withoutHidden(body []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var document map[string]any
	if err := d.Decode(&document); err != nil {
		return nil, errors.New("its answer is no JSON object")
	}
	hide(document)
	return document, nil
}

func hide(value any) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			hide(one)
		}
	case map[string]any:
		for name, one := range v {
			if name != "extra_specs" {
				hide(one)
				continue
			}
			specs, ok := one.(map[string]any)
			if !ok {
				delete(v, name)
				continue
			}
			maps.DeleteFunc(specs, func(key string, _ any) bool { return !visible(key) })
		}
	}
}

// fails answers for a Cinder that does not, or whose answer cannot be filtered.
func (p *proxy) fails(w http.ResponseWriter, r *http.Request, err error) {
	p.config.Logger.ErrorContext(r.Context(), "cinder does not answer as it should", "error", err)
	answerAlone(w, r)
	f := fault.Errorf(http.StatusServiceUnavailable, "The block storage service cannot be reached. Try again later.")
	_ = f.Write(w)
}
