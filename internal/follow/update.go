package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/version"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// update makes the mechanical part of the update in the work tree, and writes the result to stdout.
// It changes nothing if a check fails. An error of a later step leaves the changes in the work tree.
func (c *command) update(ctx context.Context, stdout io.Writer) error {
	if err := c.checkClean(ctx); err != nil {
		return err
	}
	u := &updater{command: c}
	steps := []struct {
		name, fix string
		run       func(context.Context) error
	}{
		{"find the modules", "run the command in the repository", u.findModules},
		{"download the new version", "choose a published version, or use -partial to keep the current version of some modules", u.download},
		{"update the tables", "correct the named file", u.updateTables},
		{"edit go.mod", "correct the named go.mod", u.editModules},
		{"rewrite imports", "correct the named file", u.rewriteImports},
		{"tidy the modules", "if the proxy does not have a version, require another one with -require PATH@VERSION", u.tidy},
		{"run the generators", "make the generators compile, and run: go generate ./...", u.generate},
		{"compile all packages", "see the output of: go vet ./...", u.compile},
	}
	for i, step := range steps {
		fmt.Fprintf(c.progress, "[%d/%d] %s\n", i+1, len(steps), step.name)
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w\nfix: %s\nto restore the tree: git reset --hard && git clean -fd", step.name, err, step.fix)
		}
	}
	return u.writeResult(ctx, stdout)
}

// checkClean returns an error if the tree has uncommitted changes, because git could not restore
// them after an update.
func (c *command) checkClean(ctx context.Context) error {
	changed, err := c.changedFiles(ctx)
	if err != nil {
		return err
	}
	if len(changed) > 0 {
		return fmt.Errorf("the tree has uncommitted changes in %d files, such as %s: commit or stash them first", len(changed), changed[0])
	}
	return nil
}

// changedFiles returns the files that differ from the last commit, and files that git does not track
// or ignore.
func (c *command) changedFiles(ctx context.Context) ([]string, error) {
	out, err := c.git(ctx, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
	if err != nil {
		return nil, err
	}
	var files []string
	for entry := range strings.SplitSeq(out, "\x00") {
		if len(entry) > 3 {
			files = append(files, entry[3:])
		}
	}
	return files, nil
}

// git runs git in the root of the repository.
func (c *command) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = c.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, lastLines(stderr.String(), 5))
	}
	return string(out), nil
}

// updater is the state of an update.
type updater struct {
	*command
	modules  []string          // paths of the go.mod files, relative to the root; the server's first
	required map[string]gomod  // by path
	current  string            // version of k8s.io/api
	target   map[string]string // new versions by module
	kept     []string          // modules that are not published at the new version
	goMinor  string            // Go version that the new modules require
	major    map[string]string // new import paths of libraries with another major version
	tidied   map[string][sha256.Size]byte
	rewrites int
	failed   []string // packages that do not compile
	results  []string // generated files that changed
}

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

// download downloads the new version of each module of Kubernetes that a go.mod requires.
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

// goVersion returns the version of the go command, or "".
func (u *updater) goVersion(ctx context.Context) string {
	out, err := goCommand{u.root, u.env}.run(ctx, "env", "GOVERSION")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// downloadOne downloads a module and reads the Go version that it requires. From apimachinery, it
// also reads the libraries whose major version changes.
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

// newMajors returns the libraries that both modules require in different major versions, from the
// path in the first to the path in the second.
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

// updateTables updates the gate table and the version constant from the new version.
func (u *updater) updateTables(ctx context.Context) error {
	before, after, _, err := u.read(ctx)
	if err != nil {
		return err
	}
	p, err := readProject(os.DirFS(u.root), u.version)
	if err != nil {
		return err
	}
	if err := p.updateGates(u.root, before, after); err != nil {
		return err
	}
	return updateMinor(u.root, u.version)
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

// rewriteImports changes the imports of libraries with another major version.
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

// tidy runs .ci/tidy and stores the hashes of the changed files, to find the files that the
// generators change.
func (u *updater) tidy(ctx context.Context) error {
	if err := u.stream(ctx, u.root, filepath.Join(u.root, ".ci", "tidy")); err != nil {
		return err
	}
	var err error
	u.tidied, err = u.hashes(ctx)
	return err
}

// stream runs a command and writes its output to the progress.
func (u *updater) stream(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), u.env...)
	cmd.Stdout, cmd.Stderr = u.progress, u.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err)
	}
	return nil
}

// hashes returns the hashes of the changed files by name. A deleted file has the zero hash.
func (u *updater) hashes(ctx context.Context) (map[string][sha256.Size]byte, error) {
	files, err := u.changedFiles(ctx)
	if err != nil {
		return nil, err
	}
	hashes := map[string][sha256.Size]byte{}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(u.root, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, os.ErrNotExist):
			hashes[name] = [sha256.Size]byte{}
		case err != nil:
			return nil, err
		default:
			hashes[name] = sha256.Sum256(content)
		}
	}
	return hashes, nil
}

// generate runs the generators and stores the names of the files that they changed.
func (u *updater) generate(ctx context.Context) error {
	if err := u.stream(ctx, u.root, "go", "generate", "./..."); err != nil {
		return err
	}
	after, err := u.hashes(ctx)
	if err != nil {
		return err
	}
	for name, hash := range after {
		if before, ok := u.tidied[name]; !ok || before != hash {
			u.results = append(u.results, name)
		}
	}
	slices.Sort(u.results)
	return nil
}

// packageHeader matches the name of a package above its errors in the output of go vet.
var packageHeader = regexp.MustCompile(`(?m)^# (\S+)`)

// compile compiles the packages of all modules with their tests, and stores the packages with
// errors.
func (u *updater) compile(ctx context.Context) error {
	for _, name := range u.modules {
		dir := path.Dir(name)
		if out, err := (goCommand{filepath.Join(u.root, dir), u.env}).run(ctx, "list", "./..."); err == nil && len(out) == 0 {
			continue // a module without packages
		}
		fmt.Fprintf(u.progress, "compiling the module in %s\n", dir)
		cmd := exec.CommandContext(ctx, "go", "vet", "./...")
		cmd.Dir, cmd.Env = filepath.Join(u.root, dir), append(os.Environ(), u.env...)
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		u.progress.Write(out)
		names := packageHeader.FindAllStringSubmatch(string(out), -1)
		if len(names) == 0 {
			u.failed = append(u.failed, "module "+dir)
		}
		for _, match := range names {
			u.failed = append(u.failed, match[1])
		}
	}
	slices.Sort(u.failed)
	u.failed = slices.Compact(u.failed)
	return ctx.Err()
}

// writeResult writes the changed files and the remaining work.
func (u *updater) writeResult(ctx context.Context, w io.Writer) error {
	changed, err := u.changedFiles(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Updated %s -> %s: %d files changed, %d of them with rewritten imports\n", u.current, u.version, len(changed), u.rewrites)
	writeList(w, "Modules that are not published at this version and keep the current one", u.kept)
	writeList(w, "Generated files that changed", u.results)
	writeList(w, "Packages that do not compile", u.failed)
	_, err = fmt.Fprintln(w, "Next: docs/following-kubernetes.md")
	return err
}

func writeList(w io.Writer, title string, items []string) {
	fmt.Fprintf(w, "\n%s: %d\n", title, len(items))
	for _, item := range items {
		fmt.Fprintln(w, "  "+item)
	}
}
