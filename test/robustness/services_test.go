package robustness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

const (
	serviceUsers  = 6
	serviceWrites = 60 // number for each user
	serviceNames  = 32
	serviceKills  = 4
	// serviceNumbers is the number of available ports. It is also the number of available addresses, not
	// including the address of default/kubernetes.
	serviceNumbers = 29
)

// TestServiceAllocations checks that no address or port is allocated twice or lost. Users create, update and
// delete services through several servers that share a store, in ranges that are nearly exhausted, while one of
// the servers is killed repeatedly.
func TestServiceAllocations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		servers int // number of servers over one etcd; 0 for a server with the embedded store
		kills   int
	}{
		{"killed", 0, serviceKills},
		{"etcd shared", 3, 0},
		{"etcd shared and killed", 3, serviceKills},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && (tt.servers == 0 || tt.kills == 0) {
				t.Skip("etcd shared and killed covers the rules with -short")
			}
			flags := []string{"--service-cluster-ip-range=10.0.0.0/27", fmt.Sprintf("--service-node-port-range=30000-%d", 30000+serviceNumbers-1)}
			if tt.servers > 0 {
				flags = append(flags, "--etcd-servers="+strings.Join(etcdtest.Start(t, etcdtest.Options{}).URLs(), ","))
			}
			victim, clients := startServers(t, max(tt.servers, 1), flags)
			writeWhileKilled(t, victim, clients, tt.kills, random(t), users{serviceUsers, serviceWrites}, func(ctx context.Context, client kubernetes.Interface, rng *rand.Rand) error {
				return writeService(ctx, client, fmt.Sprint("s", rng.IntN(serviceNames)), rng)
			})
			checkServices(t, clients[0])
			checkNothingLost(t, clients)
		})
	}
}

// startServers starts n servers with the same flags. It returns the first server, and a client for each server.
func startServers(t *testing.T, n int, flags []string) (*testserver.Server, []*kubernetes.Clientset) {
	t.Helper()
	var first *testserver.Server
	var clients []*kubernetes.Clientset
	for range n {
		server := testserver.New(t, testserver.Options{Flags: flags})
		if first == nil {
			first = server
		}
		config := server.RESTConfig()
		config.WarningHandler, config.QPS = rest.NoWarnings{}, -1
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	return first, clients
}

// users is the number of concurrent users, and the number of writes of each user.
type users struct{ count, writes int }

// writeWhileKilled lets users call write with clients of random servers while the server victim is killed
// repeatedly.
func writeWhileKilled(t *testing.T, victim *testserver.Server, clients []*kubernetes.Clientset, kills int, rng *rand.Rand,
	users users, write func(context.Context, kubernetes.Interface, *rand.Rand) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	killed := make(chan struct{})
	for range users.count {
		rng := branch(rng)
		group.Go(func() error {
			for n := 0; n < users.writes || !isClosed(killed); n++ {
				if err := write(ctx, clients[rng.IntN(len(clients))], rng); err != nil {
					return err
				}
			}
			return nil
		})
	}
	breaks := branch(rng)
	group.Go(func() error {
		defer close(killed)
		for range kills {
			select {
			case <-time.After(time.Duration(breaks.IntN(int(time.Second)))):
			case <-ctx.Done():
				return ctx.Err()
			}
			victim.Kill()
			if err := victim.Start(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// writeService sends one random write. It returns an error if the response is unexpected.
func writeService(ctx context.Context, client kubernetes.Interface, name string, rng *rand.Rand) error {
	services := client.CoreV1().Services(metav1.NamespaceDefault)
	kind := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeExternalName}[rng.IntN(3)]
	var err error
	switch rng.IntN(5) {
	case 0:
		err = services.Delete(ctx, name, metav1.DeleteOptions{})
	case 1, 2:
		var service *corev1.Service
		if service, err = services.Get(ctx, name, metav1.GetOptions{}); err == nil {
			service.Spec.Type, service.Spec.ExternalTrafficPolicy = kind, ""
			_, err = services.Update(ctx, service, metav1.UpdateOptions{})
		}
	default:
		_, err = services.Create(ctx, numbered(name, kind), metav1.CreateOptions{})
	}
	var status apierrors.APIStatus
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
	case rangeIsFull(err):
	case errors.As(err, &status) && !apierrors.IsServiceUnavailable(err):
		return fmt.Errorf("write %s: %w", name, err)
	default: // the server was killed
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}

func numbered(name string, kind corev1.ServiceType) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: kind, ExternalName: "a.example.com", Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

func rangeIsFull(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "range is full")
}

// checkServices compares the addresses of services with the IPAddress objects, and fails the test if two
// services have the same port.
func checkServices(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	services, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses, err := client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, address := range addresses.Items {
		owners[address.Name] = address.Spec.ParentRef.Name
	}
	ports := map[int32]string{}
	for _, service := range services.Items {
		for _, ip := range service.Spec.ClusterIPs {
			if owners[ip] != service.Name {
				t.Errorf("%s has %s, which is allocated to %q", service.Name, ip, owners[ip])
			}
			delete(owners, ip)
		}
		for _, port := range service.Spec.Ports {
			if other, taken := ports[port.NodePort]; taken && port.NodePort != 0 {
				t.Errorf("%s and %s have the port %d", service.Name, other, port.NodePort)
			}
			ports[port.NodePort] = service.Name
		}
	}
	for ip, owner := range owners {
		t.Errorf("%s is allocated to %s, which does not have it", ip, owner)
	}
	t.Logf("%d services, %d addresses, %d ports", len(services.Items), len(addresses.Items), len(ports))
}

// checkNothingLost deletes all services, and then creates as many services as there are addresses and ports.
func checkNothingLost(t *testing.T, clients []*kubernetes.Clientset) {
	t.Helper()
	list, err := clients[0].CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range list.Items {
		if service.Name == "kubernetes" {
			continue
		}
		if err := clients[0].CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), service.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range serviceNumbers {
		services := clients[i%len(clients)].CoreV1().Services(metav1.NamespaceDefault)
		if _, err := services.Create(t.Context(), numbered(fmt.Sprint("full", i), corev1.ServiceTypeNodePort), metav1.CreateOptions{}); err != nil {
			t.Fatalf("service %d of %d: %v", i, serviceNumbers, err)
		}
	}
	_, err = clients[0].CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), numbered("more", corev1.ServiceTypeNodePort), metav1.CreateOptions{})
	if !rangeIsFull(err) {
		t.Errorf("one more: %v", err)
	}
	checkServices(t, clients[0])
}
