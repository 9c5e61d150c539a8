package openapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Remote is a group version with the documents of an aggregated server.
type Remote struct {
	GroupVersion schema.GroupVersion
	// Handler serves the v3 document; nil if there is no document. ETag is the unquoted ETag of the
	// document, or empty if it is unknown.
	Handler http.Handler
	ETag    string
	// Server identifies the server and must be comparable. Group versions with equal Servers share a v2
	// document, which V2 returns. A nil V2 means that there is no v2 document. V2 is called while the
	// merged document is built, and delays the build. If V2 returns an error, the server is omitted.
	// V2Stamp identifies the version of the v2 document, to detect changes.
	Server  any
	V2      func() ([]byte, error)
	V2Stamp string
}

// path returns the path of the group version's v3 document below /openapi/v3/.
func (r *Remote) path() string { return (&Part{GroupVersion: r.GroupVersion}).path() }

// SetRemote sets the documents of a group version. These documents take precedence over a part with the
// same group version.
func (d *Documents) SetRemote(r Remote) {
	d.mu.Lock()
	defer d.mu.Unlock()
	path := r.path()
	if old := d.remotes[path]; old != nil && old.Server == r.Server && old.ETag == r.ETag && old.V2Stamp == r.V2Stamp && (old.Handler == nil) == (r.Handler == nil) {
		return
	}
	d.remotes[path] = &r
	d.changedLocked()
}

// RemoveRemote removes the remote of a group version, if there is one.
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

// remote returns the handler of the remote for a path, or nil.
func (d *Documents) remote(path string) http.Handler {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if r := d.remotes[path]; r != nil {
		return r.Handler
	}
	return nil
}

// sourcesLocked returns the sources without a remote, and the remotes, sorted by path.
func (d *Documents) sourcesLocked() ([]*documentSource, []*Remote) {
	own := make([]*documentSource, 0, len(d.sources))
	for path, s := range d.sources {
		if d.remotes[path] == nil {
			own = append(own, s)
		}
	}
	remotes := slices.SortedFunc(maps.Values(d.remotes), func(a, b *Remote) int { return cmp.Compare(a.path(), b.path()) })
	return own, remotes
}
