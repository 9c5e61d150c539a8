package custom

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"mainstay.dev/mainstay/internal/codec"
)

// typeConverter provides the merge schemas of a definition for server-side apply and managed
// fields. It creates the schemas of a version on first use.
type typeConverter struct {
	handler  *handler
	versions sync.Map // name -> *mergeSchema
}

var _ managedfields.TypeConverter = (*typeConverter)(nil)

// ObjectToTyped implements managedfields.TypeConverter.
func (c *typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	converter, err := c.version(obj.GetObjectKind().GroupVersionKind().Version)
	if err != nil {
		return nil, err
	}
	return converter.ObjectToTyped(obj, opts...)
}

// TypedToObject implements managedfields.TypeConverter.
func (c *typeConverter) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	return managedfields.NewDeducedTypeConverter().TypedToObject(value)
}

// mergeSchema is the merge schema of one version. It is safe for concurrent use.
type mergeSchema struct{ managedfields.TypeConverter }

func (c *typeConverter) version(name string) (*mergeSchema, error) {
	if made, ok := c.versions.Load(name); ok {
		return made.(*mergeSchema), nil
	}
	h := c.handler
	record, err := h.source.readRecord(h.source.config.Lifetime, h.name)
	if err != nil {
		return nil, err
	}
	made, err := h.source.config.Schemas.mergeSchema(record, name, func() (*mergeSchema, error) { return newMergeSchema(record, name) })
	if err != nil {
		return nil, fmt.Errorf("merge schema of %s in version %s: %w", h.name, name, err)
	}
	// Values of different converters cannot be merged, so all callers use the first one.
	converter, _ := c.versions.LoadOrStore(name, made)
	return converter.(*mergeSchema), nil
}

func newMergeSchema(record *codec.Record, version string) (*mergeSchema, error) {
	crd, err := decodeWithoutSchemas(record)
	if err != nil {
		return nil, err
	}
	models, err := mergeModels(newEntry(crd, record.Revision()), version, record)
	if err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(models, crd.Spec.PreserveUnknownFields)
	return &mergeSchema{converter}, err
}

// mergeModels returns the models of a version for merges, keyed by name. The result is empty if the definition
// does not have the version, because a converter without models returns the error text that callers expect.
func mergeModels(e *entry, version string, record *codec.Record) (map[string]*spec.Schema, error) {
	i := slices.IndexFunc(e.versions, func(v entryVersion) bool { return v.name == version })
	if i < 0 {
		return nil, nil
	}
	m, err := newModelBuilder(e, &e.versions[i], record)
	if m == nil || err != nil {
		return nil, err
	}
	encoded, err := m.object(newSchemaWriter(mergeTarget))
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	for name, source := range map[string][]byte{m.name(m.names.kind): encoded, metaModels + "ObjectMeta": []byte(objectMetaModel), metaModels + "OwnerReference": []byte(ownerReferenceModel)} {
		model := &spec.Schema{}
		if err := json.Unmarshal(source, model); err != nil {
			return nil, fmt.Errorf("read model %s: %w", name, err)
		}
		models[name] = model
	}
	return models, nil
}

// Merge schemas of ObjectMeta and OwnerReference.
const (
	objectMetaModel = `{"type":"object","properties":{
"annotations":{"type":"object","additionalProperties":{"type":"string"}},
"creationTimestamp":{"type":"string","format":"date-time"},
"deletionGracePeriodSeconds":{"type":"integer","format":"int64"},
"deletionTimestamp":{"type":"string","format":"date-time"},
"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
"generateName":{"type":"string"},
"generation":{"type":"integer","format":"int64"},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"managedFields":{"type":"array","items":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"x-kubernetes-list-type":"atomic"},
"name":{"type":"string"},
"namespace":{"type":"string"},
"ownerReferences":{"type":"array","items":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference"},"x-kubernetes-list-map-keys":["uid"],"x-kubernetes-list-type":"map"},
"resourceVersion":{"type":"string"},
"selfLink":{"type":"string"},
"uid":{"type":"string"}}}`
	ownerReferenceModel = `{"type":"object","required":["apiVersion","kind","name","uid"],"x-kubernetes-map-type":"atomic","properties":{
"apiVersion":{"type":"string"},"blockOwnerDeletion":{"type":"boolean"},"controller":{"type":"boolean"},
"kind":{"type":"string"},"name":{"type":"string"},"uid":{"type":"string"}}}`
)
