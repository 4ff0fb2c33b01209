package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"

	"strongroom/activities/image"
	"strongroom/activities/object"
	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/schema"
	"strongroom/schema/seal"
	"strongroom/worker/pki"
)

// Keys reads passphrases, as key.Manager does.
type Keys interface {
	Passphrase(ctx context.Context, cred compute.Credential, id compute.SecretID) (*secret.Passphrase, error)
}

// Server answers hosts.
type Server struct {
	Pool      *pgxpool.Pool
	Authority *pki.Authority
	Keys      Keys
	Seal      *seal.Box // closes the sums of passphrases
	Images    image.Library
	Objects   object.Blobs
	Shares    Shares
	Endorser  *pki.Endorser // of vTPMs; nil: none
	Logger    *slog.Logger
	// Again is after how long a stream's host is looked at again; 0: AskAgain.
	Again time.Duration
	// Fresh is how long the list of revoked certificates is given out before it is made again; 0: some seconds.
	Fresh time.Duration

	unknown unknown
	list    signedList
}

// maxBody bounds what a host says of itself, and strangersBody what is read of somebody who may be none (M10).
const (
	maxBody       = 4 << 20
	strangersBody = 64 << 10
)

// Handler is the service. It must be served over TLS, as pki.Identity.Server says.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	enrolls, lists := turns{semaphore.NewWeighted(strangersAtOnce)}, turns{semaphore.NewWeighted(1)}
	mux.HandleFunc("POST "+pathEnroll, s.answering(s.enroll(enrolls), nil))
	mux.HandleFunc("GET "+pathRevoked, s.revoked(lists))
	mux.HandleFunc("/", s.noRoute)
	for pattern, h := range s.routes() {
		mux.HandleFunc(pattern, s.answering(s.authenticated(h), s.isHost))
	}
	return mux
}

// routes is all that a host with a good certificate may ask for. None makes an offer of a
// credential, or an operation or a row of the ledger, by which another would be used (H1): the operation that opens the
// host's own volume uses that one's key.
func (s *Server) routes() map[string]func(*call) (any, error) {
	return map[string]func(*call) (any, error){
		"POST " + pathRenew:                         s.renew,
		"PUT " + pathHost:                           report,
		"POST " + pathSeen:                          seen,
		"POST " + pathPower:                         power,
		"GET " + pathEvacuated:                      evacuated,
		"POST " + pathVolume:                        volume,
		"POST " + pathPassphrase:                    s.passphrase,
		"POST " + pathShare:                         s.shareExport,
		"POST " + pathEndorsement:                   s.endorse,
		"POST " + pathTransfer:                      transfer,
		"POST " + pathArrival:                       arrival,
		"POST " + pathDeparture:                     departure,
		"POST " + pathHanded:                        handed,
		"POST " + pathHandedFrom:                    s.handedFrom,
		"POST " + pathComparable:                    s.comparable,
		"POST " + pathAccepts:                       accepts,
		"GET " + pathTemporalKey:                    s.temporalKey,
		"POST " + pathServers + "{server}/progress": progress,
		"GET " + pathServers + "{server}/metadata":  serverMetadata,
		"GET " + pathImages + "{image}":             s.image,
		"GET " + pathImages + "{image}/file":        s.download,
		"PUT " + pathImages + "{image}/file":        s.upload,
		"GET " + pathObjects:                        s.objectData,
		"PUT " + pathObjects:                        s.storeObject,
		"DELETE " + pathObjects:                     s.deleteObject,
		"GET " + pathObjectSize:                     s.objectSize,
		"GET " + pathObjectNames:                    s.objectNames,
	}
}

// call is a request of a host whose certificate is good.
type call struct {
	*http.Request
	Records
	sealingKey []byte
	w          http.ResponseWriter
	body       []byte // nil: a stream
	good       good   // for a stream
}

// streamed is the answer of a call that has answered already.
type streamed struct{}

// handler gives the answer to a request. The body is nil where it is a stream.
type handler func(w http.ResponseWriter, r *http.Request, body []byte) (any, error)

// answering answers with what h gives, an error among it. Of a long body nothing is read before known has
// found that a host sends it; nil: no body is long.
func (s *Server) answering(h handler, known func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := whole(w, r, known)
		var answer any
		if err == nil {
			answer, err = h(w, r, body)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		s.answer(w, answer)
	}
}

// authenticated lets hosts in: those with a certificate of this authority that is in the
// database and was not revoked. It looks after the body is there, unless that is a stream,
// so that no request outlives a revocation. Streams look again now and then.
func (s *Server) authenticated(h func(*call) (any, error)) handler {
	return func(w http.ResponseWriter, r *http.Request, body []byte) (any, error) {
		c, err := s.host(r)
		if err != nil {
			return nil, err
		}
		c.w, c.body = w, body
		c.good = good{every: cmp.Or(s.Again, AskAgain), last: time.Now(), look: func() error { return s.isHost(r) }}
		answer, err := h(c)
		if ended := c.good.ended(); err != nil && ended != nil { // which the store may say otherwise
			err = ended
		}
		return answer, err
	}
}

// whole reads the body of a request, but for that of a stream.
func whole(w http.ResponseWriter, r *http.Request, known func(*http.Request) error) ([]byte, error) {
	if r.Header.Get(headerPurpose) != "" {
		return nil, nil
	}
	most := int64(strangersBody)
	if known != nil && (r.ContentLength < 0 || r.ContentLength > most) {
		if err := known(r); err != nil {
			return nil, err
		}
		most = maxBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, compute.Errorf(compute.Invalid, "the body cannot be read: %w", err)
	}
	return body, nil
}

// isHost refuses who is no host with a good certificate.
func (s *Server) isHost(r *http.Request) error {
	_, err := s.host(r)
	return err
}

// host gives the host that a request comes from. Forbidden: from none.
func (s *Server) host(r *http.Request) (*call, error) {
	name, cert := pki.Peer(r.TLS)
	id, ok := name.Host()
	if !ok {
		return nil, compute.Errorf(compute.Forbidden, "no certificate of a host")
	}
	row, err := schema.New(s.Pool).HostCertificate(r.Context(), serial(cert))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, compute.Errorf(compute.Forbidden, "the certificate of host %s was revoked, or has ended: enroll the host again", id)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	if row.HostID != id {
		return nil, compute.Errorf(compute.Forbidden, "the certificate is another host's")
	}
	return &call{
		Request: r, sealingKey: row.SealingKey,
		Records: Records{Pool: s.Pool, Host: id, Name: row.HostName, Logger: s.Logger},
	}, nil
}

func (s *Server) answer(w http.ResponseWriter, answer any) {
	if _, done := answer.(streamed); done {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall)) // the work took its time
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.Logger.Warn("an answer to a host broke off", "error", err)
	}
}

// refuse answers with an error. What a host may not is for the operator to see.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	f := failureOf(err)
	if f.Kind == compute.Forbidden {
		s.logRefusal(r, err)
	}
	status, ok := statuses[f.Kind]
	if !ok {
		status = http.StatusInternalServerError
		s.Logger.ErrorContext(r.Context(), "an error without a kind", "request", r.Method+" "+r.URL.Path, "error", err)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stall))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(marshal(f)) //nolint:gosec // it is JSON, and says so
}

func (s *Server) logRefusal(r *http.Request, err error) {
	peer, _ := pki.Peer(r.TLS)
	s.Logger.WarnContext(r.Context(), "refused", "peer", peer, "address", r.RemoteAddr, "request", r.Method+" "+r.URL.Path, "error", err)
}

// read reads the body of a request.
func read[T any](body []byte) (in T, err error) {
	if err = json.Unmarshal(body, &in); err != nil {
		err = compute.Errorf(compute.Invalid, "the body cannot be read: %w", err)
	}
	return in, err
}

func report(c *call) (any, error) {
	in, err := read[HostReport](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Report(c.Context(), in)
}

func seen(c *call) (any, error) {
	return c.Seen(c.Context())
}

func power(c *call) (any, error) {
	in, err := read[[]FoundPower](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.SyncPower(c.Context(), in)
}

func (c *call) server() (compute.ServerID, error) {
	id, err := parseID(c.PathValue("server"))
	return compute.ServerID{UUID: id}, err
}

func progress(c *call) (any, error) {
	id, err := c.server()
	if err != nil {
		return nil, err
	}
	in, err := read[progressReport](c.body)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Progress(c.Context(), id, in.Percent)
}

func serverMetadata(c *call) (any, error) {
	id, err := c.server()
	if err != nil {
		return nil, err
	}
	var ahead *compute.OperationID
	if text := c.URL.Query().Get("ahead"); text != "" {
		op := compute.OperationID(text)
		ahead = &op
	}
	return c.MetadataAfter(c.Context(), id, ahead)
}

// passphrase gives one of a server's passphrases, or of the host's own volume, sealed to the host.
func (s *Server) passphrase(c *call) (any, error) {
	in, err := read[passphraseRequest](c.body)
	if err != nil {
		return nil, err
	}
	if err := c.mayRead(c.Context(), in); err != nil {
		return nil, err
	}
	passphrase, err := s.Keys.Passphrase(c.Context(), in.Credential, in.Secret)
	if err != nil {
		return nil, err
	}
	defer passphrase.Wipe()
	if in.Volume == (compute.VolumeID{}) {
		if err := s.noteSum(c.Context(), in.Server, in.Secret, passphrase); err != nil {
			return nil, err
		}
	}
	var out passphraseAnswer
	err = passphrase.Use(func(value []byte) (err error) {
		out.Sealed, err = pki.Seal(c.sealingKey, sealContext(c.Records.Host, in.Secret), value)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sealing a passphrase for host %s: %w", c.Name, err)
	}
	return out, nil
}
