package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"

	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/etcd"
	"mainstay.dev/mainstay/internal/storage/kv/etcdtest"
	"mainstay.dev/mainstay/test/testserver"
)

// storedDefinition is a definition as kube-apiserver stores it, in v1beta1 and with the fields that all
// versions have in common at the top level of the spec.
const storedDefinition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
"metadata":{"name":"widgets.old.example.com","uid":"6f6e1a2c-0000-4000-8000-000000000001","generation":1,"creationTimestamp":"2023-11-14T22:13:20Z"},
"spec":{"group":"old.example.com","version":"v1","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"scope":"Namespaced",
"validation":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"size":{"type":"integer","default":3}}}}}},
"subresources":{"status":{}},"versions":[{"name":"v1","served":true,"storage":true}],
"additionalPrinterColumns":[{"name":"Size","type":"integer","JSONPath":".spec.size"}],
"conversion":{"strategy":"None"},"preserveUnknownFields":false},
"status":{"conditions":[{"type":"NamesAccepted","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"NoConflicts","message":"no conflicts found"},
{"type":"Established","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"InitialNamesAccepted","message":"the initial names have been accepted"}],
"acceptedNames":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},"storedVersions":["v1"]}}
`

const storedWidget = `{"apiVersion":"old.example.com/v1","kind":"Widget","metadata":{"creationTimestamp":"2023-11-14T22:13:20Z","generation":1,"name":"a","namespace":"default","uid":"6f6e1a2c-0000-4000-8000-000000000002"},"spec":{}}
`

// looseDefinition is an old definition without pruning and with a non-structural schema.
const looseDefinition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
"metadata":{"name":"gadgets.old.example.com","uid":"6f6e1a2c-0000-4000-8000-000000000003","generation":1,"creationTimestamp":"2019-11-14T22:13:20Z"},
"spec":{"group":"old.example.com","version":"v1","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"scope":"Namespaced",
"validation":{"openAPIV3Schema":{"properties":{"spec":{"type":"object"}}}},"versions":[{"name":"v1","served":true,"storage":true}],
"conversion":{"strategy":"None"},"preserveUnknownFields":true},
"status":{"conditions":[{"type":"NamesAccepted","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"NoConflicts","message":"no conflicts found"},
{"type":"Established","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"InitialNamesAccepted","message":"the initial names have been accepted"}],
"acceptedNames":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},"storedVersions":["v1"]}}
`

// TestDefinitionsOfKubeAPIServer checks that the server serves definitions that kube-apiserver stored, and
// stores changed definitions in the same form.
func TestDefinitionsOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	raw, err := etcd.Open(etcd.Config{Endpoints: cluster.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.old.example.com"
	loose := strings.Replace(key, "widgets", "gadgets", 1)
	for key, value := range map[string]string{key: storedDefinition, loose: looseDefinition, "/registry/old.example.com/widgets/default/a": storedWidget} {
		if _, err := raw.Commit(t.Context(), kv.Op{Key: key, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, etcdConfig(cluster))
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	for _, at := range []string{path, path + "/widgets.old.example.com"} {
		if code, body := s.do(t, "GET", at, ""); code != 200 || strings.Contains(body, "v1beta1") || !strings.Contains(body, `"jsonPath":".spec.size"`) {
			t.Errorf("GET %s: %d %s", at, code, body)
		}
	}
	if code, body := s.do(t, "GET", "/apis/old.example.com/v1/namespaces/default/widgets/a", ""); code != 200 || !strings.Contains(body, `"size":3`) {
		t.Errorf("get an object of the definition: %d %s", code, body)
	}

	_, body := s.do(t, "GET", path+"/widgets.old.example.com", "")
	changed := strings.Replace(body, `"metadata":{`, `"metadata":{"annotations":{"changed":"yes"},`, 1)
	if code, body := s.do(t, "PUT", path+"/widgets.old.example.com", changed); code != 200 {
		t.Fatalf("PUT: %d %s", code, body)
	}
	stored := func(key string) (crd apiextensionsv1beta1.CustomResourceDefinition) {
		t.Helper()
		entry, _, err := raw.Get(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(entry.Value, &crd); err != nil {
			t.Fatal(err)
		}
		if crd.APIVersion != "apiextensions.k8s.io/v1beta1" || crd.ResourceVersion != "" || crd.Spec.Validation == nil {
			t.Errorf("stored as %s", entry.Value)
		}
		return crd
	}
	if crd := stored(key); crd.Annotations["changed"] != "yes" {
		t.Errorf("annotations %v", crd.Annotations)
	}
	created := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"news.old.example.com"},"spec":{"group":"old.example.com",
"names":{"plural":"news","kind":"News"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`
	if code, body := s.do(t, "POST", path, created); code != 201 {
		t.Fatalf("POST: %d %s", code, body)
	}
	conditionOf := func(name, kind string) (message string, found bool) {
		_, body := s.do(t, "GET", path+"/"+name, "")
		var crd apiextensionsv1.CustomResourceDefinition
		if err := json.Unmarshal([]byte(body), &crd); err != nil {
			t.Fatalf("decode the definition %s: %v: %s", name, err, body)
		}
		for _, c := range crd.Status.Conditions {
			if string(c.Type) == kind && c.Status == "True" {
				return c.Message, true
			}
		}
		return "", false
	}
	testserver.Eventually(t, time.Minute, func() error {
		if _, found := conditionOf("news.old.example.com", "Established"); !found {
			return errors.New("not established")
		}
		message, _ := conditionOf("gadgets.old.example.com", "NonStructuralSchema")
		const want = "[spec.preserveUnknownFields: Invalid value: true: must be false, spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root]"
		if message != want {
			return fmt.Errorf("NonStructuralSchema: %q", message)
		}
		return nil
	})
	stored(strings.Replace(key, "widgets", "news", 1))
	stored(loose)
	if _, found := conditionOf("widgets.old.example.com", "NonStructuralSchema"); found {
		t.Error("a structural schema has the condition NonStructuralSchema")
	}
	if code, body := s.do(t, "POST", "/apis/old.example.com/v1/namespaces/default/news", `{"apiVersion":"old.example.com/v1","kind":"News","metadata":{"name":"a"}}`); code != 201 {
		t.Errorf("create an object of the new definition: %d %s", code, body)
	}
}
