package collector

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/confignet"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// startReceiver starts the OTLP receiver of the collector. It returns the receiver's address and a sink for the
// received traces.
func startReceiver(t *testing.T) (address string, traces *consumertest.TracesSink) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	factory, traces := otlpreceiver.NewFactory(), new(consumertest.TracesSink)
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP = configoptional.None[otlpreceiver.HTTPConfig]()
	config.Protocols.GRPC = configoptional.Some(configgrpc.ServerConfig{NetAddr: confignet.AddrConfig{Endpoint: address, Transport: confignet.TransportTypeTCP}})
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), config, traces)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := receiver.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return address, traces
}

// TestSpans creates a ConfigMap on a server that uses etcd and calls a webhook. It checks that the collector
// receives the spans of the request with the correct parents.
func TestSpans(t *testing.T) {
	t.Parallel()
	address, traces := startReceiver(t)
	config := filepath.Join(t.TempDir(), "tracing.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000\nendpoint: " + address + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := etcdtest.Start(t, etcdtest.Options{}).URLs()
	server := testserver.New(t, testserver.Options{Flags: []string{"--tracing-config-file=" + config, "--etcd-servers=" + etcd[0]}})
	client, err := kubernetes.NewForConfig(server.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	registerWebhook(t, client)
	testserver.Eventually(t, time.Minute, func() error {
		_, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return checkSpans(traces.AllTraces())
	})
}

// checkSpans returns an error unless the span of a request has child spans for the webhook and for etcd.
func checkSpans(all []ptrace.Traces) error {
	spans := map[string]ptrace.Span{} // by ID
	for _, traces := range all {
		for _, resource := range traces.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				for _, span := range scope.Spans().All() {
					spans[span.SpanID().String()] = span
				}
			}
		}
	}
	paths := map[string]bool{}
	for _, span := range spans {
		path := span.Name()
		for parent, ok := spans[span.ParentSpanID().String()]; ok; parent, ok = spans[parent.ParentSpanID().String()] {
			path = parent.Name() + " > " + path
		}
		paths[path] = true
	}
	const request = "POST /api/v1/namespaces/{:namespace}/configmaps"
	for _, want := range []string{
		request + " > Validate with ValidatingAdmissionWebhook > Call webhook w.example.com",
		request + " > Create in storage > etcd commit",
		request + " > SerializeObject",
	} {
		if !paths[want] {
			return fmt.Errorf("%d spans, and none is %s", len(spans), want)
		}
	}
	return nil
}

// registerWebhook registers a validating webhook that allows all ConfigMaps.
func registerWebhook(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(hook.Close)
	none := admissionregistrationv1.SideEffectClassNone
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "w"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "w.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &hook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "default"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
