package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// fragment is the part of an aggregated server's v2 document that is merged into the document of this
// server. It contains some paths, and the definitions and parameters that they refer to.
type fragment struct {
	Paths       map[string]json.RawMessage `json:"paths"`
	Definitions map[string]json.RawMessage `json:"definitions"`
	Parameters  map[string]json.RawMessage `json:"parameters"`
}

// Prefixes of references in v2 documents.
const (
	definitionPrefix = "#/definitions/"
	parameterPrefix  = "#/parameters/"
)

// readFragments reads the documents of other servers concurrently and skips unreadable ones.
func readFragments(remotes []*Remote) []*fragment {
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
	fragments := make([]*fragment, len(order))
	var reading sync.WaitGroup
	for i, server := range order {
		reading.Go(func() {
			d := documents[server]
			body, err := d.read()
			if err != nil {
				return // the function that fetches the document logs the error
			}
			if s, err := readFragment(body, d.prefixes); err == nil {
				fragments[i] = s
			}
		})
	}
	reading.Wait()
	return slices.DeleteFunc(fragments, func(s *fragment) bool { return s == nil })
}

// readFragment returns the paths of a document that are below the prefixes.
func readFragment(document []byte, prefixes []string) (*fragment, error) {
	var whole fragment
	if err := json.Unmarshal(document, &whole); err != nil {
		return nil, fmt.Errorf("read v2 document: %w", err)
	}
	s := &fragment{Paths: map[string]json.RawMessage{}, Definitions: map[string]json.RawMessage{}, Parameters: map[string]json.RawMessage{}}
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
	return s, s.check()
}

// check returns an error if the fragment is not a valid part of a v2 document. Otherwise, clients could not
// decode the merged document, or it could not be converted to protobuf.
func (s *fragment) check() error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("read v2 document: %w", err)
	}
	if err := json.Unmarshal(data, &spec.Swagger{}); err != nil {
		return fmt.Errorf("read v2 document: %w", err)
	}
	if in, start := jsonplan.NewCursor(data); !in.AtEnd(in.Skip(start)) {
		return errors.New("read v2 document: it is nested too deeply or contains invalid characters")
	}
	return nil
}

// references returns the references in a part of a document.
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

// walkReferences replaces each reference in value with the result of change.
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

// addFragment adds the definitions of a fragment to the document, and returns its paths and
// parameters. It renames definitions that differ from an existing definition with the same name.
func (d *document) addFragment(s *fragment) (paths, parameters map[string]json.RawMessage, err error) {
	names, err := d.newNames(s)
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
		if schema, err = renameReferences(schema, rename); err != nil {
			return nil, nil, err
		}
		d.others[name] = Schema{JSON: schema}
	}
	d.library.closure(d.builtin)
	paths, parameters = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for path, item := range s.Paths {
		if paths[path], err = renameReferences(item, rename); err != nil {
			return nil, nil, err
		}
	}
	for name, parameter := range s.Parameters {
		if parameters[name], err = renameReferences(parameter, rename); err != nil {
			return nil, nil, err
		}
	}
	return paths, parameters, nil
}

func renameReferences(part json.RawMessage, rename func(string) string) (json.RawMessage, error) {
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

// newNames returns new names for the definitions of a fragment that differ, directly or through references,
// from an existing definition with the same name.
func (d *document) newNames(s *fragment) (map[string]string, error) {
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
	shared := map[string][]string{} // equal definitions, with their references
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

// sameSchema reports whether two definitions are equal, except for their lists of kinds, which
// differ between servers.
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

// addMembers adds members to the JSON object at the end of w, except members with names that are in there.
func addMembers(w *bytes.Buffer, members map[string]json.RawMessage, there map[string]json.RawMessage) error {
	w.Truncate(w.Len() - 1) // remove the closing brace
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
