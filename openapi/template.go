package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What the documents say of a custom resource differs from resource to resource
// by names alone, and is some 70 KB. It is written once for each shape that
// resources have, with marks in place of the names, and copied from then on.

// shape is what the paths of a custom resource follow from, besides its names.
type shape struct {
	version                    version
	namespaced, returnsDeleted bool
	subresource, verbs         string
	object                     schema.GroupVersionKind
	article                    string // of the kind
}

// mark stands for a name in a template.
type mark byte

const (
	markNone      mark = 0
	markGroup     mark = 'g'
	markVersion   mark = 'v'
	markKind      mark = 'k'
	markPlural    mark = 'p'
	markTag       mark = 't'
	markWord      mark = 'w'
	markBase      mark = 'b'
	markModel     mark = 'm'
	markListModel mark = 'l'
)

// Marks are between brackets that no name contains and JSON does not escape.
const markBegin, markEnd = "⟦", "⟧"

func (m mark) String() string { return markBegin + string(rune(m)) + markEnd }

// marked are the names that marks stand for.
type marked [128]string

// piece is a text and the name that follows it.
type piece struct {
	text string
	mark mark
}

// template is the paths of a resource of some shape.
type template struct {
	paths []templatePath
	// models are those that the operations refer to, marks among them.
	models []string
	// shared are the parameters that the operations share with others, in
	// version 2.
	shared map[string]json.RawMessage
}

type templatePath struct {
	path []piece
	// member is the path and what there is at it, as a member of an object.
	member []piece
}

// templates are those made so far; safe for concurrent use.
type templates struct{ made sync.Map } // shape to *template

func cut(text string) []piece {
	var pieces []piece
	for {
		before, after, found := strings.Cut(text, markBegin)
		if !found {
			return append(pieces, piece{text: before})
		}
		pieces = append(pieces, piece{before, mark(after[0])})
		text = after[1+len(markEnd):]
	}
}

func fill(w *bytes.Buffer, pieces []piece, names *marked) {
	for i := range pieces {
		w.WriteString(pieces[i].text)
		if m := pieces[i].mark; m != markNone {
			w.WriteString(names[m])
		}
	}
}

// template returns the template for a custom resource of a group version; false
// where there can be none.
func (l *library) template(r *Resource, gv schema.GroupVersion, v version) (*template, bool) {
	if len(r.Connect) > 0 || r.Text || r.Options != "" {
		return nil, false
	}
	object := r.Object
	if object == gv.WithKind(r.Kind) {
		object = schema.GroupVersionKind{} // which means the same, whatever the names
	}
	s := shape{
		version: v, namespaced: r.Namespaced, returnsDeleted: r.ReturnsDeleted, subresource: r.Subresource,
		verbs: strings.Join(r.Verbs, ","), object: object, article: strings.TrimSuffix(withArticle(r.Kind), r.Kind),
	}
	if made, ok := l.templates.made.Load(s); ok {
		return made.(*template), true
	}
	made, err := l.newTemplate(s, r.Verbs)
	if err != nil {
		return nil, false // drawing it with its names says what is wrong
	}
	l.templates.made.Store(s, made)
	return made, true
}

// newTemplate draws a resource whose names are marks.
func (l *library) newTemplate(s shape, verbs []string) (*template, error) {
	kind := map[string]string{"a ": "B" + markKind.String(), "an ": "A" + markKind.String(), "": "B" + markKind.String() + "s"}[s.article]
	part := &Part{GroupVersion: schema.GroupVersion{Group: markGroup.String(), Version: markVersion.String()}, Custom: true}
	m := &pathMaker{
		library: l, part: part, version: s.version, tag: markTag.String(), word: markWord.String(), base: markBase.String(),
		kinds: map[string]string{kind: markModel.String()}, lists: map[string]string{kind: markListModel.String()},
	}
	m.resource(&Resource{
		Name: markPlural.String(), Kind: kind, Namespaced: s.namespaced, ReturnsDeleted: s.returnsDeleted,
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
			return nil, fmt.Errorf("draw a custom resource: %w", err)
		}
		text := strings.ReplaceAll(w.String(), kind, markKind.String())
		t.paths = append(t.paths, templatePath{cut(m.items[i].path), cut(text[1 : len(text)-1])})
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

// custom adds the paths of a custom resource, copied from a template. It is false
// where there is none.
func (m *pathMaker) custom(r *Resource) bool {
	t, ok := m.library.template(r, m.part.GroupVersion, m.version)
	if !ok {
		return false
	}
	names := &marked{
		markGroup: m.part.GroupVersion.Group, markVersion: m.part.GroupVersion.Version, markKind: r.Kind, markPlural: r.Name,
		markTag: m.tag, markWord: m.word, markBase: m.base, markModel: m.kinds[r.Kind], markListModel: m.lists[r.Kind],
	}
	if names[markModel] == "" || names[markListModel] == "" && r.Subresource == "" {
		return false
	}
	var path bytes.Buffer
	for i := range t.paths {
		path.Reset()
		fill(&path, t.paths[i].path, names)
		m.items = append(m.items, item{path: path.String(), template: t, member: t.paths[i].member, names: names})
	}
	return true
}

// models are those that the operations of a path refer to.
func (it *item) models() []string {
	var models []string
	if it.template != nil {
		for _, model := range it.template.models {
			if rest, ok := strings.CutPrefix(model, markBegin); ok {
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
