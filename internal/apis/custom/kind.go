package custom

import (
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/codec"
)

func comparePriority(a, b string) int { return version.CompareKubeAwareVersionStrings(a, b) }

func newObject() codec.Object { return &unstructured.Unstructured{Object: map[string]any{}} }

func content(obj codec.Object) map[string]any { return obj.(*unstructured.Unstructured).Object }

// newKind returns the kind of a version. The version is its own hub, so that requests, rules and managed
// fields use the client's version. The kind also has all other versions of the definition, because
// objects may be stored in any of them.
func (h *handler) newKind(e *entry) *codec.Kind {
	hub := &codec.Version{GVK: h.gvk, List: e.listKind(), New: newObject, Untyped: true, Accept: h.accept, Default: h.defaulter(h.version.name)}
	kind := &codec.Kind{Hub: hub, Versions: []*codec.Version{hub}, Fields: h.fields}
	convert := h.noneConversion
	if e.webhook {
		kind.Convert = h.convert
		convert = func(version string) func(codec.Object) (codec.Object, error) {
			return h.webhookConversion(kind, version)
		}
	}
	stored := e.storageVersion().name
	for i := range e.versions {
		name := e.versions[i].name
		if name == h.version.name {
			continue
		}
		other := &codec.Version{
			GVK: e.groupVersion(name).WithKind(e.requested.kind), New: newObject, Untyped: true,
			Default: h.defaulter(name), ToHub: convert(h.version.name), FromHub: convert(name),
		}
		kind.Versions = append(kind.Versions, other)
		if name == stored {
			kind.Stored = other
		}
	}
	return kind
}

// schemaOf returns the compiled schema of a version of the definition. It may read the definition.
func (h *handler) schemaOf(version string) (*compiled, error) {
	isOwn := version == h.version.name
	if c := h.compiled.Load(); c != nil && isOwn {
		return c, nil
	}
	c, err := h.derived.schema(h.source.config.Lifetime, h.source, h.name, version)
	if err == nil && isOwn {
		h.compiled.Store(c)
	}
	return c, err
}

// defaulter returns the function that normalizes stored documents of a version and sets defaults. If
// the schema is unavailable, it logs an error and leaves the document unchanged.
func (h *handler) defaulter(version string) func(codec.Object) {
	return func(obj codec.Object) {
		compiled, err := h.schemaOf(version)
		if err != nil {
			h.source.logger.Error("defaults of an object were not set", "definition", h.name, "version", version, "name", obj.GetName(), "err", err)
			return
		}
		doc := content(obj)
		// Malformed metadata is dropped, because readers cannot correct it.
		_, _ = schema.CoerceMetadata(doc, false, true)
		_, _ = compiled.CoerceEmbedded(nil, doc, false, true)
		compiled.complete(doc)
		if obj.GetGeneration() == 0 {
			obj.SetGeneration(1) // as in kube-apiserver; old objects were stored without a generation
		}
	}
}

// accept prunes and normalizes a document from a client. If report is set, it returns an error for each unknown
// field. It implements codec.Version.Accept.
func (h *handler) accept(obj codec.Object, report bool) ([]error, error) {
	u := obj.(*unstructured.Unstructured)
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	if err := h.checkType(u.Object); err != nil {
		return nil, err
	}
	compiled, err := h.schemaOf(h.version.name)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	paths, err := schema.CoerceMetadata(u.Object, report, false)
	if err != nil {
		return nil, err
	}
	if !compiled.preserveUnknown {
		paths = append(paths, compiled.Prune(u.Object, report)...)
	}
	embedded, err := compiled.CoerceEmbedded(nil, u.Object, report, false)
	if err != nil {
		return nil, err
	}
	var unknown []error
	for _, path := range append(paths, embedded...) {
		unknown = append(unknown, fmt.Errorf("unknown field %q", path))
	}
	return unknown, nil
}

// checkType returns an error for clients if the apiVersion or kind of a document differs from the
// request path. As in kube-apiserver, a document must have an apiVersion.
func (h *handler) checkType(doc map[string]any) error {
	want := h.gvk.GroupVersion().String()
	if got, _ := doc["apiVersion"].(string); got != want {
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%v) does not match the expected API version (%s)", got, want))
	}
	if got, ok := doc["kind"]; ok && got != h.gvk.Kind && got != "" {
		name, _, _ := unstructured.NestedString(doc, "metadata", "name")
		return apierrors.NewInvalid(runtimeschema.GroupKind{Group: h.gvk.Group, Kind: fmt.Sprint(got)}, name, field.ErrorList{field.Invalid(field.NewPath("kind"), got, "must be "+h.gvk.Kind)})
	}
	doc["apiVersion"], doc["kind"] = want, h.gvk.Kind
	return nil
}

// fields returns the values of the selectable fields of an object. It implements codec.Kind.Fields.
func (h *handler) fields(obj codec.Object) fields.Set {
	o, err := h.open(h.source.config.Lifetime)
	if err != nil || len(o.selectable) == 0 {
		return nil
	}
	set := fields.Set{}
	for _, s := range o.selectable {
		set[s.label] = s.value(content(obj))
	}
	return set
}

// fieldLabel validates the keys of field selectors. It implements rest.Resource.FieldLabel.
func (h *handler) fieldLabel(label, value string) (string, string, error) {
	if label == "metadata.name" || label == "metadata.namespace" && h.namespaced {
		return label, value, nil
	}
	o, err := h.open(h.source.config.Lifetime)
	if err != nil {
		return "", "", apierrors.NewInternalError(err)
	}
	for _, s := range o.selectable {
		if s.label == label {
			return label, value, nil
		}
	}
	return "", "", fmt.Errorf("field label not supported: %s", label)
}

// selectorText returns the text of a scalar that field selectors are compared with.
func selectorText(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(encoded)
}
