package server

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"mainstay.dev/mainstay/storage/kv"
	"mainstay.dev/mainstay/storage/kv/etcd"
	"mainstay.dev/mainstay/storage/kv/etcdtest"
)

// storedDefinition is a definition as kube-apiserver keeps it: in v1beta1, where
// what all versions share stands once.
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

// TestDefinitionsOfKubeAPIServer: definitions that kube-apiserver has stored are
// served, and what becomes of them it can read.
func TestDefinitionsOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	raw, err := etcd.Open(etcd.Config{Endpoints: cluster.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	const key = "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.old.example.com"
	for key, value := range map[string]string{key: storedDefinition, "/registry/old.example.com/widgets/default/a": storedWidget} {
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
		t.Errorf("its object: %d %s", code, body)
	}

	_, body := s.do(t, "GET", path+"/widgets.old.example.com", "")
	changed := strings.Replace(body, `"metadata":{`, `"metadata":{"annotations":{"changed":"yes"},`, 1)
	if code, body := s.do(t, "PUT", path+"/widgets.old.example.com", changed); code != 200 {
		t.Fatalf("PUT: %d %s", code, body)
	}
	entry, _, err := raw.Get(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	var stored apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(entry.Value, &stored); err != nil {
		t.Fatal(err)
	}
	schema := stored.Spec.Versions[0].Schema
	if stored.APIVersion != "apiextensions.k8s.io/v1" || stored.Annotations["changed"] != "yes" || stored.ResourceVersion != "" || schema == nil {
		t.Errorf("stored as %s", entry.Value)
	}
}
