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

// decodeWithoutSchemas returns a definition without its schemas, which make up most of its size. The result
// must not be modified.
func decodeWithoutSchemas(record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
	return decodeWithout("schema", record)
}

// decodeWithout returns a definition without the JSON members that have the given name. The name is "schema",
// or "description" if the schemas will be compiled. The result may be shared with other readers of the record
// and must not be modified. If the stored bytes do not have the canonical form, the result has all members.
func decodeWithout(name string, record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if jsonplan.DecodeWithout(record.Stored(), crd, name) && crd.APIVersion == apiextensionsv1.SchemeGroupVersion.String() {
		return crd, nil
	}
	return decodeDefinition(record)
}

// decodeDefinition returns a definition with all members. The result is shared and must not be modified.
func decodeDefinition(record *codec.Record) (*apiextensionsv1.CustomResourceDefinition, error) {
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

// encodedDefinition is a definition in its stored encoding. Only the name in ObjectMeta is set.
type encodedDefinition struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	value []byte
}

var _ codec.Encoded = (*encodedDefinition)(nil)

// StoredEncoding implements codec.Encoded.
func (d *encodedDefinition) StoredEncoding() []byte { return d.value }

// DeepCopyObject implements runtime.Object.
func (d *encodedDefinition) DeepCopyObject() runtime.Object {
	copied := *d
	copied.ObjectMeta = *d.ObjectMeta.DeepCopy()
	return &copied
}

// withStatus calls change to modify the metadata and status of a stored definition, and returns the result. It
// preserves the stored bytes of the spec. The definition that is passed to change has no schemas. If change
// returns false, the result is the unchanged definition.
func withStatus(current *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (codec.Object, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	spec, ok := jsonplan.Member(current.Stored(), "spec")
	if !ok || current.Kind().Stored != nil || !jsonplan.DecodeWithout(current.Stored(), crd, "schema") || crd.APIVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return withStatusDecoded(current, change)
	}
	out := &encodedDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name}, value: current.Stored()}
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

// withStatusDecoded is like withStatus, for definitions whose stored encoding cannot be edited, because it is
// not in v1 or because another version must be stored.
func withStatusDecoded(current *codec.Record, change func(*apiextensionsv1.CustomResourceDefinition) bool) (codec.Object, error) {
	obj, err := current.Object()
	if err != nil {
		return nil, err
	}
	crd := obj.(*apiextensionsv1.CustomResourceDefinition)
	unchanged := crd.DeepCopy()
	if !change(crd) {
		return unchanged, nil
	}
	return crd, nil
}
