package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// allocated returns the spec of a service of the given type, with all required fields set.
func allocated(kind corev1.ServiceType) corev1.ServiceSpec {
	spec := corev1.ServiceSpec{
		Type: kind, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
		IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr(corev1.IPFamilyPolicySingleStack),
		Ports: []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 30080}, {Name: "b", Port: 81, NodePort: 30081}},
	}
	if kind == corev1.ServiceTypeClusterIP {
		spec.Ports[0].NodePort, spec.Ports[1].NodePort = 0, 0
	}
	return spec
}

func balancer() corev1.ServiceSpec {
	spec := allocated(corev1.ServiceTypeLoadBalancer)
	spec.ExternalTrafficPolicy, spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30090
	spec.AllocateLoadBalancerNodePorts, spec.LoadBalancerClass = ptr(true), ptr("example.com/lb")
	return spec
}

func TestServiceUpdate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		old    corev1.ServiceSpec
		change func(spec *corev1.ServiceSpec)
		want   func(spec *corev1.ServiceSpec) // want changes the old spec to the expected spec
	}{
		"left out addresses and ports are kept": {
			balancer(),
			func(spec *corev1.ServiceSpec) {
				spec.ClusterIP, spec.ClusterIPs, spec.HealthCheckNodePort = "", nil, 0
				spec.Ports = []corev1.ServicePort{{Name: "b", Port: 81}, {Name: "a", Port: 8080}}
			},
			func(spec *corev1.ServiceSpec) {
				spec.Ports = []corev1.ServicePort{{Name: "b", Port: 81, NodePort: 30081}, {Name: "a", Port: 8080, NodePort: 30080}}
			},
		},
		"a node port that is taken stays free": {
			allocated(corev1.ServiceTypeNodePort),
			func(spec *corev1.ServiceSpec) {
				spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "c", Port: 82, NodePort: 30080}}
			},
			func(spec *corev1.ServiceSpec) {
				spec.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "c", Port: 82, NodePort: 30080}}
			},
		},
		"to external name": {
			allocated(corev1.ServiceTypeClusterIP),
			func(spec *corev1.ServiceSpec) {
				spec.Type, spec.Ports, spec.ExternalName = corev1.ServiceTypeExternalName, nil, "a.b"
			},
			func(spec *corev1.ServiceSpec) {
				*spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b"}
			},
		},
		"from balancer to cluster": {
			balancer(),
			func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeClusterIP },
			func(spec *corev1.ServiceSpec) {
				*spec = allocated(corev1.ServiceTypeClusterIP)
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			a.create("v1 services", &corev1.Service{ObjectMeta: named("ns", "s"), Spec: *test.old.DeepCopy()})
			got := mustUpdate(a, "v1 services", in("ns", "s"), func(s *corev1.Service) { test.change(&s.Spec) })
			want := &corev1.Service{Spec: *test.old.DeepCopy()}
			test.want(&want.Spec)
			a.resource("v1 services").Version.Default(want)
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServiceUpdateRejected checks that invalid values set by a client are rejected and not silently dropped.
func TestServiceUpdateRejected(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.create("v1 services", &corev1.Service{ObjectMeta: named("ns", "s"), Spec: allocated(corev1.ServiceTypeClusterIP)})
	for want, change := range map[string]func(spec *corev1.ServiceSpec){
		"spec.clusterIPs: Forbidden: may not be set for ExternalName services": func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName, spec.Ports = corev1.ServiceTypeExternalName, "a.b", nil
			spec.ClusterIP, spec.ClusterIPs = "10.0.0.2", []string{"10.0.0.2"}
		},
		`spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set`: func(spec *corev1.ServiceSpec) { spec.ClusterIP = "10.0.0.2" },
	} {
		_, err := update(a, "v1 services", in("ns", "s"), func(s *corev1.Service) { change(&s.Spec) })
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestServiceStatusOfBalancers(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	created := a.create("v1 services", &corev1.Service{
		ObjectMeta: named("ns", "s"), Spec: balancer(),
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "203.0.113.9"}}}},
	}).(*corev1.Service)
	if len(created.Status.LoadBalancer.Ingress) > 0 {
		t.Error("a creation wrote the status")
	}
	mustUpdate(a, "v1 services/status", in("ns", "s"), func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
		s.Status.Conditions = []metav1.Condition{{Type: "x"}}
	})
	kept := mustUpdate(a, "v1 services", in("ns", "s"), func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
	if len(kept.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("status is %+v", kept.Status)
	}
	left := mustUpdate(a, "v1 services", in("ns", "s"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	if len(left.Status.LoadBalancer.Ingress) > 0 || len(left.Status.Conditions) != 1 {
		t.Errorf("status is %+v", left.Status)
	}
}

func TestHeadlessServiceOfOldClients(t *testing.T) {
	t.Parallel()
	s := newAPI(t).create("v1 services", &corev1.Service{ObjectMeta: named("ns", "s"), Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}})
	if diff := cmp.Diff([]string{corev1.ClusterIPNone}, s.(*corev1.Service).Spec.ClusterIPs); diff != "" {
		t.Error(diff)
	}
}

func TestServiceWarnings(t *testing.T) {
	t.Parallel()
	const deprecated = "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
	tests := map[string]struct {
		spec corev1.ServiceSpec
		want []string
	}{
		"none":          {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}}},
		"external IPs":  {corev1.ServiceSpec{ExternalIPs: []string{"1.2.3.4"}}, []string{deprecated}},
		"external name": {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b", ExternalIPs: []string{"1.2.3.4"}}, []string{`spec.externalIPs is ignored when spec.type is "ExternalName"`}},
		"headless":      {corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, SessionAffinity: corev1.ServiceAffinityClientIP}, []string{"spec.SessionAffinity is ignored for headless services"}},
		"balancer":      {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: "::ffff:1.2.3.4"}, []string{`spec.loadBalancerIP: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"`}},
		"no address":    {spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerIP: "none"}},
		"several": {
			corev1.ServiceSpec{ExternalIPs: []string{"1.2.3.4"}, ExternalName: "a.b", TrafficDistribution: ptr(corev1.ServiceTrafficDistributionPreferClose)},
			[]string{deprecated, `spec.externalName is ignored when spec.type is not "ExternalName"`, `spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"`},
		},
	}
	a := newAPI(t)
	for name, test := range tests {
		ctx := request.NewContext(t.Context(), nil, time.Time{})
		test.spec.Ports = []corev1.ServicePort{{Port: 80}}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "s-"}, Spec: test.spec}
		a.resource("v1 services").Version.Default(service)
		if _, err := a.resource("v1 services").Storage.(rest.Creater).Create(ctx, service, nil, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, request.WarningsFrom(ctx)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
