package test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main(m)) }

// artifactsEnv is the variable with the existing folder in which tests leave artifacts, such as screenshots of the
// console; without it, they are deleted.
const artifactsEnv = "MAINSTAY_TEST_ARTIFACTS"

// TestModules runs the tests of the nested modules, which `go test ./...` does not include. The
// server is built once for all of them. The tests are not vetted, because vet would also analyze all
// dependencies of each module; .ci/run has a step for it. More tests run at a time than there are cores, because most of
// them wait for other processes. `go -C test/e2e test ./...` runs the tests of one module.
func TestModules(t *testing.T) {
	if testing.Short() {
		t.Skip("the nested modules are not tested with -short")
	}
	binary, err := testserver.Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range nestedModules(t) {
		t.Run(filepath.ToSlash(dir), func(t *testing.T) {
			t.Parallel()
			args := []string{"-C", filepath.Join("..", dir), "test", "-vet=off", "-p=1", "-parallel=4", "-count=1", "-timeout=25m"}
			if dir := os.Getenv(artifactsEnv); dir != "" {
				args = append(args, "-artifacts", "-outputdir="+dir)
			}
			if testing.Verbose() {
				args = append(args, "-v")
			}
			cmd := exec.CommandContext(t.Context(), "go", append(args, "./...")...)
			cmd.Env = append(os.Environ(), testserver.BinaryEnv+"="+binary)
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Run(); err != nil {
				t.Errorf("go %s: %v", strings.Join(cmd.Args[1:], " "), err)
			}
		})
	}
}

// nestedModules returns the folders of the nested modules that have tests. It opens all folders, so
// that the go command does not reuse a cached result after a file has changed.
func nestedModules(t *testing.T) []string {
	t.Helper()
	var modules []string
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		dir := filepath.Dir(path)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..":
			return filepath.SkipDir
		case entry.Name() == "go.mod" && dir != "..":
			modules = append(modules, strings.TrimPrefix(filepath.ToSlash(dir), "../"))
		case strings.HasSuffix(path, "_test.go"):
			for ; dir != ".."; dir = filepath.Dir(dir) {
				tests[strings.TrimPrefix(filepath.ToSlash(dir), "../")] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, dir := range modules {
		if tests[dir] {
			tested = append(tested, dir)
		}
	}
	if len(tested) == 0 {
		t.Fatal("no nested module has tests")
	}
	return tested
}
