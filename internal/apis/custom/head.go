package custom

import (
	"fmt"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// headOf returns a definition without its schemas, which are most of its size, for its names,
// conditions and versions.
func headOf(record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
	return without("schema", record)
}

// without returns a definition without the members of a name: "schema", or "description" for the
// compilation of schemas. It decodes stored bytes in the usual form, without sharing memory.
func without(name string, record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if jsonplan.DecodeWithout(record.Stored(), crd, name) && crd.APIVersion == apiextensionsv1.SchemeGroupVersion.String() {
		return crd, nil
	}
	return crdOf(record)
}

// crdOf returns a definition whole.
func crdOf(record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
	obj, err := record.Shared()
	if err != nil {
		return nil, fmt.Errorf("read definition %s: %w", record.Name().Name, err)
	}
	crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil, fmt.Errorf("read definition %s: it is a %T", record.Name().Name, obj)
	}
	return crd, nil
}

// restated is a definition as it is stored, with another status and metadata.
type restated struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	value []byte
}

var _ codec.Encoded = (*restated)(nil)

// StoredEncoding implements codec.Encoded.
func (r *restated) StoredEncoding() []byte { return r.value }

// DeepCopyObject implements runtime.Object.
func (r *restated) DeepCopyObject() runtime.Object {
	copied := *r
	copied.ObjectMeta = *r.ObjectMeta.DeepCopy()
	return &copied
}

// restate calls change to modify the metadata and status of a stored definition, and preserves all
// other bytes. If change reports no modification, the stored object is returned.
func restate(current *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (codec.Object, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	spec, ok := jsonplan.Member(current.Stored(), "spec")
	if !ok || current.Kind().Stored != nil || !jsonplan.DecodeWithout(current.Stored(), crd, "schema") || crd.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return restateDecoded(current, change)
	}
	out := &restated{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, value: current.Stored()}
	if !change(crd) {
		return out, nil
	}
	crd.ResourceVersion = ""
	value := make([]byte, 0, len(current.Stored())+2<<10)
	value = append(value, codec.JSONHead(current.Kind().Hub.GVK)...)
	var err error
	if value, err = jsonplan.Append(append(value, `"metadata":`...), &crd.ObjectMeta); err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	value = append(append(value, `,"spec":`...), spec...)
	if value, err = jsonplan.Append(append(value, `,"status":`...), &crd.Status); err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	out.value = slices.Clip(append(value, '}'))
	return out, nil
}

// restateDecoded is restate for definitions that are not stored in v1, or are to be stored in
// another version.
func restateDecoded(current *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (codec.Object, error) {
	obj, err := current.Object()
	if err != nil {
		return nil, err
	}
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	was := crd.DeepCopy()
	if !change(crd) {
		return was, nil
	}
	return crd, nil
}
