package storage

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/rest"
)

// FuzzSelect checks that the key range of selectors contains all selected keys, and no keys outside the
// namespace.
func FuzzSelect(f *testing.F) {
	f.Add("ns", "app=web", "metadata.name=a", "ns", "a")
	f.Add("", "", "metadata.namespace=ns,metadata.name=a", "ns", "a")
	f.Add("", "a in (b,c),!d", "metadata.namespace!=ns", "ns", "a")
	f.Add("ns", "", "metadata.name=a/b", "ns", "a")
	f.Add("..", "", "metadata.namespace=..", "n", "a")
	f.Add("", "", "metadata.name=", "ns", "")
	f.Add("ns", "", `metadata.name=a\,b,metadata.name==a\=b`, "ns", "a,b")
	namespaced, global := testStore(f, true), testStore(f, false)
	f.Fuzz(func(t *testing.T, namespace, label, field, objectNamespace, objectName string) {
		byLabel, err := labels.Parse(label)
		if err != nil {
			return
		}
		byField, err := fields.ParseSelector(field)
		if err != nil {
			return
		}
		options := rest.ListOptions{Labels: byLabel, Fields: byField}
		for _, s := range []*Store{namespaced, global} {
			name := types.NamespacedName{Name: objectName}
			if s == namespaced {
				name.Namespace = objectNamespace
			}
			key, err := s.Key(name)
			if err != nil {
				continue
			}
			sel, err := s.Select(namespace, options)
			if err != nil {
				if invalid := (*InvalidOptionError)(nil); !errors.As(err, &invalid) {
					t.Errorf("error %v is not an *InvalidOptionError", err)
				}
				continue
			}
			in := s == global || namespace == "" || namespace == name.Namespace
			matches := byField.Matches(fields.Set{"metadata.name": name.Name, "metadata.namespace": name.Namespace})
			if in && matches && !sel.Contains(key) {
				t.Errorf("namespace %q, fields %q: [%q, %q) does not contain %q", namespace, field, sel.Start, sel.End, key)
			}
			if !in && sel.Contains(key) {
				t.Errorf("namespace %q: [%q, %q) contains %q", namespace, sel.Start, sel.End, key)
			}
		}
	})
}
