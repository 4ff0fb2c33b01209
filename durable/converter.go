package durable

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// The metadata of an authenticated payload, beside its encoding. Its data are readable JSON.
const (
	metaCall = "call" // of which call it is the input, the result or the failure; see message
	metaMAC  = "mac"
)

// errNotAuthentic is of what was not said by one who has the key, or was said elsewhere.
var errNotAuthentic = errors.New("not authentic")

// DataConverter is Temporal's own JSON, with a MAC on each payload: over the payload and
// where it belongs, that is, the workflow's id and the activity's type and queue. A payload
// whose MAC is another is refused. Which run and which call it is for, message adds.
func DataConverter(keys Keys) converter.DataConverter {
	return &authenticated{DataConverter: converter.GetDefaultDataConverter(), scope: scope{keys: keys}}
}

// scope is where payloads belong.
type scope struct {
	keys Keys
	at   converter.SerializationContext
}

type authenticated struct {
	converter.DataConverter
	scope
}

// WithSerializationContext implements converter.DataConverterWithSerializationContext.
func (c *authenticated) WithSerializationContext(at converter.SerializationContext) converter.DataConverter {
	out := *c
	out.at = at
	return &out
}

// ToPayload implements converter.DataConverter.
func (c *authenticated) ToPayload(value any) (*commonpb.Payload, error) {
	p, err := c.DataConverter.ToPayload(value)
	if err != nil || p == nil {
		return p, err
	}
	p = proto.CloneOf(p) // a raw value is its owner's, and may have a MAC
	if p.Metadata == nil {
		p.Metadata = map[string][]byte{}
	}
	delete(p.Metadata, metaMAC)
	delete(p.Metadata, metaCall)
	if m, ok := value.(sent); ok {
		p.Metadata[metaCall] = []byte(m.sentIn())
	}
	return p, c.sign(p)
}

// ToPayloads implements converter.DataConverter.
func (c *authenticated) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	if len(values) == 0 {
		return nil, nil
	}
	out := &commonpb.Payloads{}
	for i, value := range values {
		p, err := c.ToPayload(value)
		if err != nil {
			return nil, fmt.Errorf("values[%d]: %w", i, err)
		}
		out.Payloads = append(out.Payloads, p)
	}
	return out, nil
}

// FromPayload implements converter.DataConverter.
func (c *authenticated) FromPayload(p *commonpb.Payload, to any) error {
	if p == nil {
		unsaid(to)
		return nil
	}
	refused := c.verify(p)
	if m, ok := to.(received); ok {
		m.receive(string(p.GetMetadata()[metaCall]), refused) // whoever has the message refuses it
	} else if refused != nil {
		return refused
	}
	if refused == nil {
		return c.DataConverter.FromPayload(p, to)
	}
	return nil
}

// FromPayloads implements converter.DataConverter.
func (c *authenticated) FromPayloads(all *commonpb.Payloads, to ...any) error {
	for i, target := range to {
		if i >= len(all.GetPayloads()) {
			unsaid(target)
			continue
		}
		if err := c.FromPayload(all.GetPayloads()[i], target); err != nil {
			return fmt.Errorf("payload %d: %w", i, err)
		}
	}
	return nil
}

// unsaid lets a message that was to be read and is not there be refused.
func unsaid(to any) {
	if m, ok := to.(received); ok {
		m.receive("", errNotAuthentic)
	}
}

// sign puts the MAC into a payload.
func (s scope) sign(p *commonpb.Payload) error {
	mac, err := s.mac(p)
	if err != nil {
		return err
	}
	p.Metadata[metaMAC] = mac
	return nil
}

func (s scope) verify(p *commonpb.Payload) error {
	bare := proto.CloneOf(p)
	delete(bare.Metadata, metaMAC)
	want, err := s.mac(bare)
	if err != nil {
		return err
	}
	if !hmac.Equal(want, p.GetMetadata()[metaMAC]) {
		return fmt.Errorf("a payload of %s is %w: it does not come from a process of strongroom, or not for this place", s.where(), errNotAuthentic)
	}
	return nil
}

// mac is over what is said and where.
func (s scope) mac(what proto.Message) ([]byte, error) {
	queue, place := s.place()
	key := s.keys.of(queue)
	if key == nil {
		return nil, fmt.Errorf("a payload of %s is %w: this process has no key for it", s.where(), errNotAuthentic)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(what)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, key)
	for _, part := range append(place, string(what.ProtoReflect().Descriptor().FullName()), string(text)) {
		_ = binary.Write(h, binary.BigEndian, uint64(len(part))) // a hash takes all
		_, _ = h.Write([]byte(part))
	}
	return h.Sum(nil), nil
}

// place is where the scope is, and in which queue if it is an activity's that is no local
// one.
func (s scope) place() (Queue, []string) {
	switch at := s.at.(type) {
	case converter.WorkflowSerializationContext:
		return "", []string{"workflow", at.WorkflowID}
	case converter.ActivitySerializationContext:
		if at.IsLocal {
			return "", []string{"local activity", at.WorkflowID, at.ActivityType}
		}
		return at.TaskQueue, []string{"activity", at.WorkflowID, at.WorkflowType, at.ActivityType, at.TaskQueue}
	}
	return "", []string{"elsewhere"}
}

func (s scope) where() string {
	switch at := s.at.(type) {
	case converter.WorkflowSerializationContext:
		return "workflow " + at.WorkflowID
	case converter.ActivitySerializationContext:
		return fmt.Sprintf("activity %s of workflow %s", at.ActivityType, at.WorkflowID)
	}
	return "no workflow"
}

// FailureConverter is Temporal's own, with a MAC on the failures of activities: a
// workflow undoes its steps on the word of a failure. What Temporal's server says itself,
// that an activity timed out or was cancelled, has none.
func FailureConverter(keys Keys) converter.FailureConverter {
	return newFailures(scope{keys: keys})
}

type failures struct {
	converter.FailureConverter
	scope
}

func newFailures(s scope) *failures {
	return &failures{scope: s, FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: &authenticated{DataConverter: converter.GetDefaultDataConverter(), scope: s},
	})}
}

// WithSerializationContext implements converter.FailureConverterWithSerializationContext.
func (f *failures) WithSerializationContext(at converter.SerializationContext) converter.FailureConverter {
	return newFailures(scope{keys: f.keys, at: at})
}

func (f *failures) ofActivity() bool {
	_, ok := f.at.(converter.ActivitySerializationContext)
	return ok
}

// The MAC of a failure is the last of its details.
const failureProof = "authentic"

// ErrorToFailure implements converter.FailureConverter.
func (f *failures) ErrorToFailure(err error) *failurepb.Failure {
	out := f.FailureConverter.ErrorToFailure(err)
	info := out.GetApplicationFailureInfo()
	if info == nil || !f.ofActivity() {
		return out
	}
	proof := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(converter.MetadataEncodingJSON)}, Data: []byte(`"` + failureProof + `"`)}
	mac, macErr := f.mac(out)
	if macErr != nil {
		return out // it will not be believed
	}
	proof.Metadata[metaMAC] = mac
	if info.Details == nil {
		info.Details = &commonpb.Payloads{}
	}
	info.Details.Payloads = append(info.Details.Payloads, proof)
	return out
}

// FailureToError implements converter.FailureConverter.
func (f *failures) FailureToError(failure *failurepb.Failure) error {
	if f.ofActivity() {
		failure = f.believed(failure)
	}
	return f.FailureConverter.FailureToError(failure)
}

// believed is the failure with each part that is not authentic replaced.
func (f *failures) believed(failure *failurepb.Failure) *failurepb.Failure {
	if failure == nil {
		return nil
	}
	if failure.GetApplicationFailureInfo() == nil {
		out := proto.CloneOf(failure)
		out.Cause = f.believed(failure.GetCause())
		return out
	}
	if f.authentic(failure) {
		return failure
	}
	return &failurepb.Failure{
		Message: fmt.Sprintf("an answer to %s is %s", f.where(), errNotAuthentic),
		FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: typeNotAuthentic, NonRetryable: true,
		}},
	}
}

// authentic reports whether a failure has its MAC and says of which call it is: toTemporal
// said so in the second of its details.
func (f *failures) authentic(failure *failurepb.Failure) bool {
	bare := proto.CloneOf(failure)
	info := bare.GetApplicationFailureInfo()
	details := info.GetDetails().GetPayloads()
	if len(details) != failureDetails+1 || !isFailure(string(details[failureDetails-1].GetMetadata()[metaCall])) {
		return false
	}
	proof := details[failureDetails]
	info.Details.Payloads = details[:failureDetails]
	want, err := f.mac(bare)
	return err == nil && hmac.Equal(want, proof.GetMetadata()[metaMAC])
}
