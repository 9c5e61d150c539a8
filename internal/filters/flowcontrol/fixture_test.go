package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/request"
)

func limited(name string, shares, lendable int32, queuing *flowcontrolv1.QueuingConfiguration) *flowcontrolv1.PriorityLevelConfiguration {
	response := flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}
	if queuing != nil {
		response = flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: queuing}
	}
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &shares, LendablePercent: &lendable, LimitResponse: response,
		}},
	}
}

func queuing(number, hand int32) *flowcontrolv1.QueuingConfiguration {
	return &flowcontrolv1.QueuingConfiguration{Queues: number, HandSize: hand, QueueLengthLimit: 50}
}

func exempt() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "exempt", UID: "exempt-uid", Generation: 1},
		Spec:       flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementExempt, Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}},
	}
}

// flowSchema returns a schema that matches all requests of subjects.
func flowSchema(name, level string, precedence int32, subjects ...flowcontrolv1.Subject) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), Generation: 1},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: precedence,
			DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:         subjects,
				ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
			}},
		},
	}
}

func user(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: name}}
}

func group(name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindGroup, Group: &flowcontrolv1.GroupSubject{Name: name}}
}

func account(namespace, name string) flowcontrolv1.Subject {
	return flowcontrolv1.Subject{Kind: flowcontrolv1.SubjectKindServiceAccount, ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: namespace, Name: name}}
}

// newControl returns a Control with the given number of seats and the given objects, in addition to an exempt
// level and a catch-all level. The catch-all level has five shares and no queues.
func newControl(t testing.TB, seats int, objects ...any) *Control {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{
		Seats: seats, MaxWait: 15 * time.Second, Metrics: metrics,
		Schemas: []*flowcontrolv1.FlowSchema{flowSchema("exempt", "exempt", 1, group("system:masters")), flowSchema("catch-all", "catch-all", 10000, group("system:authenticated"))},
		Levels:  []*flowcontrolv1.PriorityLevelConfiguration{exempt(), limited("catch-all", 5, 0, nil)},
	})
	t.Cleanup(c.Close)
	c.set(objects...)
	return c
}

// set adds or replaces objects, and applies the change.
func (c *Control) set(objects ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range objects {
		switch o := object.(type) {
		case *flowcontrolv1.FlowSchema:
			c.schemas[types.NamespacedName{Name: o.Name}] = o
		case *flowcontrolv1.PriorityLevelConfiguration:
			c.levels[types.NamespacedName{Name: o.Name}] = o
		}
	}
	c.reconfigure()
}

// removeLevel deletes the object of a level, and applies the change.
func (c *Control) removeLevel(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.levels, types.NamespacedName{Name: name})
	c.reconfigure()
}

// requestOf returns a request of an authenticated user.
func requestOf(t testing.TB, name, method, url string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, url, nil)
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	r = r.WithContext(request.NewContext(r.Context(), &info, time.Now()))
	request.SetUser(r.Context(), &request.User{Name: name, Groups: []string{"system:authenticated"}})
	return r
}

// take waits until a request is admitted or rejected.
func take(c *Control, r *http.Request) *Request {
	queued := c.NewRequest(r)
	if queued.MustWait() {
		queued.Wait(r.Context())
	}
	return queued
}
