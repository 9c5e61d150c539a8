package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/admission/manifest"
	"mainstay.dev/mainstay/internal/codec"
)

func object(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
}

func TestRead(t *testing.T) {
	t.Parallel()
	one, two, three := object("one.static.k8s.io"), object("two.static.k8s.io"), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"three.static.k8s.io"}}`
	for name, test := range map[string]struct {
		files map[string]string
		want  string // names, or a part of the error
		fails bool
	}{
		"none":              {},
		"all sorts":         {files: map[string]string{"b.yaml": one + "---\n# nothing\n---\n" + two, "a.json": three, "c.txt": "no", "d.yml": ""}, want: "one.static.k8s.io three.static.k8s.io two.static.k8s.io"},
		"a list":            {files: map[string]string{"a.json": `{"apiVersion":"v1","kind":"List","items":[` + three + `]}`}, want: "three.static.k8s.io"},
		"their list":        {files: map[string]string{"a.json": `{"apiVersion":"v1","kind":"ConfigMapList","items":[` + three + `]}`}, want: "three.static.k8s.io"},
		"another name":      {files: map[string]string{"a.yaml": object("one")}, fails: true, want: `a.yaml: "one" must have a name ending with ".static.k8s.io"`},
		"no name":           {files: map[string]string{"a.yaml": object("")}, fails: true, want: "an object must have a name"},
		"twice":             {files: map[string]string{"a.yaml": one, "b.yaml": one}, fails: true, want: `duplicate name "one.static.k8s.io", which is in `},
		"another kind":      {files: map[string]string{"a.yaml": strings.Replace(one, "ConfigMap", "Secret", 1)}, fails: true, want: "v1, Kind=Secret is not allowed here: ConfigMap of v1"},
		"an unknown field":  {files: map[string]string{"a.yaml": one + "spec: {}\n"}, fails: true, want: `unknown field "spec"`},
		"a field twice":     {files: map[string]string{"a.yaml": one + "kind: ConfigMap\n"}, fails: true, want: `key "kind" already set`},
		"no YAML":           {files: map[string]string{"a.yaml": "{"}, fails: true, want: "a.yaml: "},
		"no object":         {files: map[string]string{"a.yaml": "[]"}, fails: true, want: "a.yaml: "},
		"all together":      {files: map[string]string{"a.yaml": one + "---\n" + two + "---\n" + strings.Replace(one, "one", "four", 1), "b.json": three}, fails: true, want: "too many"},
		"against the rules": {files: map[string]string{"a.yaml": one + "immutable: true\n"}, fails: true, want: `"one.static.k8s.io": not that`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, content := range test.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			read := manifest.Dir{
				Path: dir, Versions: []*codec.Version{{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() codec.Object { return new(corev1.ConfigMap) }}},
				Check: func(obj codec.Object) error {
					if obj.(*corev1.ConfigMap).Immutable != nil {
						return errors.New("not that")
					}
					return nil
				},
				CheckAll: func(all []codec.Object) error {
					if len(all) > 3 {
						return errors.New("too many")
					}
					return nil
				},
			}
			objects, hash, err := read.Read()
			if test.fails {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}
				return
			}
			var names []string
			for _, o := range objects {
				names = append(names, o.GetName())
			}
			if got := strings.Join(names, " "); err != nil || got != test.want || (hash == "") != (test.want == "") {
				t.Errorf("%q, %s, %v; want %q", got, hash, err, test.want)
			}
		})
	}
	if _, _, err := (&manifest.Dir{Path: filepath.Join(t.TempDir(), "none")}).Read(); err == nil {
		t.Error("no error for a missing directory")
	}
}
