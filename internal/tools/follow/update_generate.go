package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

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

// tidy runs .ci/tidy and stores the hashes of the changed files, so that generate can find the files that the
// generators change.
func (u *updater) tidy(ctx context.Context) error {
	if err := u.stream(ctx, u.root, filepath.Join(u.root, ".ci", "tidy")); err != nil {
		return err
	}
	var err error
	u.tidied, err = u.hashes(ctx)
	return err
}

// stream runs a command and writes its output to u.progress.
func (u *updater) stream(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), u.env...)
	cmd.Stdout, cmd.Stderr = u.progress, u.progress
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{filepath.Base(name)}, args...), " "), err)
	}
	return nil
}

// hashes returns the hashes of the changed files by name. The hash of a deleted file is zero.
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

// packageHeader matches the line above the errors of a package in the output of go vet. Its group is the name
// of the package.
var packageHeader = regexp.MustCompile(`(?m)^# (\S+)`)

// compile compiles the packages and tests of all modules, and stores the names of packages with errors.
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
