package operator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"mainstay.dev/mainstay/internal/host/pki"
)

// hooks is the webhook server of an operator. The API server reaches it through the service default/hooks.
type hooks struct {
	bundle []byte
	port   int32
	stop   context.CancelFunc
	done   chan error
	// asked counts the objects that the validating webhook has reviewed.
	asked atomic.Int64
}

// startHooks starts a webhook server of controller-runtime, whose certificate is for the DNS name of a service.
// It also creates the service, whose endpoint is on this machine.
func startHooks(t *testing.T, w *environment) *hooks {
	t.Helper()
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.Serving([]string{"hooks.default.svc"})
	if err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hooks{bundle: authority.Bundle(), port: int32(free.Addr().(*net.TCPAddr).Port), done: make(chan error, 1)}
	_ = free.Close()
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: int(h.port), TLSOpts: []func(*tls.Config){func(c *tls.Config) {
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }
	}}})
	server.Register("/mutate", &admission.Webhook{Handler: admission.HandlerFunc(mutate)})
	server.Register("/validate", &admission.Webhook{Handler: admission.HandlerFunc(h.validate)})
	ctx, cancel := context.WithCancel(t.Context())
	h.stop = cancel
	go func() { h.done <- server.Start(ctx) }()
	eventually(t, func() error { return server.StartedChecker()(nil) })
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hooks"}}
	service.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}
	if err := w.client.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *hooks) end(t *testing.T) {
	h.stop()
	if err := <-h.done; err != nil {
		t.Error(err)
	}
}

// mutate changes an object depending on its kind: it adds a container without default values to a Deployment,
// an unknown field and a label to a Site, and an invalid value to a ConfigMap.
func mutate(_ context.Context, r admission.Request) admission.Response {
	var object map[string]any
	if err := json.Unmarshal(r.Object.Raw, &object); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	spec, _ := object["spec"].(map[string]any)
	switch r.Kind.Kind {
	case "Deployment":
		pod := spec["template"].(map[string]any)["spec"].(map[string]any)
		pod["initContainers"] = []any{map[string]any{"name": "injected", "image": "i"}}
	case "Site":
		spec["unknown"] = "pruned"
		object["metadata"].(map[string]any)["labels"] = map[string]any{"seen": "yes"}
	case "ConfigMap":
		object["immutable"] = "no such thing"
		if strings.HasPrefix(r.Name, "renamed") {
			delete(object, "immutable")
			object["metadata"].(map[string]any)["labels"] = map[string]any{"not a label": ""}
		}
	}
	patched, err := json.Marshal(object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(r.Object.Raw, patched)
}

// validate denies writes of objects named "bad", and deletions of objects whose names start with "kept".
func (h *hooks) validate(_ context.Context, r admission.Request) admission.Response {
	h.asked.Add(1)
	var old metav1.PartialObjectMetadata
	_ = json.Unmarshal(r.OldObject.Raw, &old)
	switch {
	case r.Operation == "DELETE" && strings.HasPrefix(old.Name, "kept"):
		return admission.Denied("it is kept")
	case r.Name == "bad":
		return admission.Denied("it is bad").WithWarnings("think again")
	}
	return admission.Allowed("")
}

// configure registers the mutating or the validating webhook for the given resources.
func (h *hooks) configure(t *testing.T, w *environment, mutating bool, policy admissionregistrationv1.FailurePolicyType, resources ...string) {
	t.Helper()
	none, path := admissionregistrationv1.SideEffectClassNone, "/validate"
	if mutating {
		path = "/mutate"
	}
	hook := admissionregistrationv1.MutatingWebhook{
		Name: strings.TrimPrefix(path, "/") + ".example.com", FailurePolicy: &policy, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: h.bundle, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "hooks", Path: &path, Port: &h.port},
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources},
		}},
	}
	var config client.Object = &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook},
	}
	if !mutating {
		hook.Rules[0].Operations = []admissionregistrationv1.OperationType{"*"}
		config = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "hooks"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: hook.Name, FailurePolicy: hook.FailurePolicy, SideEffects: hook.SideEffects, AdmissionReviewVersions: hook.AdmissionReviewVersions,
			ClientConfig: hook.ClientConfig, Rules: hook.Rules,
		}}}
	}
	err := w.client.Create(t.Context(), config)
	if apierrors.IsAlreadyExists(err) {
		if err = w.client.Delete(t.Context(), config); err == nil {
			config.SetResourceVersion("")
			err = w.client.Create(t.Context(), config)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// TestMutatingWebhooks checks that the changes that a webhook makes are defaulted and pruned, and that errors
// that these changes cause name the webhook.
func TestMutatingWebhooks(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	h := startHooks(t, w)
	defer h.end(t)
	h.configure(t, w, true, admissionregistrationv1.Fail, "deployments", "sites", "configmaps")
	labels := map[string]string{"a": "b"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "d"}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := w.client.Create(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if added := deployment.Spec.Template.Spec.InitContainers; len(added) != 1 || added[0].TerminationMessagePolicy != corev1.TerminationMessageReadFile {
		t.Errorf("injected %+v", added)
	}
	site := newSite("s")
	if err := w.client.Create(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if site.GetLabels()["seen"] != "yes" {
		t.Errorf("a site with labels %v", site.GetLabels())
	}
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(groupVersion.WithKind("Site"))
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(site), stored); err != nil {
		t.Fatal(err)
	}
	if unknown, ok, _ := unstructured.NestedString(stored.Object, "spec", "unknown"); ok {
		t.Errorf("stored with %q", unknown)
	}
	err := w.client.Create(t.Context(), configMap("a"))
	named(t, err, http.StatusInternalServerError, "json: cannot unmarshal string")
	err = w.client.Create(t.Context(), configMap("renamed"))
	if !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "webhook") {
		t.Errorf("%v; want a 422 without the webhook's name, which is in a warning", err)
	}
}

// named fails the test unless err has the given code, contains text, and names the webhook.
func named(t *testing.T, err error, code int32, text string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("error %v, want an API status", err)
	}
	s := status.Status()
	causes, _ := json.Marshal(s.Details)
	if s.Code != code || !strings.Contains(s.Message, text) || !strings.Contains(string(causes), `webhook \"mutate.example.com\"`) {
		t.Errorf("%d %s with %s", s.Code, s.Message, causes)
	}
}

// TestValidatingWebhooks checks that a webhook can reject objects of all kinds and each object of a collection.
// It also checks that requests succeed if the webhook is unavailable and its failure policy is Ignore.
func TestValidatingWebhooks(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	h := startHooks(t, w)
	h.configure(t, w, false, admissionregistrationv1.Fail, "configmaps", "sites", "sites/status", "customresourcedefinitions")
	ctx := t.Context()
	if err := w.client.Create(ctx, configMap("bad")); !apierrors.IsForbidden(err) || err.Error() != `admission webhook "validate.example.com" denied the request: it is bad` {
		t.Error(err)
	}
	if err := w.client.Create(ctx, newSite("bad")); !apierrors.IsForbidden(err) {
		t.Error(err)
	}
	for _, name := range []string{"free", "kept"} {
		if err := w.client.Create(ctx, configMap(name)); err != nil {
			t.Fatal(err)
		}
	}
	before := h.asked.Load()
	err := w.client.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("default"))
	if err == nil || !strings.Contains(err.Error(), "it is kept") || h.asked.Load() == before {
		t.Errorf("%v after %d reviews", err, h.asked.Load()-before)
	}
	h.end(t)
	err = w.client.Create(ctx, configMap("late"))
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "validate.example.com": failed to call webhook: Post "https://hooks.default.svc:`) {
		t.Errorf("gone: %v", err)
	}
	h.configure(t, w, false, admissionregistrationv1.Ignore, "configmaps")
	if err := w.client.Create(ctx, configMap("late")); err != nil {
		t.Errorf("gone, and ignored: %v", err)
	}
}
