package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// kubeadmFlags are those of the static pod that kubeadm 1.36 writes, for files of a data directory.
func kubeadmFlags(pki string, etcd *etcdtest.Cluster, advertise string, port int) []string {
	in := func(name string) string { return filepath.Join(pki, name) }
	return []string{
		"--advertise-address=" + advertise,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--client-ca-file=" + in("ca.crt"),
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth=true",
		"--etcd-cafile=" + etcd.Files.CA,
		"--etcd-certfile=" + etcd.Files.ClientCert,
		"--etcd-keyfile=" + etcd.Files.ClientKey,
		"--etcd-servers=" + strings.Join(etcd.URLs(), ","),
		"--kubelet-client-certificate=" + in("admin.crt"),
		"--kubelet-client-key=" + in("admin.key"),
		"--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
		"--proxy-client-cert-file=" + in("admin.crt"),
		"--proxy-client-key-file=" + in("admin.key"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-client-ca-file=" + in("ca.crt"),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		fmt.Sprintf("--secure-port=%d", port),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + in("sa.pub"),
		"--service-account-signing-key-file=" + in("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/12",
		"--tls-cert-file=" + in("apiserver.crt"),
		"--tls-private-key-file=" + in("apiserver.key"),
	}
}

// TestKubeadm: the command line of kubeadm's static pod starts a server that listens on the address
// that it advertises and accepts the objects that kubeadm's phases create.
func TestKubeadm(t *testing.T) {
	t.Parallel()
	address := ownAddress(t)
	first := testserver.New(t, testserver.Options{})
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", first.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	config.Host = fmt.Sprintf("https://%s", net.JoinHostPort(address, fmt.Sprint(port)))
	config.TLSClientConfig.ServerName = "localhost" // the certificate is of another server
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	flags := kubeadmFlags(filepath.Join(filepath.Dir(first.Kubeconfig()), "pki"), etcdtest.Start(t, etcdtest.Options{TLS: true}), address, port)
	var log lockedBuffer
	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		ended <- run(commandLine(append([]string{"/usr/local/bin/kube-apiserver"}, flags...)), &log, &log, signals)
	}()
	t.Cleanup(func() {
		signals <- syscall.SIGTERM
		if code := <-ended; code != exitOK {
			t.Errorf("exit code %d", code)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ready := false; !ready; {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if ready = err == nil; ready {
			break
		}
		select {
		case code := <-ended:
			ended <- code
			t.Fatalf("the server ended with %d", code)
		case <-ctx.Done():
			t.Fatalf("it is not ready: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	createKubeadmObjects(ctx, t, client)
}

// createKubeadmObjects creates objects of the phases bootstrap-token, upload-config and addon.
func createKubeadmObjects(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const system = "kube-system"
	created := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("create %s: %v", what, err)
		}
	}
	_, err := client.CoreV1().Secrets(system).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
			"usage-bootstrap-signing": []byte("true"), "auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
		},
	}, metav1.CreateOptions{})
	created("the bootstrap token", err)
	_, err = client.CoreV1().ConfigMaps(system).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"}, Data: map[string]string{"ClusterConfiguration": "kind: ClusterConfiguration\n"},
	}, metav1.CreateOptions{})
	created("the configuration", err)
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm:node-autoapprove-bootstrap"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}},
	}, metav1.CreateOptions{})
	created("the binding of bootstrap tokens", err)
	_, err = client.CoreV1().Services(system).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns", ResourceVersion: "0", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10", Selector: map[string]string{"k8s-app": "kube-dns"},
			Ports: []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromInt32(53)}},
		},
	}, metav1.CreateOptions{})
	created("the service of CoreDNS", err)
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}

// ownAddress returns an IPv4 address of this machine that is not a loopback address.
func ownAddress(t *testing.T) string {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but the loopback address")
	return ""
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
