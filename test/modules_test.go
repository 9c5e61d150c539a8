package test

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestModules runs the tests of the modules inside this one, which `go test ./...`
// leaves out: those with clients of their own, such as kubectl and Helm. One at a
// time, for each has servers of its own; `go -C test/e2e test ./...` runs one alone.
func TestModules(t *testing.T) {
	if testing.Short() {
		t.Skip("the modules inside this one are not tested with -short")
	}
	for _, dir := range nestedModules(t) {
		t.Run(filepath.ToSlash(dir), func(t *testing.T) {
			args := []string{"-C", filepath.Join("..", dir), "test", "-p=1", "-count=1", "-timeout=15m"}
			if testing.Verbose() {
				args = append(args, "-v")
			}
			cmd := exec.CommandContext(t.Context(), "go", append(args, "./...")...)
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Run(); err != nil {
				t.Errorf("go %s: %v", strings.Join(cmd.Args[1:], " "), err)
			}
		})
	}
}

// nestedModules returns the folders below the root that are modules and have tests.
// That it opens all folders makes the go command run this test anew when any file
// has changed.
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
		t.Fatal("there are no modules inside this one")
	}
	return tested
}
