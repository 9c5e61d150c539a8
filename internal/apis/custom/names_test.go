package custom

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAssign checks which names are assigned to a definition if other definitions have names in the same
// group.
func TestAssign(t *testing.T) {
	t.Parallel()
	others := newSnapshot()
	for _, e := range []*entry{
		{name: "things.example.com", accepted: names{plural: "things", singular: "thing", kind: "Thing", listKind: "ThingList", shortNames: []string{"th"}}},
		{name: "none.example.com", requested: names{plural: "none", kind: "None"}}, // no names accepted yet
		{name: "stuffs.example.com", accepted: names{plural: "stuffs", kind: "Stuff"}},
		{name: "stuffs.example.org", group: "example.org", accepted: names{plural: "stuffs", kind: "Stuff"}},
	} {
		e.requested.plural, _, _ = strings.Cut(e.name, ".")
		if e.group == "" {
			e.group = "example.com"
		}
		others = others.with(e.group, e.requested.plural, e)
	}
	wanted := names{plural: "stuffs", singular: "stuff", kind: "Stuff", listKind: "StuffList", categories: []string{"all"}}
	for _, test := range []struct {
		name   string
		change func(*names)
		had    names
		want   func(*names)
		reason string
	}{
		{name: "all are free"},
		{name: "requested by a definition without accepted names", change: func(n *names) { n.kind = "None" }, want: func(n *names) { n.kind = "None" }},
		{name: "kind conflict", change: func(n *names) { n.kind = "Thing" }, want: func(n *names) { n.kind = "" }, reason: "KindConflict"},
		{name: "kind conflict, keeps the previous kind", change: func(n *names) { n.kind = "Thing" }, had: names{kind: "Stuff"}, reason: "KindConflict"},
		{name: "a short name that is a plural", change: func(n *names) { n.shortNames = []string{"st", "things"} }, reason: "ShortNamesConflict"},
		{name: "a singular that is a short name", change: func(n *names) { n.singular = "th" }, want: func(n *names) { n.singular = "" }, reason: "SingularConflict"},
		{name: "several conflicts, the last is reported", change: func(n *names) { n.singular, n.listKind = "thing", "ThingList" },
			want: func(n *names) { n.singular, n.listKind = "", "" }, reason: "ListKindConflict"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			asked, want := wanted, wanted
			if test.change != nil {
				test.change(&asked)
			}
			if test.want != nil {
				test.want(&want)
			}
			assigned, conflict := others.namesOfOthers("example.com", "stuffs.example.com").assign(asked, test.had)
			if diff := cmp.Diff(want, assigned, cmp.AllowUnexported(names{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if reason := reasonOf(conflict); reason != test.reason {
				t.Errorf("reason %q, want %q", reason, test.reason)
			}
		})
	}
}

func reasonOf(conflict *nameConflict) string {
	if conflict == nil {
		return ""
	}
	return conflict.reason
}

func TestEntry(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.Spec.Group, crd.Spec.Names.Kind = "example.com", "Ver"
	notice := "an experiment"
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
		{Name: "v1beta1", Served: true, Deprecated: true}, {Name: "v2alpha1", Served: true, Deprecated: true, DeprecationWarning: &notice},
		{Name: "v1", Served: true, Storage: true}, {Name: "v10"},
	}
	e := newEntry(crd, 1)
	var order []string
	for _, v := range e.versions {
		order = append(order, v.name)
	}
	if diff := cmp.Diff([]string{"v10", "v1", "v1beta1", "v2alpha1"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if e.version("v10") != nil || e.storageVersion().name != "v1" {
		t.Error("v10 is served, or v1 is not the storage version")
	}
	for name, want := range map[string]string{
		"v1beta1": "example.com/v1beta1 Ver is deprecated; use example.com/v1 Ver", "v2alpha1": notice,
	} {
		if got := e.deprecation(e.version(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	column := func(kind, path string) apiextensionsv1.CustomResourceColumnDefinition {
		return apiextensionsv1.CustomResourceColumnDefinition{Name: path, Type: kind, JSONPath: path}
	}
	wanted := []apiextensionsv1.CustomResourceColumnDefinition{
		column("integer", ".spec.size"), column("string", ".spec.nested"), column("string", ".spec.tags[*]"), column("number", ".spec.size"),
		column("boolean", ".spec.live"), column("date", ".spec.size"), column("string", ".spec.missing"),
		column("string", `.status.conditions[?(@.type=="Ready")].status`),
	}
	obj := newObject()
	obj.SetName("a")
	content(obj)["spec"] = map[string]any{"size": int64(5), "nested": map[string]any{"x": int64(7)}, "tags": []any{"t1", "t2"}, "live": true}
	content(obj)["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	want := []any{"a", int64(5), `{"x":7}`, "t1", 5.0, true, nil, nil, "True"}
	if diff := cmp.Diff(want, newTable(wanted).cells(obj, obj.GetCreationTimestamp().Time)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wanted[0].JSONPath = ".x["
	if got := newTable(wanted).definitions; len(got) != 2 || got[1].Name != "Age" {
		t.Errorf("columns with an invalid path: %v", got)
	}
}

// TestIsSynced checks that a definition with an outdated status is not in sync, regardless of the
// order of events.
func TestIsSynced(t *testing.T) {
	t.Parallel()
	synced := func(edit func(*apiextensionsv1.CustomResourceDefinition)) bool {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Spec.Group = "things.k8s.io"
		crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"}
		crd.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved"}
		crd.Status.AcceptedNames = crd.Spec.Names
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{
			{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
			{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
		}
		setApprovalCondition(crd, time.Now())
		edit(crd)
		return newEntry(crd, 1).isSynced()
	}
	if !synced(func(*apiextensionsv1.CustomResourceDefinition) {}) {
		t.Error("a definition with up-to-date status is not synced")
	}
	for name, edit := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"other names": func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ShortNames = []string{"th"} },
		"an approval": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] = "https://example.com/1"
		},
		"a conflict": func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Status.Conditions[0].Status = apiextensionsv1.ConditionFalse
		},
		"a deletion timestamp": func(crd *apiextensionsv1.CustomResourceDefinition) {
			now := metav1.Now()
			crd.DeletionTimestamp = &now
		},
	} {
		if synced(edit) {
			t.Errorf("a definition with %s is synced", name)
		}
	}
}

// TestRecordStatus checks the field managers after a status write by the server.
func TestRecordStatus(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	crd.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "maker", Operation: "Update", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{"f:group":{}}}`)}},
		{Manager: "emptier", Operation: "Update", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:acceptedNames":{"f:kind":{},"f:plural":{}}}}`)}},
		{Manager: "keeper", Operation: "Apply", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:acceptedNames":{"f:kind":{}},"f:storedVersions":{}}}`)}},
		{Manager: statusManager, Operation: "Update", Subresource: "status", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:status":{"f:acceptedNames":{"f:singular":{},"f:listKind":{}}}}`)}},
	}
	was := apiextensionsv1.CustomResourceDefinitionStatus{
		AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Singular: "a"},
		Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "Others", Status: "True"}, {Type: "Same", Status: "True", Reason: "Old"}},
	}
	crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{
		AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Singular: "a", Kind: "A", Plural: "as"},
		Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: "Others", Status: "True"}, {Type: "Same", Status: "True", Reason: "New"}},
	}
	recordStatus(crd, &was, time.Now())
	got := map[string]string{}
	for _, entry := range crd.ManagedFields {
		got[entry.Manager] = string(entry.FieldsV1.Raw)
	}
	want := map[string]string{
		"maker":       `{"f:spec":{"f:group":{}}}`,
		"keeper":      `{"f:status":{"f:storedVersions":{}}}`,
		statusManager: `{"f:status":{"f:acceptedNames":{"f:kind":{},"f:plural":{},"f:singular":{}},"f:conditions":{"k:{\"type\":\"Same\"}":{"f:reason":{}}}}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
