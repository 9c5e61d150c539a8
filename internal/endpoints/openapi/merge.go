package openapi

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// NewTypeConverter returns the type converter of server-side apply for all versions of the built-in kinds,
// including the versions that are disabled by default. It is safe for concurrent use. The schema of a kind is
// decoded at first use and cached. Typed values can only be merged and compared with values of the same
// converter, so all users in a server must share a converter. For an unknown kind, ObjectToTyped returns the
// error that managedfields expects.
func NewTypeConverter() managedfields.TypeConverter {
	// A converter without schemas returns the error that managedfields expects
	// for an unknown kind; its type is not exported.
	unknown, err := managedfields.NewTypeConverter(nil, false)
	if err != nil {
		panic(fmt.Sprintf("openapi: type converter without schemas: %v", err))
	}
	return &typeConverter{TypeConverter: unknown, data: openMergeData(mergeFile), decoded: map[uint32]*mergeType{}}
}

type typeConverter struct {
	// TypeConverter handles unknown kinds, and implements TypedToObject, which needs no schema.
	managedfields.TypeConverter
	data mergeData

	// kinds maps schema.GroupVersionKind to *typed.ParseableType.
	kinds sync.Map

	mu sync.Mutex
	// decoded caches decoded types, because kinds share types such as the pod template. Guarded by
	// mu.
	decoded map[uint32]*mergeType
}

// ObjectToTyped implements managedfields.TypeConverter.
func (c *typeConverter) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	t := c.kind(obj.GetObjectKind().GroupVersionKind())
	if t == nil {
		return c.TypeConverter.ObjectToTyped(obj, opts...)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return t.FromUnstructured(u.UnstructuredContent(), opts...)
	}
	return t.FromStructured(obj, opts...)
}

// kind returns the type of a kind, or nil. It always returns the same pointer, because values with
// different schemas cannot be merged.
func (c *typeConverter) kind(gvk schema.GroupVersionKind) *typed.ParseableType {
	if t, ok := c.kinds.Load(gvk); ok {
		return t.(*typed.ParseableType)
	}
	root, ok := c.data.kind(gvk)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.data.name(root)
	t, _ := c.kinds.LoadOrStore(gvk, &typed.ParseableType{
		Schema:  &smd.Schema{Types: c.closureLocked(root)},
		TypeRef: smd.TypeRef{NamedType: &name},
	})
	return t.(*typed.ParseableType)
}

// closureLocked returns the definitions of a type and of all types that it refers to, directly or
// indirectly.
func (c *typeConverter) closureLocked(root uint32) []smd.TypeDef {
	seen := map[uint32]bool{root: true}
	queue := []uint32{root}
	var definitions []smd.TypeDef
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		t := c.decoded[i]
		if t == nil {
			t = c.data.decode(i)
			c.decoded[i] = t
		}
		definitions = append(definitions, t.definition)
		for _, use := range t.uses {
			if !seen[use] {
				seen[use] = true
				queue = append(queue, use)
			}
		}
	}
	return definitions
}
