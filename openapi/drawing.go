package openapi

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// source is what a v3 document, or a share of the v2 document, is drawn from.
type source struct {
	// part is nil for the documents beside those of group versions, whose
	// paths are items.
	part  *Part
	items []item
}

// read returns the paths of the source and the schemas it brings along.
func (s *source) read(l *library, v version) ([]item, map[string]Schema, error) {
	if s.part == nil {
		return s.items, nil, nil
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
	items, err := partItems(l, &part, schemas, v)
	return items, schemas, err
}

// digest identifies what is drawn from the source, but for the built-in schemas;
// nothing where that takes to draw it.
func (s *source) digest() string {
	switch {
	case s.part == nil:
		return s.items[0].path
	case s.part.Digest != nil:
		return s.part.path() + " " + s.part.Digest()
	case s.part.Custom || s.part.Describe != nil || s.part.Schemas != nil:
		return ""
	default:
		return fmt.Sprintf("%s %v", s.part.path(), s.part.Resources)
	}
}

// drawing is a document without its schemas: all that its ETag depends on.
type drawing struct {
	library *library
	version version
	// head is the document as far as the paths, tail what follows the schemas.
	head, tail []byte
	// builtin and others are the models it needs.
	builtin map[uint32]bool
	others  map[string]Schema
	// part is what a v3 document of a group version describes; nil for others.
	part *Part
}

// etag identifies the document. It covers all the document consists of, the
// built-in schemas by their digests, so that nothing is inflated for it.
func (d *drawing) etag() string {
	h := sha512.New()
	h.Write(d.head)
	h.Write(d.tail)
	for _, i := range slices.Sorted(maps.Keys(d.builtin)) {
		h.Write([]byte(d.library.digest(i)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.others)) {
		fmt.Fprintf(h, "%q", name)
		h.Write(d.others[name].JSON)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// contentTag is the ETag of something that is at hand.
func contentTag(data []byte) string { return fmt.Sprintf("%X", sha512.Sum512(data)) }

// buffer returns one with room for a document of some paths.
func (d *drawing) buffer(items []item) *bytes.Buffer {
	size := 4<<10 + len(d.builtin)<<12
	for i := range items {
		size += len(items[i].operations) << 12
		for _, piece := range items[i].member {
			size += len(piece.text) + 32
		}
	}
	for name, schema := range d.others {
		size += len(name) + len(schema.JSON) + 4
	}
	return bytes.NewBuffer(make([]byte, 0, size))
}

// json returns the whole document. It is called once.
func (d *drawing) json() ([]byte, error) {
	w := bytes.NewBuffer(d.head) // with room for the rest
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

// addModels notes the models that the paths refer to, and all those need.
func (d *drawing) addModels(items []item, schemas map[string]Schema) error {
	var queue []string
	more := false
	var last *template
	var names *marked
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

// info is the head of a document.
type info struct {
	Title   string `json:"title"`
	Version string `json:"version"`
}

const (
	security   = `"BearerToken":{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}`
	v3Security = `,"securitySchemes":{` + security + `}`
	v2Security = `,"securityDefinitions":{` + security + `},"security":[{"BearerToken":[]}]`
)

// drawV3 draws the v3 document of one source.
func drawV3(l *library, s *source, about info) (*drawing, error) {
	items, schemas, err := s.read(l, v3)
	if err != nil {
		return nil, err
	}
	d := &drawing{library: l, version: v3, builtin: map[uint32]bool{}, others: map[string]Schema{}, part: s.part}
	if err := d.addModels(items, schemas); err != nil {
		return nil, err
	}
	scheme := v3Security
	if s.part != nil && s.part.Custom {
		// As kube-apiserver says of custom resources.
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

// drawV2 draws the v2 document of all sources, and of what other servers have to
// say.
func drawV2(l *library, sources []*source, remotes []*Remote, about info) (*drawing, error) {
	shares := readShares(remotes)
	d := &drawing{library: l, version: v2, builtin: map[uint32]bool{}, others: map[string]Schema{}}
	var all []item
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
	sortItems(all)
	w := d.buffer(all)
	if err := writeHead(w, `{"swagger":"2.0","info":`, about); err != nil {
		return nil, err
	}
	parameters, err := writeV2Paths(w, all)
	if err != nil {
		return nil, err
	}
	if parameters, err = d.addShares(w, parameters, shares); err != nil {
		return nil, err
	}
	w.WriteString(`,"definitions":{`)
	d.head, d.tail = w.Bytes(), []byte(`},"parameters":`+string(parameters)+v2Security+`}`)
	return d, nil
}

// addShares adds the paths of other servers to the object of paths that w ends
// with, and returns the parameters with theirs. A share that cannot be merged is
// left out.
func (d *drawing) addShares(w *bytes.Buffer, parameters []byte, shares []*share) ([]byte, error) {
	for _, s := range shares {
		paths, also, err := d.merge(s)
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
