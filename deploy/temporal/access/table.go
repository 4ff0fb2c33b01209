package access

import (
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
)

const (
	workflows = "/temporal.api.workflowservice.v1.WorkflowService/"
	operators = "/temporal.api.operatorservice.v1.OperatorService/"
	health    = "/grpc.health.v1.Health/"
)

// rule is about a call that the caller's table lists. An error of look refuses it.
type rule struct {
	look     func(caller Name, request any) error
	anywhere bool // not in strongroom's namespaces alone
}

// table lists all that some callers may call.
type table map[string]rule

func tableOf(n Name) table {
	if _, ok := n.host(); ok {
		return hostTable
	}
	switch n {
	case Control:
		return controlTable
	case API:
		return apiTable
	case UI, Server: // a server's own UI has the server's certificate
		return readerTable
	}
	return nil
}

// everybody is what each client of Temporal begins with.
var everybody = table{
	health + "Check":                {},
	workflows + "GetSystemInfo":     {},
	workflows + "DescribeNamespace": {look: byName},
}

func with(more ...table) table {
	out := table{}
	for _, t := range append([]table{everybody}, more...) {
		for api, r := range t {
			out[api] = r
		}
	}
	return out
}

func all(service string, names ...string) table {
	out := table{}
	for _, name := range names {
		out[service+name] = rule{}
	}
	return out
}

// hostTable lets a host take tasks from its own queues, and answer them.
var hostTable = with(table{
	workflows + "PollActivityTaskQueue": {look: ownQueue},
	workflows + "RecordWorkerHeartbeat": {look: ownHeartbeat},
	workflows + "ShutdownWorker":        {look: ownShutdown},
}, all(workflows, // of tasks that it took: Tokens looks
	"RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled"))

var apiTable = with(all(workflows,
	"StartWorkflowExecution", "RequestCancelWorkflowExecution", "DescribeWorkflowExecution",
	"UpdateWorkflowExecution", "PollWorkflowExecutionUpdate", "SignalWorkflowExecution", "GetWorkflowExecutionHistory"))

var controlTable = with(apiTable, all(workflows,
	"PollWorkflowTaskQueue", "RespondWorkflowTaskCompleted", "RespondWorkflowTaskFailed", "RespondQueryTaskCompleted", "ResetStickyTaskQueue",
	"PollActivityTaskQueue", "RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted", "RespondActivityTaskFailed", "RespondActivityTaskCanceled",
	"PollNexusTaskQueue", "RespondNexusTaskCompleted", "RespondNexusTaskFailed", // with which the server speaks to workers
	"RecordWorkerHeartbeat", "ShutdownWorker",
	"ListWorkflowExecutions", "CountWorkflowExecutions", "QueryWorkflow", "UpdateWorkflowExecutionOptions",
	"TerminateWorkflowExecution", // by strongroom repair
	"CreateSchedule", "DescribeSchedule", "UpdateSchedule",
	"DescribeWorkerDeployment", "SetWorkerDeploymentCurrentVersion",
), table{
	workflows + "DescribeNamespace": {look: byName, anywhere: true}, // to tell that it was given a wrong one
}, all(operators, "AddSearchAttributes", "ListSearchAttributes"))

var readerTable = with(all(workflows,
	"GetClusterInfo", "ListNamespaces", "GetSearchAttributes",
	"ListWorkflowExecutions", "CountWorkflowExecutions", "DescribeWorkflowExecution",
	"GetWorkflowExecutionHistory", "GetWorkflowExecutionHistoryReverse", "QueryWorkflow",
	"DescribeTaskQueue", "ListTaskQueuePartitions", "GetWorkerBuildIdCompatibility", "GetWorkerVersioningRules", "GetWorkerTaskReachability",
	"ListSchedules", "CountSchedules", "DescribeSchedule", "ListScheduleMatchingTimes",
	"ListWorkerDeployments", "DescribeWorkerDeployment", "DescribeWorkerDeploymentVersion",
	"ListWorkers", "DescribeWorker", "ListBatchOperations", "DescribeBatchOperation",
), all(operators, "ListSearchAttributes", "ListNexusEndpoints"))

// operatorTable says what a person may: everything but Temporal's inner service.
func operatorMay(api string) bool {
	_, ok := everybody[api]
	return ok || hasService(api, workflows) || hasService(api, operators)
}

func hasService(api, service string) bool {
	return len(api) > len(service) && api[:len(service)] == service
}

// byName keeps a namespace from being named by its id, at which nobody looks.
func byName(_ Name, request any) error {
	if in, ok := request.(*workflowservice.DescribeNamespaceRequest); !ok || in.GetId() != "" {
		return fmt.Errorf("a namespace is asked for by its name")
	}
	return nil
}

func ownQueue(n Name, request any) error {
	in, ok := request.(*workflowservice.PollActivityTaskQueueRequest)
	if !ok {
		return fmt.Errorf("another request: %T", request)
	}
	q := in.GetTaskQueue()
	if err := n.requireQueue(q.GetName()); err != nil {
		return err
	}
	if k := q.GetKind(); (k != enumspb.TASK_QUEUE_KIND_UNSPECIFIED && k != enumspb.TASK_QUEUE_KIND_NORMAL) || q.GetNormalName() != "" {
		return fmt.Errorf("a queue of kind %s", k)
	}
	// A version would become known to the deployment of control workers.
	if d := in.GetDeploymentOptions(); d.GetWorkerVersioningMode() == enumspb.WORKER_VERSIONING_MODE_VERSIONED || d.GetDeploymentName() != "" {
		return fmt.Errorf("a worker deployment: %s", d.GetDeploymentName())
	}
	//nolint:staticcheck // deprecated, and still taken
	if v := in.GetWorkerVersionCapabilities(); v.GetUseVersioning() || v.GetDeploymentSeriesName() != "" {
		return fmt.Errorf("a worker's version")
	}
	return nil
}

func ownHeartbeat(n Name, request any) error {
	in, ok := request.(*workflowservice.RecordWorkerHeartbeatRequest)
	if !ok {
		return fmt.Errorf("another request: %T", request)
	}
	for _, h := range in.GetWorkerHeartbeat() {
		if err := n.requireQueue(h.GetTaskQueue()); err != nil {
			return err
		}
	}
	return nil
}

func ownShutdown(n Name, request any) error {
	in, ok := request.(*workflowservice.ShutdownWorkerRequest)
	if !ok {
		return fmt.Errorf("another request: %T", request)
	}
	if in.GetStickyTaskQueue() != "" {
		return fmt.Errorf("the queue %q is of workflows", in.GetStickyTaskQueue())
	}
	if h := in.GetWorkerHeartbeat(); h != nil {
		if err := n.requireQueue(h.GetTaskQueue()); err != nil {
			return err
		}
	}
	return n.requireQueue(in.GetTaskQueue())
}

func (n Name) requireQueue(queue string) error {
	if !slices.Contains(n.queues(), queue) {
		return fmt.Errorf("the queue %q is not this host's", queue)
	}
	return nil
}

// queueOf is the queue that a request names, for the log.
func queueOf(request any) string {
	switch in := request.(type) {
	case interface{ GetTaskQueue() *taskqueuepb.TaskQueue }:
		return in.GetTaskQueue().GetName()
	case interface{ GetTaskQueue() string }:
		return in.GetTaskQueue()
	}
	return ""
}
