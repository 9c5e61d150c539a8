package webhooks

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// webhookServer is a webhook that records the paths of its requests.
type webhookServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

// responder writes the response to one review.
type responder func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview)

func serve(t testing.TB, answers map[string]responder) *webhookServer {
	t.Helper()
	s := &webhookServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("decode the review sent to %s: %v", r.URL.Path, err)
		}
		s.mu.Lock()
		s.asked = append(s.asked, r.URL.Path)
		s.mu.Unlock()
		answers[r.URL.Path](w, r, &review)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// paths returns the paths of the requests since the last call of paths.
func (s *webhookServer) paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

// respond returns a responder that sends a response with the correct UID and type.
func respond(response admissionv1.AdmissionResponse) responder {
	return func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
		response := response
		response.UID = review.Request.UID
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &response})
	}
}

func allow() responder { return respond(admissionv1.AdmissionResponse{Allowed: true}) }

func deny(message string) responder {
	return respond(admissionv1.AdmissionResponse{Result: &metav1.Status{Message: message}})
}

func patch(operations string) responder {
	patchType := admissionv1.PatchTypeJSONPatch
	return respond(admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(operations), PatchType: &patchType})
}

// raw returns a responder that sends the text as the body of the response.
func raw(text string) responder {
	return func(w http.ResponseWriter, _ *http.Request, _ *admissionv1.AdmissionReview) {
		_, _ = io.WriteString(w, text)
	}
}

// spec returns the spec of a webhook that is served at path and matches all requests for config maps.
func (s *webhookServer) spec(path string, changes ...func(*admissionregistrationv1.MutatingWebhook)) admissionregistrationv1.MutatingWebhook {
	url := s.URL + path
	fail, none, timeout := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(10)
	spec := admissionregistrationv1.MutatingWebhook{
		Name: path[1:] + ".example.com", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &timeout,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: &url, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		},
		AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"*"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
	for _, change := range changes {
		change(&spec)
	}
	return spec
}

func ignore(spec *admissionregistrationv1.MutatingWebhook) {
	policy := admissionregistrationv1.Ignore
	spec.FailurePolicy = &policy
}

func ifNeeded(spec *admissionregistrationv1.MutatingWebhook) {
	policy := admissionregistrationv1.IfNeededReinvocationPolicy
	spec.ReinvocationPolicy = &policy
}

func second(spec *admissionregistrationv1.MutatingWebhook) {
	one := int32(1)
	spec.TimeoutSeconds = &one
}

func betaOnly(spec *admissionregistrationv1.MutatingWebhook) {
	spec.AdmissionReviewVersions = []string{"v2", v1beta1, "v1"}
}

type noNamespaces struct{}

func (noNamespaces) Get(_ context.Context, name types.NamespacedName) (*corev1.Namespace, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("namespaces"), name.Name)
}

func config() Config {
	return Config{Clients: &webhook.Clients{}, Namespaces: noNamespaces{}, Logger: slog.New(slog.DiscardHandler)}
}

func mutating(specs ...admissionregistrationv1.MutatingWebhook) *Mutating {
	p := NewMutating(config())
	p.source.set("c", specs)
	p.source.rebuildIndexes()
	return p
}

func validating(specs ...admissionregistrationv1.MutatingWebhook) *Validating {
	p := NewValidating(config())
	p.source.set("c", specs)
	p.source.rebuildIndexes()
	return p
}

func configMaps() *rest.Resource {
	v := &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() codec.Object { return new(corev1.ConfigMap) }}
	return &rest.Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "configmaps", Namespaced: true, Kind: &codec.Kind{Hub: v}, Version: v}
}

func configMap(data string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Data: map[string]string{"k": data}}
}

func creation(r *rest.Resource) *admission.Attributes {
	return &admission.Attributes{
		Request: admission.Request{
			Operation: admission.Create, Resource: r, Namespace: "a", Name: "b", Options: &metav1.CreateOptions{},
			User: &request.User{Name: "joe", Groups: []string{"g"}, Extra: map[string][]string{"e": {"x"}}},
		},
		Object: configMap("v"),
	}
}

// requestContext returns the context of a request whose body is recorded in the audit event.
func requestContext(t testing.TB) context.Context {
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
	request.SetAudit(ctx, &request.Audit{RequestBody: true})
	return ctx
}

func sortedNotes(ctx context.Context) []string {
	var notes []string
	for key, value := range request.AnnotationsFrom(ctx) {
		notes = append(notes, fmt.Sprintf("%s %s", key, value))
	}
	slices.Sort(notes)
	return notes
}
