package ownership

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/simulation"
)

// Config configures a Kind.
type Config struct {
	Version *codec.Version
	// Subresource is recorded in the entries of its writers.
	Subresource string
	// ResetFields are the fields that a write does not change.
	ResetFields map[fieldpath.APIVersion]*fieldpath.Set
	// Converter has the merge schema of the version.
	Converter managedfields.TypeConverter
	// Cache may be shared by many kinds; nil makes one.
	Cache *Cache
	// World has the time of writes.
	World *simulation.Simulation
}

// A Kind maintains the managed fields of a resource in one version. It is safe for concurrent use.
type Kind struct {
	version     *codec.Version
	gvk         schema.GroupVersionKind
	apiVersion  string
	subresource string
	schema      schemaOf
	root        smd.TypeRef
	plan        *plan // nil for objects without a Go type
	// documents: some values are stored as their original JSON text, which each apply encodes
	// again.
	documents bool
	goType    reflect.Type
	// reset is the set of fields that their writers do not own.
	reset   []node
	cache   *Cache
	world   *simulation.Simulation
	workers sync.Pool // of *worker
}

// A worker is the memory of one comparison.
type worker struct {
	differ
	encoder
	piece []node
}

// New returns a Kind; nil when the version is not covered: it has no merge
// schema, or fields that are reset in a way that is not covered.
func New(config Config) *Kind {
	v := config.Version
	sample := v.New()
	sample.GetObjectKind().SetGroupVersionKind(v.GVK)
	typed, err := config.Converter.ObjectToTyped(sample)
	if err != nil || typed.TypeRef().NamedType == nil {
		return nil
	}
	of := schemaOf{typed.Schema(), *typed.TypeRef().NamedType}
	k := &Kind{
		version: v, gvk: v.GVK, apiVersion: v.GVK.GroupVersion().String(), subresource: config.Subresource,
		schema: of, root: of.root(), goType: reflect.TypeOf(sample), cache: config.Cache, world: config.World,
	}
	if k.cache == nil {
		k.cache = &Cache{}
	}
	if set := config.ResetFields[fieldpath.APIVersion(k.apiVersion)]; set != nil {
		var b builder
		if k.reset, err = b.fromSet(set); err != nil {
			return nil
		}
	}
	if !v.Untyped {
		if k.plan, k.documents = compile(k.schema, k.goType); k.plan.kind != planStruct {
			return nil
		}
	}
	k.workers.New = func() any {
		return &worker{differ: differ{schema: k.schema.schema}, piece: make([]node, 4*pieceOfNodes)}
	}
	return k
}

func (k *Kind) worker() *worker {
	w := k.workers.Get().(*worker)
	w.free, w.err = w.piece, nil
	return w
}

// done releases the memory of a worker and all nodes that it created. Remaining references are
// released with the pool.
func (k *Kind) done(w *worker) {
	w.items, w.names, w.stack, w.free = w.items[:0], w.names[:0], w.stack[:0], nil
	k.workers.Put(w)
}

// covers reports whether an object is of the Go type and version of the kind.
func (k *Kind) covers(obj codec.Object) bool {
	return reflect.TypeOf(obj) == k.goType && obj.GetObjectKind().GroupVersionKind() == k.gvk
}

// strippedRoot and strippedMeta name the fields that no manager owns.
func strippedRoot(name string) bool {
	return name == "apiVersion" || name == "kind" || name == "metadata"
}

func strippedMeta(name string) bool {
	switch name {
	case "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation", "managedFields", "resourceVersion":
		return true
	}
	return false
}

// strip returns a set without the fields that no manager owns.
func (b *builder) strip(set []node) []node {
	n := len(b.stack)
	for i := range set {
		s := set[i]
		if strippedRoot(s.element) {
			s.mark &^= member
		}
		if s.element == "metadata" {
			m := len(b.stack)
			for _, below := range s.children {
				if strippedMeta(below.element) {
					below.mark &^= member
				}
				b.push(below.element, below.mark, below.children)
			}
			s.children = b.take(m)
		}
		b.push(s.element, s.mark, s.children)
	}
	return b.take(n)
}
