package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// TestManagersOfDefaultObjects checks that the default objects have the same field managers as in
// kube-apiserver.
func TestManagersOfDefaultObjects(t *testing.T) {
	t.Parallel()
	s := start(t, withoutControllers(Config{}))
	const server, producer = "kube-apiserver Update ", "api-priority-and-fairness-config-producer-v1 Update "
	const aggregation = "clusterrole-aggregation-controller Apply " // manages admin, edit and view
	tests := []struct {
		path     string
		number   int
		managers []string
	}{
		{"/api/v1/namespaces", 4, []string{server}},
		{"/api/v1/services", 1, []string{server}},
		{"/api/v1/endpoints", 1, []string{server}},
		{"/apis/discovery.k8s.io/v1/endpointslices", 1, []string{server}},
		{"/apis/rbac.authorization.k8s.io/v1/clusterroles", 73, []string{server}},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", 54, []string{server}},
		{"/apis/rbac.authorization.k8s.io/v1/roles", 7, []string{server}},
		{"/apis/rbac.authorization.k8s.io/v1/rolebindings", 7, []string{server}},
		{"/apis/scheduling.k8s.io/v1/priorityclasses", 2, []string{server}},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", 11, []string{"api-priority-and-fairness-config-consumer-v1 Apply status", producer}},
		{"/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", 8, []string{producer}},
		{"/api/v1/configmaps", 2, []string{server}},
		{"/apis/networking.k8s.io/v1/servicecidrs", 1, []string{"kubernetes-service-cidr-controller Apply status", server}},
		{"/apis/networking.k8s.io/v1/ipaddresses", 1, []string{server}},
	}
	for _, tt := range tests {
		var list metav1.PartialObjectMetadataList
		s.read(t, tt.path, &list)
		if strings.Contains(tt.path, "endpoint") && !(Config{}).hasEndpoint(t) {
			tt.number = 0
		}
		if len(list.Items) != tt.number {
			t.Errorf("%s: %d objects, want %d", tt.path, len(list.Items), tt.number)
		}
		for i := range list.Items {
			var managers []string
			for _, entry := range list.Items[i].ManagedFields {
				managers = append(managers, fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource))
			}
			managers = slices.DeleteFunc(managers, func(m string) bool { return m == aggregation })
			if !slices.Equal(managers, tt.managers) {
				t.Errorf("%s %s is managed by %q, want %q", tt.path, list.Items[i].Name, managers, tt.managers)
			}
		}
	}
}

// hasEndpoint reports whether the server has an address that other machines can use.
func (c Config) hasEndpoint(t *testing.T) bool {
	t.Helper()
	config, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return config.Listen.endpoint(config.ControlPlane.Services.FirstIP()).IsValid()
}

func (r *running) read(t testing.TB, path string, into any) {
	t.Helper()
	code, body := fetch(t, r.admin, r.URL+path)
	if code != 200 {
		t.Fatalf("GET %s: %d %s", path, code, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatal(err)
	}
}

// TestKubernetesService checks that the service default/kubernetes has the first address of the service range,
// and the endpoint of the server.
func TestKubernetesService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, ranges, advertised, ip, family string
		none                                 bool
	}{
		{name: "IPv4", ranges: "10.96.0.0/12", advertised: "192.0.2.7", ip: "10.96.0.1", family: "IPv4"},
		{name: "two families", ranges: "10.96.0.0/12,fd00::/112", advertised: "192.0.2.7", ip: "10.96.0.1", family: "IPv4"},
		{name: "IPv6", ranges: "fd00::/112", advertised: "2001:db8::7", ip: "fd00::1", family: "IPv6"},
		{name: "endpoints of others", ranges: "10.96.0.0/12", advertised: "192.0.2.7", ip: "10.96.0.1", family: "IPv4", none: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config := Config{Listen: ListenConfig{AdvertiseAddress: netip.MustParseAddr(tt.advertised)}}
			for text := range strings.SplitSeq(tt.ranges, ",") {
				config.ControlPlane.Services.ClusterIPRange = append(config.ControlPlane.Services.ClusterIPRange, netip.MustParsePrefix(text))
			}
			if tt.none {
				config.ControlPlane.Services.EndpointReconciler = controlplane.EndpointsByOthers
			}
			s := start(t, config)
			port, err := strconv.Atoi(s.URL[strings.LastIndex(s.URL, ":")+1:])
			if err != nil {
				t.Fatal(err)
			}
			var service corev1.Service
			s.read(t, "/api/v1/namespaces/default/services/kubernetes", &service)
			if spec := service.Spec; spec.ClusterIP != tt.ip || !slices.Equal(spec.ClusterIPs, []string{tt.ip}) || string(spec.IPFamilies[0]) != tt.family ||
				len(spec.Ports) != 1 || spec.Ports[0].Port != 443 || spec.Ports[0].TargetPort.IntValue() != port {
				t.Errorf("the service is %+v", spec)
			}
			var address networkingv1.IPAddress
			s.read(t, "/apis/networking.k8s.io/v1/ipaddresses/"+tt.ip, &address)
			if address.Labels[networkingv1.LabelIPAddressFamily] != tt.family || address.Spec.ParentRef.Name != "kubernetes" {
				t.Errorf("the address is %+v", address)
			}
			var cidr networkingv1.ServiceCIDR
			s.read(t, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", &cidr)
			if strings.Join(cidr.Spec.CIDRs, ",") != tt.ranges || len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Status != metav1.ConditionTrue {
				t.Errorf("the service CIDR is %+v", cidr)
			}
			if tt.none {
				if code, _ := fetch(t, s.admin, s.URL+"/api/v1/namespaces/default/endpoints/kubernetes"); code != 404 {
					t.Errorf("endpoints: %d", code)
				}
				return
			}
			if got, want := s.endpoints(t), tt.advertised+" "+strconv.Itoa(port); got != want {
				t.Errorf("the endpoints are %q, want %q", got, want)
			}
			var slice discoveryv1.EndpointSlice
			s.read(t, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", &slice)
			if string(slice.AddressType) != tt.family || slice.Endpoints[0].Addresses[0] != tt.advertised || !*slice.Endpoints[0].Conditions.Ready || int(*slice.Ports[0].Port) != port {
				t.Errorf("the slice is %+v", slice)
			}
		})
	}
}

// endpoints returns the addresses and ports of the service default/kubernetes.
func (r *running) endpoints(t testing.TB) string {
	t.Helper()
	var endpoints corev1.Endpoints
	r.read(t, "/api/v1/namespaces/default/endpoints/kubernetes", &endpoints)
	var all []string
	for _, subset := range endpoints.Subsets {
		for _, address := range subset.Addresses {
			all = append(all, address.IP)
		}
		for _, port := range subset.Ports {
			all = append(all, strconv.Itoa(int(port.Port)))
		}
	}
	return strings.Join(all, " ")
}

// TestEndpointsOfTwoServers checks that two servers that share an etcd cluster publish both addresses, that a
// stopped server removes its own address, and that the last server does not remove its address.
func TestEndpointsOfTwoServers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Options{})
	at := func(address string) Config {
		config := etcdConfig(c)
		config.Listen.AdvertiseAddress = netip.MustParseAddr(address)
		return config
	}
	one := start(t, at("192.0.2.1"))
	log, second := &testserver.Buffer{}, at("192.0.2.2")
	second.Logger = slog.New(slog.NewTextHandler(log, nil))
	two := start(t, second)
	if got := one.endpoints(t); !strings.HasPrefix(got, "192.0.2.1 192.0.2.2 ") {
		t.Errorf("with two servers the endpoints are %q", got)
	}
	two.end(t)
	lease, _, err := one.host.store.backend.Get(t.Context(), one.host.store.rootPrefix()+"masterleases/192.0.2.2", 0)
	if slow := strings.Contains(log.String(), "other servers need some seconds"); err != nil || lease != nil && !slow {
		t.Errorf("the stopped server has the lease %v, %v", lease, err)
	}
	// The other server might have read the leases before the removal. It corrects the endpoints later.
	testserver.Eventually(t, time.Minute, func() error {
		if got := one.endpoints(t); !strings.HasPrefix(got, "192.0.2.1 ") || strings.Contains(got, "192.0.2.2") {
			return fmt.Errorf("after one server has stopped, the endpoints are %q", got)
		}
		return nil
	})
	one.end(t)
	// A server without an address for other machines publishes no endpoint.
	config := at("192.0.2.3")
	config.ControlPlane.Services.EndpointReconciler = controlplane.EndpointsByOthers
	if got := start(t, config).endpoints(t); !strings.HasPrefix(got, "192.0.2.1 ") {
		t.Errorf("after both servers have stopped, the endpoints are %q", got)
	}
}

// TestRestored checks that deleted or changed default objects are restored, either immediately or after a
// restart.
func TestRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Config{Storage: StorageConfig{DataDir: dir}})
	const (
		roles   = "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
		service = "/api/v1/namespaces/default/services/kubernetes"
	)
	for _, request := range []struct{ method, path, body string }{
		{"DELETE", service, ""},
		{"DELETE", roles + "view", ""},
		{"PUT", roles + "system:auth-delegator", `{"metadata":{"name":"system:auth-delegator"},"rules":[{"verbs":["get"],"apiGroups":["example.com"],"resources":["own"]}]}`},
		{"PUT", roles + "system:discovery", `{"metadata":{"name":"system:discovery","annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`},
	} {
		if code, body := s.do(t, request.method, request.path, request.body); code != 200 {
			t.Fatalf("%s %s: %d %s", request.method, request.path, code, body)
		}
	}
	testserver.Eventually(t, time.Minute, func() error {
		if code, _ := fetch(t, s.admin, s.URL+service); code != 200 {
			return fmt.Errorf("the service: %d", code)
		}
		return nil
	})
	s.end(t)
	s = start(t, Config{Storage: StorageConfig{DataDir: dir}})
	for _, path := range []string{roles + "view"} {
		if code, body := fetch(t, s.admin, s.URL+path); code != 200 {
			t.Errorf("GET %s: %d %s", path, code, body)
		}
	}
	_, body := fetch(t, s.admin, s.URL+roles+"system:auth-delegator")
	if !strings.Contains(body, "example.com") || !strings.Contains(body, "tokenreviews") || !strings.Contains(body, "subjectaccessreviews") {
		t.Errorf("the role that a client changed: %s", body)
	}
	if _, body := fetch(t, s.admin, s.URL+roles+"system:discovery"); strings.Contains(body, "healthz") {
		t.Errorf("the role that must not be restored: %s", body)
	}
}
