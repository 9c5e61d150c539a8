package discovery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func endpoint(node *string, topology string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{NodeName: node}
	if topology != "" {
		e.DeprecatedTopology = map[string]string{"kubernetes.io/hostname": topology}
	}
	return e
}

func TestTopology(t *testing.T) {
	t.Parallel()
	node := "n1"
	slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "n1")}}
	prepare(&builtin.Operation{Context: t.Context()}, slice)
	if diff := cmp.Diff(endpoint(nil, ""), slice.Endpoints[0]); diff != "" {
		t.Errorf("created:\n%s", diff)
	}
	old := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "n1")}}
	same := old.DeepCopy()
	prepareUpdate(&builtin.Operation{Context: t.Context()}, same, old)
	if diff := cmp.Diff(old.Endpoints, same.Endpoints); diff != "" {
		t.Errorf("the same endpoints:\n%s", diff)
	}
	more := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{endpoint(nil, "n1"), endpoint(nil, "n2")}}
	prepareUpdate(&builtin.Operation{Context: t.Context()}, more, old)
	if diff := cmp.Diff([]discoveryv1.Endpoint{endpoint(&node, ""), endpoint(nil, "")}, more.Endpoints); diff != "" {
		t.Errorf("more endpoints:\n%s", diff)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	old := &discoveryv1.EndpointSlice{}
	for name, test := range map[string]struct {
		change func(*discoveryv1.EndpointSlice)
		want   bool
	}{
		"annotations": {func(s *discoveryv1.EndpointSlice) { s.Annotations = map[string]string{"a": "b"} }, false},
		"labels":      {func(s *discoveryv1.EndpointSlice) { s.Labels = map[string]string{"a": "b"} }, true},
		"endpoints":   {func(s *discoveryv1.EndpointSlice) { s.Endpoints = []discoveryv1.Endpoint{{}} }, true},
		"ports":       {func(s *discoveryv1.EndpointSlice) { s.Ports = []discoveryv1.EndpointPort{{}} }, true},
	} {
		slice := old.DeepCopy()
		test.change(slice)
		if got := changed(slice, old); got != test.want {
			t.Errorf("%s: changed = %v, want %v", name, got, test.want)
		}
	}
}
