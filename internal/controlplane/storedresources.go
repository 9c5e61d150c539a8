package controlplane

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// storedResources implements controllers.Resources. It caches results until definitions change.
type storedResources struct {
	resources *resources

	mu struct {
		sync.Mutex
		generation uint64
		paths      map[string]changes.Resource // an entry whose Resource is nil means that no resource exists
		kinds      map[kindKey]changes.Resource
	}
}

type kindKey struct{ apiVersion, kind string }

func newStoredResources(r *resources) *storedResources {
	return &storedResources{resources: r}
}

// findBuiltin returns the built-in resource for a specification, or nil.
func (s *storedResources) findBuiltin(spec *storage.Spec) *rest.Resource {
	return s.resources.builtin.static.Find(spec.Kind.Hub.GVK.GroupVersion(), spec.Resource.Resource, "")
}

// at returns the resource with its storage location.
func (s *storedResources) at(r *rest.Resource, path string) changes.Resource {
	return changes.Resource{Resource: r, Path: path, Backend: s.resources.builtin.storage.factory.Backend(r.GroupResource())}
}

// validateCacheLocked clears the cache if definitions have changed.
func (s *storedResources) validateCacheLocked() {
	if now := s.resources.catalog.Generation(); s.mu.kinds == nil || s.mu.generation != now {
		s.mu.generation, s.mu.paths, s.mu.kinds = now, map[string]changes.Resource{}, map[kindKey]changes.Resource{}
	}
}

// ByPath implements controllers.Resources.
func (s *storedResources) ByPath(path string) (changes.Resource, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validateCacheLocked()
	r, ok := s.mu.paths[path]
	if !ok {
		r = s.find(path)
		s.mu.paths[strings.Clone(path)] = r
	}
	return r, r.Resource != nil
}

// ByName implements controllers.Resources.
func (s *storedResources) ByName(resource schema.GroupResource) (changes.Resource, bool) {
	if path := s.resources.builtin.rows.Spec(resource).Path; path != "" {
		return s.ByPath(path)
	}
	return s.ByPath(resource.Group + "/" + resource.Resource)
}

// find returns the resource whose objects are stored at a path.
func (s *storedResources) find(path string) changes.Resource {
	if spec := s.resources.builtin.rows.SpecOfPath(path); spec != nil {
		if r := s.findBuiltin(spec); r != nil {
			return s.at(r, strings.Clone(path))
		}
	}
	return s.findCustom(path)
}

// findCustom returns the custom resource of a path, in any version.
func (s *storedResources) findCustom(path string) changes.Resource {
	groupName, name, _ := strings.Cut(path, "/")
	group, _ := s.resources.definitions.Group(groupName)
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			if r.Name == name && r.Subresource == "" {
				return s.at(r, strings.Clone(path))
			}
		}
	}
	return changes.Resource{}
}

// ByKind implements controllers.Resources.
func (s *storedResources) ByKind(apiVersion, kind string) (changes.Resource, bool) {
	key := kindKey{apiVersion, kind}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.validateCacheLocked()
	r, ok := s.mu.kinds[key]
	if !ok {
		r = s.findKind(apiVersion, kind)
		s.mu.kinds[kindKey{strings.Clone(apiVersion), strings.Clone(kind)}] = r
	}
	return r, r.Resource != nil
}

func (s *storedResources) findKind(apiVersion, kind string) changes.Resource {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return changes.Resource{}
	}
	for _, r := range s.resources.finder.allOfKind(gv.WithKind(kind)) {
		if path, ok := s.pathOf(r); ok {
			return s.at(r, path)
		}
	}
	return changes.Resource{}
}

// pathOf returns the storage path of a resource, or false if its objects are not stored.
func (s *storedResources) pathOf(r *rest.Resource) (string, bool) {
	if r.Custom {
		return r.GroupVersion.Group + "/" + r.Name, true
	}
	path := s.resources.builtin.rows.Spec(r.GroupResource()).Path
	return path, path != ""
}

// Namespaced implements controllers.Resources.
func (s *storedResources) Namespaced() []changes.Resource {
	var all []changes.Resource
	for _, spec := range s.resources.builtin.rows.Specs() {
		if r := s.findBuiltin(spec); r != nil && r.Namespaced {
			all = append(all, s.at(r, spec.Path))
		}
	}
	for _, group := range s.resources.definitions.Groups() {
		seen := map[string]bool{}
		for _, version := range group.Versions {
			for _, r := range version.Resources {
				if r.Namespaced && r.Subresource == "" && !seen[r.Name] {
					seen[r.Name] = true
					all = append(all, s.at(r, group.Name+"/"+r.Name))
				}
			}
		}
	}
	return all
}
