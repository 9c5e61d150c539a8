package core_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/core"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// facts reads a table of behavior that was recorded from kube-apiserver.
func facts(t *testing.T, name string) [][]string {
	t.Helper()
	b, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(b)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// listed formats a list in the same way as the recorded tables.
func listed(items []string) string {
	if len(items) == 0 {
		return "-"
	}
	return strings.Join(items, ",")
}

func TestResources(t *testing.T) {
	t.Parallel()
	paths := map[string]string{}
	resources, err := builtin.Build(&builtin.Env{Storage: builtin.StorageEnv{Open: func(spec storage.Spec) (storage.Interface, error) {
		paths[spec.Resource.Resource] = "/registry/" + spec.Path
		return nil, nil
	}}}, []builtin.Group{core.V1()})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*rest.Resource{}
	for _, r := range resources {
		byName[r.GroupVersion.String()+" "+r.FullName()] = r
	}
	main := 0
	for _, row := range facts(t, "resources.tsv") {
		group, version, name := row[0], row[1], row[2]
		main++
		r := byName[strings.TrimPrefix(group+"/"+version, "/")+" "+name]
		if r == nil {
			t.Errorf("%s of %q is missing", name, group)
			continue
		}
		hash, path := r.StorageVersionHash, paths[name]
		if hash == "" {
			hash, path = "-", "-"
		}
		got := []string{group, version, name, r.Version.GVK.Kind, boolText(r.Namespaced), r.Singular,
			listed(r.ShortNames), listed(r.Categories), listed(r.VerbNames()), hash, path}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if others := slices.DeleteFunc(resources, func(r *rest.Resource) bool { return r.Subresource != "" }); len(others) != main {
		t.Errorf("%d resources, want %d", len(others), main)
	}
}

func TestSubresources(t *testing.T) {
	t.Parallel()
	a := declared(t)
	want := map[string]bool{}
	for _, row := range facts(t, "subresources.tsv") {
		want[row[0]] = true
		r := a.resource("v1 " + row[0])
		gvk := r.Version.GVK
		got := []string{row[0], listed(r.VerbNames()), gvk.GroupVersion().String() + " " + gvk.Kind}
		if diff := cmp.Diff(row, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row[0], diff)
		}
	}
	for name, r := range a.resources {
		if r.Subresource != "" && r.GroupVersion.Group == "" && !want[r.FullName()] {
			t.Errorf("%s is not known", name)
		}
	}
}

func boolText(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
