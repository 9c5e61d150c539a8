package crds

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// subresources tests the status and scale subresources.
var subresources = []behavior{
	{"status and spec are written separately", statusApart},
	{"generation counts changes outside of status", statusGeneration},
	{"without subresources", statusNone},
	{"subresources of one version", statusOfVersion},
	{"scale", scaleServed},
	{"scale of an object without replicas", scaleMissing},
	{"scale with server-side apply", scaleApplied},
	{"scale is validated by the schema", scaleValid},
	{"validation of scale paths", scalePaths},
}

func statusApart(t *testing.T, env *environment) {
	crd := define(t, "apart.sub.example.com", "Note", anything, withStatus)
	notes := env.install(t, crd)
	made := create(t, notes, object(t, crd, "n", `{spec: {a: 1}, status: {a: 1}}`))
	wantMembers(t, made, `{spec: {a: 1}}`)
	made.Object["spec"], made.Object["status"] = map[string]any{"a": int64(2)}, map[string]any{"a": int64(2)}
	made.SetLabels(map[string]string{"a": "b"})
	updated, err := notes.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, updated, `{spec: {a: 1}, status: {a: 2}}`)
	if len(updated.GetLabels()) != 0 {
		t.Errorf("a status update has set the labels %v", updated.GetLabels())
	}
	updated.Object["spec"], updated.Object["status"] = map[string]any{"a": int64(3)}, map[string]any{"a": int64(3)}
	updated, err = notes.Update(t.Context(), updated, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wantMembers(t, updated, `{spec: {a: 3}, status: {a: 2}}`)
	wantMembers(t, patch(t, notes, "n", `{"spec":{"a":4},"status":{"a":4}}`), `{spec: {a: 4}, status: {a: 2}}`)
	wantMembers(t, patch(t, notes, "n", `{"spec":{"a":5},"status":{"a":5}}`, "status"), `{spec: {a: 4}, status: {a: 5}}`)
}

func statusGeneration(t *testing.T, env *environment) {
	crd := define(t, "generation.sub.example.com", "Note", anything, withStatus)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "n", `{spec: {a: 1}}`))
	for _, step := range []struct {
		body, subresource string
		want              int64
	}{
		{`{"metadata":{"labels":{"a":"b"}}}`, "", 1},
		{`{"status":{"a":1}}`, "status", 1},
		{`{"spec":{"a":2}}`, "", 2},
		{`{"other":1}`, "", 3},
		{`{"status":{"a":7}}`, "", 3},
		{`{"metadata":{"generation":99}}`, "", 3},
	} {
		var to []string
		if step.subresource != "" {
			to = []string{step.subresource}
		}
		if got := patch(t, notes, "n", step.body, to...).GetGeneration(); got != step.want {
			t.Errorf("%s: generation %d, want %d", step.body, got, step.want)
		}
	}
}

func statusNone(t *testing.T, env *environment) {
	crd := define(t, "none.sub.example.com", "Note", anything)
	notes := env.install(t, crd)
	wantMembers(t, create(t, notes, object(t, crd, "n", `{spec: {}, status: {a: 1}}`)), `{spec: {}, status: {a: 1}}`)
	if got := patch(t, notes, "n", `{"status":{"a":2}}`).GetGeneration(); got != 2 {
		t.Errorf("generation %d", got)
	}
	for _, subresource := range []string{"status", "scale", "other"} {
		if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/n/"+subresource, nil); a.code != http.StatusNotFound {
			t.Errorf("get subresource %s: %d %s, want 404", subresource, a.code, a.body)
		}
	}
}

func statusOfVersion(t *testing.T, env *environment) {
	crd := define(t, "version.sub.example.com", "Note", anything, withStatus, withVersion(t, "v2", anything))
	create(t, env.install(t, crd), object(t, crd, "n", `{}`))
	for version, want := range map[string]int{"v1": http.StatusOK, "v2": http.StatusNotFound} {
		if a := env.send(t, http.MethodGet, pathOf(crd, version)+"/n/status", nil); a.code != want {
			t.Errorf("get the status in %s: %d, want %d", version, a.code, want)
		}
	}
}

const scalable = `
type: object
properties:
  spec: {type: object, properties: {replicas: {type: integer, maximum: 10}, other: {type: integer}}}
  status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}}}
`

func withScale(crd *apiextensionsv1.CustomResourceDefinition) {
	withStatus(crd)
	crd.Spec.Versions[0].Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
		SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: pointer(".status.selector"),
	}
}

func scaleServed(t *testing.T, env *environment) {
	crd := define(t, "served.scale.example.com", "Set", scalable, withScale)
	sets := env.install(t, crd)
	create(t, sets, object(t, crd, "n", `{spec: {replicas: 3, other: 1}}`))
	patch(t, sets, "n", `{"status":{"replicas":2,"selector":"a=b"}}`, "status")
	path := pathOf(crd, "v1") + "/n/scale"
	scale := env.send(t, http.MethodGet, path, nil).value(t)
	if diff := cmp.Diff(map[string]any{"replicas": 2.0, "selector": "a=b"}, scale["status"]); diff != "" || scale["apiVersion"] != "autoscaling/v1" || scale["kind"] != "Scale" {
		t.Errorf("scale %v, status (-want +got):\n%s", scale, diff)
	}
	scale["spec"] = map[string]any{"replicas": 5}
	scale["status"] = map[string]any{"replicas": 99}
	if a := env.send(t, http.MethodPut, path, encode(t, scale)); a.code != http.StatusOK {
		t.Fatalf("update the scale: %d %s", a.code, a.body)
	}
	got := get(t, sets, "n")
	wantMembers(t, got, `{spec: {replicas: 5, other: 1}, status: {replicas: 2, selector: a=b}}`)
	if got.GetGeneration() != 2 {
		t.Errorf("generation %d", got.GetGeneration())
	}
	if a := env.send(t, http.MethodPut, path, encode(t, scale)); a.code != http.StatusConflict {
		t.Errorf("an old scale: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodPatch, path, []byte(`{"spec":{"replicas":1}}`), "Content-Type", "application/merge-patch+json"); a.code != http.StatusOK {
		t.Errorf("patch the scale: %d %s", a.code, a.body)
	}
	wantMembers(t, get(t, sets, "n"), `{spec: {replicas: 1, other: 1}, status: {replicas: 2, selector: a=b}}`)
}

func scaleMissing(t *testing.T, env *environment) {
	crd := define(t, "missing.scale.example.com", "Set", scalable, withScale)
	sets := env.install(t, crd)
	create(t, sets, object(t, crd, "n", `{}`))
	path := pathOf(crd, "v1") + "/n/scale"
	if a := env.send(t, http.MethodGet, path, nil); a.code != http.StatusOK && a.code < 400 || a.code == http.StatusOK && strings.Contains(string(a.body), `"replicas":1`) {
		t.Errorf("get the scale of an object without replicas: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"/none/scale", nil); a.code != http.StatusNotFound {
		t.Errorf("get the scale of a missing object: %d %s, want 404", a.code, a.body)
	}
}

func scaleApplied(t *testing.T, env *environment) {
	crd := define(t, "applied.scale.example.com", "Set", scalable, withScale)
	sets := env.install(t, crd)
	const asApply = "application/apply-patch+yaml"
	set := encode(t, object(t, crd, "n", `{spec: {replicas: 3, other: 1}}`))
	if a := env.send(t, http.MethodPatch, pathOf(crd, "v1")+"/n?fieldManager=owner", set, "Content-Type", asApply); a.code != http.StatusCreated {
		t.Fatalf("create the object with apply: %d %s", a.code, a.body)
	}
	body := []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"n"},"spec":{"replicas":5}}`)
	path := pathOf(crd, "v1") + "/n/scale?fieldManager=scaler"
	if a := env.send(t, http.MethodPatch, path, body, "Content-Type", asApply); a.code != http.StatusConflict {
		t.Errorf("taken without force: %d %s", a.code, a.body)
	}
	if a := env.send(t, http.MethodPatch, path+"&force=true", body, "Content-Type", asApply); a.code != http.StatusOK {
		t.Fatalf("apply the scale with force: %d %s", a.code, a.body)
	}
	owners := map[string]string{}
	for _, entry := range get(t, sets, "n").GetManagedFields() {
		owners[entry.Manager+" "+entry.Subresource] = string(entry.FieldsV1.Raw)
	}
	want := map[string]string{"owner ": `{"f:spec":{"f:other":{}}}`, "scaler scale": `{"f:spec":{"f:replicas":{}}}`}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if a := env.send(t, http.MethodPatch, pathOf(crd, "v1")+"/n?fieldManager=owner", set, "Content-Type", asApply); a.code != http.StatusConflict {
		t.Errorf("taken back without force: %d %s", a.code, a.body)
	}
}

func scaleValid(t *testing.T, env *environment) {
	crd := define(t, "valid.scale.example.com", "Set", scalable, withScale)
	create(t, env.install(t, crd), object(t, crd, "n", `{spec: {replicas: 3}}`))
	path := pathOf(crd, "v1") + "/n/scale"
	for body, want := range map[string]int{
		`{"spec":{"replicas":11}}`: http.StatusUnprocessableEntity,
		`{"spec":{"replicas":-1}}`: http.StatusUnprocessableEntity,
		`{"spec":{"replicas":10}}`: http.StatusOK,
	} {
		if a := env.send(t, http.MethodPatch, path+"?dryRun=All", []byte(body), "Content-Type", "application/merge-patch+json"); a.code != want {
			t.Errorf("patch the scale with %s: %d %s, want %d", body, a.code, a.body, want)
		}
	}
}

func scalePaths(t *testing.T, env *environment) {
	for field, edit := range map[string]func(*apiextensionsv1.CustomResourceSubresourceScale){
		"specReplicasPath":   func(s *apiextensionsv1.CustomResourceSubresourceScale) { s.SpecReplicasPath = ".other.replicas" },
		"statusReplicasPath": func(s *apiextensionsv1.CustomResourceSubresourceScale) { s.StatusReplicasPath = ".spec.replicas" },
		"labelSelectorPath":  func(s *apiextensionsv1.CustomResourceSubresourceScale) { s.LabelSelectorPath = pointer("selector") },
	} {
		crd := define(t, "paths.scale.example.com", "Set", scalable, withScale)
		edit(crd.Spec.Versions[0].Subresources.Scale)
		if a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd)); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), field) {
			t.Errorf("create a definition with an invalid %s: %d %s, want 422 for the field", field, a.code, a.body)
		}
	}
}

// columns tests the columns of the Table format.
var columns = []behavior{
	{"columns of each type", columnsTypes},
	{"default columns", columnsDefault},
	{"columns of each version", columnsVersions},
	{"watches and complete objects", columnsWatch},
	{"invalid columns are rejected", columnsValid},
}

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// cellsOf returns, for each row of a table, the cells as a JSON array.
func cellsOf(t *testing.T, text []byte) []string {
	t.Helper()
	var table struct {
		Rows []struct{ Cells json.RawMessage }
	}
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range table.Rows {
		rows = append(rows, string(row.Cells))
	}
	return rows
}

func withColumns(list ...apiextensionsv1.CustomResourceColumnDefinition) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].AdditionalPrinterColumns = list
	}
}

func columnsTypes(t *testing.T, env *environment) {
	crd := define(t, "types.col.example.com", "Note", anything, withColumns(
		apiextensionsv1.CustomResourceColumnDefinition{Name: "S", Type: "string", JSONPath: ".s"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "I", Type: "integer", Format: "int64", JSONPath: ".i"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "N", Type: "number", JSONPath: ".n"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "B", Type: "boolean", JSONPath: ".b"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "D", Type: "date", JSONPath: ".d"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "L", Type: "string", JSONPath: ".l", Priority: 1},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "First", Type: "string", JSONPath: ".l[0]"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "All", Type: "string", JSONPath: ".l[*]"},
		apiextensionsv1.CustomResourceColumnDefinition{Name: "Which", Type: "string", JSONPath: `.c[?(@.type=="Ready")].status`},
	))
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{s: x, i: 5, n: 1.5, b: true, d: "1970-01-01T00:00:00Z", l: [1, two], c: [{type: A, status: no}, {type: Ready, status: "yes"}]}`))
	create(t, notes, object(t, crd, "b", `{s: 5, i: x, n: 2, b: x, d: x, l: {a: b}}`))
	create(t, notes, object(t, crd, "c", `{}`))
	rows := cellsOf(t, env.send(t, http.MethodGet, pathOf(crd, "v1"), nil, "Accept", asTable).body)
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	if !strings.HasPrefix(rows[0], `["a","x",5,1.5,true,"5`) || !strings.HasSuffix(rows[0], `y","[1,\"two\"]","1","1","yes"]`) && !strings.HasSuffix(rows[0], `y","[1,\"two\"]","1","1,two","yes"]`) {
		t.Errorf("row %s", rows[0])
	}
	if want := `["c",null,null,null,null,null,null,null,null,null]`; rows[2] != want {
		t.Errorf("row %s, want %s", rows[2], want)
	}
}

func columnsDefault(t *testing.T, env *environment) {
	crd := define(t, "default.col.example.com", "Note", anything)
	notes := env.install(t, crd)
	create(t, notes, object(t, crd, "a", `{}`))
	a := env.send(t, http.MethodGet, pathOf(crd, "v1"), nil, "Accept", asTable)
	if rows := cellsOf(t, a.body); len(rows) != 1 || !strings.HasPrefix(rows[0], `["a","`) {
		t.Errorf("rows with the default columns: %q, want one of object a", rows)
	}
	env.mustChange(t, crd.Name, withColumns(apiextensionsv1.CustomResourceColumnDefinition{Name: "Spec", Type: "string", JSONPath: ".spec"}))
	if rows := cellsOf(t, env.send(t, http.MethodGet, pathOf(crd, "v1"), nil, "Accept", asTable).body); len(rows) != 1 || rows[0] != `["a",null]` {
		t.Errorf("rows with column Spec: %q, want one of object a without spec", rows)
	}
	// After a patch has removed the columns, the table has the default columns.
	if a := env.send(t, http.MethodPatch, definitionsPath+"/"+crd.Name, []byte(`[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]`), "Content-Type", "application/json-patch+json"); a.code != http.StatusOK {
		t.Fatalf("remove the columns: %d %s", a.code, a.body)
	}
	if rows := cellsOf(t, env.send(t, http.MethodGet, pathOf(crd, "v1"), nil, "Accept", asTable).body); len(rows) != 1 || rows[0] == `["a",null]` {
		t.Errorf("rows after the columns were removed: %q, want one with the default columns", rows)
	}
}

func columnsVersions(t *testing.T, env *environment) {
	crd := define(t, "version.col.example.com", "Note", anything, withVersion(t, "v2", anything),
		withColumns(apiextensionsv1.CustomResourceColumnDefinition{Name: "One", Type: "string", JSONPath: ".one"}),
		func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Versions[1].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Two", Type: "string", JSONPath: ".two"}}
		})
	create(t, env.install(t, crd), object(t, crd, "a", `{one: "1", two: "2"}`))
	for version, want := range map[string]string{"v1": `["a","1"]`, "v2": `["a","2"]`} {
		if rows := cellsOf(t, env.send(t, http.MethodGet, pathOf(crd, version)+"/a", nil, "Accept", asTable).body); len(rows) != 1 || rows[0] != want {
			t.Errorf("rows in %s: %q, want %s", version, rows, want)
		}
	}
}

func columnsWatch(t *testing.T, env *environment) {
	crd := define(t, "watch.col.example.com", "Note", anything, withColumns(apiextensionsv1.CustomResourceColumnDefinition{Name: "S", Type: "string", JSONPath: ".s"}))
	create(t, env.install(t, crd), object(t, crd, "a", `{s: x}`))
	a := env.send(t, http.MethodGet, pathOf(crd, "v1")+"?watch=1&timeoutSeconds=1", nil, "Accept", asTable)
	if first, _, _ := strings.Cut(string(a.body), "\n"); !strings.Contains(first, `"kind":"Table"`) || !strings.Contains(first, `"cells":["a","x"]`) || !strings.Contains(first, `"kind":"PartialObjectMetadata"`) {
		t.Errorf("watch of tables: %s, want a Table with the cells and metadata of object a", a.body)
	}
	a = env.send(t, http.MethodGet, pathOf(crd, "v1")+"?includeObject=Object", nil, "Accept", asTable)
	if !strings.Contains(string(a.body), `"s":"x"`) {
		t.Errorf("table with includeObject=Object: %s, want the whole object", a.body)
	}
}

func columnsValid(t *testing.T, env *environment) {
	for want, column := range map[string]apiextensionsv1.CustomResourceColumnDefinition{
		"additionalPrinterColumns[0].name":     {Type: "string", JSONPath: ".a"},
		"additionalPrinterColumns[0].type":     {Name: "A", Type: "strange", JSONPath: ".a"},
		"additionalPrinterColumns[0].format":   {Name: "A", Type: "string", Format: "strange", JSONPath: ".a"},
		"additionalPrinterColumns[0].JSONPath": {Name: "A", Type: "string", JSONPath: "a"},
	} {
		crd := define(t, "valid.col.example.com", "Note", anything, withColumns(column))
		if a := env.send(t, http.MethodPost, definitionsPath+"?dryRun=All", encode(t, crd)); a.code != http.StatusUnprocessableEntity || !strings.Contains(string(a.body), want) {
			t.Errorf("create a definition with an invalid column: %d %s, want 422 with %q", a.code, a.body, want)
		}
	}
}
