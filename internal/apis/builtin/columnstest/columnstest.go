// Package columnstest compares the table columns of built-in resources with columns that were recorded from
// kube-apiserver.
package columnstest

import (
	"reflect"
	"slices"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Comparer compares columns. It is safe for concurrent use.
type Comparer struct{ docs map[string]bool }

// NewComparer returns a Comparer for the types of the current version of Kubernetes.
func NewComparer() *Comparer {
	c := &Comparer{docs: map[string]bool{}}
	visited := map[reflect.Type]bool{}
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		c.collect(kind, visited)
	}
	return c
}

// collect adds the documentation of all fields of a type, recursively.
func (c *Comparer) collect(t reflect.Type, visited map[reflect.Type]bool) {
	if visited[t] {
		return
	}
	visited[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		c.collect(t.Elem(), visited)
	case reflect.Struct:
		if documented, ok := reflect.Zero(t).Interface().(interface{ SwaggerDoc() map[string]string }); ok {
			for _, text := range documented.SwaggerDoc() {
				c.docs[text] = true
			}
		}
		for i := range t.NumField() {
			c.collect(t.Field(i).Type, visited)
		}
	}
}

// Diff returns the differences between recorded columns and the columns of this server, or "" if they do not
// differ. It ignores differences between descriptions if the server's description is the documentation of an
// API field. kube-apiserver copies such descriptions from the API types, and their text changes between
// versions.
func (c *Comparer) Diff(recorded, got []metav1.TableColumnDefinition) string {
	want := slices.Clone(recorded)
	for i := range min(len(want), len(got)) {
		if c.docs[got[i].Description] {
			want[i].Description = got[i].Description
		}
	}
	return cmp.Diff(want, got)
}
