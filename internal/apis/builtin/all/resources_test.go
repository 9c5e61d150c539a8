package all_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// build creates the resources that are enabled by default, without storage. It also returns their storage
// paths.
func build(t *testing.T) (resources []*rest.Resource, paths map[string]string) {
	t.Helper()
	return buildWith(t, feature.Set{}, nil)
}

// buildAll is like build, but enables all versions and feature gates.
func buildAll(t *testing.T) (resources []*rest.Resource, paths map[string]string) {
	t.Helper()
	return buildWith(t, feature.Set{"AllAlpha": true, "AllBeta": true}, map[string]string{"api/all": "true"})
}

func buildWith(t *testing.T, set feature.Set, config map[string]string) (resources []*rest.Resource, paths map[string]string) {
	t.Helper()
	gates, err := feature.Defaults().With(set)
	if err != nil {
		t.Fatal(err)
	}
	enablement := builtin.Enablement{}
	if config != nil {
		if enablement, err = builtin.NewEnablement(config, all.Versions()); err != nil {
			t.Fatal(err)
		}
	}
	paths = map[string]string{}
	env := &builtin.Env{Gates: gates, Enablement: enablement, Storage: builtin.StorageEnv{Open: func(spec storage.Spec) (storage.Interface, error) {
		paths[spec.Resource.String()] = "/registry/" + spec.Path
		return nil, nil
	}}}
	resources, err = builtin.Build(env, all.Groups())
	if err != nil {
		t.Fatal(err)
	}
	return resources, paths
}

// table reads the rows of a tab-separated testdata file.
func table(t *testing.T, name string) [][]string {
	t.Helper()
	file, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rows [][]string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if !strings.HasPrefix(lines.Text(), "#") {
			rows = append(rows, strings.Split(lines.Text(), "\t"))
		}
	}
	return rows
}

// fullName returns the name of a resource or subresource in one version.
func fullName(group, version, name string) string {
	if group == `""` || group == "" {
		return version + " " + name
	}
	return group + "/" + version + " " + name
}

func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}

// TestResources compares the discovery information of each resource with that of kube-apiserver.
func TestResources(t *testing.T) {
	t.Parallel()
	resources, paths := build(t)
	compareResources(t, resources, paths, table(t, "resources.tsv"))
}

// TestAllResources is like TestResources, with all versions enabled.
func TestAllResources(t *testing.T) {
	t.Parallel()
	resources, paths := buildAll(t)
	compareResources(t, resources, paths, slices.Concat(table(t, "resources.tsv"), table(t, "resources-ondemand.tsv")))
}

func compareResources(t *testing.T, resources []*rest.Resource, paths map[string]string, rows [][]string) {
	t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for _, row := range rows {
		want[fullName(row[0], row[1], row[2])] = strings.Join(row[3:], " ")
	}
	for _, r := range resources {
		if r.Subresource != "" {
			continue
		}
		hash, path := r.StorageVersionHash, paths[r.GroupResource().String()]
		if hash == "" {
			hash, path = "-", "-"
		}
		if r.GroupVersion.Group == "events.k8s.io" {
			path = paths["events"] // events of both groups share the same stored objects
		}
		got[fullName(r.GroupVersion.Group, r.GroupVersion.Version, r.Name)] = fmt.Sprint(r.Version.GVK.Kind, " ", r.Namespaced, " ", r.Singular, " ",
			list(r.ShortNames), " ", list(r.Categories), " ", list(r.VerbNames()), " ", hash, " ", path)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-kube-apiserver +ours):\n%s", diff)
	}
}

// TestSubresources compares the discovery information of subresources with that of kube-apiserver.
func TestSubresources(t *testing.T) {
	t.Parallel()
	resources, _ := buildAll(t)
	want, got := map[string]string{}, map[string]string{}
	for _, row := range slices.Concat(table(t, "subresources.tsv"), table(t, "subresources-ondemand.tsv")) {
		want[fullName(row[0], row[1], row[2])] = row[3]
	}
	for _, r := range resources {
		if r.Subresource != "" {
			got[fullName(r.GroupVersion.Group, r.GroupVersion.Version, r.FullName())] = list(r.VerbNames())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subresources (-kube-apiserver +ours):\n%s", diff)
	}
}

// TestOrder checks the order of groups in discovery.
func TestOrder(t *testing.T) {
	t.Parallel()
	var got []string
	for _, group := range all.Groups() {
		if name := group.GroupVersion.Group; !slices.Contains(got, name) {
			got = append(got, name)
		}
	}
	want := []string{
		"", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io",
		"autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
		"storage.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io", "scheduling.k8s.io",
		"coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "resource.k8s.io",
		"flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io",
		"internal.apiserver.k8s.io", "lifecycle.k8s.io",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order of groups:\n%s", diff)
	}
}

// TestUniquePaths checks that no storage path equals another one or lies below it.
func TestUniquePaths(t *testing.T) {
	t.Parallel()
	_, paths := buildAll(t)
	sorted := slices.Sorted(maps.Values(paths))
	for i := 1; i < len(sorted); i++ {
		if strings.HasPrefix(sorted[i]+"/", sorted[i-1]+"/") {
			t.Errorf("%s is within %s", sorted[i], sorted[i-1])
		}
	}
}
