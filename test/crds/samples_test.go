package crds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/yaml"
)

// sample is a realistic definition with sample objects.
type sample struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	objects []sampleObject
}

// sampleObject is an object that the server is expected to accept or reject.
type sampleObject struct {
	Name   string          `json:"name"`
	Object json.RawMessage `json:"object"`
	// Becomes is the expected stored object without its metadata. If it is empty, the stored object is not
	// compared.
	Becomes json.RawMessage `json:"becomes"`
	// Refused lists the expected causes of a rejection, each with its field and message. If it is empty, the
	// object must be accepted.
	Refused []string `json:"refused"`
	// Warns lists the expected warnings.
	Warns []string `json:"warns"`
}

// samples returns a behavior for each sample in testdata and for each generated sample.
func samples(t *testing.T) []behavior {
	t.Helper()
	all := map[string]sample{"authority": authoritySample(t), "collector": collectorSample(t)}
	folders, err := filepath.Glob("testdata/*/definition.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range folders {
		folder := filepath.Dir(file)
		all[filepath.Base(folder)] = readSample(t, folder)
	}
	var behaviors []behavior
	for i, install := range []func(*testing.T, *environment, sample) response{installCreate, installApply, installClientSide, installYAML} {
		for j, name := range slices.Sorted(mapKeys(all)) {
			if j%4 == i {
				s := all[name]
				behaviors = append(behaviors, behavior{name, func(t *testing.T, env *environment) { s.test(t, env, install) }})
			}
		}
	}
	return behaviors
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

func readSample(t *testing.T, folder string) sample {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "definition.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := sample{crd: &apiextensionsv1.CustomResourceDefinition{}}
	if err := yaml.UnmarshalStrict(text, s.crd); err != nil {
		t.Fatalf("decode the definition of %s: %v", folder, err)
	}
	text, err = os.ReadFile(filepath.Join(folder, "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.objects = readObjects(t, text)
	return s
}

func readObjects(t testing.TB, text []byte) []sampleObject {
	t.Helper()
	var objects []sampleObject
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var object sampleObject
		if err := json.Unmarshal(toJSON(t, string(document)), &object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

// The following functions install a definition in different ways.

func installCreate(t *testing.T, env *environment, s sample) response {
	return env.send(t, http.MethodPost, definitionsPath, encode(t, s.crd))
}

func installApply(t *testing.T, env *environment, s sample) response {
	return env.send(t, http.MethodPatch, definitionsPath+"/"+s.crd.Name+"?fieldManager=installer", encode(t, s.crd), "Content-Type", "application/apply-patch+yaml")
}

// installClientSide installs a definition with an annotation, like kubectl apply does. If the annotation would
// be too long, it is omitted.
func installClientSide(t *testing.T, env *environment, s sample) response {
	crd := s.crd.DeepCopy()
	if text := encode(t, s.crd); len(text) < 200<<10 {
		if crd.Annotations == nil {
			crd.Annotations = map[string]string{}
		}
		crd.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(text)
	}
	return env.send(t, http.MethodPost, definitionsPath+"?fieldManager=kubectl-client-side-apply&fieldValidation=Strict", encode(t, crd))
}

func installYAML(t *testing.T, env *environment, s sample) response {
	text, err := yaml.JSONToYAML(encode(t, s.crd))
	if err != nil {
		t.Fatal(err)
	}
	return env.send(t, http.MethodPost, definitionsPath, text, "Content-Type", "application/yaml")
}

// test installs a sample, tests its objects, and deletes the definition.
func (s sample) test(t *testing.T, env *environment, install func(*testing.T, *environment, sample) response) {
	if a := install(t, env, s); a.code != http.StatusCreated {
		t.Fatalf("install: %d %.2000s", a.code, a.body)
	}
	t.Cleanup(func() { env.send(t, http.MethodDelete, definitionsPath+"/"+s.crd.Name, nil) })
	env.await(t, s.crd.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue)
	for _, object := range s.objects {
		t.Run(object.Name, func(t *testing.T) { object.test(t, env, s.crd) })
	}
	t.Run("discovery", func(t *testing.T) { s.checkDiscovery(t, env) })
	t.Run("OpenAPI", func(t *testing.T) { s.checkOpenAPI(t, env) })
	t.Run("table", func(t *testing.T) { s.checkTable(t, env) })
	t.Run("deletion", func(t *testing.T) { s.checkDeletion(t, env) })
}

// test creates an object. If the object is accepted, test reads it, writes it back, patches it and applies it,
// and checks that each write has only the requested effect.
func (o sampleObject) test(t *testing.T, env *environment, crd *apiextensionsv1.CustomResourceDefinition) {
	_, version, _ := strings.Cut(fromYAML(t, string(o.Object)).GetAPIVersion(), "/")
	path := pathOf(crd, version)
	a := env.send(t, http.MethodPost, path+"?fieldManager=creator", o.Object)
	var warnings []string
	for _, text := range o.Warns {
		warnings = append(warnings, fmt.Sprintf("299 - %q", text))
	}
	if diff := cmp.Diff(warnings, a.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	if len(o.Refused) > 0 {
		slices.Sort(o.Refused)
		if diff := cmp.Diff(o.Refused, causesOf(a.status())); a.code != http.StatusUnprocessableEntity || diff != "" {
			t.Errorf("%d %s (-want +got):\n%s", a.code, a.status().Message, diff)
		}
		return
	}
	if a.code != http.StatusCreated {
		t.Fatalf("create the object: %d %s", a.code, a.body)
	}
	made := fromYAML(t, string(a.body))
	path += "/" + made.GetName()
	read := fromYAML(t, string(env.send(t, http.MethodGet, path, nil).body))
	if len(o.Becomes) > 0 {
		wantMembers(t, read, string(o.Becomes))
	}
	if diff := cmp.Diff(made.Object, read.Object); diff != "" {
		t.Errorf("read again (-created +read):\n%s", diff)
	}
	o.testWrites(t, env, path, read)
}

func (o sampleObject) testWrites(t *testing.T, env *environment, path string, read *unstructured.Unstructured) {
	if a := env.send(t, http.MethodPut, path+"?fieldManager=creator", encode(t, read)); a.code != http.StatusOK {
		t.Errorf("written back: %d %s", a.code, a.body)
	} else if got := fromYAML(t, string(a.body)); got.GetResourceVersion() != read.GetResourceVersion() && read.Object["status"] == nil {
		t.Errorf("written back as it was, it has changed: %s", cmp.Diff(read.Object, got.Object))
	}
	for contentType, body := range map[string]string{
		"application/merge-patch+json": `{"metadata":{"labels":{"merge":"1"}}}`,
		"application/json-patch+json":  `[{"op":"add","path":"/metadata/annotations","value":{"json":"1"}}]`,
	} {
		if a := env.send(t, http.MethodPatch, path, []byte(body), "Content-Type", contentType); a.code != http.StatusOK {
			t.Errorf("patch with %s: %d %s", contentType, a.code, a.body)
		}
	}
	applied := &unstructured.Unstructured{Object: members(read)} // without pruned fields
	delete(applied.Object, "status")
	applied.SetGroupVersionKind(read.GroupVersionKind())
	applied.SetName(read.GetName())
	a := env.send(t, http.MethodPatch, path+"?fieldManager=applier&force=true", encode(t, applied), "Content-Type", "application/apply-patch+yaml")
	if a.code != http.StatusOK {
		t.Fatalf("applied: %d %s", a.code, a.body)
	}
	got := fromYAML(t, string(a.body))
	if diff := cmp.Diff(members(read), members(got)); diff != "" {
		t.Errorf("applied as it was created (-want +got):\n%s", diff)
	}
	if got.GetLabels()["merge"] != "1" || got.GetAnnotations()["json"] != "1" || got.GetGeneration() != read.GetGeneration() {
		t.Errorf("labels %v, annotations %v, generation %d", got.GetLabels(), got.GetAnnotations(), got.GetGeneration())
	}
}

func (s sample) checkDiscovery(t *testing.T, env *environment) {
	for _, version := range s.crd.Spec.Versions {
		a := env.send(t, http.MethodGet, "/apis/"+s.crd.Spec.Group+"/"+version.Name, nil)
		if !version.Served {
			if a.code != http.StatusNotFound {
				t.Errorf("%s is not to be served: %d %s", version.Name, a.code, a.body)
			}
			continue
		}
		names := s.crd.Spec.Names
		want := []string{`"name":"` + names.Plural + `"`, `"singularName":"` + names.Singular + `"`, `"kind":"` + names.Kind + `"`}
		for _, more := range slices.Concat(names.ShortNames, names.Categories) {
			want = append(want, `"`+more+`"`)
		}
		if version.Subresources != nil && version.Subresources.Status != nil {
			want = append(want, `"name":"`+names.Plural+`/status"`)
		}
		if version.Subresources != nil && version.Subresources.Scale != nil {
			want = append(want, `"name":"`+names.Plural+`/scale"`)
		}
		for _, text := range want {
			if !strings.Contains(string(a.body), text) {
				t.Errorf("%s: %s is missing in %s", version.Name, text, a.body)
			}
		}
	}
}

func (s sample) checkOpenAPI(t *testing.T, env *environment) {
	for _, version := range s.crd.Spec.Versions {
		if !version.Served {
			continue
		}
		a := env.send(t, http.MethodGet, "/openapi/v3/apis/"+s.crd.Spec.Group+"/"+version.Name, nil)
		var document spec3.OpenAPI
		if err := json.Unmarshal(a.body, &document); a.code != http.StatusOK || err != nil {
			t.Fatalf("OpenAPI v3 of version %s: %d, %v", version.Name, a.code, err)
		}
		parts := strings.Split(s.crd.Spec.Group, ".")
		slices.Reverse(parts)
		model := document.Components.Schemas[strings.Join(parts, ".")+"."+version.Name+"."+s.crd.Spec.Names.Kind]
		if model == nil {
			t.Fatalf("%s: no model in %d", version.Name, len(document.Components.Schemas))
		}
		if _, found := model.Extensions["x-kubernetes-group-version-kind"]; !found {
			t.Errorf("%s: the model does not tell its kind", version.Name)
		}
		if at := document.Paths.Paths[strings.Replace(pathOf(s.crd, version.Name), "/default/", "/{namespace}/", 1)+"/{name}"]; at == nil || at.Get == nil || at.Put == nil || at.Patch == nil || at.Delete == nil {
			t.Errorf("%s: operations are missing", version.Name)
		}
	}
}

// checkTable checks the names and types of the columns of lists in Table format, and the number of cells in a
// row.
func (s sample) checkTable(t *testing.T, env *environment) {
	for _, version := range s.crd.Spec.Versions {
		if !version.Served || s.crd.Spec.Conversion != nil && s.crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter && !version.Storage {
			continue
		}
		a := env.send(t, http.MethodGet, pathOf(s.crd, version.Name), nil, "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
		table := struct {
			ColumnDefinitions []struct{ Name, Type string }
			Rows              []struct{ Cells []any }
		}{}
		if err := json.Unmarshal(a.body, &table); err != nil || a.code != http.StatusOK {
			t.Fatalf("table in version %s: %d, %v", version.Name, a.code, err)
		}
		want := []string{"Name string"}
		for _, column := range version.AdditionalPrinterColumns {
			want = append(want, column.Name+" "+column.Type)
		}
		if len(version.AdditionalPrinterColumns) == 0 {
			want = append(want, "Age date")
		}
		var got []string
		for _, column := range table.ColumnDefinitions {
			got = append(got, column.Name+" "+column.Type)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: columns (-want +got):\n%s", version.Name, diff)
		}
		if len(table.Rows) == 0 || len(table.Rows[0].Cells) != len(want) {
			t.Errorf("%s: %d rows: %v", version.Name, len(table.Rows), table.Rows)
		}
	}
}

// checkDeletion deletes the definition and checks that no part of it is served afterwards.
func (s sample) checkDeletion(t *testing.T, env *environment) {
	if a := env.send(t, http.MethodDelete, definitionsPath+"/"+s.crd.Name, nil); a.code != http.StatusOK {
		t.Fatalf("delete the definition: %d %s", a.code, a.body)
	}
	awaitGone(t, env.definitions, s.crd.Name)
	eventually(t, func() error {
		var errs []error
		for _, version := range s.crd.Spec.Versions {
			for _, path := range []string{pathOf(s.crd, version.Name), "/apis/" + s.crd.Spec.Group, "/openapi/v3/apis/" + s.crd.Spec.Group + "/" + version.Name} {
				if a := env.send(t, http.MethodGet, path, nil); a.code != http.StatusNotFound {
					errs = append(errs, fmt.Errorf("%s is still there: %d", path, a.code))
				}
			}
		}
		return errors.Join(errs...)
	})
}
