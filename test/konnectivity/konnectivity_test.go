package konnectivity

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"sigs.k8s.io/apiserver-network-proxy/konnectivity-client/proto/client"
	"sigs.k8s.io/apiserver-network-proxy/pkg/agent"
	"sigs.k8s.io/apiserver-network-proxy/pkg/server"
	"sigs.k8s.io/apiserver-network-proxy/pkg/server/proxystrategies"
	agentproto "sigs.k8s.io/apiserver-network-proxy/proto/agent"

	"mainstay.dev/mainstay/internal/egress/kubelet/kubelettest"
	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// start starts konnectivity's proxy server and an agent, and returns the path of the proxy server's Unix
// socket. serve accepts clients of the proxy server on this socket.
func start(t *testing.T, serve func(*server.ProxyServer, net.Listener)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "konnectivity") // t.TempDir can be too long for a Unix socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := server.NewProxyServer("server", []proxystrategies.ProxyStrategy{proxystrategies.ProxyStrategyDefault}, 1, &server.AgentTokenAuthenticationOptions{}, 10)
	serve(proxy, socket)

	agents, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	forAgents := grpc.NewServer()
	agentproto.RegisterAgentServiceServer(forAgents, proxy)
	go func() { _ = forAgents.Serve(agents) }()
	t.Cleanup(forAgents.Stop)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	config := agent.ClientSetConfig{
		Address: agents.Addr().String(), AgentID: "agent", SyncInterval: 100 * time.Millisecond, ProbeInterval: 100 * time.Millisecond,
		SyncIntervalCap: time.Second, XfrChannelSize: 10, DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	set := config.NewAgentClientSet(make(chan struct{}), stop)
	set.SetServerCounter(one{})
	set.Serve()
	testserver.Eventually(t, time.Minute, func() error {
		if set.HealthyClientsCount() == 0 {
			return fmt.Errorf("the agent is not connected")
		}
		return nil
	})
	return socket.Addr().String()
}

// one is an agent.ServerCounter for a single proxy server.
type one struct{}

// Count implements agent.ServerCounter.
func (one) Count() int { return 1 }

// TestThroughKonnectivity checks that logs and commands work through konnectivity in both of its modes.
func TestThroughKonnectivity(t *testing.T) {
	t.Parallel()
	for protocol, serve := range map[string]func(*server.ProxyServer, net.Listener){
		"GRPC": func(proxy *server.ProxyServer, socket net.Listener) {
			forClients := grpc.NewServer()
			client.RegisterProxyServiceServer(forClients, proxy)
			go func() { _ = forClients.Serve(socket) }()
			t.Cleanup(forClients.Stop)
		},
		"HTTPConnect": func(proxy *server.ProxyServer, socket net.Listener) {
			forClients := httptest.NewUnstartedServer(&server.Tunnel{Server: proxy})
			_ = forClients.Listener.Close()
			forClients.Listener = socket
			forClients.Start()
			t.Cleanup(forClients.Close)
		},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			egress := filepath.Join(t.TempDir(), "egress.yaml")
			text := "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n" +
				"- {name: cluster, connection: {proxyProtocol: " + protocol + ", transport: {uds: {udsName: " + start(t, serve) + "}}}}\n"
			if err := os.WriteFile(egress, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := testserver.New(t, testserver.Options{Flags: []string{"--egress-selector-config-file=" + egress, "--disable-admission-plugins=ServiceAccount"}})
			through(t, s)
		})
	}
}

func through(t *testing.T, s *testserver.Server) {
	config := s.RESTConfig()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := kubelettest.New(t)
	long := strings.Repeat("a line of a log\n", 1<<17) // 2 MiB
	kubelet.Log = func(*http.Request) io.Reader { return strings.NewReader(long) }
	createRunning(t, c, kubelet.Port())
	got, err := c.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || string(got) != long {
		t.Errorf("a log of %d bytes: %d, %v", len(long), len(got), err)
	}
	input := make([]byte, 1<<20)
	_, _ = rand.Read(input)
	for name, executor := range executors(t, s, c) {
		var out bytes.Buffer
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: bytes.NewReader(input), Stdout: &out})
		if err != nil || !bytes.Equal(out.Bytes(), input) {
			t.Errorf("%s: %d of %d bytes, %v", name, out.Len(), len(input), err)
		}
	}
	if len(kubelet.Requests()) != 3 {
		t.Error(kubelet.Requests())
	}
	kubelet.Close()
	if _, err := c.CoreV1().Pods("default").GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context()); err == nil {
		t.Error("no error for the log of a stopped kubelet")
	}
}

// executors returns an executor for each protocol. The executors run cat in the container.
func executors(t *testing.T, s *testserver.Server, c kubernetes.Interface) map[string]remotecommand.Executor {
	t.Helper()
	at := c.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("p").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "c", Command: []string{"cat"}, Stdin: true, Stdout: true}, scheme.ParameterCodec).URL()
	overSPDY, err := remotecommand.NewSPDYExecutor(s.RESTConfig(), http.MethodPost, at)
	if err != nil {
		t.Fatal(err)
	}
	overWebSockets, err := remotecommand.NewWebSocketExecutor(s.RESTConfig(), http.MethodGet, at.String())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]remotecommand.Executor{"SPDY": overSPDY, "WebSockets": overWebSockets}
}

// createRunning creates a running pod on a node whose kubelet listens on a port of this machine.
func createRunning(t *testing.T, c kubernetes.Interface, port int) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}
	if _, err := c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
