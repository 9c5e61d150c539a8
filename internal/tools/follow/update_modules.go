package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/version"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// findModules reads all go.mod files.
func (u *updater) findModules(ctx context.Context) error {
	out, err := u.git(ctx, "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return err
	}
	u.modules = strings.Fields(out)
	slices.SortStableFunc(u.modules, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	u.required = map[string]gomod{}
	for _, name := range u.modules {
		if u.required[name], err = readGomod(ctx, filepath.Join(u.root, name)); err != nil {
			return err
		}
	}
	u.current = u.required["go.mod"].version("k8s.io/api")
	if u.current == "" {
		return errors.New("go.mod does not require k8s.io/api")
	}
	return nil
}

// download downloads the new version of each Kubernetes module that a go.mod file requires.
func (u *updater) download(ctx context.Context) error {
	u.target = map[string]string{}
	var errs []error
	for _, required := range u.required {
		for _, r := range required.Require {
			if !strings.HasPrefix(r.Path, "k8s.io/") || !releaseVersion.MatchString(r.Version) || u.target[r.Path] != "" {
				continue
			}
			u.target[r.Path] = u.version
			if err := u.downloadOne(ctx, r.Path); errors.Is(err, errNotPublished) && u.partial && r.Path != "k8s.io/api" {
				u.target[r.Path] = r.Version
				u.kept = append(u.kept, r.Path+" "+r.Version)
			} else if err != nil {
				errs = append(errs, err)
			}
		}
	}
	slices.Sort(u.kept)
	for _, text := range u.require {
		module, version, ok := strings.Cut(text, "@")
		if !ok {
			errs = append(errs, fmt.Errorf("-require=%s: want PATH@VERSION", text))
		}
		u.target[module] = version
	}
	if len(errs) == 0 && version.Compare("go"+u.goMinor, u.goVersion(ctx)) > 0 {
		errs = append(errs, fmt.Errorf("%s requires Go %s, and this is %s: install that version, or set GOTOOLCHAIN=go%s", u.version, u.goMinor, u.goVersion(ctx), u.goMinor))
	}
	return errors.Join(errs...)
}

// goVersion returns the version of the go command, or "" after an error.
func (u *updater) goVersion(ctx context.Context) string {
	out, err := goCommand{u.root, u.env}.run(ctx, "env", "GOVERSION")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// downloadOne downloads a module and reads the Go version that it requires. For apimachinery, it also
// determines the libraries whose major version changes.
func (u *updater) downloadOne(ctx context.Context, path string) error {
	m, err := openModule(ctx, u.env, path, u.version)
	if err != nil {
		return err
	}
	defer m.close()
	required, err := readGomod(ctx, m.gomod)
	if err != nil {
		return err
	}
	if version.Compare("go"+required.Go, "go"+u.goMinor) > 0 {
		u.goMinor = required.Go
	}
	if path == "k8s.io/apimachinery" {
		u.major = newMajors(u.required["go.mod"], required)
		for _, r := range required.Require {
			if slices.Contains(slices.Collect(maps.Values(u.major)), r.Path) {
				u.target[r.Path] = r.Version
			}
		}
	}
	return nil
}

// majorSuffix matches the major version at the end of a module path.
var majorSuffix = regexp.MustCompile(`/v[0-9]+$`)

// newMajors returns the libraries that both go.mod files require in different major versions. It maps each path
// in before to the path in after.
func newMajors(before, after gomod) map[string]string {
	paths := map[string]string{}
	for _, r := range after.Require {
		if majorSuffix.MatchString(r.Path) {
			paths[majorSuffix.ReplaceAllString(r.Path, "")] = r.Path
		}
	}
	changed := map[string]string{}
	for _, r := range before.Require {
		base := majorSuffix.ReplaceAllString(r.Path, "")
		if path, ok := paths[base]; ok && path != r.Path && base != r.Path {
			changed[r.Path] = path
		}
	}
	return changed
}

// editModules sets the new versions in all go.mod files.
func (u *updater) editModules(ctx context.Context) error {
	for _, name := range u.modules {
		args := []string{"mod", "edit"}
		if version.Compare("go"+u.goMinor, "go"+u.required[name].Go) > 0 {
			args = append(args, "-go="+u.goMinor)
		}
		for _, r := range u.required[name].Require {
			if target := u.target[r.Path]; target != "" && target != r.Version {
				args = append(args, "-require="+r.Path+"@"+target)
			}
			if path := u.major[r.Path]; path != "" {
				args = append(args, "-droprequire="+r.Path, "-require="+path+"@"+u.target[path])
			}
		}
		if len(args) == 2 {
			continue
		}
		if _, err := (goCommand{filepath.Join(u.root, path.Dir(name)), u.env}).run(ctx, args...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// rewriteImports changes the import paths of libraries whose major version changes.
func (u *updater) rewriteImports(ctx context.Context) error {
	if len(u.major) == 0 {
		return nil
	}
	out, err := u.git(ctx, "ls-files", "-z", "*.go")
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(strings.Trim(out, "\x00"), "\x00") {
		file := filepath.Join(u.root, filepath.FromSlash(name))
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rewritten := source
		for from, to := range u.major {
			for _, end := range []string{`"`, `/`} {
				rewritten = bytes.ReplaceAll(rewritten, []byte(`"`+from+end), []byte(`"`+to+end))
			}
		}
		if bytes.Equal(source, rewritten) {
			continue
		}
		u.rewrites++
		if err := os.WriteFile(file, rewritten, 0o644); err != nil {
			return err
		}
	}
	return nil
}
