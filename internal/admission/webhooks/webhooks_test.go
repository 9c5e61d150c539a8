package webhooks

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

const failed = `Internal error occurred: failed calling webhook "hook.example.com": `

// TestInvalidResponses checks that invalid responses are rejected, with kube-apiserver's messages and limits.
// It also checks that an invalid response does not change the object if the failure policy is Ignore.
func TestInvalidResponses(t *testing.T) {
	t.Parallel()
	patchType := admissionv1.PatchTypeJSONPatch
	for name, test := range map[string]struct {
		answer     responder
		validating bool
		want       string // prefix of the message
	}{
		"another uid": {answer: raw(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"x","allowed":true}}`),
			want: failed + `received invalid webhook response: expected response.uid="`},
		"a very long uid": {answer: raw(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"` + strings.Repeat("x", 1<<20) + `"}}`),
			want: failed + `received invalid webhook response: expected response.uid="`},
		"no type": {answer: func(w http.ResponseWriter, _ *http.Request, review *admissionv1.AdmissionReview) {
			raw(`{"response":{"uid":"`+string(review.Request.UID)+`","allowed":true}}`)(w, nil, nil)
		}, want: failed + `received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=`},
		"another kind": {answer: raw(`{"apiVersion":"v1","kind":"Pod"}`), want: failed + `failed to call webhook: no kind "Pod" is registered for version "v1"`},
		"a Status":     {answer: raw(`{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no"}`), want: failed + "failed to call webhook: no"},
		"a wrong type": {answer: raw(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"allowed":"yes"}}`), want: failed + "failed to call webhook: json: cannot unmarshal string"},
		"10 MiB":       {answer: raw(strings.Repeat(" ", 10<<20)), want: failed + "failed to call webhook: the response exceeds the limit of 6291456 bytes"},
		"a redirect": {answer: func(w http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) {
			http.Redirect(w, r, "/hook", http.StatusTemporaryRedirect)
		}, want: failed + "failed to call webhook: the server responded with the status code 307"},
		"aborted response": {answer: func(http.ResponseWriter, *http.Request, *admissionv1.AdmissionReview) { panic(http.ErrAbortHandler) }, want: failed + "failed to call webhook: Post"},
		"no patch type":    {answer: respond(admissionv1.AdmissionResponse{Allowed: true, Patch: []byte("[]")}), want: failed + "received invalid webhook response: webhook returned response.patch but not response.patchType"},
		"no patch":         {answer: respond(admissionv1.AdmissionResponse{Allowed: true, PatchType: &patchType}), want: failed + "received invalid webhook response: webhook returned response.patchType but not response.patch"},
		"validating patch": {validating: true, answer: patch(`[]`), want: failed + "received invalid webhook response: validating webhook may not return response.patch"},
		"invalid patch":    {answer: patch("hello"), want: failed + "received undecodable patch in webhook response: invalid character 'h'"},
		"missing path":     {answer: patch(`[{"op":"replace","path":"/nope/x","value":1}]`), want: "Internal error occurred: replace operation does not apply: doc is missing path: /nope/x: missing value"},
		"huge result":      {answer: patch(bomb()), want: "Internal error occurred: its copy operations would add more than"},
		"no object":        {answer: patch(`[{"op":"replace","path":"","value":[]}]`), want: "Internal error occurred: "},
		"another object":   {answer: patch(`[{"op":"replace","path":"/kind","value":"Secret"}]`), want: "Internal error occurred: "},
		"wrong field type": {answer: patch(`[{"op":"replace","path":"/data","value":5}]`), want: "Internal error occurred: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]responder{"/hook": test.answer})
			a := creation(configMaps())
			var err error
			if test.validating {
				err = validating(s.spec("/hook")).Validate(t.Context(), a)
			} else {
				err = mutating(s.spec("/hook")).Mutate(t.Context(), a)
			}
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || len(err.Error()) > 2<<10 {
				t.Errorf("%.300v, want %q", err, test.want)
			}
			if !apierrors.IsInternalError(err) {
				t.Errorf("error %.300v; want an internal error", err)
			}
			if diff := cmp.Diff(configMap("v"), a.Object); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
			if !strings.HasPrefix(test.want, failed) || test.validating {
				return
			}
			if err := mutating(s.spec("/hook", ignore)).Mutate(t.Context(), a); err != nil {
				t.Errorf("failure policy Ignore: error %v", err)
			}
		})
	}
}

// bomb returns a patch that repeatedly doubles the size of the object.
func bomb() string {
	var b strings.Builder
	b.WriteString(`[{"op":"add","path":"/data/a","value":"` + strings.Repeat("x", 1<<20) + `"}`)
	for range 20 {
		b.WriteString(`,{"op":"copy","from":"/data","path":"/data/b"}`)
	}
	return b.String() + "]"
}

func TestRejections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		result *metav1.Status
		want   string
		code   int32
	}{
		"nothing said":  {nil, `admission webhook "hook.example.com" denied the request without explanation`, 400},
		"a reason":      {&metav1.Status{Reason: "NotHere"}, `admission webhook "hook.example.com" denied the request: NotHere`, 400},
		"with a code":   {&metav1.Status{Code: 409, Message: "later", Reason: "Conflict"}, `admission webhook "hook.example.com" denied the request: later`, 409},
		"with success":  {&metav1.Status{Code: 200, Status: "Success", Message: "odd"}, `admission webhook "hook.example.com" denied the request: odd`, 400},
		"a long speech": {&metav1.Status{Message: strings.Repeat("é", 1<<20)}, `admission webhook "hook.example.com" denied the request: é`, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]responder{"/hook": respond(admissionv1.AdmissionResponse{Result: test.result})})
			err := validating(s.spec("/hook", ignore)).Validate(t.Context(), creation(configMaps()))
			var status apierrors.APIStatus
			if !errors.As(err, &status) || !strings.HasPrefix(err.Error(), test.want) || len(err.Error()) > maxMessage+200 {
				t.Fatalf("%.200v", err)
			}
			if got := status.Status(); got.Code != test.code || got.Status != metav1.StatusFailure {
				t.Errorf("status %d %s, want %d %s", got.Code, got.Status, test.code, metav1.StatusFailure)
			}
			causes := status.Status().Details.Causes
			if last := causes[len(causes)-1]; last.Type != admission.CauseWebhook || !strings.HasPrefix(last.Message, `webhook "hook.example.com" of ValidatingWebhookConfiguration "`) {
				t.Errorf("the cause is %+v", last)
			}
		})
	}
}

// TestMutation checks that each webhook receives the modifications of the previous webhooks, and that webhooks
// with the reinvocation policy IfNeeded are called again if the object has changed since their call.
func TestMutation(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	s := serve(t, map[string]responder{
		"/one": patch(`[{"op":"add","path":"/data/one","value":"1"}]`),
		"/two": func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) {
			seen <- string(review.Request.Object.Raw)
			patch(`[{"op":"add","path":"/data/two","value":"2"}]`)(w, r, review)
		},
		"/three": allow(),
	})
	p := mutating(s.spec("/one", ifNeeded), s.spec("/two"), s.spec("/three", ifNeeded))
	ctx := requestContext(t)
	a := creation(configMaps())
	if err := (admission.Chain{p}).Mutate(ctx, a); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"k": "v", "one": "1", "two": "2"}, a.Object.(*corev1.ConfigMap).Data); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/one", "/two", "/three", "/one"}, s.paths()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if object := <-seen; !strings.Contains(object, `"one":"1"`) {
		t.Errorf("the second webhook received %s", object)
	}
	want := []string{
		`mutation.webhook.admission.k8s.io/round_0_index_0 {"configuration":"c","webhook":"one.example.com","mutated":true}`,
		`mutation.webhook.admission.k8s.io/round_0_index_1 {"configuration":"c","webhook":"two.example.com","mutated":true}`,
		`mutation.webhook.admission.k8s.io/round_0_index_2 {"configuration":"c","webhook":"three.example.com","mutated":false}`,
		`mutation.webhook.admission.k8s.io/round_1_index_0 {"configuration":"c","webhook":"one.example.com","mutated":false}`,
		`patch.webhook.admission.k8s.io/round_0_index_0 {"configuration":"c","webhook":"one.example.com","patch":[{"op":"add","path":"/data/one","value":"1"}],"patchType":"JSONPatch"}`,
		`patch.webhook.admission.k8s.io/round_0_index_1 {"configuration":"c","webhook":"two.example.com","patch":[{"op":"add","path":"/data/two","value":"2"}],"patchType":"JSONPatch"}`,
		`patch.webhook.admission.k8s.io/round_1_index_0 {"configuration":"c","webhook":"one.example.com","patch":[{"op":"add","path":"/data/one","value":"1"}],"patchType":"JSONPatch"}`,
	}
	if diff := cmp.Diff(want, sortedNotes(ctx)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if got := a.Mutators(); len(got) != 2 || got[0] != `webhook "one.example.com" of MutatingWebhookConfiguration "c"` {
		t.Errorf("recorded mutators %q", got)
	}
}

// TestReview checks the contents of reviews in v1 and v1beta1.
func TestReview(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1", v1beta1} {
		var got admissionv1.AdmissionReview
		s := serve(t, map[string]responder{"/hook": func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) {
			got = *review
			// v1beta1 responses need neither uid nor patchType.
			if version == v1beta1 {
				raw(`{"response":{"allowed":true,"patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEvayIsInZhbHVlIjoiMiJ9XQ=="}}`)(w, r, review)
				return
			}
			patch(`[{"op":"add","path":"/data/k","value":"2"}]`)(w, r, review)
		}})
		spec := s.spec("/hook")
		if version == v1beta1 {
			betaOnly(&spec)
		}
		a := creation(configMaps())
		a.Operation, a.Old, a.DryRun, a.Options = admission.Update, configMap("old"), true, &metav1.UpdateOptions{FieldManager: "m"}
		if err := mutating(spec).Mutate(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if a.Object.(*corev1.ConfigMap).Data["k"] != "2" {
			t.Errorf("%s: the object was not patched", version)
		}
		r := got.Request
		if got.APIVersion != "admission.k8s.io/"+version || r.UID == "" || string(r.Options.Raw) != `{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"m"}` {
			t.Errorf("%s: review of version %s with the options %s and the UID %q", version, got.APIVersion, r.Options.Raw, r.UID)
		}
		r.UID, r.Options.Raw = "", nil
		dry := true
		kind, resource := metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		want := &admissionv1.AdmissionRequest{Kind: kind, Resource: resource, RequestKind: &kind, RequestResource: &resource, Name: "b", Namespace: "a", Operation: "UPDATE", DryRun: &dry}
		want.UserInfo.Username, want.UserInfo.Groups = "joe", []string{"g"}
		want.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"e": {"x"}}
		want.Object.Raw = []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"a"},"data":{"k":"v"}}`)
		want.OldObject.Raw = []byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b","namespace":"a"},"data":{"k":"old"}}`)
		if diff := cmp.Diff(want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]responder{"/hook": allow()})
	some := func(spec *admissionregistrationv1.MutatingWebhook) {
		effects := admissionregistrationv1.SideEffectClassSome
		spec.SideEffects = &effects
	}
	a := creation(configMaps())
	a.DryRun = true
	err := validating(s.spec("/hook", some, ignore)).Validate(t.Context(), a)
	if !apierrors.IsBadRequest(err) || err.Error() != `admission webhook "hook.example.com" does not support dry run` {
		t.Error(err)
	}
	if paths := s.paths(); len(paths) > 0 {
		t.Errorf("requests %q", paths)
	}
}

// TestConcurrentCalls checks that validating webhooks are called concurrently, and that the first rejection is
// returned without waiting for the other webhooks.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	here := make(chan struct{})
	s := serve(t, map[string]responder{
		"/slow": func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) {
			close(here)
			<-r.Context().Done() // never responds
		},
		"/no": func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) {
			<-here // wait until the slow webhook is called
			deny("no")(w, r, review)
		},
		"/yes": allow(),
	})
	p := validating(s.spec("/slow"), s.spec("/yes"), s.spec("/no"))
	err := p.Validate(t.Context(), creation(configMaps()))
	if err == nil || err.Error() != `admission webhook "no.example.com" denied the request: no` {
		t.Errorf("concurrent calls: error %v, want the denial of no.example.com", err)
	}
	if p.source.stored["c"][0].breaker.failures != 0 {
		t.Error("a canceled call counts as a failure")
	}
}

// TestWarningsAndAnnotations checks that the client receives the warnings of webhooks and that the
// audit event contains their annotations.
func TestWarningsAndAnnotations(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]responder{"/hook": respond(admissionv1.AdmissionResponse{
		Allowed: true, Warnings: []string{"careful"}, AuditAnnotations: map[string]string{"k": "v", "not/good": "x"},
	})})
	ctx := requestContext(t)
	if err := validating(s.spec("/hook")).Validate(ctx, creation(configMaps())); err != nil {
		t.Fatal(err)
	}
	if got := request.WarningsFrom(ctx); !slices.Equal(got, []string{"careful"}) {
		t.Errorf("warnings %q", got)
	}
	if diff := cmp.Diff([]string{"hook.example.com/k v"}, sortedNotes(ctx)); diff != "" {
		t.Error(diff)
	}
}

// TestDeadline checks that the timeout of a webhook does not exceed the deadline of the request, and that no
// webhook is called after the deadline.
func TestDeadline(t *testing.T) {
	t.Parallel()
	timeout := make(chan string, 1)
	s := serve(t, map[string]responder{"/hook": func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) {
		timeout <- r.URL.Query().Get("timeout")
		allow()(w, r, review)
	}})
	p := validating(s.spec("/hook"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second-time.Millisecond)
	defer cancel()
	if err := p.Validate(ctx, creation(configMaps())); err != nil {
		t.Fatal(err)
	}
	if got := <-timeout; got != "3s" {
		t.Errorf("timeout %s", got)
	}
	cancel()
	if err := p.Validate(ctx, creation(configMaps())); !apierrors.IsTimeout(err) {
		t.Errorf("expired deadline: %v", err)
	}
	slow := serve(t, map[string]responder{"/hook": func(_ http.ResponseWriter, r *http.Request, _ *admissionv1.AdmissionReview) { <-r.Context().Done() }})
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := mutating(slow.spec("/hook", ignore)).Mutate(ctx, creation(configMaps())); !apierrors.IsTimeout(err) {
		t.Errorf("deadline exceeded during the call: %v", err)
	}
	if err := mutating(slow.spec("/hook", second)).Mutate(t.Context(), creation(configMaps())); err == nil || !strings.HasSuffix(err.Error(), "context deadline exceeded") {
		t.Errorf("timeout of the webhook exceeded: %v", err)
	}
}

// TestConfigurations checks that webhooks are ordered by the names of their configurations. It also checks that
// an update of a configuration takes effect, keeps unchanged webhooks, and removes deleted ones.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]responder{"/a": allow(), "/b": allow(), "/c": allow()})
	p := NewMutating(config())
	names := func() (all []string) {
		p.source.rebuildIndexes()
		for _, h := range p.source.index.Load().All() {
			all = append(all, h.id)
		}
		return all
	}
	p.source.set("y", []admissionregistrationv1.MutatingWebhook{s.spec("/c"), s.spec("/a"), s.spec("/a")})
	p.source.set("x", []admissionregistrationv1.MutatingWebhook{s.spec("/b")})
	if diff := cmp.Diff([]string{"x/b.example.com/0", "y/c.example.com/0", "y/a.example.com/0", "y/a.example.com/1"}, names()); diff != "" {
		t.Error(diff)
	}
	kept := p.source.stored["y"][1]
	p.source.set("y", []admissionregistrationv1.MutatingWebhook{s.spec("/a"), s.spec("/c", ignore)})
	if p.source.stored["y"][0] != kept {
		t.Error("an unchanged webhook was replaced")
	}
	p.source.remove("x")
	if diff := cmp.Diff([]string{"y/a.example.com/0", "y/c.example.com/0"}, names()); diff != "" {
		t.Error(diff)
	}
}

// copyOf returns a shallow copy of a resource.
func copyOf(r *rest.Resource) *rest.Resource {
	return &rest.Resource{GroupVersion: r.GroupVersion, Name: r.Name, Namespaced: r.Namespaced, Kind: r.Kind, Version: r.Version, Storage: r.Storage}
}

// TestExempt checks that stored webhooks do not receive requests for admission configuration and reviews.
func TestExempt(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]responder{"/hook": deny("no")})
	all := func(spec *admissionregistrationv1.MutatingWebhook) {
		spec.Rules[0].Rule = admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}}
	}
	r := configMaps()
	p := validating(s.spec("/hook", all))
	for kind, want := range map[string]bool{"ValidatingWebhookConfiguration": false, "MutatingAdmissionPolicyBinding": false, "Other": true} {
		own := copyOf(r)
		version := *r.Version
		version.GVK.Group, version.GVK.Kind, version.GVK.Version = "admissionregistration.k8s.io", kind, "v1"
		own.GroupVersion, own.Version, own.Kind = version.GVK.GroupVersion(), &version, nil
		if err := p.Validate(t.Context(), creation(own)); (err != nil) != want {
			t.Errorf("%s: error %v, want an error: %t", kind, err, want)
		}
	}
	// Webhooks from files apply to admission configuration and are called first.
	p.SetStatic([]codec.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "z.static.k8s.io"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "static", Rules: s.spec("/hook", all).Rules, ClientConfig: s.spec("/hook").ClientConfig, AdmissionReviewVersions: []string{"v1"},
	}}}})
	if first := p.source.index.Load().All(); len(first) != 2 || first[0].spec.Name != "static" {
		t.Errorf("webhooks in calling order: %+v", first)
	}
	own := copyOf(r)
	own.GroupVersion.Group, own.Kind = "admissionregistration.k8s.io", nil
	own.Version = &codec.Version{GVK: own.GroupVersion.WithKind("MutatingWebhookConfiguration")}
	if err := p.Validate(t.Context(), creation(own)); err == nil || !strings.Contains(err.Error(), `"static" denied`) {
		t.Errorf("webhook from a file: %v", err)
	}
	p.SetStatic(nil)
	if err := p.Validate(t.Context(), creation(own)); err != nil {
		t.Errorf("without the file: %v", err)
	}
	review := copyOf(r)
	review.GroupVersion.Group, review.Name = "authentication.k8s.io", "tokenreviews"
	if err := p.Validate(t.Context(), creation(review)); err != nil {
		t.Error(err)
	}
	p.config.InterceptReviews = true
	if err := p.Validate(t.Context(), creation(review)); err == nil {
		t.Error("the webhook was not called for the review")
	}
}

// TestConnection checks that webhooks receive the connect options and may change them.
func TestConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]responder{"/hook": func(w http.ResponseWriter, r *http.Request, review *admissionv1.AdmissionReview) {
		if got := review.Request; string(got.Object.Raw) != `{"kind":"PodExecOptions","apiVersion":"v1","container":"c","command":null}` || string(got.Options.Raw) != "null" && got.Options.Raw != nil || got.SubResource != "exec" {
			t.Errorf("review with the object %s, the options %s and the subresource %s", got.Object.Raw, got.Options.Raw, got.SubResource)
		}
		patch(`[{"op":"replace","path":"/container","value":"d"}]`)(w, r, review)
	}})
	spec := s.spec("/hook", func(spec *admissionregistrationv1.MutatingWebhook) { spec.Rules[0].Resources = []string{"pods/*"} })
	r := &rest.Resource{GroupVersion: corev1.SchemeGroupVersion, Name: "pods", Subresource: "exec", Version: &codec.Version{GVK: corev1.SchemeGroupVersion.WithKind("PodExecOptions")}}
	a := &admission.Attributes{Request: admission.Request{Operation: admission.Connect, Resource: r, Namespace: "a", Name: "b"}, Object: &corev1.PodExecOptions{Container: "c"}}
	if err := mutating(spec).Mutate(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := a.Object.(*corev1.PodExecOptions).Container; got != "d" {
		t.Errorf("container %q", got)
	}
}
