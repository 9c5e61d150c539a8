package webhooks

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec/jsonpatch"
)

// FuzzResponse checks that every body that a webhook can send results in either a usable response or an error
// that can be sent to the client.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"patch":"W10=","patchType":"JSONPatch"}}`,
		`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"allowed":true,"patch":"W10="}}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure"}`, `{"response":{"uid":"u","status":{"code":-1,"details":{"causes":[{}]}}}}`, "hello", "a: b", `[`, "",
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","patch":"W3sib3AiOiJyZXBsYWNlIiwicGF0aCI6IiIsInZhbHVlIjpbXX1d","patchType":"JSONPatch"}}`,
	} {
		f.Add([]byte(seed), true, true)
	}
	object := configMap("v")
	object.GetObjectKind().SetGroupVersionKind(configMaps().Version.GVK)
	f.Fuzz(func(t *testing.T, body []byte, mutating, v1 bool) {
		q := &reviewCall{indexedWebhook: indexedWebhook{configuredWebhook: &configuredWebhook{}}, uid: "u", resource: configMaps(), object: object}
		q.spec.Name = "hook"
		q.gvk = schema.GroupVersionKind{Group: admissionv1.GroupName, Version: v1beta1, Kind: "AdmissionReview"}
		if v1 {
			q.gvk.Version = "v1"
		}
		response, failed := q.readResponse(body, mutating)
		if failed != nil {
			if failed.Error() == "" || response != nil {
				t.Fatalf("%v with %v", failed, response)
			}
			return
		}
		if v1 && response.UID != "u" || !mutating && (len(response.Patch) > 0 || response.PatchType != nil) || len(response.Patch) > 0 && response.PatchType == nil {
			t.Fatalf("accepted %+v", response)
		}
		if code := newDenial(&configuredWebhook{}, false, response.Result).ErrStatus.Code; code < 400 {
			t.Fatalf("denial with the status code %d", code)
		}
		if patch, err := jsonpatch.Parse(response.Patch); err == nil {
			if patched, err := q.applyPatch(patch); err == nil && patched == nil {
				t.Fatal("applyPatch returned neither an object nor an error")
			}
		}
	})
}
