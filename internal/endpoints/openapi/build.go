package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// documentSource is the input of a v3 document, or of a part of the v2 document.
type documentSource struct {
	// part is nil for documents that do not belong to a group version. items then returns the paths.
	part     *Part
	items    func() []pathItem
	modified time.Time // Document.Modified
}

// read returns the paths of the source, and the schemas of its kinds that are not
// built in.
func (s *documentSource) read(l *library, v version) ([]pathItem, map[string]Schema, error) {
	if s.part == nil {
		return s.items(), nil, nil
	}
	var schemas map[string]Schema
	if s.part.Schemas != nil {
		var err error
		if schemas, err = s.part.Schemas(v == v2); err != nil {
			return nil, nil, fmt.Errorf("schemas of %s: %w", s.part.GroupVersion, err)
		}
	}
	part := *s.part
	if part.Describe != nil {
		part.Resources = part.Describe()
	}
	items, err := partPathItems(l, &part, schemas, v)
	return items, schemas, err
}

// digest identifies the document of the source, apart from built-in schemas. It is empty if the document
// would have to be built to compute the digest.
func (s *documentSource) digest() string {
	switch {
	case s.part == nil:
		return s.items()[0].path
	case s.part.Digest != nil:
		return s.part.path() + " " + s.part.Digest()
	case s.part.Custom || s.part.Describe != nil || s.part.Schemas != nil:
		return ""
	default:
		return fmt.Sprintf("%s %v", s.part.path(), s.part.Resources)
	}
}

// document is an OpenAPI document before its schemas are written. Its ETag depends only on its
// fields.
type document struct {
	library *library
	version version
	// head is the JSON up to the end of the paths, and tail is the JSON after the schemas.
	head, tail []byte
	// builtin and others contain the models that the document refers to.
	builtin map[uint32]bool
	others  map[string]Schema
	// part is the group version of a v3 document; nil for other documents.
	part *Part
}

// etag returns the ETag without quotes. It hashes built-in schemas by their digests, to avoid
// decompression.
func (d *document) etag() string {
	h := sha512.New()
	h.Write(d.head)
	h.Write(d.tail)
	if release := d.library.release; release != nil {
		fmt.Fprint(h, release.Minor()) // the digests of the schemas cover all fields, so they do not depend on the release
	}
	for _, i := range slices.Sorted(maps.Keys(d.builtin)) {
		h.Write([]byte(d.library.digest(i)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.others)) {
		fmt.Fprintf(h, "%q", name)
		h.Write(d.others[name].JSON)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// contentTag returns the unquoted ETag of data.
func contentTag(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

// buffer returns an empty buffer with a capacity of about the size of a document with these paths.
func (d *document) buffer(items []pathItem) *bytes.Buffer {
	size := 4<<10 + len(d.builtin)<<12
	for i := range items {
		size += len(items[i].operations) << 12
		for _, piece := range items[i].json {
			size += len(piece.text) + 32
		}
	}
	for name, schema := range d.others {
		size += len(name) + len(schema.JSON) + 4
	}
	return bytes.NewBuffer(make([]byte, 0, size))
}

// json returns the document as JSON. It must be called only once, because it consumes head.
func (d *document) json() ([]byte, error) {
	w := bytes.NewBuffer(d.head) // has capacity for the rest
	f := inflater{library: d.library}
	n := 0
	for _, i := range slices.Sorted(maps.Keys(d.builtin)) {
		schema, err := d.builtinSchema(&f, i)
		if err != nil {
			return nil, err
		}
		if err := writeRawMember(w, n, d.library.name(i), schema); err != nil {
			return nil, err
		}
		n++
	}
	for _, name := range slices.Sorted(maps.Keys(d.others)) {
		if err := writeRawMember(w, n, name, d.others[name].JSON); err != nil {
			return nil, err
		}
		n++
	}
	w.Write(d.tail)
	return w.Bytes(), nil
}

// addModels adds the models to which the paths refer, directly or indirectly.
func (d *document) addModels(items []pathItem, schemas map[string]Schema) error {
	var queue []string
	more := false
	var last *template
	var names *placeholderNames
	for i := range items {
		if it := &items[i]; it.template == nil || it.template != last || it.names != names {
			queue = append(queue, it.models()...)
			last, names = it.template, it.names
		}
	}
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if _, seen := d.others[name]; seen {
			continue
		}
		if s, ok := schemas[name]; ok {
			d.others[name] = s
			queue = append(queue, s.Uses...)
			continue
		}
		i, ok := d.library.find(name)
		if !ok {
			return fmt.Errorf("no model %s", name)
		}
		more = more || !d.builtin[i]
		d.builtin[i] = true
	}
	if more {
		d.library.closure(d.builtin)
	}
	return nil
}

// info is the Info Object of a document.
type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

const (
	security   = `"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}`
	v3Security = `,"securitySchemes":{` + security + `}`
	v2Security = `,"securityDefinitions":{` + security + `},"security":[{"BearerToken":[]}]`
)

// buildV3 builds the v3 document of one source.
func buildV3(l *library, s *documentSource, about info) (*document, error) {
	items, schemas, err := s.read(l, v3)
	if err != nil {
		return nil, err
	}
	d := &document{library: l, version: v3, builtin: map[uint32]bool{}, others: map[string]Schema{}, part: s.part}
	if err := d.addModels(items, schemas); err != nil {
		return nil, err
	}
	scheme := v3Security
	if s.part != nil && s.part.Custom {
		// As in kube-apiserver, documents of custom resources have this info and no security
		// schemes.
		about, scheme = info{Title: "Kubernetes CRD Swagger", Version: "v0.1.0"}, ""
	}
	w := d.buffer(items)
	if err := writeHead(w, `{"openapi":"3.0.0","info":`, about); err != nil {
		return nil, err
	}
	if err := writeV3Paths(w, items); err != nil {
		return nil, err
	}
	w.WriteString(`,"components":{"schemas":{`)
	d.head, d.tail = w.Bytes(), []byte(`}`+scheme+`}}`)
	return d, nil
}

// buildV2 builds the v2 document of all sources, merged with the documents of aggregated servers.
func buildV2(l *library, sources []*documentSource, remotes []*Remote, about info) (*document, error) {
	fragments := readFragments(remotes)
	d := &document{library: l, version: v2, builtin: map[uint32]bool{}, others: map[string]Schema{}}
	var all []pathItem
	for _, s := range sources {
		items, schemas, err := s.read(l, v2)
		if err != nil {
			return nil, err
		}
		if err := d.addModels(items, schemas); err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	sortPathItems(all)
	w := d.buffer(all)
	if err := writeHead(w, `{"swagger":"2.0","info":`, about); err != nil {
		return nil, err
	}
	parameters, err := writeV2Paths(w, all)
	if err != nil {
		return nil, err
	}
	if parameters, err = d.addFragments(w, parameters, fragments); err != nil {
		return nil, err
	}
	w.WriteString(`,"definitions":{`)
	d.head, d.tail = w.Bytes(), []byte(`},"parameters":`+string(parameters)+v2Security+`}`)
	return d, nil
}

// addFragments adds the paths of fragments to the paths object at the end of w. It returns parameters,
// extended with the parameters of the fragments. It skips fragments that cannot be merged.
func (d *document) addFragments(w *bytes.Buffer, parameters []byte, fragments []*fragment) ([]byte, error) {
	for _, s := range fragments {
		paths, also, err := d.addFragment(s)
		if err != nil {
			continue
		}
		if err := addMembers(w, paths, nil); err != nil {
			return nil, err
		}
		var there map[string]json.RawMessage
		if err := json.Unmarshal(parameters, &there); err != nil {
			return nil, fmt.Errorf("read the shared parameters: %w", err)
		}
		all := bytes.NewBuffer(slices.Clone(parameters))
		if err := addMembers(all, also, there); err != nil {
			return nil, err
		}
		parameters = all.Bytes()
	}
	return parameters, nil
}

func writeHead(w *bytes.Buffer, start string, about info) error {
	data, err := json.Marshal(about)
	if err != nil {
		return fmt.Errorf("encode info: %w", err)
	}
	w.WriteString(start)
	w.Write(data)
	w.WriteString(`,"paths":`)
	return nil
}
