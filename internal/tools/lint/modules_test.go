package lint

import (
	"encoding/json"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gomod is a go.mod file in the JSON format of go mod edit.
type gomod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readGomod(t *testing.T, dir string) gomod {
	t.Helper()
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("read go.mod of %s: %v", dir, err)
	}
	var m gomod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// nestedModules returns the directories of the modules inside the module at root, relative to root.
func nestedModules(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.Name() == "go.mod" && filepath.Dir(path) != root:
			dir, err := filepath.Rel(root, filepath.Dir(path))
			dirs = append(dirs, filepath.ToSlash(dir))
			return err
		}
		return nil
	})
	return dirs, err
}

// TestModules checks the nested modules, which contain generators and tests that need additional dependencies.
// They must use the server's version of common dependencies, so that they test the released code, and so
// that each package is compiled only once.
func TestModules(t *testing.T) {
	t.Parallel()
	root, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	server := readGomod(t, root)
	if len(server.Replace) > 0 {
		t.Errorf("go.mod replaces %s: such a module cannot be installed by its path", server.Replace[0].Old.Path)
	}
	versions := map[string]string{}
	for _, r := range server.Require {
		versions[r.Path] = r.Version
	}
	dirs, err := nestedModules(root)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(dirs, "test/e2e") {
		t.Errorf("the nested modules are %v, want test/e2e among them", dirs)
	}
	for _, dir := range dirs {
		m := readGomod(t, filepath.Join(root, dir))
		if m.Module.Path != module+"/"+dir || !inside(dir, "test") && !inside(dir, "internal") {
			t.Errorf("%s contains the module %s", dir, m.Module.Path)
		}
		if m.Go != server.Go {
			t.Errorf("%s/go.mod requires Go %s, the server's go.mod requires Go %s", dir, m.Go, server.Go)
		}
		for _, r := range m.Require {
			if want, ok := versions[r.Path]; ok && want != r.Version {
				t.Errorf("%s/go.mod requires %s %s, the server %s; run .ci/tidy", dir, r.Path, r.Version, want)
			}
		}
	}
}

// TestServerIsLean checks that the server's module does not require modules that only the nested
// modules may use.
func TestServerIsLean(t *testing.T) {
	t.Parallel()
	root, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readGomod(t, root).Require {
		switch {
		case inside(r.Path, "helm.sh"), inside(r.Path, "k8s.io/kubectl"), inside(r.Path, "sigs.k8s.io/controller-runtime"),
			inside(r.Path, "go.etcd.io/etcd/server"), inside(r.Path, "github.com/summerwind/h2spec"),
			inside(r.Path, "k8s.io/apiserver"), inside(r.Path, "k8s.io/kubernetes"):
			t.Errorf("go.mod requires %s: move tests that need it to a separate module", r.Path)
		}
	}
}
