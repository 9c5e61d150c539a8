package openapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Media types of requests and responses, in the order of kube-apiserver's documents.
var (
	anyMedia      = []string{"*/*"}
	builtinMedia  = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}
	streamMedia   = append(slices.Clip(builtinMedia), "application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")
	customMedia   = []string{"application/json", "application/yaml"}
	builtinPatch  = []string{"application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"}
	customPatch   = []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	textMedia     = append([]string{"text/plain"}, builtinMedia...)
	watchSentence = "deprecated: use the 'watch' parameter with a list operation instead"
)

// pathBuilder builds the paths of one part.
type pathBuilder struct {
	library *library
	part    *Part
	version version
	// kinds contains the model names of kinds that are not built in, and lists contains the model names of
	// their lists.
	kinds, lists map[string]string
	// tag and idGroupVersion are the forms of the group version in tags and in operation ids.
	tag, idGroupVersion string
	base                string
	items               []pathItem
	err                 error
}

// partPathItems returns the paths of a part, sorted. It omits custom resources without a schema, because their
// definition may have been deleted since the resources were listed.
func partPathItems(l *library, p *Part, schemas map[string]Schema, v version) ([]pathItem, error) {
	group := identifier(p.GroupVersion.Group)
	if group == "" {
		group = "core"
	}
	m := &pathBuilder{
		library: l, part: p, version: v, kinds: map[string]string{}, lists: map[string]string{},
		tag:            group + "_" + p.GroupVersion.Version,
		idGroupVersion: title(group) + title(p.GroupVersion.Version),
		base:           "/" + p.path(),
	}
	for name, s := range schemas {
		if s.Kind != "" {
			m.kinds[s.Kind] = name
		}
		if s.ListOf != "" {
			m.lists[s.ListOf] = name
		}
	}
	if !p.Custom {
		m.add(m.base+"/", discoveryOperation("get"+m.idGroupVersion+"APIResources", m.tag, "get available resources", metaModels+"APIResourceList"))
	}
	for i := range p.Resources {
		r := &p.Resources[i]
		if p.Custom && m.kinds[r.Kind] == "" {
			continue
		}
		if !p.Custom || !m.addCustom(r) {
			m.addResource(r)
		}
	}
	if m.err != nil {
		return nil, fmt.Errorf("build paths of %s: %w", p.GroupVersion, m.err)
	}
	sortPathItems(m.items)
	return m.items, nil
}

// sortPathItems sorts by path. slices.SortStableFunc adds half as much code to the binary as slices.SortFunc.
func sortPathItems(items []pathItem) {
	slices.SortStableFunc(items, func(a, b pathItem) int { return strings.Compare(a.path, b.path) })
}

// add adds a path, unless it has no operations.
func (m *pathBuilder) add(path string, operations ...operation) {
	if len(operations) > 0 {
		m.items = append(m.items, newPathItem(path, operations))
	}
}

func (m *pathBuilder) addResource(r *Resource) {
	scope := ""
	if r.Namespaced {
		scope = "/namespaces/{namespace}"
	}
	collection := scope + "/" + r.Name
	object := collection + "/{name}"
	switch {
	case len(r.Connect) > 0:
		m.addConnect(r, m.base+object+"/"+r.Subresource)
	case r.Subresource != "":
		m.add(m.base+object+"/"+r.Subresource, m.operations(r, "get", "update", "create", "delete", "patch")...)
	default:
		m.add(m.base+collection, m.operations(r, "list", "create", "deletecollection")...)
		m.add(m.base+object, m.operations(r, "get", "update", "delete", "patch")...)
		if r.Namespaced {
			m.add(m.base+"/"+r.Name, m.operations(r, "listall")...)
		}
		if !m.part.Custom {
			m.addWatches(r, collection)
		}
	}
}

// addWatches adds the deprecated watch paths.
func (m *pathBuilder) addWatches(r *Resource, collection string) {
	watch := m.base + "/watch"
	m.add(watch+collection, m.operations(r, "watchlist")...)
	m.add(watch+collection+"/{name}", m.operations(r, "watch")...)
	if r.Namespaced {
		m.add(watch+"/"+r.Name, m.operations(r, "watchlistall")...)
	}
}

// operations returns the operations of the actions whose verb the resource supports, in the given order.
func (m *pathBuilder) operations(r *Resource, actions ...string) []operation {
	var list []operation
	for _, action := range actions {
		if slices.Contains(r.Verbs, verbOf(action)) {
			list = append(list, m.operation(r, action))
		}
	}
	return list
}

// verbOf returns the verb of an action.
func verbOf(action string) string {
	switch action {
	case "listall":
		return "list"
	case "watchlist", "watchlistall":
		return "watch"
	default:
		return action
	}
}

// operation returns the operation of one action on a resource.
func (m *pathBuilder) operation(r *Resource, action string) operation {
	kind, model := m.object(r)
	op := operation{kind: &kind, tag: m.tag, consumes: anyMedia, produces: builtinMedia}
	if m.part.Custom {
		op.consumes, op.produces = customMedia, customMedia
	}
	m.setDescription(&op, r, action)
	op.parameters = append(op.parameters, pretty)
	if r.Namespaced && !strings.HasSuffix(action, "all") {
		op.parameters = append(op.parameters, namespaceParameter)
	}
	if onObject(r, action) {
		op.parameters = append(op.parameters, nameParameter(kind.Kind))
	}
	switch action {
	case "get":
		m.read(&op, r, model)
	case "create":
		op.body, op.responses = &body{model, true}, responses(model, "200", "201", "202")
		m.addOptions(&op, "CreateOptions")
	case "update":
		op.body, op.responses = &body{model, true}, responses(model, "200", "201")
		m.addOptions(&op, "UpdateOptions")
	case "patch":
		m.setPatch(&op, model)
	case "delete":
		op.body, op.responses = &body{modelDelete, false}, responses(modelStatus, "200", "202")
		if r.ReturnsDeleted {
			op.responses = responses(model, "200", "202")
		}
		m.addOptions(&op, "DeleteOptions")
	case "deletecollection":
		m.setDeleteCollection(&op)
	case "list", "listall":
		op.responses = responses(m.list(r), "200")
		m.setStream(&op)
	case "watch", "watchlist", "watchlistall":
		op.responses = responses(modelWatchEvent, "200")
		m.setStream(&op)
	}
	return op
}

// onObject reports whether an action applies to a single object.
func onObject(r *Resource, action string) bool {
	switch action {
	case "get", "update", "patch", "delete", "watch":
		return true
	default:
		return r.Subresource != ""
	}
}

func nameParameter(kind string) parameter {
	return parameter{Name: "name", Type: "string", Description: "name of the " + kind, inPath: true}
}

func (m *pathBuilder) read(op *operation, r *Resource, model string) {
	if r.Text {
		model, op.produces = modelText, textMedia
	}
	op.responses = responses(model, "200")
	if r.Options != "" {
		m.addOptions(op, r.Options)
	}
	if m.part.Custom {
		for _, p := range m.library.options()["ListOptions"] {
			if p.Name == "resourceVersion" {
				op.parameters = append(op.parameters, p)
			}
		}
	}
}

func (m *pathBuilder) setPatch(op *operation, model string) {
	op.consumes, op.responses = builtinPatch, responses(model, "200", "201")
	if m.part.Custom {
		op.consumes, op.responses = customPatch, responses(model, "200")
	}
	op.body = &body{modelPatch, true}
	m.addOptions(op, "PatchOptions")
}

func (m *pathBuilder) setDeleteCollection(op *operation) {
	op.responses = responses(modelStatus, "200")
	if m.part.Custom {
		m.addOptions(op, "ListOptions")
		return
	}
	op.body = &body{modelDelete, false}
	m.addOptions(op, "DeleteOptions")
	m.addOptions(op, "ListOptions")
	op.parameters = slices.DeleteFunc(op.parameters, func(p parameter) bool {
		return p.Name == "watch" || p.Name == "allowWatchBookmarks"
	})
}

// setStream adds the common parts of list and watch.
func (m *pathBuilder) setStream(op *operation) {
	m.addOptions(op, "ListOptions")
	if !m.part.Custom {
		op.produces = streamMedia
	}
}

// addOptions adds the parameters of a kind of options.
func (m *pathBuilder) addOptions(op *operation, kind string) {
	parameters, ok := m.library.options()[kind]
	if !ok && m.err == nil {
		m.err = fmt.Errorf("unknown kind of options %q", kind)
	}
	op.parameters = append(op.parameters, parameters...)
}

// addConnect adds the paths of a connect subresource, such as pods/exec.
func (m *pathBuilder) addConnect(r *Resource, path string) {
	suffixes := map[string]string{path: ""}
	if r.ConnectPath {
		suffixes[path+"/{path}"] = "WithPath"
	}
	kind := m.part.GroupVersion.WithKind(r.Options)
	for path, suffix := range suffixes {
		var list []operation
		for _, method := range r.Connect {
			op := operation{
				method: strings.ToLower(method), action: "connect", kind: &kind, tag: m.tag,
				id:          "connect" + m.idGroupVersion + title(strings.ToLower(method)) + m.noun(r) + suffix,
				description: "connect " + method + " requests to " + r.Subresource + " of " + r.Kind,
				consumes:    anyMedia, produces: anyMedia,
				parameters: []parameter{nameParameter(kind.Kind)},
				responses:  responses(modelText, "200"),
			}
			if r.Namespaced {
				op.parameters = append(op.parameters, namespaceParameter)
			}
			if suffix != "" {
				op.parameters = append(op.parameters, pathParameter)
			}
			m.addOptions(&op, r.Options)
			list = append(list, op)
		}
		m.add(path, list...)
	}
}

// noun returns the form of the resource in operation ids.
func (m *pathBuilder) noun(r *Resource) string {
	noun := r.Kind + title(r.Subresource)
	if r.Namespaced {
		noun = "Namespaced" + noun
	}
	return noun
}

// object returns the kind of the objects of a resource and their model.
func (m *pathBuilder) object(r *Resource) (schema.GroupVersionKind, string) {
	kind := r.Object
	if kind.Empty() {
		kind = m.part.GroupVersion.WithKind(r.Kind)
	}
	if m.part.Custom {
		// As in kube-apiserver, even the scale subresource has the kind of the custom resource.
		own := m.part.GroupVersion.WithKind(r.Kind)
		return own, m.model(kind)
	}
	return kind, m.model(kind)
}

// list returns the model of a resource's list.
func (m *pathBuilder) list(r *Resource) string {
	if name, ok := m.lists[r.Kind]; ok {
		return name
	}
	return m.model(m.part.GroupVersion.WithKind(r.Kind + "List"))
}

func (m *pathBuilder) model(kind schema.GroupVersionKind) string {
	if name, ok := m.kinds[kind.Kind]; ok && kind.GroupVersion() == m.part.GroupVersion {
		return name
	}
	i, ok := m.library.kind(kind)
	if !ok {
		if m.err == nil {
			m.err = fmt.Errorf("no schema of %v", kind)
		}
		return ""
	}
	return m.library.name(i)
}
