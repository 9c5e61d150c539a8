package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/test/testserver"
)

// TestConversionWebhookBehindService checks that the server finds a webhook through its service, and verifies
// that the webhook's certificate is valid for the name of the service.
func TestConversionWebhookBehindService(t *testing.T) {
	t.Parallel()
	ip := ownAddress(t)
	srv := testserver.New(t, testserver.Options{Flags: []string{"--enable-aggregator-routing=true"}})
	c := newClients(t, srv.RESTConfig())
	e := newConverted(t, c)
	e.create(t, "a")
	certificate := certificateFor(t, "hook."+c.namespace+".svc")
	hook := &converter{}
	hook.Server = httptest.NewUnstartedServer(hook)
	hook.Config.ErrorLog = log.New(io.Discard, "", 0)
	hook.Listener.Close()
	var err error
	if hook.Listener, err = net.Listen("tcp", net.JoinHostPort(ip.String(), "0")); err != nil {
		t.Fatal(err)
	}
	hook.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	hook.StartTLS()
	t.Cleanup(hook.Close)

	e.redefine(t, func(spec map[string]any) {
		spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"conversionReviewVersions": []any{"v1"},
			"clientConfig": map[string]any{
				"service":  map[string]any{"namespace": c.namespace, "name": "hook", "path": "/convert"},
				"caBundle": base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})),
			},
		}}
	})
	if _, err := e.v2.Get(t.Context(), "a", metav1.GetOptions{}); apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
		t.Errorf("without the service: %v", err)
	}
	serve(t, c, "hook", ip.String(), int32(hook.Listener.Addr().(*net.TCPAddr).Port))
	got, err := e.v2.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || specOf(got) != "{host:host-a,port:1}" {
		t.Errorf("get with the webhook of a service: %v, %v", got, err)
	}
}

// serve creates a service whose only endpoint is the given address.
func serve(t *testing.T, c *clients, name, address string, port int32) {
	t.Helper()
	portName, protocol, ready := "https", corev1.ProtocolTCP, true
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: portName, Port: 443}}}}
	if _, err := c.kube.CoreV1().Services(c.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Port: &port, Protocol: &protocol}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	if _, err := c.kube.DiscoveryV1().EndpointSlices(c.namespace).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ownAddress returns an address of this machine that is valid as an endpoint.
func ownAddress(t *testing.T) net.IP {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP
		}
	}
	t.Skip("the machine has no global IPv4 address")
	return nil
}

func certificateFor(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// unreadableCertificates checks that a definition whose webhook has an invalid CA bundle is not established
// until the bundle is corrected.
func unreadableCertificates(t *testing.T, _ *clients, e *converted) {
	definition, err := e.definitions.Get(t.Context(), e.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.definitions.Delete(t.Context(), e.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, err := e.definitions.Get(t.Context(), e.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the definition is still there: %w", err)
		}
		return nil
	})
	fresh := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": definition.GetAPIVersion(), "kind": definition.GetKind(), "metadata": map[string]any{"name": e.name}, "spec": definition.Object["spec"],
	}}
	bundle := []string{"spec", "conversion", "webhook", "clientConfig", "caBundle"}
	if err := unstructured.SetNestedField(fresh.Object, base64.StdEncoding.EncodeToString([]byte("none")), bundle...); err != nil {
		t.Fatal(err)
	}
	if _, err := e.definitions.Create(t.Context(), fresh, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	established := func(want string) {
		t.Helper()
		eventually(t, func() error {
			got, err := e.definitions.Get(t.Context(), e.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			conditions, _, _ := unstructured.NestedSlice(got.Object, "status", "conditions")
			for _, condition := range conditions {
				c := condition.(map[string]any)
				if c["type"] == "Established" && fmt.Sprint(c["status"], " ", c["reason"]) == want {
					return nil
				}
			}
			return fmt.Errorf("conditions %v, want Established %s", conditions, want)
		})
	}
	established("False InvalidCABundle")
	if _, err := e.v1.List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("served: %v", err)
	}
	e.redefine(t, func(spec map[string]any) { spec["conversion"] = e.conversion(e.hook) })
	established("True InitialNamesAccepted")
	e.create(t, "a")
	if _, err := e.v2.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	definition, err = e.definitions.Get(t.Context(), e.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(definition.Object, base64.StdEncoding.EncodeToString([]byte("none")), bundle...)
	if _, err := e.definitions.Update(t.Context(), definition, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("certificates that are none: %v", err)
	}
}
