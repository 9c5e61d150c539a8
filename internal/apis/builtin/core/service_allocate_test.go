package core_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/core"
	"mainstay.dev/mainstay/internal/apis/builtin/core/allocation"
	"mainstay.dev/mainstay/internal/apis/builtin/networking"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/cache"
	"mainstay.dev/mainstay/internal/storage/factory"
	"mainstay.dev/mainstay/internal/storage/storagetest"
)

// newServiceAPI returns an API that allocates addresses from ranges, and the given number of node ports,
// starting at 30000. Its storage is cached, as in a server.
func newServiceAPI(t testing.TB, ports int, ranges ...string) (*api, *builtin.Env) {
	t.Helper()
	backend := storagetest.InMemory(t)
	feed, err := cache.NewFeed(cache.FeedConfig{Backend: backend, Prefix: storage.DefaultPrefix})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- feed.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	opener, err := factory.New(factory.Config{Backend: backend, Feed: feed})
	if err != nil {
		t.Fatal(err)
	}
	env := &builtin.Env{Services: builtin.ServiceNetwork{NodePorts: utilnet.PortRange{Base: 30000, Size: ports}}, Storage: builtin.StorageEnv{Open: opener.Open}}
	for _, text := range ranges {
		env.Services.Ranges = append(env.Services.Ranges, netip.MustParsePrefix(text))
	}
	a := &api{t: t, resources: map[string]*rest.Resource{}}
	resources, err := builtin.Build(env, []builtin.Group{core.V1(), networking.V1()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		a.resources[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	a.create("networking.k8s.io/v1 servicecidrs", &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges},
	})
	return a, env
}

func newService(name string, change func(spec *corev1.ServiceSpec)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: named("ns", name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}},
	}}
	if change != nil {
		change(&service.Spec)
	}
	return service
}

// tryService creates a service with default values.
func (a *api) tryService(service *corev1.Service) (*corev1.Service, error) {
	a.resource("v1 services").Version.Default(service)
	created, err := a.tryCreate("v1 services", service)
	if err != nil {
		return nil, err
	}
	return created.(*corev1.Service), nil
}

func (a *api) service(service *corev1.Service) *corev1.Service {
	a.t.Helper()
	created, err := a.tryService(service)
	if err != nil {
		a.t.Fatal(err)
	}
	return created
}

// stored lists the stored objects of a resource.
func stored[P codec.Object](t testing.TB, env *builtin.Env, resource schema.GroupResource) []P {
	t.Helper()
	list, err := env.Store(resource).List(context.Background(), "", rest.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []P
	for record, err := range list.Items {
		if err != nil {
			t.Fatal(err)
		}
		obj, err := record.Object()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, obj.(P))
	}
	return all
}

// checkAllocations checks that the addresses and ports of services match their locks.
func checkAllocations(t testing.TB, env *builtin.Env) {
	t.Helper()
	addresses, ports := map[string]string{}, map[string]string{}
	take := func(taken map[string]string, what string, service *corev1.Service) {
		name := service.Namespace + "/" + service.Name
		if other, double := taken[what]; double && other != name {
			t.Errorf("%s belongs to %s and to %s", what, other, name)
		}
		taken[what] = name
	}
	for _, service := range stored[*corev1.Service](t, env, corev1.Resource("services")) {
		if service.Spec.ClusterIP != corev1.ClusterIPNone {
			for _, ip := range service.Spec.ClusterIPs {
				take(addresses, ip, service)
			}
		}
		for _, port := range service.Spec.Ports {
			if port.NodePort != 0 {
				take(ports, strconv.Itoa(int(port.NodePort)), service)
			}
		}
		if port := service.Spec.HealthCheckNodePort; port != 0 {
			take(ports, strconv.Itoa(int(port)), service)
		}
	}
	for resource, want := range map[schema.GroupResource]map[string]string{
		networkingv1.Resource("ipaddresses"): addresses, corev1.Resource("nodeports"): ports,
	} {
		got := map[string]string{}
		for _, lock := range stored[*networkingv1.IPAddress](t, env, resource) {
			got[lock.Name] = lock.Spec.ParentRef.Namespace + "/" + lock.Spec.ParentRef.Name
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-of services +stored):\n%s", resource, diff)
		}
	}
}

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// TestServiceFamilies checks the IP families of new services, which depend on the service and on the families
// of the cluster.
func TestServiceFamilies(t *testing.T) {
	t.Parallel()
	const range4, range6 = "10.0.0.0/24", "fd00::/112"
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	tests := []struct {
		name     string
		ranges   []string
		policy   *corev1.IPFamilyPolicy
		families []corev1.IPFamily
		change   func(spec *corev1.ServiceSpec)
		want     []corev1.IPFamily
		policyIs corev1.IPFamilyPolicy
		refused  string
	}{
		{name: "default", ranges: []string{range4, range6}, want: []corev1.IPFamily{v4}, policyIs: single},
		{name: "default of IPv6", ranges: []string{range6, range4}, want: []corev1.IPFamily{v6}, policyIs: single},
		{name: "other family", ranges: []string{range4, range6}, families: []corev1.IPFamily{v6}, want: []corev1.IPFamily{v6}, policyIs: single},
		{name: "preferred", ranges: []string{range4, range6}, policy: &prefer, want: []corev1.IPFamily{v4, v6}, policyIs: prefer},
		{name: "preferred, and missing", ranges: []string{range4}, policy: &prefer, want: []corev1.IPFamily{v4}, policyIs: prefer},
		{name: "required", ranges: []string{range4, range6}, policy: &require, families: []corev1.IPFamily{v6}, want: []corev1.IPFamily{v6, v4}, policyIs: require},
		{
			name: "required, and missing", ranges: []string{range4}, policy: &require,
			refused: `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`,
		},
		{
			name: "family missing", ranges: []string{range4}, families: []corev1.IPFamily{v6},
			refused: `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`,
		},
		{
			name: "family of an address", ranges: []string{range4, range6}, want: []corev1.IPFamily{v6}, policyIs: single,
			change: func(spec *corev1.ServiceSpec) { spec.ClusterIP = "fd00::5" },
		},
		{
			name: "family of an address missing", ranges: []string{range4},
			change:  func(spec *corev1.ServiceSpec) { spec.ClusterIP = "fd00::5" },
			refused: `spec.clusterIPs[0]: Invalid value: ["fd00::5"]: IPv6 is not configured on this cluster`,
		},
		{
			name: "address of another family", ranges: []string{range4, range6}, families: []corev1.IPFamily{v4},
			change:  func(spec *corev1.ServiceSpec) { spec.ClusterIP = "fd00::5" },
			refused: "spec.clusterIPs[0]: Invalid value: \"fd00::5\": expected an IPv4 value as indicated by `ipFamilies[0]`",
		},
		{
			name: "one stack of two families", ranges: []string{range4, range6}, families: []corev1.IPFamily{v4, v6},
			refused: `spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified`,
		},
		{
			name: "headless", ranges: []string{range4, range6}, want: []corev1.IPFamily{v4}, policyIs: single,
			change: func(spec *corev1.ServiceSpec) { spec.ClusterIP = corev1.ClusterIPNone },
		},
		{
			name: "headless without selector", ranges: []string{range4}, want: []corev1.IPFamily{v4, v6}, policyIs: require,
			change: func(spec *corev1.ServiceSpec) { spec.ClusterIP, spec.Selector = corev1.ClusterIPNone, nil },
		},
		{
			name: "external name", ranges: []string{range4},
			change: func(spec *corev1.ServiceSpec) {
				spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "a.b"
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, env := newServiceAPI(t, 100, tt.ranges...)
			service := newService("s", tt.change)
			service.Spec.IPFamilyPolicy, service.Spec.IPFamilies = tt.policy, tt.families
			created, err := a.tryService(service)
			if tt.refused != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var policy corev1.IPFamilyPolicy
			if created.Spec.IPFamilyPolicy != nil {
				policy = *created.Spec.IPFamilyPolicy
			}
			if diff := cmp.Diff(tt.want, created.Spec.IPFamilies); diff != "" || policy != tt.policyIs {
				t.Errorf("policy %q, want %q; families (-want +got):\n%s", policy, tt.policyIs, diff)
			}
			checkAllocations(t, env)
		})
	}
}

// TestServiceFamiliesUpdate upgrades services to dual-stack and downgrades them.
func TestServiceFamiliesUpdate(t *testing.T) {
	t.Parallel()
	single, prefer, require := corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack
	tests := []struct {
		name    string
		policy  corev1.IPFamilyPolicy
		change  func(spec *corev1.ServiceSpec)
		want    int // number of addresses
		refused string
	}{
		{name: "upgrade", policy: single, change: func(spec *corev1.ServiceSpec) { spec.IPFamilyPolicy = &require }, want: 2},
		{name: "upgrade to an address", policy: single, change: func(spec *corev1.ServiceSpec) {
			spec.IPFamilyPolicy, spec.ClusterIPs = &prefer, append(spec.ClusterIPs, "fd00::9")
		}, want: 2},
		{name: "downgrade by policy", policy: require, change: func(spec *corev1.ServiceSpec) { spec.IPFamilyPolicy = &single }, want: 1},
		{name: "downgrade by all", policy: prefer, change: func(spec *corev1.ServiceSpec) {
			spec.IPFamilyPolicy, spec.IPFamilies, spec.ClusterIPs = &single, spec.IPFamilies[:1], spec.ClusterIPs[:1]
		}, want: 1},
		{name: "downgrade unsaid", policy: require, change: func(spec *corev1.ServiceSpec) { spec.ClusterIPs = spec.ClusterIPs[:1] },
			refused: `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary cluster IP`},
		{name: "first address", policy: single, change: func(spec *corev1.ServiceSpec) { spec.ClusterIP = "10.0.0.7" },
			refused: `spec.clusterIPs[0]: Invalid value: ["10.0.0.7"]: may not change once set`},
		{name: "first family", policy: require, change: func(spec *corev1.ServiceSpec) { slices.Reverse(spec.IPFamilies) },
			refused: "expected an IPv6 value as indicated by `ipFamilies[0]`"},
		{name: "left out", policy: require, change: func(spec *corev1.ServiceSpec) {
			spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, spec.IPFamilyPolicy = "", nil, nil, nil
		}, want: 2},
		{name: "to external name", policy: require, change: func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "a.b"
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, env := newServiceAPI(t, 100, "10.0.0.0/24", "fd00::/112")
			before := a.service(newService("s", func(spec *corev1.ServiceSpec) { spec.IPFamilyPolicy = &tt.policy }))
			after, err := update(a, "v1 services", in("ns", "s"), func(s *corev1.Service) { tt.change(&s.Spec) })
			checkAllocations(t, env)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("error %v, want %s", err, tt.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(after.Spec.ClusterIPs) != tt.want || tt.want > 0 && after.Spec.ClusterIP != before.Spec.ClusterIP {
				t.Errorf("addresses changed from %v to %v, want %d addresses and the same first one", before.Spec.ClusterIPs, after.Spec.ClusterIPs, tt.want)
			}
		})
	}
}

// TestServiceTypes changes the type of a service several times. The service must never have unnecessary
// allocations, and must keep its address if possible.
func TestServiceTypes(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 2768, "10.0.0.0/24")
	a.service(newService("s", nil))
	to := func(kind corev1.ServiceType, addresses, ports int, change func(spec *corev1.ServiceSpec)) *corev1.ServiceSpec {
		t.Helper()
		s := mustUpdate(a, "v1 services", in("ns", "s"), func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = kind, ""
			change(&s.Spec)
		})
		checkAllocations(t, env)
		got := len(stored[*networkingv1.IPAddress](t, env, corev1.Resource("nodeports")))
		if len(s.Spec.ClusterIPs) != addresses || got != ports {
			t.Errorf("%s: %v and %d ports; want %d and %d", kind, s.Spec.ClusterIPs, got, addresses, ports)
		}
		return &s.Spec
	}
	same := func(*corev1.ServiceSpec) {}
	nodePort := to(corev1.ServiceTypeNodePort, 1, 2, same)
	balancer := to(corev1.ServiceTypeLoadBalancer, 1, 3, func(spec *corev1.ServiceSpec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	if diff := cmp.Diff(nodePort.Ports, balancer.Ports); diff != "" || balancer.HealthCheckNodePort == 0 {
		t.Errorf("health check port %d; ports (-node port +balancer):\n%s", balancer.HealthCheckNodePort, diff)
	}
	to(corev1.ServiceTypeLoadBalancer, 1, 2, same)
	to(corev1.ServiceTypeLoadBalancer, 1, 1, func(spec *corev1.ServiceSpec) {
		spec.Ports, spec.AllocateLoadBalancerNodePorts = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "c", Port: 82}}, ptr(false)
	})
	to(corev1.ServiceTypeNodePort, 1, 2, func(spec *corev1.ServiceSpec) { spec.AllocateLoadBalancerNodePorts = nil })
	to(corev1.ServiceTypeClusterIP, 1, 0, same)
	to(corev1.ServiceTypeExternalName, 0, 0, func(spec *corev1.ServiceSpec) { spec.ExternalName = "a.b" })
	to(corev1.ServiceTypeNodePort, 1, 2, func(spec *corev1.ServiceSpec) { spec.ExternalName = "" })
	a.delete("v1 services", in("ns", "s"), metav1.DeleteOptions{})
	checkAllocations(t, env)
}

// TestServiceNodePorts checks node ports that clients choose, and node ports that several service ports share.
func TestServiceNodePorts(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 2768, "10.0.0.0/24")
	ports := func(ports ...corev1.ServicePort) func(spec *corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) {
			spec.Type, spec.Ports = corev1.ServiceTypeNodePort, ports
			for i := range spec.Ports {
				spec.Ports[i].Name = string(rune('a' + i))
			}
		}
	}
	shared := a.service(newService("shared", ports(corev1.ServicePort{Port: 53}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP})))
	if got := shared.Spec.Ports; got[0].NodePort == 0 || got[0].NodePort != got[1].NodePort {
		t.Errorf("TCP and UDP have %d and %d", got[0].NodePort, got[1].NodePort)
	}
	chosen := a.service(newService("chosen", ports(corev1.ServicePort{Port: 53}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP, NodePort: 30053})))
	if got := chosen.Spec.Ports; got[0].NodePort != 30053 {
		t.Errorf("the port of the other protocol is %d", got[0].NodePort)
	}
	for want, change := range map[string]func(spec *corev1.ServiceSpec){
		"spec.ports[0].nodePort: Invalid value: 30053: provided port is already allocated":                                            ports(corev1.ServicePort{Port: 80, NodePort: 30053}),
		"spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated":                                            ports(corev1.ServicePort{Port: 80, NodePort: 30001}, corev1.ServicePort{Port: 81, NodePort: 30001}),
		"spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767": ports(corev1.ServicePort{Port: 80, NodePort: 80}),
		"failed to allocate requested HealthCheck NodePort 30053: provided port is already allocated": func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalTrafficPolicy, spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, 30053
		},
	} {
		if _, err := a.tryService(newService("refused", change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	checkAllocations(t, env)
}

// TestServicePortsAvoidChosen checks that ports that the client chose are not assigned to other ports of the same
// service.
func TestServicePortsAvoidChosen(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 3, "10.0.0.0/24")
	for range 20 {
		service := a.service(newService("balancer", func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy, s.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, 30001
			s.Ports = []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81, NodePort: 30000}}
		}))
		if got := service.Spec.Ports[0].NodePort; got != 30002 {
			t.Fatalf("node port %d, want 30002", got)
		}
		a.delete("v1 services", in("ns", "balancer"), metav1.DeleteOptions{})
	}
	checkAllocations(t, env)
}

// TestServiceRangeExhausted checks the error for an exhausted range. It also checks that an allocation
// succeeds after a service has been deleted.
func TestServiceRangeExhausted(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 3, "10.0.0.0/29")
	for i := range 6 {
		a.service(newService(fmt.Sprint("s", i), nil))
	}
	_, err := a.tryService(newService("more", nil))
	wantMessage(t, err, "Internal error occurred: failed to allocate a serviceIP: range is full")
	a.delete("v1 services", in("ns", "s3"), metav1.DeleteOptions{})
	a.service(newService("more", nil))
	checkAllocations(t, env)

	nodePorts := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }
	mustUpdate(a, "v1 services", in("ns", "s1"), nodePorts)
	_, err = update(a, "v1 services", in("ns", "s2"), nodePorts)
	wantMessage(t, err, "Internal error occurred: failed to allocate a nodePort: range is full")
	mustUpdate(a, "v1 services", in("ns", "s1"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	mustUpdate(a, "v1 services", in("ns", "s2"), nodePorts)
	checkAllocations(t, env)
}

// TestServiceCIDRs checks that addresses are allocated from the ranges of additional ServiceCIDR objects, but
// only while these objects are ready.
func TestServiceCIDRs(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 100, "10.0.0.0/29")
	for i := range 6 {
		a.service(newService(fmt.Sprint("s", i), nil))
	}
	a.create("networking.k8s.io/v1 servicecidrs", &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "more", Finalizers: []string{"networking.k8s.io/service-cidr-finalizer"}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.1.0.0/24"}},
	})
	if ip := a.service(newService("wide", nil)).Spec.ClusterIP; !strings.HasPrefix(ip, "10.1.0.") {
		t.Errorf("the address is %s", ip)
	}
	state := func(status metav1.ConditionStatus) {
		mustUpdate(a, "networking.k8s.io/v1 servicecidrs/status", in("", "more"), func(cidr *networkingv1.ServiceCIDR) {
			cidr.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: status}}
		})
	}
	refused := func(name string) {
		t.Helper()
		stored[*networkingv1.ServiceCIDR](t, env, networkingv1.Resource("servicecidrs")) // waits until the cache contains the changes
		_, err := a.tryService(newService(name, nil))
		wantMessage(t, err, "Internal error occurred: failed to allocate a serviceIP: range is full")
	}
	state(metav1.ConditionFalse)
	refused("not-ready")
	state(metav1.ConditionTrue)
	a.service(newService("ready", nil))
	a.delete("networking.k8s.io/v1 servicecidrs", in("", "more"), metav1.DeleteOptions{})
	refused("terminating")
	a.delete("v1 services", in("ns", "ready"), metav1.DeleteOptions{})
	checkAllocations(t, env)
}

// TestServiceDryRun checks that a dry run allocates nothing and returns the same response as kube-apiserver.
func TestServiceDryRun(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 2768, "10.0.0.0/24")
	service := newService("s", func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort })
	a.resource("v1 services").Version.Default(service)
	record, err := a.resource("v1 services").Storage.(rest.Creater).Create(t.Context(), service, nil, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	obj, err := a.object(record, err)
	if err != nil {
		t.Fatal(err)
	}
	spec := obj.(*corev1.Service).Spec
	if spec.ClusterIP != "10.0.0.0" || spec.Ports[0].NodePort != 32769 || spec.Ports[1].NodePort != 32770 {
		t.Errorf("%s, %d and %d", spec.ClusterIP, spec.Ports[0].NodePort, spec.Ports[1].NodePort)
	}
	checkAllocations(t, env)
}

// TestAddressOfService checks that the address of an existing service cannot be deleted. It also checks that
// the address is released when a write to /status removes the last finalizer and thereby the service.
func TestAddressOfService(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 100, "10.0.0.0/24")
	service := newService("s", nil)
	service.Finalizers = []string{"example.com/hold"}
	ip := a.service(service).Spec.ClusterIP
	_, _, err := a.resource("networking.k8s.io/v1 ipaddresses").Storage.(rest.GracefulDeleter).Delete(t.Context(), in("", ip), nil, metav1.DeleteOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("deletion of the address: %v", err)
	}
	if _, err := a.tryService(newService("other", func(spec *corev1.ServiceSpec) { spec.ClusterIP = ip })); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("spec.clusterIPs: Invalid value: [%q]: failed to allocate IP %s: provided IP is already allocated", ip, ip)) {
		t.Errorf("second allocation of the address: %v", err)
	}
	a.delete("v1 services", in("ns", "s"), metav1.DeleteOptions{})
	checkAllocations(t, env)
	mustUpdate(a, "v1 services/status", in("ns", "s"), func(s *corev1.Service) { s.Finalizers = nil })
	checkAllocations(t, env)
	if left := stored[*networkingv1.IPAddress](t, env, networkingv1.Resource("ipaddresses")); len(left) > 0 {
		t.Errorf("%s was not released", left[0].Name)
	}
}

// TestServicesModel creates, updates and deletes services concurrently while the ranges are nearly exhausted.
// Afterwards, it checks that the services match the allocations.
func TestServicesModel(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 20, "10.0.0.0/27", "fd00::/123")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 300 {
				a.randomServiceWrite(fmt.Sprint("s", rand.IntN(24)))
			}
		})
	}
	group.Wait()
	checkAllocations(t, env)
	for _, service := range stored[*corev1.Service](t, env, corev1.Resource("services")) {
		a.delete("v1 services", in("ns", service.Name), metav1.DeleteOptions{})
	}
	checkAllocations(t, env)
}

// randomServiceWrite performs a random write. It fails the test for any error except a conflict or an
// exhausted range.
func (a *api) randomServiceWrite(name string) {
	change := func(spec *corev1.ServiceSpec) {
		spec.Type = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName}[rand.IntN(4)]
		spec.ExternalName, spec.ExternalTrafficPolicy = "a.b", ""
		if spec.Type == corev1.ServiceTypeLoadBalancer && rand.IntN(2) == 0 {
			spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		if policy := []corev1.IPFamilyPolicy{corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack}[rand.IntN(2)]; spec.Type != corev1.ServiceTypeExternalName {
			spec.IPFamilyPolicy = &policy
		}
	}
	var err error
	switch rand.IntN(4) {
	case 0:
		_, _, err = a.resource("v1 services").Storage.(rest.GracefulDeleter).Delete(context.Background(), in("ns", name), nil, metav1.DeleteOptions{})
	case 1:
		_, err = update(a, "v1 services", in("ns", name), func(s *corev1.Service) { change(&s.Spec) })
	default:
		_, err = a.tryService(newService(name, change))
	}
	switch {
	case err == nil, apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
	case apierrors.IsInternalError(err) && strings.Contains(err.Error(), "range is full"):
	case strings.Contains(err.Error(), "update without an object"):
	default:
		a.t.Errorf("write the service %s: %v", name, err)
	}
}

// BenchmarkServiceCreate measures the creation and deletion of a service while 10,000 other services exist. It
// does so without an address, and with an address from ranges of different occupancy.
func BenchmarkServiceCreate(b *testing.B) {
	for _, bench := range []struct {
		name, ip string
		ranges   string
	}{
		{"headless", corev1.ClusterIPNone, "10.0.0.0/16"},
		{"sparse", "", "10.0.0.0/12"},
		{"three fifths taken", "", "10.0.0.0/18"},
		{"all but 238 taken", "", "10.0.0.0/19,10.1.0.0/21"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			ranges := strings.Split(bench.ranges, ",")
			a, _ := newServiceAPI(b, 2768, ranges...)
			for i := range 10_000 {
				a.service(newService(fmt.Sprint("s", i), nil))
			}
			b.ReportAllocs()
			for b.Loop() {
				a.service(newService("more", func(spec *corev1.ServiceSpec) { spec.ClusterIP = bench.ip }))
				a.delete("v1 services", in("ns", "more"), metav1.DeleteOptions{})
			}
		})
	}
}

// BenchmarkFreeAddress measures the search for a free address while 10,000 addresses are allocated.
func BenchmarkFreeAddress(b *testing.B) {
	for _, cidr := range []string{"10.0.0.0/12", "10.0.0.0/18"} {
		b.Run(cidr, func(b *testing.B) {
			a, env := newServiceAPI(b, 2768, cidr)
			for i := range 10_000 {
				a.service(newService(fmt.Sprint("s", i), nil))
			}
			locks := allocation.AddressLocks(env.Store(networkingv1.Resource("ipaddresses")).Storage)
			addresses := allocation.Addresses(netip.MustParsePrefix(cidr))
			b.ReportAllocs()
			for b.Loop() {
				batch := allocation.Batch{DryRun: true}
				if _, err := batch.ClaimAny(b.Context(), locks, addresses); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestServicePortBitmap checks that the server uses and updates a bitmap that kube-apiserver has created.
func TestServicePortBitmap(t *testing.T) {
	t.Parallel()
	a, env := newServiceAPI(t, 8, "10.0.0.0/24")
	ranges := env.Store(corev1.Resource("rangeallocations")).Storage
	bits := func() []byte {
		return stored[*corev1.RangeAllocation](t, env, corev1.Resource("rangeallocations"))[0].Data
	}
	// Ports 30000, 30002 and 30007, in the encoding of kube-apiserver.
	if _, err := ranges.Create(t.Context(), &corev1.RangeAllocation{
		ObjectMeta: metav1.ObjectMeta{Name: "servicenodeports"}, Range: "30000-30007", Data: []byte{0b1000_0101},
	}, storage.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	one := func(port int32) func(spec *corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) {
			spec.Type, spec.Ports = corev1.ServiceTypeNodePort, []corev1.ServicePort{{Port: 80, NodePort: port}}
		}
	}
	if _, err := a.tryService(newService("taken", one(30007))); err == nil || !strings.Contains(err.Error(), "provided port is already allocated") {
		t.Errorf("a port that kube-apiserver has allocated: %v", err)
	}
	a.service(newService("chosen", one(30001)))
	for i := range 4 {
		a.service(newService(fmt.Sprint("s", i), one(0)))
	}
	if got := bits(); !slices.Equal(got, []byte{0xff}) {
		t.Errorf("the bitmap is %b", got)
	}
	_, err := a.tryService(newService("more", one(0)))
	wantMessage(t, err, "Internal error occurred: failed to allocate a nodePort: range is full")
	a.delete("v1 services", in("ns", "chosen"), metav1.DeleteOptions{})
	if got := bits(); !slices.Equal(got, []byte{0b1111_1101}) {
		t.Errorf("the bitmap is %b", got)
	}
}
