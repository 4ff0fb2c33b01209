package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
)

// Tokens binds the tokens of tasks to the host that took them: Temporal does not sign
// them, and who knows the ids in one can make it.
type Tokens struct {
	Guard *Guard
	Key   []byte
}

// A token is a message of Temporal's. What is appended is one more field of it, since
// some of Temporal reads the token before the field is taken off again.
const macField = 100_000

var macPrefix = protowire.AppendVarint(protowire.AppendTag(nil, macField, protowire.BytesType), sha256.Size)

// Intercept seals the tokens that a host is given, and opens those that come back.
func (t *Tokens) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	claims, _ := ctx.Value(authorization.MappedClaims).(*authorization.Claims)
	if claims == nil || claims.Extensions == nil {
		return handle(ctx, request)
	}
	c, err := t.Guard.caller(claims)
	if err != nil {
		return nil, denied() // was told by the authorizer, or is now: nothing was asked
	}
	if _, ok := c.name.host(); !ok {
		return handle(ctx, request)
	}
	refuse := func(why error) {
		namespace := ""
		if in, ok := request.(interface{ GetNamespace() string }); ok {
			namespace = in.GetNamespace()
		}
		t.Guard.refused(ctx, c.name, info.FullMethod, request, namespace, why)
	}
	token := tokenOf(request)
	if token != nil {
		opened, ok := t.open(c.name, *token)
		if !ok {
			refuse(errors.New("the task is not one that this host took"))
			return nil, denied()
		}
		*token = opened
	}
	within, release := t.Guard.Revocations.watch(ctx, c.cert)
	defer release()
	answer, err := handle(within, request)
	if t.Guard.Revocations.Has(c.cert) { // while it waited
		refuse(errRevoked)
		return nil, denied()
	}
	var gone *serviceerror.NotFound
	if token != nil && errors.As(err, &gone) { // answered before, or given to another attempt
		refuse(err)
	}
	if task, ok := answer.(*workflowservice.PollActivityTaskQueueResponse); ok && err == nil && len(task.GetTaskToken()) > 0 {
		task.TaskToken = t.seal(c.name, task.GetTaskToken())
	}
	return answer, err
}

// tokenOf is where a request has the token of a task; nil: nowhere.
func tokenOf(request any) *[]byte {
	switch in := request.(type) {
	case *workflowservice.RecordActivityTaskHeartbeatRequest:
		return &in.TaskToken
	case *workflowservice.RespondActivityTaskCompletedRequest:
		return &in.TaskToken
	case *workflowservice.RespondActivityTaskFailedRequest:
		return &in.TaskToken
	case *workflowservice.RespondActivityTaskCanceledRequest:
		return &in.TaskToken
	}
	return nil
}

func (t *Tokens) seal(n Name, token []byte) []byte {
	out := append(make([]byte, 0, len(token)+len(macPrefix)+sha256.Size), token...)
	return append(append(out, macPrefix...), t.mac(n, token)...)
}

func (t *Tokens) open(n Name, sealed []byte) ([]byte, bool) {
	at := len(sealed) - sha256.Size - len(macPrefix)
	if at <= 0 || string(sealed[at:at+len(macPrefix)]) != string(macPrefix) {
		return nil, false
	}
	token := sealed[:at:at]
	return token, hmac.Equal(sealed[at+len(macPrefix):], t.mac(n, token))
}

// mac is by name, not by certificate: a host may renew its own while it works on a task.
func (t *Tokens) mac(n Name, token []byte) []byte {
	h := hmac.New(sha256.New, t.Key)
	_, _ = h.Write(binary.BigEndian.AppendUint32([]byte("strongroom task token\x00"), uint32(len(n))))
	_, _ = h.Write([]byte(n))
	_, _ = h.Write(token)
	return h.Sum(nil)
}

// EnsureKey reads the key of tokens in a folder, and makes it once. Servers of one cluster
// must have the same.
func EnsureKey(folder string) ([]byte, error) {
	path := filepath.Join(folder, "token.key")
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh)                        // never fails
	f, err := os.CreateTemp(folder, ".token.key.") // mode 0600
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(hex.EncodeToString(fresh) + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return readKey(path)
}

func readKey(path string) ([]byte, error) {
	text, err := readSecret(path)
	if err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != 32 {
		return nil, fmt.Errorf("%s is not 32 bytes in hexadecimal", path)
	}
	return key, nil
}

// readSecret reads a file that only its owner may read.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others: chmod 600 it", path)
	}
	return os.ReadFile(path)
}
