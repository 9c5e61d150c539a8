// Command follow compares the version of Kubernetes in go.mod with another version, and reports the changes
// that the other version requires in this project. With -update, it makes the changes that need no decision.
// docs/following-kubernetes.md describes how to use it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
}

// command contains the arguments and the environment of a run.
type command struct {
	version  string
	root     string   // root directory of the repository
	env      []string // additional environment variables for the go command
	partial  bool
	require  []string
	progress io.Writer
}

// run executes the command with the given arguments. It writes results to stdout and progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("follow", flag.ContinueOnError)
	flags.SetOutput(stderr)
	c := command{progress: stderr}
	asJSON := flags.Bool("json", false, "write the report as JSON")
	emulation := flags.Bool("emulation", false, "write the table of fields that older minor versions lack; without VERSION")
	update := flags.Bool("update", false, "update go.mod of all modules, rewrite imports and tables, and run the generators")
	flags.BoolVar(&c.partial, "partial", false, "with -update: keep the version of modules that are not published at VERSION")
	flags.Func("require", "with -update: also require `PATH@VERSION`; may be repeated", func(text string) error {
		c.require = append(c.require, text)
		return nil
	})
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: go run ./internal/tools/follow [-json] [-update [-partial] [-require PATH@VERSION]...] VERSION\n       go run ./internal/tools/follow -emulation")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	if *update && *asJSON || !*update && (c.partial || len(c.require) > 0) {
		return errors.New("-json is for reports; -partial and -require are for -update")
	}
	if *emulation && flags.NArg() == 0 && !*asJSON && !*update {
		if err := c.findRoot(ctx); err != nil {
			return err
		}
		return c.writeEmulation(ctx)
	}
	if flags.NArg() != 1 || *emulation {
		flags.Usage()
		return fmt.Errorf("one VERSION is required, got %d arguments; -emulation has none", flags.NArg())
	}
	c.version = flags.Arg(0)
	if err := checkVersion(c.version); err != nil {
		return err
	}
	if err := c.findRoot(ctx); err != nil {
		return err
	}
	if *update {
		return c.update(ctx, stdout)
	}
	r, err := c.compare(ctx)
	if err != nil {
		return err
	}
	if *asJSON {
		return r.writeJSON(stdout)
	}
	return r.writeText(stdout)
}

// findRoot sets c.root to the root of the repository that contains the working directory.
func (c *command) findRoot(ctx context.Context) error {
	gomod, err := goCommand{}.run(ctx, "env", "GOMOD")
	if err != nil {
		return err
	}
	c.root = filepath.Dir(strings.TrimSpace(string(gomod)))
	return nil
}

// compare reads both versions and returns the report.
func (c *command) compare(ctx context.Context) (*report, error) {
	before, after, r, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	p, err := readProject(os.DirFS(c.root), c.version)
	if err != nil {
		return nil, err
	}
	r.Changes, r.Texts = diff(before, after)
	for i := range r.Changes {
		r.Changes[i].work = p.plan(r.Changes[i])
	}
	unpublished := 0
	for name := range p.gates {
		if _, ok := before[key{gate, name}]; !ok || before[key{gate, name}].Attributes["declared in"] != "" {
			unpublished++
		}
	}
	r.Notes = append(r.Notes,
		fmt.Sprintf("%d of the %d gates in %s are declared in the main Kubernetes repository: see pkg/features/kube_features.go at the tag of the release", unpublished, len(p.gates), gatesFile),
		"flags, admission plugins, default roles and hand-written validation of kube-apiserver itself: docs/following-kubernetes.md names their sources")
	return r, nil
}

// read reads the declarations of the current and of the new version. If a module is not published at the new
// version, both releases omit its declarations, and a note is added to the report.
func (c *command) read(ctx context.Context) (before, after release, r *report, err error) {
	required, err := readGomod(ctx, filepath.Join(c.root, "go.mod"))
	if err != nil {
		return nil, nil, nil, err
	}
	current := required.version("k8s.io/api")
	if current == "" {
		return nil, nil, nil, fmt.Errorf("%s does not require k8s.io/api: run the command in the repository", filepath.Join(c.root, "go.mod"))
	}
	before, after = release{}, release{}
	r = &report{From: current, To: c.version}
	for _, s := range sources() {
		fmt.Fprintf(c.progress, "reading %s\n", s.module)
		err := c.readModule(ctx, s, c.version, after)
		if errors.Is(err, errNotPublished) && s.module != "k8s.io/api" {
			r.Notes = append(r.Notes, fmt.Sprintf("%s, which is not published at %s", s.module, c.version))
			continue
		}
		if err == nil {
			err = c.readModule(ctx, s, current, before)
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	before.addMarkedGates()
	after.addMarkedGates()
	return before, after, r, nil
}

func (c *command) readModule(ctx context.Context, s source, version string, r release) error {
	m, err := openModule(ctx, c.env, s.module, version)
	if err != nil {
		return err
	}
	defer m.close()
	if err := r.addModule(m.files, s); err != nil {
		return fmt.Errorf("read %s %s: %w", s.module, version, err)
	}
	return nil
}
