package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// versionDir matches the directory of an API version.
var versionDir = regexp.MustCompile(`^v[0-9]+((alpha|beta)[0-9]+)?$`)

// apiPackage collects the declarations of one API version and adds them to release.
type apiPackage struct {
	*sourcePackage
	release release
	version string // "apps/v1", or "v1" for the core group
	dir     string // directory of the group and version, such as "core/v1"
	values  map[string][]string
	paths   map[string]string // paths by type, as returned by typePaths
}

// addAPI adds the API version, kinds, types and fields of a package. It ignores packages that are not an API
// version.
func (r release) addAPI(p *sourcePackage) {
	group, ok := p.strings["GroupName"]
	if !ok || !versionDir.MatchString(path.Base(p.dir)) {
		return
	}
	a := &apiPackage{
		sourcePackage: p, release: r,
		version: strings.TrimPrefix(group+"/"+path.Base(p.dir), "/"),
		dir:     path.Join(path.Base(path.Dir(p.dir)), path.Base(p.dir)),
	}
	r.add(declaration{Category: apiVersion, Name: a.version, Attributes: map[string]string{}, Package: a.dir})
	a.values = a.enumValues()
	a.paths = a.typePaths()
	a.eachType(a.addType)
}

// eachType calls visit for each exported type, except for lists of objects. before is the end of the previous
// declaration in the file, so that visit can find the comments above the type.
func (a *apiPackage) eachType(visit func(file *ast.File, spec *ast.TypeSpec, before token.Pos)) {
	for _, file := range a.files {
		before := file.Name.End()
		for _, decl := range file.Decls {
			if general, ok := decl.(*ast.GenDecl); ok && general.Tok == token.TYPE {
				for _, spec := range general.Specs {
					if spec := spec.(*ast.TypeSpec); spec.Name.IsExported() && !isList(spec) {
						visit(file, spec, before)
					}
				}
			}
			before = decl.End()
		}
	}
}

// isList reports whether a type is the list type of a kind. Lists have no validation rules of their own.
func isList(spec *ast.TypeSpec) bool {
	return strings.HasSuffix(spec.Name.Name, "List") && isKind(spec) && slices.ContainsFunc(structFields(spec), func(f *ast.Field) bool {
		return len(f.Names) == 1 && f.Names[0].Name == "Items"
	})
}

// isKind reports whether a type embeds TypeMeta and therefore has the fields apiVersion and kind.
func isKind(spec *ast.TypeSpec) bool {
	return slices.ContainsFunc(structFields(spec), func(f *ast.Field) bool {
		return len(f.Names) == 0 && typeName(f.Type) == "TypeMeta"
	})
}

func structFields(spec *ast.TypeSpec) []*ast.Field {
	if s, ok := spec.Type.(*ast.StructType); ok {
		return s.Fields.List
	}
	return nil
}

func (a *apiPackage) addType(file *ast.File, spec *ast.TypeSpec, before token.Pos) {
	markers, doc := parseComments(commentsBetween(file, before, spec.Pos()))
	name := a.version + "." + spec.Name.Name
	d := declaration{Category: apiType, Name: name, Attributes: markers, Doc: doc, Package: a.dir, GoName: spec.Name.Name, Parent: key{apiVersion, a.version}}
	if isKind(spec) {
		d.Category = kind
	}
	if _, ok := spec.Type.(*ast.StructType); !ok {
		markers["type"] = types.ExprString(spec.Type)
	}
	if values := a.values[spec.Name.Name]; len(values) > 0 {
		markers["values"] = strings.Join(values, ", ")
	}
	a.release.add(d)
	for _, f := range structFields(spec) {
		a.addField(key{d.Category, name}, f)
	}
}

// addField adds a field of a type. The label of an embedded field without a JSON name is the name of its type
// in parentheses.
func (a *apiPackage) addField(parent key, f *ast.Field) {
	goName, json := fieldNames(f)
	if json == "-" || goName == "TypeMeta" || goName == "" || !ast.IsExported(goName) {
		return
	}
	markers, doc := parseComments([]*ast.CommentGroup{f.Doc})
	markers["type"] = types.ExprString(f.Type)
	label := json
	if label == "" {
		label = "(" + goName + ")"
	}
	typeOnly := parent.Name[strings.LastIndex(parent.Name, ".")+1:]
	fieldPath := ""
	if p, ok := a.paths[typeOnly]; ok && json != "" {
		fieldPath = p + "." + json
	}
	a.release.add(declaration{
		Category: field, Name: parent.Name + "." + label, Attributes: markers, Doc: doc,
		Path: fieldPath, Package: a.dir, GoName: goName, Parent: parent,
	})
}

// fieldNames returns the names of a field in Go and in JSON. The JSON name is "" for an embedded field without
// a JSON name.
func fieldNames(f *ast.Field) (goName, json string) {
	goName = typeName(f.Type)
	if len(f.Names) > 0 {
		goName = f.Names[0].Name
	}
	if f.Tag == nil {
		return goName, ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return goName, ""
	}
	json, _, _ = strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return goName, json
}

// enumValues returns the sorted values of typed string constants by the name of their type.
func (a *apiPackage) enumValues() map[string][]string {
	values := map[string][]string{}
	a.inspect(func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil {
			return
		}
		for _, value := range spec.Values {
			if text, ok := a.text(value); ok {
				values[typeName(spec.Type)] = append(values[typeName(spec.Type)], text)
			}
		}
	})
	for _, list := range values {
		slices.Sort(list)
	}
	return values
}

// typePaths returns, for each type, the shortest path to it in a kind of the same package, such as
// "Pod.spec.containers[]" for Container.
func (a *apiPackage) typePaths() map[string]string {
	fields := map[string][]*ast.Field{}
	paths := map[string]string{}
	var queue []string
	a.eachType(func(_ *ast.File, spec *ast.TypeSpec, _ token.Pos) {
		fields[spec.Name.Name] = structFields(spec)
		if isKind(spec) {
			paths[spec.Name.Name] = spec.Name.Name
			queue = append(queue, spec.Name.Name)
		}
	})
	slices.Sort(queue)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		for _, f := range fields[name] {
			element, suffix := elementType(f.Type)
			if _, known := paths[element]; known || fields[element] == nil {
				continue
			}
			paths[element] = paths[name] + suffix
			if _, json := fieldNames(f); json != "" {
				paths[element] = fmt.Sprintf("%s.%s%s", paths[name], json, suffix)
			}
			queue = append(queue, element)
		}
	}
	return paths
}

// elementType returns the name of the type in a field, without pointers, lists and maps. suffix is the part of
// the path for lists and maps, such as "[]". name is "" if the type belongs to another package.
func elementType(e ast.Expr) (name, suffix string) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, ""
	case *ast.StarExpr:
		return elementType(e.X)
	case *ast.ArrayType:
		name, suffix = elementType(e.Elt)
		return name, "[]" + suffix
	case *ast.MapType:
		name, suffix = elementType(e.Value)
		return name, "{}" + suffix
	}
	return "", ""
}

// commentsBetween returns the comments of a file between two positions. It is necessary because an empty line
// often separates the markers of a type from its doc comment.
func commentsBetween(file *ast.File, from, to token.Pos) []*ast.CommentGroup {
	var groups []*ast.CommentGroup
	for _, group := range file.Comments {
		if group.Pos() >= from && group.End() <= to {
			groups = append(groups, group)
		}
	}
	return groups
}

// markerLine matches a marker, which consists of a plus sign, a name, and a value or arguments.
var markerLine = regexp.MustCompile(`^\+([A-Za-z][A-Za-z0-9:_-]*)(.*)$`)

// parseComments returns the values of the markers in comments, and the remaining text on one line. The values
// of repeated markers are joined.
func parseComments(groups []*ast.CommentGroup) (markers map[string]string, text string) {
	markers = map[string]string{}
	var words []string
	for _, group := range groups {
		if group == nil {
			continue
		}
		for line := range strings.SplitSeq(group.Text(), "\n") {
			parts := markerLine.FindStringSubmatch(strings.TrimSpace(line))
			if parts == nil {
				words = append(words, strings.Fields(line)...)
				continue
			}
			if ignoredMarker(parts[1]) {
				continue
			}
			name, value := "+"+parts[1], cmp.Or(strings.TrimPrefix(parts[2], "="), "true")
			if old, ok := markers[name]; ok {
				value = old + ", " + value
			}
			markers[name] = value
		}
	}
	return markers, strings.Join(words, " ")
}

// ignoredMarker reports whether a marker affects neither the API nor its validation.
func ignoredMarker(name string) bool {
	switch name {
	case "k8s:validation-gen-nolint", "k8s:openapi-gen", "k8s:openapi-model-package", "k8s:conversion-gen", "genclient", "protobuf":
		return true
	}
	return strings.HasPrefix(name, "k8s:deepcopy-gen") || strings.HasPrefix(name, "k8s:protobuf-gen") || strings.HasPrefix(name, "genclient:")
}
