package builtin

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/rest"
)

// Declared contains the names, versions and kinds of the resources of all rows. Servers with the same feature
// gates, enabled resources and emulated version can share one Declared. It is immutable.
type Declared struct {
	declarations
	resources []*rest.Resource
	entries   []declaredEntry
	places    map[*rest.Resource]place
	owners    map[schema.GroupResource]int // indexes of entries that have a store
}

// declaredEntry is an entry together with the version of its group.
type declaredEntry struct {
	Entry
	gv schema.GroupVersion
}

// place is the position of a resource: the index of its entry, and the index of the resource in the result of
// Entry.build.
type place struct{ entry, index int }

// Declare returns the declarations of all rows. The declarations retain env, so env should contain only the
// fields that select resources and versions.
func Declare(env *Env, groups []Group) *Declared {
	env.Storage.Open = nil
	_, _ = Build(env, nil) // opening storage is the only source of errors
	d := &Declared{declarations: env.built.declarations, places: map[*rest.Resource]place{}, owners: map[schema.GroupResource]int{}}
	for _, group := range groups {
		for _, entry := range group.Resources {
			for index, r := range entry.build(env, group.GroupVersion) {
				d.places[r] = place{len(d.entries), index}
				d.resources = append(d.resources, r)
			}
			if _, name := entry.stored(); env.built.stores[group.GroupVersion.WithResource(name).GroupResource()] != nil {
				d.owners[group.GroupVersion.WithResource(name).GroupResource()] = len(d.entries)
			}
			d.entries = append(d.entries, declaredEntry{entry, group.GroupVersion})
		}
	}
	return d
}

// Resources returns the declared resources. They cannot serve requests; Resources.Get returns resources that
// can. The caller must not modify the slice.
func (d *Declared) Resources() []*rest.Resource { return d.resources }

// Open returns the resources of a server, which retain env. The fields of env that select resources must be
// equal to those of the Env that was passed to Declare.
func (d *Declared) Open(env *Env) *Resources {
	env.begin(d.declarations)
	env.built.resources = &Resources{declared: d, env: env, created: make([]atomic.Pointer[created], len(d.entries))}
	return env.built.resources
}

// Resources contains the resources of a server. It creates each resource on first use, because most servers
// use only a few of them. It is safe for concurrent use.
type Resources struct {
	declared *Declared
	env      *Env
	creating sync.Mutex                // held while a resource is created
	created  []atomic.Pointer[created] // indexed like Declared.entries
}

// created contains the resources and the store of an entry.
type created struct {
	resources []*rest.Resource
	store     *registry.Store // nil if objects are not stored
}

// Get returns this server's resource for a declared resource, and creates it on first use. Get panics if the
// storage of the resource cannot be opened.
func (r *Resources) Get(declared *rest.Resource) *rest.Resource {
	at := r.declared.places[declared]
	return r.entry(at.entry).resources[at.index]
}

// Opened returns the store of a resource, or nil if the resource has not been used yet.
func (r *Resources) Opened(resource schema.GroupResource) *registry.Store {
	if entry, ok := r.declared.owners[resource]; ok {
		if c := r.created[entry].Load(); c != nil {
			return c.store
		}
	}
	return nil
}

// store implements Env.Store.
func (r *Resources) store(resource schema.GroupResource) *registry.Store {
	if entry, ok := r.declared.owners[resource]; ok {
		return r.entry(entry).store
	}
	return nil
}

// entry returns the resources of an entry, and creates them if necessary. It panics if their storage cannot be
// opened, which means that the declaration is invalid.
func (r *Resources) entry(number int) *created {
	if c := r.created[number].Load(); c != nil {
		return c
	}
	r.creating.Lock()
	defer r.creating.Unlock()
	if c := r.created[number].Load(); c != nil {
		return c
	}
	entry := r.declared.entries[number]
	c := &created{resources: entry.build(r.env, entry.gv)}
	if len(r.env.built.errs) > 0 {
		panic(fmt.Sprintf("open the storage of a built-in resource: %v", r.env.built.errs[0]))
	}
	if _, name := entry.stored(); name != "" {
		c.store = r.env.built.stores[entry.gv.WithResource(name).GroupResource()]
	}
	r.created[number].Store(c)
	return c
}
