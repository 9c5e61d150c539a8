package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Versions of the modules in testdata.
const (
	oldVersion = "v0.37.2"
	newVersion = "v0.38.0-alpha.2"
)

// proxy is a directory that serves modules to the go command (GOPROXY=file://...).
type proxy string

// add publishes a directory of testdata as a version of a module.
func (p proxy) add(t *testing.T, path, version, dir, gomod string) {
	t.Helper()
	base := filepath.Join(string(p), filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	gomod = "module " + path + "\n" + gomod
	write(t, filepath.Join(base, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":"2026-01-02T03:04:05Z"}`, version))
	write(t, filepath.Join(base, version+".mod"), gomod)
	file, err := os.Create(filepath.Join(base, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	add := func(name string, content []byte) error {
		w, err := archive.Create(path + "@" + version + "/" + name)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	source := os.DirFS(filepath.Join("testdata", dir))
	err = fs.WalkDir(source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(source, name)
		if err != nil {
			return err
		}
		return add(name, content)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := add("go.mod", []byte(gomod)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// publish publishes both versions of the modules in testdata. newGo is the Go version that the new modules
// require.
func publish(t *testing.T, newGo string) proxy {
	t.Helper()
	p := proxy(t.TempDir())
	p.add(t, "sigs.k8s.io/library/v6", "v6.1.0", "library", "go 1.24\n")
	p.add(t, "sigs.k8s.io/library/v7", "v7.0.0", "library", "go 1.24\n")
	for _, name := range []string{"api", "apimachinery", "apiserver"} {
		path := "k8s.io/" + name
		library, newLibrary := "", ""
		if name == "apimachinery" {
			library, newLibrary = "require sigs.k8s.io/library/v6 v6.1.0\n", "require sigs.k8s.io/library/v7 v7.0.0\n"
		}
		p.add(t, path, oldVersion, "before/"+path, "go 1.24\n"+library)
		p.add(t, path, newVersion, "after/"+path, "go "+newGo+"\n"+newLibrary)
	}
	p.add(t, "k8s.io/kms", oldVersion, "library", "go 1.24\n")
	return p
}

// env returns environment variables that make the go command use only the proxy.
func (p proxy) env(t *testing.T) []string {
	t.Helper()
	return []string{
		"GOPROXY=file://" + filepath.ToSlash(string(p)), "GONOSUMDB=*", "GONOSUMCHECK=1", "GOSUMDB=off", "GOMODCACHE=" + t.TempDir(),
		"GOFLAGS=-modcacherw", "GOTOOLCHAIN=local", "GOWORK=off",
	}
}

// repository creates a git repository with the files in testdata/project, and returns a command that works on
// it.
func repository(t *testing.T, env []string) *command {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", "project"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	tidy, err := os.ReadFile(filepath.Join("..", "..", "..", ".ci", "tidy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".ci", "tidy"), tidy, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "go.mod"), "module example.com/project\n\ngo 1.24\n\nrequire (\n\tk8s.io/api "+oldVersion+"\n\tk8s.io/apimachinery "+oldVersion+
		"\n\tsigs.k8s.io/library/v6 v6.1.0\n)\n")
	if err := os.Mkdir(filepath.Join(root, "nested"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "nested", "go.mod"), "module example.com/project/nested\n\ngo 1.24\n\nrequire (\n\tk8s.io/api "+oldVersion+"\n\tk8s.io/kms "+oldVersion+"\n)\n")
	write(t, filepath.Join(root, "nested", "nested.go"), "package nested\n\nimport (\n\t_ \"k8s.io/api/plain\"\n\t_ \"k8s.io/kms\"\n)\n")
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "fixture"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
	}
	return &command{version: newVersion, root: root, env: env, progress: io.Discard}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// mustContain reports an error for each text that got does not contain.
func mustContain(t *testing.T, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("%q is missing in:\n%s", text, got)
		}
	}
}
