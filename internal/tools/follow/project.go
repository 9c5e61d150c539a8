package main

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"

	"mainstay.dev/mainstay/internal/feature/tsv"
)

// Files of this project, relative to its root.
const (
	gatesFile     = "internal/feature/gates.tsv"
	historyFile   = "internal/feature/history.tsv"
	gateNames     = "internal/feature/names.go"
	flagsFile     = "cmd/mainstay/upstream-flags.tsv"
	metricsFile   = "docs/reference/metrics.md"
	versionFile   = "internal/feature/history.go"
	builtinDir    = "internal/apis/builtin"
	declaredDir   = "internal/apis/builtin/declarative"
	openAPIDir    = "internal/endpoints/openapi/data"
	stableMetrics = "internal/host/dashboards_test.go"
)

// Values of work.State.
const (
	done      = "done"      // this project already contains the change
	generated = "generated" // -update makes the change
	edit      = "edit"      // the files must be edited by hand
	check     = "check"     // a person must decide whether an edit is required
)

// work describes the work that a change requires in this project.
type work struct {
	State string   `json:"state"`
	Files []string `json:"files,omitempty"`
	Note  string   `json:"note,omitempty"`
}

// project contains the parts of this repository that are compared with the changes.
type project struct {
	gates   map[string][]string // rows of the gate table, by gate
	flags   map[string]string   // types by flag
	metrics string              // content of the page that lists all metrics
	minor   int                 // the new minor version of Kubernetes
	sources map[string]string   // contents of Go files by name, without tests
}

// readProject reads the tables and the source of the repository.
func readProject(root fs.FS, version string) (*project, error) {
	minor, err := minorOf(version)
	if err != nil {
		return nil, err
	}
	p := &project{minor: minor, gates: map[string][]string{}, flags: map[string]string{}, sources: map[string]string{}}
	if err := eachRow(root, gatesFile, 6, func(row []string) { p.gates[row[0]] = row }); err != nil {
		return nil, err
	}
	if err := eachRow(root, flagsFile, 3, func(row []string) { p.flags[row[0]] = row[1] }); err != nil {
		return nil, err
	}
	metrics, err := fs.ReadFile(root, metricsFile)
	if err != nil {
		return nil, fmt.Errorf("read the metrics of this project: %w", err)
	}
	p.metrics = string(metrics)
	for _, dir := range []string{"apitest", "cmd", "internal"} {
		if err := p.readSources(root, dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readSources reads the Go files below a directory. It does nothing if the directory does not exist.
func (p *project) readSources(root fs.FS, dir string) error {
	return fs.WalkDir(root, dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err) && name == dir:
			return nil
		case err != nil:
			return err
		case entry.IsDir() || !isSource(entry.Name()):
			return nil
		}
		source, err := fs.ReadFile(root, name)
		p.sources[name] = string(source)
		return err
	})
}

// eachRow calls visit for each row of a table with tab-separated columns.
func eachRow(root fs.FS, name string, columns int, visit func([]string)) error {
	table, err := fs.ReadFile(root, name)
	if err != nil {
		return fmt.Errorf("read a table of this project: %w", err)
	}
	for row := range tsv.Rows(string(table)) {
		if len(row) != columns {
			return fmt.Errorf("%s: %q has %d columns, want %d", name, row[0], len(row), columns)
		}
		visit(row)
	}
	return nil
}

// mentions returns the sorted names of the source files below a directory that match a regular expression.
func (p *project) mentions(dir string, pattern string) []string {
	expression := regexp.MustCompile(pattern)
	var files []string
	for name, source := range p.sources {
		if strings.HasPrefix(name, dir+"/") && expression.MatchString(source) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files
}
