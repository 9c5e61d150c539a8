package controlplane

import (
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/controllers/changes"
	"mainstay.dev/mainstay/internal/rest"
)

// storedResources finds stored resources by path and by kind. It caches results until definitions
// change.
type storedResources struct {
	i       *instance
	builtin map[string]changes.Resource // by path

	mu struct {
		sync.Mutex
		generation uint64
		paths      map[string]changes.Resource // of custom resources; an entry without a resource is a negative result
		kinds      map[kindKey]changes.Resource
	}
}

type kindKey struct{ apiVersion, kind string }

func newStoredResources(i *instance) *storedResources {
	s := &storedResources{i: i, builtin: map[string]changes.Resource{}}
	for _, spec := range i.rows.Specs() {
		if r := i.static.Find(spec.Kind.Hub.GVK.GroupVersion(), spec.Resource.Resource, ""); r != nil {
			s.builtin[spec.Path] = s.at(r, spec.Path)
		}
	}
	return s
}

// at returns the resource with its storage location.
func (s *storedResources) at(r *rest.Resource, path string) changes.Resource {
	return changes.Resource{Resource: r, Path: path, Backend: s.i.factory.Backend(r.GroupResource())}
}

// freshLocked clears the cache if definitions have changed.
func (s *storedResources) freshLocked() {
	if now := s.i.catalog.Generation(); s.mu.kinds == nil || s.mu.generation != now {
		s.mu.generation, s.mu.paths, s.mu.kinds = now, map[string]changes.Resource{}, map[kindKey]changes.Resource{}
	}
}

// ofPath returns the resource that is stored below a path.
func (s *storedResources) ofPath(path string) (changes.Resource, bool) {
	if r, ok := s.builtin[path]; ok {
		return r, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freshLocked()
	r, ok := s.mu.paths[path]
	if !ok {
		r = s.customOf(path)
		s.mu.paths[strings.Clone(path)] = r
	}
	return r, r.Resource != nil
}

// ofResource returns a stored resource, in any version.
func (s *storedResources) ofResource(resource schema.GroupResource) (changes.Resource, bool) {
	if path := s.i.rows.Spec(resource).Path; path != "" {
		return s.ofPath(path)
	}
	return s.ofPath(resource.Group + "/" + resource.Resource)
}

// customOf returns the custom resource of a path, in any version.
func (s *storedResources) customOf(path string) changes.Resource {
	groupName, name, _ := strings.Cut(path, "/")
	group, _ := s.i.custom.Group(groupName)
	for _, version := range group.Versions {
		for _, r := range version.Resources {
			if r.Name == name && r.Subresource == "" {
				return s.at(r, strings.Clone(path))
			}
		}
	}
	return changes.Resource{}
}

// ofKind returns the resource of a kind.
func (s *storedResources) ofKind(apiVersion, kind string) (changes.Resource, bool) {
	key := kindKey{apiVersion, kind}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freshLocked()
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
	for _, r := range s.i.resourcesOf(gv.WithKind(kind)) {
		if path, ok := s.pathOf(r); ok {
			return s.at(r, path)
		}
	}
	return changes.Resource{}
}

// pathOf returns where the objects of a resource are stored; false where they are not.
func (s *storedResources) pathOf(r *rest.Resource) (string, bool) {
	if r.Custom {
		return r.GroupVersion.Group + "/" + r.Name, true
	}
	path := s.i.rows.Spec(r.GroupResource()).Path
	return path, path != ""
}

// namespaced returns the resources that namespaces hold objects of.
func (s *storedResources) namespaced() []changes.Resource {
	var all []changes.Resource
	for _, spec := range s.i.rows.Specs() {
		if r, ok := s.builtin[spec.Path]; ok && r.Namespaced {
			all = append(all, r)
		}
	}
	for _, group := range s.i.custom.Groups() {
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
