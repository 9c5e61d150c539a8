package main

import (
	"cmp"
	"maps"
	"slices"
)

// category is the kind of a declaration. The report has a section for each category.
type category string

// The categories, in the order in which the report lists them.
const (
	apiVersion category = "API version"
	kind       category = "kind"
	apiType    category = "type"
	field      category = "field"
	gate       category = "feature gate"
	flagged    category = "flag"
	metric     category = "metric"
)

// categories returns all categories in the order of the report.
func categories() []category {
	return []category{apiVersion, kind, apiType, field, gate, flagged, metric}
}

// declaration describes an element that a release of Kubernetes declares, such as a field or a flag.
type declaration struct {
	Category category
	// Name is unique in the category, for example "apps/v1.DeploymentSpec.replicas".
	Name string
	// Parent is the declaration that contains this one, such as the type of a field.
	Parent key
	// Attributes contains the properties that are compared, such as the type and the markers of a field.
	Attributes map[string]string
	// Doc is the doc comment without markers, or the help text. The report contains only the number of changed
	// texts.
	Doc string
	// Path is the path of a field in the first kind that contains it, or "".
	Path string
	// Package is the directory of an API package, such as "apps/v1"; "" for other declarations.
	Package string
	// GoName is the name of a field or type in Go; "" for other declarations.
	GoName string
}

// key identifies a declaration in a release.
type key struct {
	Category category
	Name     string
}

// release contains the declarations of one version of Kubernetes. It is not safe for concurrent use.
type release map[key]declaration

// add adds a declaration. The first declaration of a key is kept, because some flags and metrics are declared
// twice with the same properties.
func (r release) add(d declaration) {
	k := key{d.Category, d.Name}
	if _, ok := r[k]; !ok {
		r[k] = d
	}
}

// sorted returns the keys in the order in which the report lists them.
func (r release) sorted() []key {
	order := categories()
	return slices.SortedFunc(maps.Keys(r), func(a, b key) int {
		return cmp.Or(slices.Index(order, a.Category)-slices.Index(order, b.Category), cmp.Compare(a.Name, b.Name))
	})
}
