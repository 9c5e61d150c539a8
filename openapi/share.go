package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// share is what the v2 document takes over from that of another server: some
// paths, and all that those refer to.
type share struct {
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]json.RawMessage `json:"definitions"`
	Parameters  map[string]json.RawMessage `json:"parameters"`
}

// Where references of v2 documents lead.
const (
	definitionPrefix = "#/definitions/"
	parameterPrefix  = "#/parameters/"
)

// readShares reads the documents of other servers, side by side. Those that
// cannot be had are left out.
func readShares(remotes []*Remote) []*share {
	type document struct {
		read     func() ([]byte, error)
		prefixes []string
	}
	var order []any
	documents := map[any]*document{}
	for _, r := range remotes {
		if r.V2 == nil {
			continue
		}
		if documents[r.Server] == nil {
			documents[r.Server] = &document{read: r.V2}
			order = append(order, r.Server)
		}
		documents[r.Server].prefixes = append(documents[r.Server].prefixes, "/"+r.path()+"/")
	}
	shares := make([]*share, len(order))
	var reading sync.WaitGroup
	for i, server := range order {
		reading.Go(func() {
			d := documents[server]
			body, err := d.read()
			if err != nil {
				return // its server says why
			}
			if s, err := readShare(body, d.prefixes); err == nil {
				shares[i] = s
			}
		})
	}
	reading.Wait()
	return slices.DeleteFunc(shares, func(s *share) bool { return s == nil })
}

// readShare takes the paths below the prefixes out of a document.
func readShare(document []byte, prefixes []string) (*share, error) {
	var whole share
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, fmt.Errorf("read v2 document: %w", err)
	}
	s := &share{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}, Parameters: map[string]json.RawMessage{}}
	var queue []json.RawMessage
	for path, item := range whole.Paths {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			s.Paths[path] = item
			queue = append(queue, item)
		}
	}
	for len(queue) > 0 {
		refs, err := references(queue[len(queue)-1])
		if err != nil {
			return nil, err
		}
		queue = queue[:len(queue)-1]
		for _, ref := range refs {
			from, to, name := whole.Definitions, s.Definitions, strings.TrimPrefix(ref, definitionPrefix)
			if strings.HasPrefix(ref, parameterPrefix) {
				from, to, name = whole.Parameters, s.Parameters, strings.TrimPrefix(ref, parameterPrefix)
			}
			found, ok := from[name]
			if !ok {
				return nil, fmt.Errorf("read v2 document: %s leads nowhere", ref)
			}
			if _, taken := to[name]; !taken {
				to[name] = found
				queue = append(queue, found)
			}
		}
	}
	return s, nil
}

// references returns what a part of a document refers to.
func references(part json.RawMessage) ([]string, error) {
	var value any
	if err := json.Unmarshal(part, &value); err != nil {
		return nil, fmt.Errorf("read v2 document: %w", err)
	}
	var found []string
	walkReferences(value, func(ref string) string {
		found = append(found, ref)
		return ref
	})
	return found, nil
}

// walkReferences replaces each reference by what change makes of it.
func walkReferences(value any, change func(string) string) {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			if ref, ok := member.(string); ok && key == "$ref" {
				if strings.HasPrefix(ref, definitionPrefix) || strings.HasPrefix(ref, parameterPrefix) {
					value[key] = change(ref)
				}
				continue
			}
			walkReferences(member, change)
		}
	case []any:
		for _, element := range value {
			walkReferences(element, change)
		}
	}
}

// merge adds a share to a drawing: its definitions now, and its paths to what
// is returned. Definitions of which there is another one of the same name get
// a name of their own.
func (d *drawing) merge(s *share) (paths, parameters map[string]json.RawMessage, err error) {
	names, err := d.renames(s)
	if err != nil {
		return nil, nil, err
	}
	rename := func(ref string) string {
		if name, ok := names[strings.TrimPrefix(ref, definitionPrefix)]; ok && strings.HasPrefix(ref, definitionPrefix) {
			return definitionPrefix + name
		}
		return ref
	}
	for name, schema := range s.Definitions {
		if other, ok := names[name]; ok {
			name = other
		} else if i, builtin := d.library.find(name); builtin {
			d.builtin[i] = true
			continue
		}
		if schema, err = renamed(schema, rename); err != nil {
			return nil, nil, err
		}
		d.others[name] = Schema{JSON: schema}
	}
	d.library.closure(d.builtin)
	paths, parameters = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for path, item := range s.Paths {
		if paths[path], err = renamed(item, rename); err != nil {
			return nil, nil, err
		}
	}
	for name, parameter := range s.Parameters {
		if parameters[name], err = renamed(parameter, rename); err != nil {
			return nil, nil, err
		}
	}
	return paths, parameters, nil
}

func renamed(part json.RawMessage, rename func(string) string) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(part, &value); err != nil {
		return nil, fmt.Errorf("read v2 document: %w", err)
	}
	changed := false
	walkReferences(value, func(ref string) string {
		next := rename(ref)
		changed = changed || next != ref
		return next
	})
	if !changed {
		return part, nil
	}
	return json.Marshal(value)
}

// renames returns new names for those definitions of a share that are not the
// same here, or refer to one that is not.
func (d *drawing) renames(s *share) (map[string]string, error) {
	names := map[string]string{}
	inflate := inflater{library: d.library}
	taken := func(name string) bool {
		_, builtin := d.library.find(name)
		_, other := d.others[name]
		_, own := s.Definitions[name]
		return builtin || other || own
	}
	next := func(name string) string {
		for i := 2; ; i++ {
			if candidate := fmt.Sprintf("%s_v%d", name, i); !taken(candidate) {
				return candidate
			}
		}
	}
	shared := map[string][]string{} // what is the same here, with what it refers to
	for _, name := range slices.Sorted(maps.Keys(s.Definitions)) {
		var here []byte
		if i, builtin := d.library.find(name); builtin {
			var err error
			if here, err = inflate.schema(i, v2); err != nil {
				return nil, err
			}
		} else if other, ok := d.others[name]; ok {
			here = other.JSON
		} else {
			continue
		}
		if !sameSchema(here, s.Definitions[name]) {
			names[name] = next(name)
			continue
		}
		refs, err := references(s.Definitions[name])
		if err != nil {
			return nil, err
		}
		shared[name] = refs
	}
	for changed := len(names) > 0; changed; {
		changed = false
		for name, refs := range shared {
			if slices.ContainsFunc(refs, func(ref string) bool { return names[strings.TrimPrefix(ref, definitionPrefix)] != "" }) {
				names[name] = next(name)
				delete(shared, name)
				changed = true
			}
		}
	}
	return names, nil
}

// sameSchema compares definitions, but for the kinds that they are used for:
// each server lists its own.
func sameSchema(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var left, right map[string]any
	if json.Unmarshal(a, &left) != nil || json.Unmarshal(b, &right) != nil {
		return false
	}
	const kinds = "x-kubernetes-group-version-kind"
	delete(left, kinds)
	delete(right, kinds)
	return reflect.DeepEqual(left, right)
}

// addMembers adds members to a JSON object that ends where w does. Those of a
// name that is there already are left out.
func addMembers(w *bytes.Buffer, members map[string]json.RawMessage, there map[string]json.RawMessage) error {
	w.Truncate(w.Len() - 1) // its closing brace
	empty := w.Bytes()[w.Len()-1] == '{'
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if _, have := there[name]; have {
			continue
		}
		n := 1
		if empty {
			n, empty = 0, false
		}
		if err := writeRawMember(w, n, name, members[name]); err != nil {
			return err
		}
	}
	w.WriteByte('}')
	return nil
}
