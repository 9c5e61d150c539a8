package openapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is a group version that another server describes.
type Remote struct {
	GroupVersion schema.GroupVersion
	// Handler serves the v3 document; nil where there is none. ETag identifies
	// it, empty where that is not known.
	Handler http.Handler
	ETag    string
	// Server tells which group versions have their v2 document in common; it
	// is comparable. V2 returns the document, from which the share of the group
	// version is taken; it is called whenever the v2 document is drawn, which
	// waits for it. Stamp is another one when the document is.
	Server any
	V2     func() ([]byte, error)
	Stamp  string
}

// path is where the group version is, on every server.
func (r *Remote) path() string { return (&Part{GroupVersion: r.GroupVersion}).path() }

// SetRemote lets another server describe a group version, also one that is
// described by a part.
func (d *Documents) SetRemote(r Remote) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := r.path()
	if old := d.remotes[path]; old != nil && old.Server == r.Server && old.ETag == r.ETag && old.Stamp == r.Stamp && (old.Handler == nil) == (r.Handler == nil) {
		return
	}
	d.remotes[path] = &r
	d.changedLocked()
}

// RemoveRemote lets a group version be described by its part, if there is one.
func (d *Documents) RemoveRemote(gv schema.GroupVersion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := (&Part{GroupVersion: gv}).path()
	if d.remotes[path] == nil {
		return
	}
	delete(d.remotes, path)
	d.changedLocked()
}

// remote returns who else serves the v3 document of a path; nil is nobody.
func (d *Documents) remote(path string) http.Handler {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if r := d.remotes[path]; r != nil {
		return r.Handler
	}
	return nil
}

// sharesLocked returns what is to be drawn of the sources, and what other
// servers have to say.
func (d *Documents) sharesLocked() ([]*source, []*Remote) {
	own := make([]*source, 0, len(d.sources))
	for path, s := range d.sources {
		if d.remotes[path] == nil {
			own = append(own, s)
		}
	}
	remotes := slices.SortedFunc(maps.Values(d.remotes), func(a, b *Remote) int { return cmp.Compare(a.path(), b.path()) })
	return own, remotes
}
