package crds

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// versions tests definitions with several versions but no conversion webhook. Package test/e2e tests conversion
// webhooks.
var versions = []behavior{
	{"an object in several versions", versionsOne},
	{"versions that are not served", versionsUnserved},
	{"stored versions", versionsStored},
	{"mismatched versions of a request", versionsWrong},
	{"warnings of deprecated versions", versionsDeprecated},
	{"order of versions", versionsOrder},
	{"exactly one storage version", versionsExactlyOne},
	{"watches in each version", versionsWatch},
	{"webhook configuration", versionsWebhook},
	{"webhook certificates", versionsCertificates},
}

func versionsOne(t *testing.T, env *environment) {
	for _, scope := range []func(*apiextensionsv1.CustomResourceDefinition){clusterScoped, func(*apiextensionsv1.CustomResourceDefinition) {}} {
		crd := define(t, "one.version.example.com", "Note", anything, withVersion(t, "v2", anything), scope)
		notes := env.install(t, crd)
		made := create(t, notes, object(t, crd, "n", `{spec: {a: 1}}`))
		other := get(t, env.resource(crd, "v2"), "n")
		if other.GetAPIVersion() != "one.version.example.com/v2" || other.GetUID() != made.GetUID() || other.GetResourceVersion() != made.GetResourceVersion() {
			t.Errorf("object in v2 %v, want the UID and resourceVersion of %v", other.Object, made.Object)
		}
		patch(t, env.resource(crd, "v2"), "n", `{"spec":{"b":2}}`)
		wantMembers(t, get(t, notes, "n"), `{spec: {a: 1, b: 2}}`)
		create(t, env.resource(crd, "v2"), object(t, crd, "m", `{apiVersion: one.version.example.com/v2}`))
		list, err := notes.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 2 || list.Items[0].GetAPIVersion() != "one.version.example.com/v1" {
			t.Errorf("list in v1: %v, %v; want 2 objects in v1", list, err)
		}
		if err := env.definitions.Delete(t.Context(), crd.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitGone(t, env.definitions, crd.Name)
	}
}

func versionsUnserved(t *testing.T, env *environment) {
	crd := define(t, "unserved.version.example.com", "Note", anything, withVersion(t, "v2", anything), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Served = false
	})
	env.install(t, crd)
	create(t, env.resource(crd, "v2"), object(t, crd, "n", `{apiVersion: unserved.version.example.com/v2}`)) // stored in v1
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/n", nil); a.code != http.StatusNotFound {
		t.Errorf("get in an unserved version: %d %s, want 404", a.code, a.body)
	}
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[0].Served = true })
	get(t, env.resource(crd, "v1"), "n")
}

func versionsStored(t *testing.T, env *environment) {
	crd := define(t, "stored.version.example.com", "Note", anything, withVersion(t, "v2", anything))
	create(t, env.install(t, crd), object(t, crd, "n", `{}`))
	if got := env.definition(t, crd.Name).Status.StoredVersions; !slices.Equal(got, []string{"v1"}) {
		t.Errorf("stored %v", got)
	}
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
	})
	if got := env.definition(t, crd.Name).Status.StoredVersions; !slices.Equal(got, []string{"v1", "v2"}) {
		t.Errorf("stored %v", got)
	}
	drop := func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions = crd.Spec.Versions[1:] }
	if a := env.change(t, crd.Name, drop); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "status.storedVersions[0]") {
		t.Errorf("dropped: %d %s", a.code, a.body)
	}
	patch(t, env.resource(crd, "v2"), "n", `{"migrated":true}`)
	patch(t, env.definitions, crd.Name, `{"status":{"storedVersions":["v2"]}}`, "status")
	env.mustChange(t, crd.Name, drop)
	wantMembers(t, get(t, env.resource(crd, "v2"), "n"), `{migrated: true}`)
}

func versionsWrong(t *testing.T, env *environment) {
	crd := define(t, "wrong.version.example.com", "Note", anything, withVersion(t, "v2", anything))
	notes := env.install(t, crd)
	_, err := notes.Create(t.Context(), object(t, crd, "n", `{apiVersion: wrong.version.example.com/v2}`), metav1.CreateOptions{})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "does not match the expected API version") {
		t.Errorf("create an object of v2 at the path of v1: %v, want BadRequest", err)
	}
}

func versionsDeprecated(t *testing.T, env *environment) {
	crd := define(t, "old.version.example.com", "Note", anything, withVersion(t, "v1beta1", anything), withVersion(t, "v1alpha1", anything), func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[1].Deprecated = true
		crd.Spec.Versions[2].Deprecated, crd.Spec.Versions[2].DeprecationWarning = true, pointer("that is very old")
	})
	create(t, env.install(t, crd), object(t, crd, "n", `{}`))
	for version, want := range map[string][]string{
		"v1": nil, "v1beta1": {`299 - "old.version.example.com/v1beta1 Note is deprecated; use old.version.example.com/v1 Note"`}, "v1alpha1": {`299 - "that is very old"`},
	} {
		for _, path := range []string{"", "/n"} {
			if diff := cmp.Diff(want, env.send(t, http.MethodGet, pathOf(crd, version)+path, nil).warnings); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", version, path, diff)
			}
		}
	}
	env.mustChange(t, crd.Name, func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Versions[1].Deprecated = false })
	if got := env.send(t, http.MethodGet, pathOf(crd, "v1beta1"), nil).warnings; len(got) != 0 {
		t.Errorf("still warns: %q", got)
	}
	bad := define(t, "older.version.example.com", "Note", anything, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].DeprecationWarning = pointer("not deprecated")
	})
	if a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, bad)); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "deprecationWarning") {
		t.Errorf("create a definition with a warning for a version that is not deprecated: %d %s, want 422", a.code, a.body)
	}
}

func versionsOrder(t *testing.T, env *environment) {
	crd := define(t, "order.version.example.com", "Note", anything)
	for _, name := range []string{"v10alpha2", "v2", "foo10", "v3beta1", "v11alpha2", "foo1", "v10", "v12alpha1", "v10beta3", "v11beta2"} {
		withVersion(t, name, anything)(crd)
	}
	env.install(t, crd)
	var got []string
	for _, version := range env.send(t, http.MethodGet, "/apis/order.version.example.com", nil).value(t)["versions"].([]any) {
		got = append(got, version.(map[string]any)["version"].(string))
	}
	if diff := cmp.Diff([]string{"v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "v10alpha2", "foo1", "foo10"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func versionsExactlyOne(t *testing.T, env *environment) {
	for _, both := range []bool{true, false} {
		crd := define(t, "exact.version.example.com", "Note", anything, withVersion(t, "v2", anything), func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = both, both
		})
		if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); !strings.Contains(string(a.body), "must have exactly one version marked as storage version") {
			t.Errorf("create a definition with storage: %t in both versions: %d %s, want an error", both, a.code, a.body)
		}
	}
}

func versionsWatch(t *testing.T, env *environment) {
	crd := define(t, "watch.version.example.com", "Note", anything, withVersion(t, "v2", anything))
	notes := env.install(t, crd)
	for _, version := range []string{"v1", "v2"} {
		events, err := env.resource(crd, version).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer events.Stop()
		made := create(t, notes, object(t, crd, "for-"+version, `{}`))
		for event := range events.ResultChan() {
			obj := asAny(t, encode(t, event.Object)).(map[string]any)
			if obj["apiVersion"] != "watch.version.example.com/"+version {
				t.Errorf("watched in %s: %v", version, obj)
			}
			if obj["metadata"].(map[string]any)["uid"] == string(made.GetUID()) {
				break
			}
		}
	}
}

func versionsWebhook(t *testing.T, env *environment) {
	ask := func(edit func(*apiextensionsv1.WebhookConversion)) response {
		crd := define(t, "hook.version.example.com", "Note", anything, func(crd *apiextensionsv1.CustomResourceDefinition) {
			hook := &apiextensionsv1.WebhookConversion{
				ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: pointer("https://example.com/convert")},
				ConversionReviewVersions: []string{"v1"},
			}
			edit(hook)
			crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: hook}
		})
		return env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd))
	}
	if a := ask(func(*apiextensionsv1.WebhookConversion) {}); a.code != http.StatusCreated {
		t.Errorf("create a definition with a valid webhook: %d %s", a.code, a.body)
	}
	for want, edit := range map[string]func(*apiextensionsv1.WebhookConversion){
		"spec.conversion.conversionReviewVersions":  func(h *apiextensionsv1.WebhookConversion) { h.ConversionReviewVersions = nil },
		"spec.conversion.webhookClientConfig.url":   func(h *apiextensionsv1.WebhookConversion) { h.ClientConfig.URL = pointer("http://example.com") },
		"spec.conversion.webhookClientConfig":       func(h *apiextensionsv1.WebhookConversion) { h.ClientConfig = nil },
		"exactly one of url or service is required": func(h *apiextensionsv1.WebhookConversion) { h.ClientConfig.URL = nil },
		"must include at least one of v1, v1beta1":  func(h *apiextensionsv1.WebhookConversion) { h.ConversionReviewVersions = []string{"v9"} },
	} {
		if a := ask(edit); a.code != http.StatusUnprocessableEntity || !strings.Contains(strings.Join(causesOf(a.status()), "\n"), want) {
			t.Errorf("create a definition with an invalid webhook: %d %s, want 422 with cause %q", a.code, a.body, want)
		}
	}
}

// versionsCertificates checks that a definition with an invalid CA bundle is not established, and that an
// update that sets an invalid CA bundle in an established definition is rejected.
func versionsCertificates(t *testing.T, env *environment) {
	hook := httptest.NewTLSServer(http.NotFoundHandler())
	defer hook.Close()
	good := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	crd := define(t, "cert.version.example.com", "Note", anything, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &hook.URL, CABundle: []byte("no certificate")},
			ConversionReviewVersions: []string{"v1"},
		}}
	})
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+crd.Name, nil) })
	if a := env.send(t, http.MethodPost, definitionsPath, encode(t, crd)); a.code != http.StatusCreated {
		t.Fatalf("create the definition: %d %s", a.code, a.body)
	}
	got := env.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionFalse)
	if !slices.ContainsFunc(got.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Reason == "InvalidCABundle"
	}) {
		t.Errorf("conditions %+v, want Established with reason InvalidCABundle", got.Status.Conditions)
	}
	bundle := func(text []byte) func(*apiextensionsv1.CustomResourceDefinition) {
		return func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Conversion.Webhook.ClientConfig.CABundle = text
		}
	}
	env.mustChange(t, crd.Name, bundle(good))
	env.await(t, crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	if a := env.change(t, crd.Name, bundle([]byte("none again"))); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), "spec.conversion.webhookClientConfig.caBundle") {
		t.Errorf("change to an invalid CA bundle: %d %s, want 422", a.code, a.body)
	}
}
