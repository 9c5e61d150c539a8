package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateGolden = flag.Bool("update", false, "write testdata/report.txt")

// TestReport compares the report for the modules in testdata with testdata/report.txt.
func TestReport(t *testing.T) {
	t.Parallel()
	c := repository(t, publish(t, "1.24").env(t))
	r, err := c.compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var text, object bytes.Buffer
	if err := r.writeText(&text); err != nil {
		t.Fatal(err)
	}
	if *updateGolden {
		write(t, filepath.Join("testdata", "report.txt"), text.String())
	}
	if diff := cmp.Diff(read(t, "testdata", "report.txt"), text.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if err := r.writeJSON(&object); err != nil {
		t.Fatal(err)
	}
	var decoded report
	if err := json.Unmarshal(object.Bytes(), &decoded); err != nil || len(decoded.Changes) != len(r.Changes) || decoded.Changes[0].State == "" {
		t.Errorf("the JSON report has %d changes, want %d; %v", len(decoded.Changes), len(r.Changes), err)
	}
}

// TestSameVersion checks that the report contains no changes if both versions are the same.
func TestSameVersion(t *testing.T) {
	t.Parallel()
	c := repository(t, publish(t, "1.24").env(t))
	c.version = oldVersion
	r, err := c.compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Changes)+len(r.Texts) != 0 {
		t.Errorf("%v, %v; want no changes", r.Changes, r.Texts)
	}
}

// TestNewerGo checks that a report can read modules that require a newer version of Go, and that the error of
// an update contains this version.
func TestNewerGo(t *testing.T) {
	t.Parallel()
	c := repository(t, publish(t, "1.99").env(t))
	r, err := c.compare(t.Context())
	if err != nil || len(r.Changes) == 0 {
		t.Errorf("compare: %v", err)
	}
	c.partial = true
	err = c.update(t.Context(), io.Discard)
	if err == nil {
		t.Fatal("update succeeded")
	}
	mustContain(t, err.Error(), "download the new version: ", "requires Go 1.99", "GOTOOLCHAIN=go1.99", "git reset --hard")
	if files, err := c.changedFiles(t.Context()); err != nil || len(files) > 0 {
		t.Errorf("changed files: %v, %v", files, err)
	}
}

func TestVersionErrors(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "1.38", "v1.38.0", "v0.38", "v0.38.0-gamma.1", "v0.38.0 ", "latest", "v0.38.0-alpha.2\n"} {
		err := run(t.Context(), []string{"--", version}, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "is malformed") || !strings.Contains(err.Error(), "go list -m -versions k8s.io/api") {
			t.Errorf("version %q: error %v", version, err)
		}
	}
	for _, args := range [][]string{nil, {"v0.38.0", "v0.39.0"}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "one VERSION is required") {
			t.Errorf("arguments %v: error %v", args, err)
		}
	}
	for _, args := range [][]string{{"-json", "-update", newVersion}, {"-partial", newVersion}, {"-require=a@v1.0.0", newVersion}} {
		if err := run(t.Context(), args, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "are for -update") {
			t.Errorf("arguments %v: error %v", args, err)
		}
	}
	c := repository(t, publish(t, "1.24").env(t))
	c.version = "v0.39.0"
	_, err := c.compare(t.Context())
	if err == nil {
		t.Fatal("compare succeeded")
	}
	mustContain(t, err.Error(), "version not published: k8s.io/api v0.39.0", "go list -m -versions k8s.io/api")
}

// TestUnreachableProxy checks that an unreachable proxy is not reported as an unpublished version.
func TestUnreachableProxy(t *testing.T) {
	t.Parallel()
	env := append(proxy(t.TempDir()).env(t), "GOPROXY=http://127.0.0.1:1")
	_, err := openModule(t.Context(), env, "k8s.io/api", newVersion)
	if err == nil || errors.Is(err, errNotPublished) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("open module: %v", err)
	}
}

// TestUpdate checks an update of the project in testdata, and that git restores the project afterwards.
func TestUpdate(t *testing.T) {
	t.Parallel()
	c := repository(t, publish(t, "1.24").env(t))
	if err := c.update(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), "k8s.io/kms "+newVersion) {
		t.Errorf("update without -partial: %v", err)
	}
	c.partial = true
	var progress, out bytes.Buffer
	c.progress = &progress
	if err := c.update(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	mustContain(t, progress.String(), "[1/8] find the modules", "[8/8] compile all packages")
	mustContain(t, out.String(), "keep the current one: 1\n  k8s.io/kms v0.37.2", "changed: 1\n  internal/feature/generated.txt",
		"do not compile: 1\n  example.com/project/internal/broken", "1 of them with rewritten imports")
	mustContain(t, read(t, c.root, "go.mod"), "k8s.io/api "+newVersion, "k8s.io/apimachinery "+newVersion, "sigs.k8s.io/library/v7 v7.0.0")
	mustContain(t, read(t, c.root, "nested", "go.mod"), "k8s.io/api "+newVersion, "k8s.io/kms "+oldVersion)
	mustContain(t, read(t, c.root, versionFile), "Newest = 38", `"sigs.k8s.io/library/v7"`)
	mustContain(t, read(t, c.root, historyFile), "Direct\t36\t-\t-\t-\nDirect\t37\tfalse\tALPHA\t-\nQuick\t37\t-\t-\t-\n")
	want := "# The gates.\nDirect\ttrue\tBETA\t-\t-\twater runs directly\nQuick\tfalse\tALPHA\t-\tDirect\t-\n"
	if diff := cmp.Diff(want, read(t, c.root, gatesFile)); diff != "" {
		t.Errorf("gate table (-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"reset", "-q", "--hard"}, {"clean", "-fdq"}} {
		if _, err := c.git(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(read(t, "testdata", "project", gatesFile), read(t, c.root, gatesFile)); diff != "" {
		t.Errorf("after git reset (-want +got):\n%s", diff)
	}
}

// TestUpdateRequiresCleanTree checks that an update does not start in a tree with uncommitted changes.
func TestUpdateRequiresCleanTree(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"go.mod", "new.txt"} {
		c := repository(t, nil)
		write(t, filepath.Join(c.root, name), "module example.com/project\n")
		err := c.update(t.Context(), io.Discard)
		if err == nil || !strings.Contains(err.Error(), "uncommitted changes in 1 files, such as "+name+": commit or stash them first") {
			t.Errorf("update with an uncommitted %s: error %v", name, err)
		}
	}
}

// TestReadProjectErrors checks that the error for a malformed table contains the file and the row.
func TestReadProjectErrors(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if _, err := readProject(os.DirFS(root), newVersion); err == nil || !strings.Contains(err.Error(), gatesFile) {
		t.Errorf("without files: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(root, "internal", "feature"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, gatesFile), "Direct\tfalse\n")
	if _, err := readProject(os.DirFS(root), newVersion); err == nil || !strings.Contains(err.Error(), `gates.tsv: "Direct" has 2 columns, want 6`) {
		t.Errorf("with a short row: %v", err)
	}
}

func TestMarkedGates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		marker, value string
		want          []string
	}{
		{"+featureGate", "A,B", []string{"A", "B"}},
		{"+k8s:ifEnabled", "(A)=+k8s:minimum=1, (B)=+k8s:required", []string{"A", "B"}},
		{"+k8s:ifDisabled", `("A")=+k8s:forbidden`, []string{"A"}},
		{"+optional", "true", nil},
	} {
		if diff := cmp.Diff(tt.want, markedGates(tt.marker, tt.value)); diff != "" {
			t.Errorf("%s=%s (-want +got):\n%s", tt.marker, tt.value, diff)
		}
	}
}
