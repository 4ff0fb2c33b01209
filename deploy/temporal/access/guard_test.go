package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/api/adminservice/v1"
	"go.temporal.io/server/common/authorization"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"strongroom/deploy/temporal/access"
)

const host = "host/6f9619ff-8b86-4d01-b42d-00cf4fc964ff"

// allowed are all calls that anybody may make of the hundreds that this release of Temporal
// has. What a later one adds is refused until it is in a table, and then it is to stand here.
var allowed = map[access.Name]string{
	host: `health.Check GetSystemInfo DescribeNamespace
		PollActivityTaskQueue RecordActivityTaskHeartbeat RespondActivityTaskCanceled RespondActivityTaskCompleted RespondActivityTaskFailed
		RecordWorkerHeartbeat ShutdownWorker`,
	access.API: `health.Check GetSystemInfo DescribeNamespace
		StartWorkflowExecution RequestCancelWorkflowExecution DescribeWorkflowExecution UpdateWorkflowExecution PollWorkflowExecutionUpdate
		SignalWorkflowExecution GetWorkflowExecutionHistory`,
	access.Control: `health.Check GetSystemInfo DescribeNamespace
		StartWorkflowExecution RequestCancelWorkflowExecution DescribeWorkflowExecution UpdateWorkflowExecution PollWorkflowExecutionUpdate
		SignalWorkflowExecution GetWorkflowExecutionHistory
		PollWorkflowTaskQueue RespondWorkflowTaskCompleted RespondWorkflowTaskFailed RespondQueryTaskCompleted ResetStickyTaskQueue
		PollActivityTaskQueue RecordActivityTaskHeartbeat RespondActivityTaskCanceled RespondActivityTaskCompleted RespondActivityTaskFailed
		PollNexusTaskQueue RespondNexusTaskCompleted RespondNexusTaskFailed RecordWorkerHeartbeat ShutdownWorker
		ListWorkflowExecutions CountWorkflowExecutions QueryWorkflow UpdateWorkflowExecutionOptions TerminateWorkflowExecution
		CreateSchedule DescribeSchedule UpdateSchedule DescribeWorkerDeployment SetWorkerDeploymentCurrentVersion
		operator.AddSearchAttributes operator.ListSearchAttributes`,
	access.UI: `health.Check GetSystemInfo DescribeNamespace GetClusterInfo ListNamespaces GetSearchAttributes
		ListWorkflowExecutions CountWorkflowExecutions DescribeWorkflowExecution GetWorkflowExecutionHistory
		GetWorkflowExecutionHistoryReverse QueryWorkflow DescribeTaskQueue ListTaskQueuePartitions GetWorkerBuildIdCompatibility
		GetWorkerVersioningRules GetWorkerTaskReachability ListSchedules CountSchedules DescribeSchedule ListScheduleMatchingTimes
		ListWorkerDeployments DescribeWorkerDeployment DescribeWorkerDeploymentVersion ListWorkers DescribeWorker
		ListBatchOperations DescribeBatchOperation operator.ListSearchAttributes operator.ListNexusEndpoints`,
	"": "", "gateway": "", "somebody": "", "host/": "", "host/1": "", "host/6F9619FF-8B86-4D01-B42D-00CF4FC964FF": "", host + "/x": "", "api/x": "",
}

// C1: each call of each service that a frontend of this release has is refused to everybody
// who is not to make it.
func TestC1EveryCallIsRefusedUntilItIsListed(t *testing.T) {
	t.Parallel()
	allowed := maps.Clone(allowed)
	allowed[access.Server] = allowed[access.UI]
	services := map[string]protoreflect.FileDescriptor{
		"": workflowservice.File_temporal_api_workflowservice_v1_service_proto, "operator.": operatorservice.File_temporal_api_operatorservice_v1_service_proto,
		"admin.": adminservice.File_temporal_server_api_adminservice_v1_service_proto, "health.": grpc_health_v1.File_grpc_health_v1_health_proto,
	}
	seen := map[string]bool{}
	for prefix, file := range services {
		service := file.Services().Get(0)
		for i := range service.Methods().Len() {
			m := service.Methods().Get(i)
			api, short := "/"+string(service.FullName())+"/"+string(m.Name()), prefix+string(m.Name())
			seen[short] = true
			for name, list := range allowed {
				want := slices.Contains(strings.Fields(list), short)
				if got := ask(t, guard(), name, api, request(t, m.Input().FullName())); got != want {
					t.Errorf("%s for %q: %v", short, name, got)
				}
			}
			operator := prefix != "admin." && short != "health.Watch" && short != "health.List"
			if got := ask(t, guard(), access.Operator, api, request(t, m.Input().FullName())); got != operator {
				t.Errorf("%s for an operator: %v", short, got)
			}
		}
	}
	if len(seen) < 150 {
		t.Errorf("only %d calls were looked at", len(seen))
	}
	for name, list := range allowed {
		for _, short := range strings.Fields(list) {
			if !seen[short] {
				t.Errorf("%s of %q is not in this release", short, name)
			}
		}
	}
}

func TestC1OtherNamespacesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []access.Name{access.Control, access.API, access.UI} {
		for _, ns := range []string{"another", "temporal-system", ""} {
			if ask(t, guard(), name, service+"DescribeWorkflowExecution", &workflowservice.DescribeWorkflowExecutionRequest{Namespace: ns}) {
				t.Errorf("%q in %q", name, ns)
			}
		}
		if ask(t, guard(), name, service+"DescribeNamespace", &workflowservice.DescribeNamespaceRequest{Namespace: "default", Id: "x"}) {
			t.Errorf("%q names a namespace by its id", name)
		}
	}
	if !ask(t, guard(), access.Control, service+"DescribeNamespace", &workflowservice.DescribeNamespaceRequest{Namespace: "another"}) {
		t.Error("a control worker cannot be told that it has a wrong namespace")
	}
	// A command of a workflow for another namespace is asked for with the first one's request.
	claims := claimsOf(t, guard(), access.Control, time.Hour)
	got, err := guard().Authorize(t.Context(), claims, &authorization.CallTarget{
		APIName: service + "RequestCancelWorkflowExecution", Namespace: "another", Request: &workflowservice.RespondWorkflowTaskCompletedRequest{Namespace: "default"},
	})
	if err != nil || got.Decision == authorization.DecisionAllow {
		t.Error("a workflow may cancel in another namespace")
	}
}

// Who has no claims of ours is Temporal itself only where its own mapper says so.
func TestC1ClaimsOfNobody(t *testing.T) {
	t.Parallel()
	target := &authorization.CallTarget{APIName: service + "GetSystemInfo", Request: &workflowservice.GetSystemInfoRequest{}}
	for what, claims := range map[string]*authorization.Claims{
		"none": nil, "empty": {}, "a reader's": {System: authorization.RoleReader},
		"ended":                claimsOf(t, guard(), access.Control, -time.Second),
		"none over TLS, admin": {System: authorization.RoleAdmin, Extensions: "x"},
	} {
		if got, _ := guard().Authorize(t.Context(), claims, target); got.Decision == authorization.DecisionAllow {
			t.Error(what)
		}
	}
	if got, _ := guard().Authorize(t.Context(), &authorization.Claims{System: authorization.RoleAdmin}, target); got.Decision != authorization.DecisionAllow {
		t.Error("Temporal's own workers")
	}
}

const service = "/temporal.api.workflowservice.v1.WorkflowService/"

func guard() *access.Guard {
	return &access.Guard{Namespaces: []string{"default"}, Revocations: &access.Revocations{}, Log: slog.New(slog.DiscardHandler)}
}

func claimsOf(t *testing.T, g *access.Guard, name access.Name, good time.Duration) *authorization.Claims {
	t.Helper()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(good)}
	if first, rest, _ := strings.Cut(string(name), "/"); name != "" {
		u := &url.URL{Scheme: "strongroom", Host: first}
		if rest != "" || strings.HasSuffix(string(name), "/") {
			u.Path = "/" + rest
		}
		cert.URIs = []*url.URL{u}
	}
	claims, err := g.GetClaims(&authorization.AuthInfo{TLSConnection: &credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}})
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func ask(t *testing.T, g *access.Guard, name access.Name, api string, request any) bool {
	t.Helper()
	target := &authorization.CallTarget{APIName: api, Request: request}
	if in, ok := request.(interface{ GetNamespace() string }); ok {
		target.Namespace = in.GetNamespace()
	}
	got, err := g.Authorize(context.Background(), claimsOf(t, g, name, time.Hour), target)
	if err != nil {
		t.Fatal(err)
	}
	return got.Decision == authorization.DecisionAllow
}

// request is one that a host with the queue of this test could send.
func request(t *testing.T, name protoreflect.FullName) proto.Message {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	out := kind.New()
	if f := out.Descriptor().Fields().ByName("namespace"); f != nil {
		out.Set(f, protoreflect.ValueOfString("default"))
	}
	if f := out.Descriptor().Fields().ByName("task_queue"); f != nil {
		if f.Kind() == protoreflect.StringKind {
			out.Set(f, protoreflect.ValueOfString(host))
		} else {
			queue := out.Mutable(f).Message()
			if n := queue.Descriptor().Fields().ByName("name"); n != nil {
				queue.Set(n, protoreflect.ValueOfString(host))
			}
		}
	}
	return out.Interface()
}
