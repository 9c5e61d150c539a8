package ownership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
)

// converter is shared by all tests, so that its schemas are decoded once.
var converter = sync.OnceValue(openapi.NewTypeConverter)

// fixture is an object of one kind in which every field is set.
type fixture struct {
	gvk schema.GroupVersionKind
	obj codec.Object
	new func() codec.Object
	// untyped reports whether the object is written as a document.
	untyped bool
	// deduced reports whether the object has no merge schema, so that its lists are atomic.
	deduced bool
}

func (f fixture) version() *codec.Version {
	if f.untyped {
		return &codec.Version{GVK: f.gvk, Untyped: true, New: func() codec.Object { return &unstructured.Unstructured{} }}
	}
	return &codec.Version{GVK: f.gvk, New: f.new}
}

// empty returns an object of the kind in which only the type is set.
func (f fixture) empty() codec.Object {
	obj := f.version().New()
	obj.GetObjectKind().SetGroupVersionKind(f.gvk)
	return obj
}

// fixtures returns the test objects of k8s.io/api.
var fixtures = sync.OnceValues(func() ([]fixture, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		return nil, fmt.Errorf("find k8s.io/api: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", "*.json"))
	if err != nil {
		return nil, err
	}
	var all []fixture
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var meta metav1.TypeMeta
		if err := json.Unmarshal(data, &meta); err != nil {
			return nil, err
		}
		gvk := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
		typed, err := scheme.Scheme.New(gvk)
		obj, ok := typed.(codec.Object)
		if err != nil || !ok {
			continue // a list, or a kind that is sent to webhooks
		}
		if err := json.Unmarshal(data, obj); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		obj.SetManagedFields(nil)
		f := fixture{gvk: gvk, obj: obj, new: newOf(gvk)}
		if _, err := converter().ObjectToTyped(f.empty()); err != nil {
			continue // never written
		}
		all = append(all, f)
	}
	if len(all) < 100 {
		return nil, errors.New("too few fixtures")
	}
	for _, made := range []struct {
		gvk schema.GroupVersionKind
		obj codec.Object
	}{
		{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), definition()},
		{apiregistrationv1.SchemeGroupVersion.WithKind("APIService"), &apiregistrationv1.APIService{}},
	} {
		made.obj.GetObjectKind().SetGroupVersionKind(made.gvk)
		goType := reflect.TypeOf(made.obj).Elem()
		all = append(all, fixture{gvk: made.gvk, obj: made.obj, new: func() codec.Object { return reflect.New(goType).Interface().(codec.Object) }})
	}
	return all, nil
})

func newOf(gvk schema.GroupVersionKind) func() codec.Object {
	return func() codec.Object {
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			panic(err)
		}
		return obj.(codec.Object)
	}
}

// definition returns a definition that uses all features of the schemas of custom resources.
func definition() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"x"`)}, Enum: []apiextensionsv1.JSON{{Raw: []byte(`1`)}}}
	return &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", ShortNames: []string{"t"}},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Required: []string{"a"},
				Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"a": text,
					"b": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
					"c": {AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}, AllOf: []apiextensionsv1.JSONSchemaProps{text}},
				},
				XValidations: apiextensionsv1.ValidationRules{{Rule: "self.a == self.b"}},
			}},
		}},
	}}
}

func allFixtures(t testing.TB) []fixture {
	t.Helper()
	all, err := fixtures()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (f fixture) converter() managedfields.TypeConverter {
	if f.deduced {
		return managedfields.NewDeducedTypeConverter()
	}
	return converter()
}

// upstream returns apimachinery's field manager for a kind in one version.
func upstream(t testing.TB, f fixture, subresource string, reset map[fieldpath.APIVersion]*fieldpath.Set) *managedfields.FieldManager {
	t.Helper()
	types := oneVersion{f}
	newManager := managedfields.NewDefaultFieldManager
	if f.untyped {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	m, err := newManager(f.converter(), types, types, types, f.gvk, f.gvk.GroupVersion(), subresource,
		fieldpath.NewExcludeFilterSetMap(reset))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ours returns this package's Kind for a kind in one version.
func ours(t testing.TB, f fixture, subresource string, reset map[fieldpath.APIVersion]*fieldpath.Set) *Kind {
	t.Helper()
	k := New(Config{Version: f.version(), Subresource: subresource, ResetFields: reset, Converter: f.converter()})
	if k == nil {
		t.Fatalf("%v is not covered", f.gvk)
	}
	return k
}

func resets(f fixture, names ...string) map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, name := range names {
		var parts []any
		for part := range strings.SplitSeq(name, ".") {
			parts = append(parts, part)
		}
		set.Insert(fieldpath.MakePathOrDie(parts...))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(f.gvk.GroupVersion().String()): set}
}

// oneVersion implements the part of runtime.Scheme that the field manager uses.
type oneVersion struct{ f fixture }

func (o oneVersion) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gv, ok := target.(schema.GroupVersion)
	if !ok || gv != o.f.gvk.GroupVersion() {
		return nil, runtime.NewNotRegisteredErrForTarget(o.f.gvk.Kind, nil, target)
	}
	u, ok := in.(*unstructured.Unstructured)
	if !ok || o.f.untyped {
		return in, nil
	}
	obj, _, err := o.f.version().FromDocument(u.Object, false)
	return obj, err
}

func (o oneVersion) Convert(in, out, _ any) error { return errors.ErrUnsupported }

func (o oneVersion) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", errors.ErrUnsupported
}

func (o oneVersion) Default(runtime.Object) {}

func (o oneVersion) New(schema.GroupVersionKind) (runtime.Object, error) { return o.f.empty(), nil }

// show formats managed fields for a comparison. Recent times are omitted.
func show(t testing.TB, fields []metav1.ManagedFieldsEntry) string {
	t.Helper()
	var b strings.Builder
	for _, f := range fields {
		at := "never"
		if f.Time != nil {
			at = f.Time.UTC().Format("2006-01-02T15:04:05")
			if f.Time.Year() > 2020 {
				at = "now"
			}
		}
		raw := "none"
		if f.FieldsV1 != nil {
			raw = string(f.FieldsV1.Raw)
		}
		fmt.Fprintf(&b, "%s %s %s %q %s %s %s\n", f.Manager, f.Operation, f.APIVersion, f.Subresource, at, f.FieldsType, raw)
	}
	if fields == nil {
		return "nil"
	}
	return b.String()
}

// canonical returns a set in the encoding of fieldpath.
func canonical(text []byte) ([]byte, error) {
	var set fieldpath.Set
	if err := set.FromJSON(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return set.ToJSON()
}
