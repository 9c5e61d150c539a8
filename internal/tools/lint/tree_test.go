package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "mainstay.dev/mainstay"

// listed is a package in the output of go list.
type listed struct {
	ImportPath, Dir, Name, Export string
	GoFiles, Imports, Deps        []string
	TestImports, XTestImports     []string
}

// path returns the path of the package within the module, without "internal/". It returns "" for packages of
// other modules.
func (p listed) path() string { return modulePath(p.ImportPath) }

func modulePath(importPath string) string {
	path, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	return strings.TrimPrefix(path, "internal/")
}

// plain returns the result of listAll, which it calls only once for all tests.
var plain = sync.OnceValues(listAll)

// listAll lists the packages of the module, of its dependencies, and of the nested modules.
func listAll() (map[string]listed, error) {
	root, err := moduleDir()
	if err != nil {
		return nil, err
	}
	all, err := listIn(root, "-deps")
	if err != nil {
		return nil, err
	}
	nested, err := nestedModules(root)
	if err != nil {
		return nil, fmt.Errorf("find the modules: %w", err)
	}
	for _, dir := range nested {
		packages, err := listIn(filepath.Join(root, dir))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		maps.Copy(all, packages)
	}
	return all, nil
}

// moduleDir returns the root directory of this module.
func moduleDir() (string, error) {
	gomod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(gomod))), nil
}

// listIn lists the packages of the module in a directory.
func listIn(dir string, flags ...string) (map[string]listed, error) {
	args := append([]string{"list", "-json=ImportPath,Dir,Name,Export,GoFiles,Imports,Deps,TestImports,XTestImports"}, flags...)
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w\n%s", err, stderr.String())
	}
	packages := make(map[string]listed)
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		packages[p.ImportPath] = p
	}
}

// packages returns all packages by import path.
func packages(t *testing.T) map[string]listed {
	t.Helper()
	all, err := plain()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// ours returns this module's packages, sorted by import path.
func ours(t *testing.T) []listed {
	t.Helper()
	var found []listed
	for _, p := range packages(t) {
		if p.path() != "" && len(p.GoFiles) > 0 {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b listed) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	return found
}

// source contains the parsed files of a package, without tests.
type source struct {
	fset  *token.FileSet
	files []*ast.File // without generated files
	info  *types.Info
}

func parse(t *testing.T, p listed) source {
	t.Helper()
	s := source{fset: token.NewFileSet()}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, file)
	}
	return s
}

// newImporter returns an importer that reads the export data of the module's packages and of their
// dependencies. All packages must compile. The importer is not safe for concurrent use.
func newImporter(t *testing.T) types.Importer {
	t.Helper()
	dir, err := moduleDir()
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := listIn(dir, "-deps", "-export")
	if err != nil {
		t.Fatal(err)
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(compiled[path].Export)
	})
}

// check type-checks the declarations of a package.
func (s *source) check(t *testing.T, p listed, packages types.Importer) {
	t.Helper()
	s.info = &types.Info{Defs: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: packages, IgnoreFuncBodies: true}
	if _, err := config.Check(p.ImportPath, s.fset, s.files, s.info); err != nil {
		t.Fatalf("check the types of %s: %v", p.ImportPath, err)
	}
}

// comment returns the package comment.
func (s *source) comment() string {
	for _, file := range s.files {
		if file.Doc != nil {
			return file.Doc.Text()
		}
	}
	return ""
}
