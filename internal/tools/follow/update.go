package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// update changes the work tree to the new version as far as no decision is needed, and writes a summary to
// stdout. It changes nothing if the tree has uncommitted changes or if a module cannot be downloaded. If a
// later step fails, the changes of earlier steps remain in the work tree.
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

// checkClean returns an error if the tree has uncommitted changes, because git could not restore these changes
// after an update.
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

// changedFiles returns the files that differ from the last commit, including untracked files that are not
// ignored.
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
	modules  []string          // paths of the go.mod files, relative to the root; the first is that of the server
	required map[string]gomod  // by path of the go.mod file
	current  string            // version of k8s.io/api
	target   map[string]string // new versions by module
	kept     []string          // modules that are not published at the new version
	goMinor  string            // newest Go version that one of the new modules requires
	major    map[string]string // new import paths of libraries with another major version
	tidied   map[string][sha256.Size]byte
	rewrites int
	failed   []string // packages that do not compile
	results  []string // generated files that changed
}

// writeResult prints a summary of the changed files and of the remaining work.
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
