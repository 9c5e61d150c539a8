package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/filters/flowcontrol"
	"mainstay.dev/mainstay/internal/request"
)

// newControl returns a Control in which requests of jane have one seat and a queue, and requests of
// other users are exempt.
func newControl(t testing.TB, seats int) *flowcontrol.Control {
	t.Helper()
	metrics, err := flowcontrol.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	none, one := int32(0), int32(1)
	c := flowcontrol.New(flowcontrol.Config{
		Seats: seats, MaxWait: 5 * time.Second, Metrics: metrics,
		Schemas: []*flowcontrolv1.FlowSchema{schemaOf("narrow", "jane", 1), schemaOf("exempt", "*", 2), schemaOf("catch-all", "*", 3)},
		Levels: []*flowcontrolv1.PriorityLevelConfiguration{
			{ObjectMeta: metav1.ObjectMeta{Name: "exempt", UID: "exempt"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementExempt, Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "narrow", UID: "narrow"}, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: &one, LendablePercent: &none, LimitResponse: flowcontrolv1.LimitResponse{
						Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 1}}}}},
		},
	})
	t.Cleanup(c.Close)
	return c
}

func schemaOf(level, user string, precedence int32) *flowcontrolv1.FlowSchema {
	all := []string{"*"}
	return &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: level, UID: "of-narrow"}, Spec: flowcontrolv1.FlowSchemaSpec{
		PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level}, MatchingPrecedence: precedence,
		Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
			Subjects:         []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
			ResourceRules:    []flowcontrolv1.ResourcePolicyRule{{Verbs: all, APIGroups: all, Resources: all, ClusterScope: true, Namespaces: all}},
			NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{Verbs: all, NonResourceURLs: all}},
		}}}}
}

// oneSeat is a server with one seat and a queue of length one for requests of jane.
type oneSeat struct {
	*testing.T
	http.Handler
}

func newOneSeat(t *testing.T, final http.Handler) *oneSeat {
	return &oneSeat{t, Chain(final, AuditID, Recover(quiet(), writeError), RequestInfo(byName, writeError),
		Deadline(DeadlineConfig{Max: 20 * time.Second, Logger: quiet(), OnError: writeError}), as(&request.User{Name: "jane"}),
		FlowControl(newControl(t, 1), newMetrics(), writeError))}
}

// begin sends a request. The channel receives the response.
func (s *oneSeat) begin(method, path string) chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	r := httptest.NewRequestWithContext(s.Context(), method, path, nil)
	go func() {
		w := httptest.NewRecorder()
		defer func() {
			_ = recover()
			answered <- w
		}()
		s.ServeHTTP(w, r)
	}()
	synctest.Wait()
	return answered
}

// free fails the test unless a request is executed immediately.
func (s *oneSeat) free(when string) {
	s.Helper()
	select {
	case w := <-s.begin("GET", "/version"):
		if w.Code != http.StatusOK {
			s.Errorf("%s: code %d, want 200", when, w.Code)
		}
	default:
		s.Errorf("%s: no seat is free", when)
	}
}

// TestFlowControlRejects starts a request that occupies the seat and a request that waits, and checks that a
// third request is rejected. A request that waits too long is also rejected.
func TestFlowControlRejects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		final := newBlocking()
		s := newOneSeat(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			final.ServeHTTP(w, r)
			w.WriteHeader(http.StatusOK)
		}))
		first, second := s.begin("GET", "/api/v1/pods/a"), s.begin("GET", "/api/v1/pods/b")
		third := <-s.begin("GET", "/api/v1/pods/c")
		if third.Code != 429 || third.Header().Get("Retry-After") != "1" || third.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid") != "narrow" {
			t.Errorf("third request: code %d, headers %v, want code 429", third.Code, third.Header())
		}
		time.Sleep(5 * time.Second) // a quarter of its deadline
		if w := <-second; w.Code != 429 {
			t.Errorf("second request after a quarter of its deadline: code %d, want 429", w.Code)
		}
		fourth := s.begin("GET", "/api/v1/pods/d")
		close(final.release)
		for _, answered := range []chan *httptest.ResponseRecorder{first, fourth} {
			w := <-answered
			if w.Code != 200 || w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") != "of-narrow" || w.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid") != "narrow" {
				t.Errorf("executed request: code %d, headers %v, want code 200", w.Code, w.Header())
			}
		}
		s.free("at the end")
	})
}

// TestSeatsReleased checks that the seat of every request is released when it ends. The seat of a
// watch is released when the watch is initialized.
func TestSeatsReleased(t *testing.T) {
	t.Parallel()
	wait := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name, method, path string
		handler            http.HandlerFunc
		running            bool // the handler is still running when the seat must be free
	}{
		{"a panic", "GET", "/api/v1/pods/a", func(http.ResponseWriter, *http.Request) { panic("oops") }, false},
		{"an aborted response", "GET", "/api/v1/pods/a", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		{"a deadline", "GET", "/api/v1/pods/a", wait, false},
		{"an initialized watch", "GET", "/api/v1/pods?watch=1", func(w http.ResponseWriter, r *http.Request) {
			request.WatchInitialized(r.Context())
			wait(w, r)
		}, true},
		{"a watch that ends without initialization", "GET", "/api/v1/pods?watch=1", func(http.ResponseWriter, *http.Request) {}, false},
		{"a watch that panics", "GET", "/api/v1/pods?watch=1", func(http.ResponseWriter, *http.Request) { panic("oops") }, false},
		{"exec, which needs no seat", "POST", "/api/v1/namespaces/a/pods/p/exec", wait, true},
		{"a log, which needs no seat", "GET", "/api/v1/namespaces/a/pods/p/log", wait, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newOneSeat(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/version" {
						tt.handler(w, r)
					}
				}))
				answered := s.begin(tt.method, tt.path)
				if !tt.running {
					<-answered
				}
				s.free("afterwards")
			})
		})
	}
}

// TestWatchHoldsItsSeat checks that a watch occupies its seat until it is initialized.
func TestWatchHoldsItsSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		initialize := make(chan struct{})
		s := newOneSeat(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/version" {
				return
			}
			<-initialize
			request.WatchInitialized(r.Context())
			<-r.Context().Done()
		}))
		_ = s.begin("GET", "/api/v1/pods?watch=1")
		waiting := s.begin("GET", "/version")
		if len(waiting) != 0 {
			t.Error("a watch that is not initialized has no seat")
		}
		close(initialize)
		if w := <-waiting; w.Code != 200 {
			t.Errorf("waiting request: code %d, want 200", w.Code)
		}
	})
}
