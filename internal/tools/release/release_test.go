package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// testRelease returns a release for the given platforms, whose binaries all have the given content.
func testRelease(t *testing.T, content []byte, platforms ...string) (*release, []binary) {
	t.Helper()
	dir := t.TempDir()
	r := &release{version: "1.2.3", binaries: filepath.Join(dir, "bin"), out: dir, time: time.Unix(1700000000, 0).UTC()}
	r.extra = []string{filepath.Join(dir, "LICENSE")}
	files := map[string][]byte{r.extra[0]: []byte("a licence")}
	for _, path := range platforms {
		files[filepath.Join(r.binaries, path)] = content
	}
	for path, data := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	found, err := findBinaries(r.binaries)
	if err != nil {
		t.Fatal(err)
	}
	return r, found
}

// self returns the content of the test binary, which contains build information.
func self(t *testing.T) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func (r *release) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// untar returns the contents of the files in a tar archive, by name.
func untar(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func unzip(t *testing.T, raw []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func names(files map[string][]byte) map[string]bool {
	all := map[string]bool{}
	for name := range files {
		all[name] = true
	}
	return all
}

func TestArchives(t *testing.T) {
	t.Parallel()
	r, binaries := testRelease(t, []byte("program"), "linux_amd64/mainstay", "windows_arm64/mainstay.exe")
	if err := r.writeTar(filepath.Join(r.out, "a.tar.gz"), "a", binaries[0]); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a/mainstay": "program", "a/LICENSE": "a licence"}
	got := map[string]string{}
	for name, data := range untar(t, unzip(t, r.read(t, "a.tar.gz"))) {
		got[name] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the archive (-want +got):\n%s", diff)
	}
	if err := r.writeZip(filepath.Join(r.out, "a.zip"), "a", binaries[1]); err != nil {
		t.Fatal(err)
	}
	zipped := r.read(t, "a.zip")
	z, err := zip.NewReader(bytes.NewReader(zipped), int64(len(zipped)))
	if err != nil || len(z.File) != 2 || z.File[0].Name != "a/mainstay.exe" || z.File[0].Mode() != 0o755 {
		t.Errorf("the archive for windows: %v", err)
	}
}

// TestRelease creates a release from the test binary and checks the names, checksums and bill of materials.
func TestRelease(t *testing.T) {
	t.Parallel()
	r, _ := testRelease(t, self(t), "linux_amd64/mainstay")
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	sums := string(r.read(t, "SHA256SUMS"))
	var got []string
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if got = append(got, name); hexSum(r.read(t, name)) != sum {
			t.Errorf("the checksum of %s is wrong", name)
		}
	}
	want := []string{"mainstay_1.2.3_linux_amd64.tar.gz", "mainstay_1.2.3_linux_amd64.cdx.json", "mainstay_1.2.3_image.tar"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the sums (-want +got):\n%s", diff)
	}
	var made sbom
	if err := json.Unmarshal(r.read(t, "mainstay_1.2.3_linux_amd64.cdx.json"), &made); err != nil {
		t.Fatal(err)
	}
	if c := made.Metadata.Component; c.Name != "mainstay.dev/mainstay" || c.Version != "1.2.3" || c.Hashes[0].Content != hexSum(self(t)) {
		t.Errorf("the component is %+v", c)
	}
	if c := made.Components[0]; c.Name != "stdlib" || c.Version != runtime.Version() {
		t.Errorf("the first library is %+v", c)
	}
}

func TestModule(t *testing.T) {
	t.Parallel()
	dep := &debug.Module{Path: "example.com/a", Version: "v1.0.0", Sum: "h1:abc="}
	want := component{
		Type: "library", Name: "example.com/a", Version: "v1.0.0", PURL: "pkg:golang/example.com/a@v1.0.0", Ref: "pkg:golang/example.com/a@v1.0.0",
		Properties: []property{{"go:sum", "h1:abc="}},
	}
	for _, m := range []*debug.Module{dep, {Path: "example.com/b", Version: "v2.0.0", Replace: dep}} {
		if diff := cmp.Diff(want, moduleOf(m)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestImage checks the image from the index to the files in its layers, including all digests. It also checks
// that the image is reproducible.
func TestImage(t *testing.T) {
	t.Parallel()
	platforms := []string{"linux_amd64/mainstay", "linux_arm64/mainstay", "darwin_arm64/mainstay"}
	r, binaries := testRelease(t, []byte("program"), platforms...)
	if err := r.writeImage(filepath.Join(r.out, "image.tar"), binaries); err != nil {
		t.Fatal(err)
	}
	other, binaries := testRelease(t, []byte("program"), platforms...)
	if err := other.writeImage(filepath.Join(other.out, "image.tar"), binaries); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(r.read(t, "image.tar"), other.read(t, "image.tar")) {
		t.Error("a second build of the image differs from the first")
	}
	files := untar(t, r.read(t, "image.tar"))
	blob := func(d descriptor, into any) []byte {
		data := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if "sha256:"+hexSum(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("the blob %s %s is missing or has another digest", d.MediaType, d.Digest)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	if got := string(files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", got)
	}
	var top, images index
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json is %s", files["index.json"])
	}
	blob(top.Manifests[0], &images)
	if len(images.Manifests) != 2 {
		t.Fatalf("the images are %+v", images)
	}
	for _, image := range images.Manifests {
		var m manifest
		var config imageConfig
		blob(image, &m)
		blob(m.Config, &config)
		layer := unzip(t, blob(m.Layers[0], nil))
		if config.platform != *image.Platform || config.RootFS.DiffIDs[0] != "sha256:"+hexSum(layer) || config.Config.User != "65532:65532" {
			t.Errorf("the configuration is %+v", config)
		}
		if diff := cmp.Diff(map[string]bool{"mainstay": true, "data/": true, "tmp/": true, "usr/local/bin/kube-apiserver": true}, names(untar(t, layer))); diff != "" {
			t.Errorf("the layer (-want +got):\n%s", diff)
		}
	}
}

func TestNoBinaries(t *testing.T) {
	t.Parallel()
	for _, r := range []release{{}, {version: "1", binaries: t.TempDir(), out: t.TempDir()}} {
		if err := r.write(); err == nil {
			t.Errorf("%+v was created", r)
		}
	}
}
