package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// kubeadmFlags returns the flags of the static pod that kubeadm 1.36 creates, with the key and certificate
// files in pki.
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

// TestKubeadm checks that a server starts with the command line of kubeadm's static pod, listens on the address
// that it advertises, and accepts the objects that kubeadm's phases create.
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
	config.TLSClientConfig.ServerName = "localhost" // the certificate was issued for another server
	config.QPS = -1                                 // no client-side limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}

	flags := kubeadmFlags(filepath.Join(filepath.Dir(first.Kubeconfig()), "pki"), etcdtest.Start(t, etcdtest.Options{TLS: true}), address, port)
	var log lockedBuffer
	signals, ended := make(chan os.Signal, 1), make(chan int, 1)
	go func() {
		ended <- run(commandLine(append([]string{"/usr/local/bin/kube-apiserver"}, flags...)), &log, &log, process{signals: signals})
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
	createKubeadmObjects(ctx, t, config)
	joinKubeadm(ctx, t, config)
}

// createKubeadmObjects creates the objects of testdata/kubeadm.yaml twice, because a second "kubeadm init"
// creates them again.
func createKubeadmObjects(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovered))
	for _, object := range kubeadmObjects(t) {
		mapping, err := mapper.RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
		if err != nil {
			t.Fatal(err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if object.GetNamespace() != "" {
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		if _, err := resource.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Errorf("create %s %s: %v", object.GetKind(), object.GetName(), err)
		}
		// The error for the Service reports that its address is already allocated, not that its name exists.
		if _, err := resource.Create(ctx, object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) && object.GetKind() != "Service" {
			t.Errorf("create %s %s again: %v", object.GetKind(), object.GetName(), err)
		}
		existing, err := resource.Get(ctx, object.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		object.SetResourceVersion(existing.GetResourceVersion())
		if _, err := resource.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			t.Errorf("update %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// kubeadmObjects returns the objects of testdata/kubeadm.yaml.
func kubeadmObjects(t *testing.T) (objects []*unstructured.Unstructured) {
	t.Helper()
	file, err := os.Open("testdata/kubeadm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		object := &unstructured.Unstructured{}
		switch err := decoder.Decode(&object.Object); {
		case errors.Is(err, io.EOF):
			return objects
		case err != nil:
			t.Fatal(err)
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
}

// joinKubeadm sends the requests of "kubeadm join" and of a kubelet's TLS bootstrap.
func joinKubeadm(ctx context.Context, t *testing.T, config *rest.Config) {
	t.Helper()
	anonymous := rest.AnonymousClientConfig(config)
	if _, err := kubernetes.NewForConfigOrDie(anonymous).CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{}); err != nil {
		t.Errorf("read cluster-info without credentials: %v", err)
	}
	anonymous.BearerToken = "abcdef.0123456789abcdef"
	client := kubernetes.NewForConfigOrDie(anonymous)
	for _, name := range []string{"kubeadm-config", "kubelet-config", "kube-proxy"} {
		if _, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("read %s with the bootstrap token: %v", name, err)
		}
	}
	if _, err := client.CoreV1().Nodes().Get(ctx, "joining", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("read the node that joins with the bootstrap token: %v", err)
	}
	if _, err := client.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list secrets with the bootstrap token: %v", err)
	}
	_, err := client.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csr-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: nodeCertificateRequest(t, "joining"), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Errorf("request a certificate with the bootstrap token: %v", err)
	}
	// The request is not approved, because the server runs no controllers under the name kube-apiserver.
}

// nodeCertificateRequest returns a PEM certificate request of a kubelet.
func nodeCertificateRequest(t *testing.T, node string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + node}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// lockedBuffer is a bytes.Buffer that is safe for concurrent use.
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

// ownAddress returns a non-loopback IPv4 address of this machine.
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
