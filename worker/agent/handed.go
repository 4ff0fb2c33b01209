package agent

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"

	"strongroom/activities/secret"
	"strongroom/compute"
	"strongroom/worker/pki"
)

// Kept is what a host keeps of the keys of its guests.
type Kept struct {
	// Grants fails with Forbidden unless an operation that runs moves the server from this host to the
	// one with a certificate. It gives the key to which that host's passphrases are sealed.
	Grants     func(ctx context.Context, of compute.Arrival, to *x509.Certificate) (sealingKey []byte, err error)
	Passphrase func(server compute.ServerID, id compute.SecretID) (*secret.Passphrase, error)
	Secrets    func(ctx context.Context, server compute.ServerID) ([]compute.SecretID, error)
}

const (
	pathKept   = "/kept/"
	pathHandOn = "/v1/departure/key"
)

// handOn asks for a key; sealedKey is the answer.
type handOn struct {
	compute.Arrival
	Secret compute.SecretID `json:"secret"`
}

type sealedKey struct {
	Sealed []byte `json:"sealed"`
}

type keptSecrets struct {
	Secrets []compute.SecretID `json:"secrets"`
}

// handedContext binds a sealed passphrase to what was asked for.
func handedContext(to compute.HostID, of handOn) string {
	return "strongroom handed passphrase " + to.String() + " " + string(of.Operation) + " " + of.Server.String() + " " + of.Secret.String()
}

// kept tells the api which keys of a server this host keeps.
func (s Server) kept(w http.ResponseWriter, r *http.Request) {
	var server compute.ServerID
	out, err := keptSecrets{}, server.UnmarshalText([]byte(r.PathValue("server")))
	if err != nil {
		http.Error(w, "no server id", http.StatusBadRequest)
		return
	}
	if s.Kept != nil {
		out.Secrets, err = s.Kept.Secrets(r.Context(), server)
	}
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "looking at the keys of a server", "server", server, "error", err)
		http.Error(w, "the keys that are kept could not be looked at", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// handOn hands a key of a running server, sealed, to the host that it goes to. It is in the log.
func (s Server) handOn(w http.ResponseWriter, r *http.Request) {
	var in handOn
	out, err := s.handedOn(w, r, &in)
	peer, _ := pki.Peer(r.TLS)
	about := []any{"peer", peer, "address", r.RemoteAddr, "request", r.URL.Path, "operation", in.Operation, "server", in.Server, "secret", in.Secret}
	if err != nil {
		s.Logger.WarnContext(r.Context(), "refused to hand on a key", append(about, "error", err)...)
		refuse(w, err)
		return
	}
	s.Logger.InfoContext(r.Context(), "handed a key to the host that a server goes to", about...)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func (s Server) handedOn(w http.ResponseWriter, r *http.Request, in *handOn) (out sealedKey, err error) {
	peer, cert := pki.Peer(r.TLS)
	to, ok := peer.Host()
	if !ok {
		return out, compute.Errorf(compute.Forbidden, "no certificate of a host of this cloud")
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLeaving)).Decode(in); err != nil {
		return out, compute.Errorf(compute.Invalid, "the request cannot be read")
	}
	if s.Kept == nil {
		return out, compute.Errorf(compute.Conflict, "this host keeps no keys")
	}
	sealingKey, err := s.Kept.Grants(r.Context(), in.Arrival, cert)
	if err != nil {
		return out, err
	}
	p, err := s.Kept.Passphrase(in.Server, in.Secret)
	if err != nil {
		return out, err
	}
	defer p.Wipe()
	err = p.Use(func(value []byte) (err error) {
		out.Sealed, err = pki.Seal(sealingKey, handedContext(to, *in), value)
		return err
	})
	return out, err
}
