package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The paths of a custom resource are about 70 KB of JSON and differ only in names. They are built
// once per combination of the other properties, with placeholders for the names, and then copied.

// templateKey contains the properties that determine the paths of a custom resource, except its
// names.
type templateKey struct {
	version                    version
	namespaced, returnsDeleted bool
	subresource, verbs         string
	object                     schema.GroupVersionKind
	article                    string // of the kind
}

// placeholder stands for a name in a template.
type placeholder byte

const (
	placeholderNone      placeholder = 0
	placeholderGroup     placeholder = 'g'
	placeholderVersion   placeholder = 'v'
	placeholderKind      placeholder = 'k'
	placeholderPlural    placeholder = 'p'
	placeholderTag       placeholder = 't'
	placeholderWord      placeholder = 'w'
	placeholderBase      placeholder = 'b'
	placeholderModel     placeholder = 'm'
	placeholderListModel placeholder = 'l'
)

// Placeholders are enclosed in brackets that names cannot contain and JSON does not escape.
const placeholderBegin, placeholderEnd = "⟦", "⟧"

func (m placeholder) String() string { return placeholderBegin + string(rune(m)) + placeholderEnd }

// placeholderNames contains the names of a resource by placeholder.
type placeholderNames [128]string

// segment is a text and the placeholder that follows it.
type segment struct {
	text        string
	placeholder placeholder
}

// template contains the paths of custom resources with the same templateKey.
type template struct {
	paths []templatePath
	// models contains the models of the operations; some are placeholders.
	models []string
	// shared contains the shared parameters of v2.
	shared map[string]json.RawMessage
}

type templatePath struct {
	path []segment
	// member is the path and its path item, as a member of a JSON object.
	member []segment
}

// templates caches templates. It is safe for concurrent use.
type templates struct{ byKey sync.Map } // templateKey to *template

func splitPlaceholders(text string) []segment {
	var pieces []segment
	for {
		before, after, found := strings.Cut(text, placeholderBegin)
		if !found {
			return append(pieces, segment{text: before})
		}
		pieces = append(pieces, segment{before, placeholder(after[0])})
		text = after[1+len(placeholderEnd):]
	}
}

func writeSegments(w *bytes.Buffer, pieces []segment, names *placeholderNames) {
	for i := range pieces {
		w.WriteString(pieces[i].text)
		if m := pieces[i].placeholder; m != placeholderNone {
			w.WriteString(names[m])
		}
	}
}

// template returns the template of a custom resource, or false if templates do not support its
// properties.
func (l *library) template(r *Resource, gv schema.GroupVersion, v version) (*template, bool) {
	if len(r.Connect) > 0 || r.Text || r.Options != "" {
		return nil, false
	}
	object := r.Object
	if object == gv.WithKind(r.Kind) {
		object = schema.GroupVersionKind{} // equivalent for all names
	}
	s := templateKey{
		version: v, namespaced: r.Namespaced, returnsDeleted: r.ReturnsDeleted, subresource: r.Subresource,
		verbs: strings.Join(r.Verbs, ","), object: object, article: strings.TrimSuffix(withArticle(r.Kind), r.Kind),
	}
	if made, ok := l.templates.byKey.Load(s); ok {
		return made.(*template), true
	}
	made, err := l.newTemplate(s, r.Verbs)
	if err != nil {
		return nil, false // building the paths without a template returns the error
	}
	l.templates.byKey.Store(s, made)
	return made, true
}

// newTemplate builds the paths of a resource with placeholder names.
func (l *library) newTemplate(s templateKey, verbs []string) (*template, error) {
	kind := map[string]string{"a ": "B" + placeholderKind.String(), "an ": "A" + placeholderKind.String(), "": "B" + placeholderKind.String() + "s"}[s.article]
	part := &Part{GroupVersion: schema.GroupVersion{Group: placeholderGroup.String(), Version: placeholderVersion.String()}, Custom: true}
	m := &pathBuilder{
		library: l, part: part, version: s.version, tag: placeholderTag.String(), idGroupVersion: placeholderWord.String(), base: placeholderBase.String(),
		kinds: map[string]string{kind: placeholderModel.String()}, lists: map[string]string{kind: placeholderListModel.String()},
	}
	m.addResource(&Resource{
		Name: placeholderPlural.String(), Kind: kind, Namespaced: s.namespaced, ReturnsDeleted: s.returnsDeleted,
		Subresource: s.subresource, Verbs: verbs, Object: s.object,
	})
	if m.err != nil {
		return nil, m.err
	}
	t := &template{shared: map[string]json.RawMessage{}}
	models := map[string]bool{}
	shared := newV2Paths()
	for i := range m.items {
		var w bytes.Buffer
		var err error
		if s.version == v2 {
			err = shared.write(&w, m.items[i:i+1])
		} else {
			err = writeV3Paths(&w, m.items[i:i+1])
		}
		if err != nil {
			return nil, fmt.Errorf("build a custom resource: %w", err)
		}
		text := strings.ReplaceAll(w.String(), kind, placeholderKind.String())
		t.paths = append(t.paths, templatePath{splitPlaceholders(m.items[i].path), splitPlaceholders(text[1 : len(text)-1])})
		for _, model := range m.items[i].models() {
			if !models[model] {
				models[model] = true
				t.models = append(t.models, model)
			}
		}
	}
	t.shared = shared.shared
	return t, nil
}

// addCustom adds the paths of a custom resource, copied from a template. It returns false if there is
// no template.
func (m *pathBuilder) addCustom(r *Resource) bool {
	t, ok := m.library.template(r, m.part.GroupVersion, m.version)
	if !ok {
		return false
	}
	names := &placeholderNames{
		placeholderGroup: m.part.GroupVersion.Group, placeholderVersion: m.part.GroupVersion.Version, placeholderKind: r.Kind, placeholderPlural: r.Name,
		placeholderTag: m.tag, placeholderWord: m.idGroupVersion, placeholderBase: m.base, placeholderModel: m.kinds[r.Kind], placeholderListModel: m.lists[r.Kind],
	}
	if names[placeholderModel] == "" || names[placeholderListModel] == "" && r.Subresource == "" {
		return false
	}
	var path bytes.Buffer
	for i := range t.paths {
		path.Reset()
		writeSegments(&path, t.paths[i].path, names)
		m.items = append(m.items, pathItem{path: path.String(), template: t, json: t.paths[i].member, names: names})
	}
	return true
}

// models returns the models that the operations refer to.
func (it *pathItem) models() []string {
	var models []string
	if it.template != nil {
		for _, model := range it.template.models {
			if rest, ok := strings.CutPrefix(model, placeholderBegin); ok {
				model = it.names[rest[0]]
			}
			models = append(models, model)
		}
		return models
	}
	for _, op := range it.operations {
		if op.body != nil {
			models = append(models, op.body.model)
		}
		for _, r := range op.responses {
			if r.model != "" && r.model != modelText {
				models = append(models, r.model)
			}
		}
	}
	return models
}
