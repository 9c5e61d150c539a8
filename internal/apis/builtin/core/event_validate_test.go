package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
)

type (
	event     = corev1.Event
	eventCase = validationtest.Case[event]
)

func newReport() *event {
	e := &event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "p"}, EventTime: metav1.NewMicroTime(time.Unix(1000, 0)),
		Type: corev1.EventTypeNormal, Reason: "Started", Action: "Run", Message: "text", ReportingController: "example.com/k", ReportingInstance: "node-1",
	}
	e.Namespace, e.Name = "ns", "e"
	return e
}

// oldReport returns an event from a client that does not set the newer fields.
func oldReport() *event {
	e := &event{InvolvedObject: corev1.ObjectReference{Namespace: "ns"}}
	e.Namespace, e.Name = "ns", "E_1"
	return e
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const elsewhere = "involvedObject.namespace: Invalid value"
	rules := validationtest.Rules[event](validateEvent)
	rules.Create(t, oldReport, []eventCase{
		{Name: "an object elsewhere", Change: func(e *event) { e.InvolvedObject.Namespace = "other" }, Want: []string{elsewhere}},
		{Name: "a node, here", Change: func(e *event) { e.InvolvedObject.Namespace = "" }, Want: []string{elsewhere}},
		{Name: "a node, in default", Change: func(e *event) { e.InvolvedObject.Namespace, e.Namespace = "", "default" }},
		{Name: "a node, in kube-system", Change: func(e *event) { e.InvolvedObject.Namespace, e.Namespace = "", "kube-system" }, Want: []string{elsewhere}},
		{Name: "a name that is no path", Change: func(e *event) { e.Name, e.GenerateName = "a/b", "a%" },
			Want: []string{"metadata.generateName: Invalid value", "metadata.name: Invalid value"}},
		{Name: "a finalizer", Change: func(e *event) { e.Finalizers = []string{"plain"} }},
	})
	rules.Create(t, newReport, []eventCase{
		{Name: "an object elsewhere", Change: func(e *event) { e.InvolvedObject.Namespace = "other" }},
		{Name: "a node, in kube-system", Change: func(e *event) { e.InvolvedObject.Namespace, e.Namespace = "", "kube-system" }},
		{Name: "a node, here", Change: func(e *event) { e.InvolvedObject.Namespace = "" }, Want: []string{elsewhere}},
		{Name: "nothing said", Change: func(e *event) { e.ReportingController, e.ReportingInstance, e.Action, e.Reason = "", "", "", "" }, Want: []string{
			"reportingComponent: Required", "reportingComponent: Invalid", "reportingComponent: Invalid", "reportingInstance: Required", "action: Required", "reason: Required",
		}},
		{Name: "too much said", Change: func(e *event) {
			e.ReportingInstance, e.Action, e.Reason = strings.Repeat("x", 129), strings.Repeat("x", 129), strings.Repeat("x", 128)
			e.Message = strings.Repeat("x", 1025)
		}, Want: []string{
			`reportingInstance: Invalid value: "": can have at most 128 characters`, "action: Invalid value", `message: Invalid value: "": can have at most 1024 characters`,
		}},
	})
	rules.Update(t, oldReport, []eventCase{{Name: "anything", Change: func(e *event) { e.Reason, e.Count = "r", 7 }}})
}

// TestNewerEvents checks the validation of events that are written through events.k8s.io.
func TestNewerEvents(t *testing.T) {
	t.Parallel()
	now := metav1.NewMicroTime(time.Unix(2000, 0))
	for _, tt := range []struct {
		name   string
		update bool
		change func(*event)
		want   []string
	}{
		{"valid", false, func(*event) {}, nil},
		{"a name of a path", false, func(e *event) { e.Name, e.Finalizers = "E_1", []string{"plain"} },
			[]string{"metadata.finalizers[0]: Invalid value: \"plain\": name is neither", "metadata.name: Invalid value"}},
		{"a prefix that ends in a dash", false, func(e *event) { e.GenerateName = "e-" }, nil},
		{"a series", false, func(e *event) { e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: now} }, nil},
		{"a series of one", false, func(e *event) { e.Series = &corev1.EventSeries{Count: 1} },
			[]string{`series.count: Invalid value: "": should be at least 2`, "series.lastObservedTime: Required"}},
		{"of before", false, func(e *event) {
			*e = *oldReport()
			e.Name, e.Count, e.Source.Host = "e", 1, "h"
			e.LastTimestamp = metav1.Time(now)
		}, []string{
			"eventTime: Required", `type: Invalid value: "": has invalid value: `, "lastTimestamp: Invalid value", `count: Invalid value: "": needs to be unset`, "source: Invalid value",
		}},
		{"nobody", false, func(e *event) { e.ReportingController = "a b" }, []string{"reportingController: Invalid value"}},
		{"once more", true, func(e *event) { e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: now} }, nil},
		{"once less", true, func(e *event) { e.Series = &corev1.EventSeries{} }, []string{"series.count", "series.lastObservedTime"}},
		{"labels", true, func(e *event) { e.Labels = map[string]string{"a": "b"} }, nil},
		{"another reason", true, func(e *event) { e.Reason, e.Type = "Ended", "Warning" },
			[]string{`reason: Invalid value: "Ended": field is immutable`, `type: Invalid value: "Warning": field is immutable`}},
		{"another object", true, func(e *event) { e.InvolvedObject.Name, e.Related = "q", &corev1.ObjectReference{} },
			[]string{"involvedObject: Invalid value", "related: Invalid value"}},
	} {
		e, old := newReport(), newReport()
		tt.change(e)
		if !tt.update {
			old = nil
		}
		ctx := request.NewContext(t.Context(), &request.Info{Group: eventsv1.GroupName}, time.Now())
		var faults []string
		for _, err := range validation.NewValidator(feature.Defaults()).Validate(ctx, func(f validation.Field) { validateEvent(f, e, old) }) {
			faults = append(faults, err.Error())
		}
		if !slices.EqualFunc(faults, tt.want, strings.Contains) {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, faults, tt.want)
		}
	}
}

func newEndpoints() *corev1.Endpoints {
	return &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1"}}, NotReadyAddresses: []corev1.EndpointAddress{{IP: "fd00::1"}},
		Ports: []corev1.EndpointPort{{Name: "a", Port: 1, Protocol: corev1.ProtocolTCP}, {Name: "b", Port: 65535, Protocol: corev1.ProtocolSCTP}},
	}}}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	type endpoints = corev1.Endpoints
	ip := func(ip string) func(*endpoints) {
		return func(e *endpoints) { e.Subsets[0].NotReadyAddresses[0].IP = ip }
	}
	rules := validationtest.Rules[endpoints](validateEndpoints)
	const at = "subsets[0].notReadyAddresses[0].ip: Invalid value"
	rules.Create(t, newEndpoints, []validationtest.Case[endpoints]{
		{Name: "no subsets", Change: func(e *endpoints) { e.Subsets = nil }},
		{Name: "no addresses", Change: func(e *endpoints) { e.Subsets[0].Addresses, e.Subsets[0].NotReadyAddresses = nil, nil },
			Want: []string{"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"}},
		{Name: "no address", Change: ip("x"), Want: []string{at + `: "x": must be a valid IP address, (e.g.`, at + `: "x": must be a valid IP address`}},
		{Name: "any address", Change: ip("0.0.0.0"), Want: []string{at + `: "0.0.0.0": may not be unspecified (0.0.0.0)`}},
		{Name: "itself", Change: ip("::1"), Want: []string{at + `: "::1": may not be in the loopback range`}},
		{Name: "on the link", Change: ip("169.254.169.254"), Want: []string{"may not be in the link-local range"}},
		{Name: "all on the link", Change: ip("ff02::1"), Want: []string{"may not be in the link-local multicast range"}},
		{Name: "leading zeros", Change: ip("010.0.0.1"), Want: []string{"must not have leading 0s"}},
		{Name: "names", Change: func(e *endpoints) { a := &e.Subsets[0].Addresses[0]; a.Hostname, a.NodeName = "a.b", new("A") },
			Want: []string{"addresses[0].hostname: Invalid", "addresses[0].nodeName: Invalid"}},
		{Name: "ports", Change: func(e *endpoints) {
			e.Subsets[0].Ports = []corev1.EndpointPort{{Port: 65536}, {Name: "A", Port: 1, Protocol: "x", AppProtocol: new("a b")}}
		}, Want: []string{
			"ports[0].name: Required", "ports[0].port: Invalid", "ports[0].protocol: Required", "ports[1].name: Invalid", "ports[1].protocol: Unsupported", "ports[1].appProtocol: Invalid",
		}},
		{Name: "the only port", Change: func(e *endpoints) { e.Subsets[0].Ports = e.Subsets[0].Ports[:1]; e.Subsets[0].Ports[0].Name = "" }},
	})
	rules.Update(t, func() *endpoints { e := newEndpoints(); ip("010.0.0.1")(e); return e }, []validationtest.Case[endpoints]{
		{Name: "elsewhere in the list", Change: func(e *endpoints) {
			e.Subsets[0].Addresses = append(e.Subsets[0].NotReadyAddresses, e.Subsets[0].Addresses...)
		}},
		{Name: "another one", Change: ip("011.0.0.1"), Want: []string{"must not have leading 0s"}},
	})
}

// TestEndpointsText formats a subset with so many pairs of addresses and ports that formatting all of them
// would need terabytes of memory.
func TestEndpointsText(t *testing.T) {
	t.Parallel()
	few, wide := newEndpoints().Subsets[0], corev1.EndpointSubset{
		Addresses: slices.Repeat([]corev1.EndpointAddress{{IP: "fd00::2"}}, 100_000), Ports: slices.Repeat([]corev1.EndpointPort{{Port: 2}}, 1_000_000),
	}
	for _, tt := range []struct {
		subsets []corev1.EndpointSubset
		want    string
	}{
		{nil, "<none>"},
		{[]corev1.EndpointSubset{{Ports: few.Ports}}, ""},
		{[]corev1.EndpointSubset{few, {Addresses: few.Addresses}}, "10.0.0.1:1,10.0.0.1:65535,10.0.0.1"},
		{[]corev1.EndpointSubset{few, wide}, "10.0.0.1:1,10.0.0.1:65535,[fd00::2]:2 + 99999999999 more..."},
	} {
		if got := addressText(tt.subsets); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestEndpointsWarnings(t *testing.T) {
	t.Parallel()
	e := newEndpoints()
	e.Subsets[0].NotReadyAddresses[0].IP = "fd00:0::1"
	want := []string{`subsets[0].notReadyAddresses[0].ip: IPv6 address "fd00:0::1" should be in RFC 5952 canonical format ("fd00::1")`}
	if diff := cmp.Diff(want, endpointsWarnings(nil, e, nil)); diff != "" {
		t.Error(diff)
	}
	e.Labels = map[string]string{managedByLabel: endpointsController}
	if said := endpointsWarnings(nil, e, nil); said != nil {
		t.Errorf("warnings for Endpoints of the controller: %q", said)
	}
}

func TestServiceAccountWarnings(t *testing.T) {
	t.Parallel()
	account := &corev1.ServiceAccount{}
	account.Annotations = map[string]string{mountableSecrets: "true"}
	want := []string{"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	for _, old := range []*corev1.ServiceAccount{nil, {}} {
		if diff := cmp.Diff(want, serviceAccountWarnings(nil, account, old)); diff != "" {
			t.Error(diff)
		}
	}
	if said := serviceAccountWarnings(nil, account, account); said != nil {
		t.Errorf("warnings for an unchanged annotation: %q", said)
	}
}
