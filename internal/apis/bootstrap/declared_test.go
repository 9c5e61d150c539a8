package bootstrap

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
)

// documents reads the default objects of kube-apiserver from a file in testdata. The keys of the result are
// made of kind, namespace and name.
func documents(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	compressed, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer compressed.Close()
	reader, err := gzip.NewReader(compressed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]any{}
	for _, part := range bytes.Split(text, []byte("\n---\n")) {
		var document map[string]any
		if err := yaml.Unmarshal(part, &document); err != nil {
			t.Fatal(err)
		}
		all := []any{document}
		if list, ok := document["items"].([]any); ok {
			all = list
		}
		for _, one := range all {
			if u, ok := one.(map[string]any); ok && len(u) > 0 {
				found[keyOf(u)] = u
			}
		}
	}
	return found
}

func keyOf(document map[string]any) string {
	u := unstructured.Unstructured{Object: document}
	return strings.Join([]string{u.GetKind(), u.GetNamespace(), u.GetName()}, "/")
}

// document returns the JSON form of an object, without empty fields.
func document(t *testing.T, kind string, obj codec.Object) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	content["kind"] = kind
	return prune(content)
}

// prune recursively removes nulls, empty objects and empty lists. The values 0 and false remain.
func prune(content map[string]any) map[string]any {
	for key, value := range content {
		switch v := value.(type) {
		case map[string]any:
			if content[key] = prune(v); len(v) == 0 {
				delete(content, key)
			}
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					prune(m)
				}
			}
			if len(v) == 0 {
				delete(content, key)
			}
		case nil:
			delete(content, key)
		case int64:
			content[key] = float64(v)
		}
	}
	return content
}

// TestDeclared compares the declared objects with the objects of kube-apiserver v1.37. Other tests, which run a
// server, check the objects that depend on the server and the time.
func TestDeclared(t *testing.T) {
	t.Parallel()
	b := New(Config{ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
	facts := documents(t, "objects.yaml.gz")
	compareDeclared(t, facts, "PriorityLevelConfiguration", flowControlObjects()[0])
	compareDeclared(t, facts, "FlowSchema", flowControlObjects()[1])
	compareRoles(t, documents(t, "rbac.yaml.gz"), feature.Defaults())
	for _, hook := range b.Hooks() {
		if hook.Name == "" || hook.Check(t.Context()) == nil {
			t.Errorf("hook %q is done before it has run", hook.Name)
		}
	}
}

// TestEmulatedRoles compares the roles of an emulated version with the roles that kube-apiserver v1.36 creates.
func TestEmulatedRoles(t *testing.T) {
	t.Parallel()
	compareRoles(t, documents(t, "rbac-1.36.yaml.gz"), feature.DefaultsOf(36))
}

func compareRoles(t *testing.T, facts map[string]map[string]any, gates feature.Gates) {
	t.Helper()
	for i, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		compareDeclared(t, facts, kind, rbacObjects(gates)[i])
	}
}

func compareDeclared(t *testing.T, facts map[string]map[string]any, kind string, declared set) {
	t.Helper()
	seen := 0
	for _, obj := range declared.objects {
		got := document(t, kind, obj)
		want, ok := facts[keyOf(got)]
		if !ok {
			t.Errorf("kube-apiserver does not declare %s", keyOf(got))
			continue
		}
		delete(want, "apiVersion")
		if diff := cmp.Diff(prune(want), got); diff != "" {
			t.Errorf("%s (-kube-apiserver +declared):\n%s", keyOf(got), diff)
		}
		seen++
	}
	for key := range facts {
		if strings.HasPrefix(key, kind+"/") {
			seen--
		}
	}
	if seen != 0 {
		t.Errorf("%d objects of the kind %s are missing", -seen, kind)
	}
}
