package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// goCommand runs the go command.
type goCommand struct {
	dir string
	env []string // additional environment variables
}

// run runs the go command and returns its standard output. An error contains the last lines of the standard
// error.
func (g goCommand) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = g.dir, append(os.Environ(), g.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, lastLines(stderr.String(), 10))
	}
	return out, nil
}

// lastLines returns at most n lines from the end of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// releaseVersion matches a version of the Kubernetes modules. Its first group is the minor version.
var releaseVersion = regexp.MustCompile(`^v0\.([0-9]+)\.[0-9]+(-(alpha|beta|rc)\.[0-9]+)?$`)

// checkVersion returns an error if version is not a version of the Kubernetes modules.
func checkVersion(version string) error {
	if !releaseVersion.MatchString(version) {
		return fmt.Errorf("the version %q is malformed: Kubernetes v1.38.0 is v0.38.0, a pre-release v0.38.0-alpha.2; list the versions with: go list -m -versions k8s.io/api", version)
	}
	return nil
}

// minorOf returns the minor version of Kubernetes, such as 38 for v0.38.0.
func minorOf(version string) (int, error) {
	if err := checkVersion(version); err != nil {
		return 0, err
	}
	return strconv.Atoi(releaseVersion.FindStringSubmatch(version)[1])
}

// errNotPublished is returned if the module proxy does not have the version of a module.
var errNotPublished = errors.New("version not published")

// downloaded is a module in the output of go mod download.
type downloaded struct {
	Dir, Zip, GoMod, Error string
}

// module is a downloaded version of a module.
type module struct {
	path, version string
	gomod         string // path of the go.mod file
	files         fs.FS
	close         func() error
}

// openModule downloads a version of a module into the module cache and opens it. It runs the go command in an
// empty directory, so that no go.sum file changes. If the module requires a newer version of Go, the go command
// does not unpack it, and openModule reads the archive of the module instead. The error is errNotPublished if
// the version does not exist. The caller must close the module.
func openModule(ctx context.Context, env []string, path, version string) (*module, error) {
	dir, err := os.MkdirTemp("", "mainstay-follow-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out, err := goCommand{dir, append([]string{"GOWORK=off"}, env...)}.run(ctx, "mod", "download", "-json", path+"@"+version)
	var d downloaded
	if json.Unmarshal(out, &d) != nil {
		return nil, fmt.Errorf("download %s %s: %w", path, version, err)
	}
	m := &module{path: path, version: version, gomod: d.GoMod, close: func() error { return nil }}
	switch {
	case d.Dir != "":
		m.files = os.DirFS(d.Dir)
		return m, nil
	case d.Zip != "":
		return m, m.openZip(d.Zip)
	}
	if !unpublished.MatchString(d.Error) {
		return nil, fmt.Errorf("download %s %s: %s", path, version, d.Error)
	}
	return nil, fmt.Errorf("%w: %s %s: %s; list the versions with: go list -m -versions %s", errNotPublished, path, version, d.Error, path)
}

// unpublished matches the error messages of the go command for a version that the proxy does not have. It does
// not match network errors.
var unpublished = regexp.MustCompile(`40[34] |410 |not found|unknown revision|no such file|no matching versions`)

func (m *module) openZip(name string) error {
	archive, err := zip.OpenReader(filepath.Clean(name))
	if err != nil {
		return fmt.Errorf("open %s %s: %w", m.path, m.version, err)
	}
	m.close = archive.Close
	m.files, err = fs.Sub(archive, m.path+"@"+m.version)
	return err
}

// gomod is a go.mod file in the JSON format of go mod edit.
type gomod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
}

// version returns the required version of a module, or "" if the module is not required.
func (m gomod) version(path string) string {
	for _, r := range m.Require {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

// readGomod reads a go.mod file.
func readGomod(ctx context.Context, name string) (gomod, error) {
	var m gomod
	out, err := goCommand{dir: filepath.Dir(name)}.run(ctx, "mod", "edit", "-json", name)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("read %s: %w", name, err)
	}
	return m, nil
}

// source is a Kubernetes module whose declarations are compared.
type source struct {
	module string
	api    string // directory of API versions, or ""
	code   string // directory of gates, flags and metrics, or ""
}

// sources returns the modules whose declarations are compared.
func sources() []source {
	return []source{
		{"k8s.io/api", ".", ""},
		{"k8s.io/apimachinery", "pkg/apis/meta", ""},
		{"k8s.io/apiextensions-apiserver", "pkg/apis", "pkg"},
		{"k8s.io/kube-aggregator", "pkg/apis", "pkg"},
		{"k8s.io/apiserver", "", "pkg"},
		{"k8s.io/component-base", "", "."},
		{"k8s.io/client-go", "", "features"},
	}
}

// addModule adds the declarations of a module to a release.
func (r release) addModule(m fs.FS, s source) error {
	if s.api != "" {
		packages, err := parsePackages(m, s.api)
		if err != nil {
			return err
		}
		for _, p := range packages {
			r.addAPI(p)
		}
	}
	if s.code == "" {
		return nil
	}
	packages, err := parsePackages(m, s.code)
	if err != nil {
		return err
	}
	for _, p := range packages {
		r.addGates(p)
		r.addFlags(p, packages)
		r.addMetrics(p)
	}
	return nil
}
