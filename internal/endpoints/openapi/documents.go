package openapi

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/feature/emulation"
)

// Config configures Documents. The zero value describes a server without group versions.
type Config struct {
	// Version is the server version that the documents contain, such as 1.37.
	Version string
	// PathPrefix precedes the paths in the index of the v3 documents, such as "/at/rv/7"; usually empty.
	PathPrefix string
	// Release is the emulated version of Kubernetes. The built-in schemas contain only the fields of this
	// version. nil emulates no version.
	Release *emulation.Release
	// Parts contains the group versions that are served from the start.
	Parts []Part
	// Issuer adds the two documents of service account issuer discovery.
	Issuer bool
	// KeepPlain is the time that uncompressed documents are cached after their last use; 0 means
	// DefaultKeepPlain.
	KeepPlain time.Duration
}

// DefaultKeepPlain is the default of Config.KeepPlain.
const DefaultKeepPlain = 20 * time.Second

// maxPlain is the maximum total size of cached uncompressed documents, in bytes.
const maxPlain = 96 << 20

// Documents contains the OpenAPI documents of a server: a v3 document per group version, some small v3
// documents for discovery, and one v2 document of all resources. Each document is built on first use.
// Documents is safe for concurrent use.
type Documents struct {
	library    *library
	about      info
	pathPrefix string // Config.PathPrefix
	cache      *plainCache

	mu sync.RWMutex
	// initial creates the sources of the Config. lock calls it on the first use and sets it to nil.
	initial func()
	// sources and documents are keyed by the path of the v3 document. documents contains only the
	// documents that were requested.
	sources   map[string]*documentSource
	documents map[string]*Document
	// remotes contains the group versions of other servers, with the same keys as sources.
	remotes map[string]*Remote
	// parts contains the number of group versions of each group.
	parts map[string]int
	// v2 and index cover all parts; a change resets them to nil.
	v2      *Document
	index   *v3Index
	changed time.Time
	changes uint64 // number of changes
}

type v3Index struct {
	json     []byte
	etag     string
	modified time.Time
}

// New returns the documents of a server without building them. It retains the parts, which must not
// be modified.
func New(c Config) *Documents {
	if c.KeepPlain == 0 {
		c.KeepPlain = DefaultKeepPlain
	}
	d := &Documents{
		library:    openLibrary(modelsFile),
		cache:      &plainCache{idle: c.KeepPlain},
		about:      info{Title: "Kubernetes", Version: c.Version},
		pathPrefix: c.PathPrefix,
		sources:    map[string]*documentSource{},
		documents:  map[string]*Document{},
		remotes:    map[string]*Remote{},
		parts:      map[string]int{},
	}
	d.library.emulate(c.Release)
	d.cache.free.Store(maxPlain)
	created := time.Now()
	d.initial = func() { d.setInitialLocked(c, created) }
	d.changedLocked()
	return d
}

// setInitialLocked creates the sources of c.
func (d *Documents) setInitialLocked(c Config, created time.Time) {
	d.putLocked("apis", &documentSource{items: groupsPaths})
	d.putLocked("version", &documentSource{items: versionPaths})
	if c.Issuer {
		d.putLocked(".well-known/openid-configuration", &documentSource{items: issuerPaths})
		d.putLocked("openid/v1/jwks", &documentSource{items: keysPaths})
	}
	for _, p := range c.Parts {
		d.setLocked(p)
	}
	for _, s := range d.sources {
		s.modified = created
	}
}

// lock acquires mu for a method that uses the sources. The first call creates the sources of the Config.
// New does not create them, because most control planes never receive a request for a document.
func (d *Documents) lock() {
	d.mu.Lock()
	if initial := d.initial; initial != nil {
		d.initial = nil
		initial()
	}
}

// Set adds or replaces the parts of group versions. The v3 documents of other group versions do not
// change. The parts are retained and must not be modified.
func (d *Documents) Set(parts ...Part) {
	d.lock()
	defer d.mu.Unlock()
	for _, p := range parts {
		d.setLocked(p)
	}
	d.changedLocked()
}

// Remove removes the parts of group versions that are no longer served. It ignores unknown group
// versions.
func (d *Documents) Remove(versions ...schema.GroupVersion) {
	d.lock()
	defer d.mu.Unlock()
	for _, gv := range versions {
		d.removeLocked(gv)
	}
	d.changedLocked()
}

func (d *Documents) setLocked(p Part) {
	d.removeLocked(p.GroupVersion)
	d.putLocked(p.path(), &documentSource{part: &p})
	if p.Custom {
		return
	}
	path, items := groupDocument(p.GroupVersion.Group)
	if d.parts[p.GroupVersion.Group]++; d.parts[p.GroupVersion.Group] == 1 {
		d.putLocked(path, &documentSource{items: items})
	}
}

func (d *Documents) removeLocked(gv schema.GroupVersion) {
	path := (&Part{GroupVersion: gv}).path()
	old := d.sources[path]
	if old == nil {
		return
	}
	delete(d.sources, path)
	delete(d.documents, path)
	if old.part.Custom {
		return
	}
	if d.parts[gv.Group]--; d.parts[gv.Group] == 0 {
		path, _ := groupDocument(gv.Group)
		delete(d.parts, gv.Group)
		delete(d.sources, path)
		delete(d.documents, path)
	}
}

// groupDocument returns the path of the document that describes a group's discovery, and the function that
// creates the API paths in the document.
func groupDocument(group string) (string, func() []pathItem) {
	if group == "" {
		return "api", coreVersionsPaths
	}
	return "apis/" + group, func() []pathItem { return groupPaths(group) }
}

func (d *Documents) putLocked(path string, s *documentSource) {
	s.modified = time.Now()
	d.sources[path] = s
	delete(d.documents, path)
}

// documentLocked returns the v3 document of a path, or nil if it does not exist.
func (d *Documents) documentLocked(path string) *Document {
	s := d.sources[path]
	if s == nil || d.documents[path] != nil {
		return d.documents[path]
	}
	d.documents[path] = &Document{
		version:  v3,
		message:  d.library.messages[v3],
		cache:    d.cache,
		build:    func() (*document, error) { return buildV3(d.library, s, d.about) },
		digest:   func() string { return digestOf(d.library, []*documentSource{s}, nil, d.about) },
		Modified: s.modified,
	}
	return d.documents[path]
}

// allLocked returns all v3 documents by path, in a new map.
func (d *Documents) allLocked() map[string]*Document {
	all := make(map[string]*Document, len(d.sources))
	for path := range d.sources {
		all[path] = d.documentLocked(path)
	}
	return all
}

// changedLocked resets the documents that cover all parts.
func (d *Documents) changedLocked() {
	d.v2, d.index = nil, nil
	d.changed = time.Now()
	d.changes++
}

// V3 returns the v3 document of a path such as apis/apps/v1, without building it, or false if it
// does not exist. The documents of remotes are not included.
func (d *Documents) V3(path string) (*Document, bool) {
	d.lock()
	defer d.mu.Unlock()
	document := d.documentLocked(path)
	return document, document != nil
}

// V2 returns the v2 document of the current parts and remotes. It does not build the document.
func (d *Documents) V2() *Document {
	d.lock()
	defer d.mu.Unlock()
	if d.v2 == nil {
		sources, remotes := d.sourcesLocked()
		d.v2 = &Document{
			version:  v2,
			message:  d.library.messages[v2],
			cache:    d.cache,
			build:    func() (*document, error) { return buildV2(d.library, sources, remotes, d.about) },
			digest:   func() string { return digestOf(d.library, sources, remotes, d.about) },
			Modified: d.changed,
		}
	}
	return d.v2
}

// digestOf returns an ETag computed from the digests of the sources, at a thousandth of the cost of building
// the document. It is empty if a source has no digest, or if there are remotes.
func digestOf(l *library, sources []*documentSource, remotes []*Remote, about info) string {
	if len(remotes) > 0 {
		return ""
	}
	lines := make([]string, len(sources))
	for i, s := range sources {
		if lines[i] = s.digest(); lines[i] == "" {
			return ""
		}
	}
	slices.Sort(lines)
	h := sha512.New()
	fmt.Fprintln(h, about.Version, l.digestOfAll())
	for _, line := range lines {
		fmt.Fprintln(h, line)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// V3Index returns the index of the v3 documents as JSON, and its unquoted ETag. The slice is shared
// and must not be modified. The first call after a change computes the ETags of all documents,
// which may block; it returns an error if a document cannot be built.
func (d *Documents) V3Index() ([]byte, string, error) {
	index, err := d.currentIndex()
	if err != nil {
		return nil, "", err
	}
	return index.json, index.etag, nil
}

// currentIndex returns the index. It is built without holding the lock.
func (d *Documents) currentIndex() (*v3Index, error) {
	d.lock()
	index, changes, changed := d.index, d.changes, d.changed
	var documents map[string]*Document
	var remotes map[string]*Remote
	if index == nil {
		documents, remotes = d.allLocked(), maps.Clone(d.remotes)
	}
	d.mu.Unlock()
	if index != nil {
		return index, nil
	}
	index, err := makeIndex(d.pathPrefix, documents, remotes)
	if err != nil {
		return nil, err
	}
	index.modified = changed
	d.lock()
	defer d.mu.Unlock()
	if d.changes == changes {
		d.index = index
	}
	return index, nil
}

func makeIndex(prefix string, documents map[string]*Document, remotes map[string]*Remote) (*v3Index, error) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	paths := make(map[string]entry, len(documents))
	for path, document := range documents {
		if remotes[path] != nil {
			continue
		}
		etag, err := document.ETag()
		if err != nil {
			return nil, fmt.Errorf("v3 document %s: %w", path, err)
		}
		paths[path] = entry{prefix + hashedURL(path, etag)}
	}
	for path, r := range remotes {
		switch {
		case r.Handler == nil:
		case r.ETag == "":
			paths[path] = entry{prefix + "/openapi/v3/" + path}
		default:
			paths[path] = entry{prefix + hashedURL(path, r.ETag)}
		}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		return nil, fmt.Errorf("encode v3 index: %w", err)
	}
	return &v3Index{json: data, etag: contentTag(data)}, nil
}

// hashedURL returns the URL at which a v3 document is immutable.
func hashedURL(path, etag string) string {
	u := url.URL{Path: "/openapi/v3/" + path, RawQuery: url.Values{"hash": {etag}}.Encode()}
	return u.String()
}
